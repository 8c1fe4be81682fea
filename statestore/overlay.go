package statestore

import (
	"bytes"
	"errors"
)

// OverlayConfig says how an [Overlay] works.
type OverlayConfig struct {
	Base       Reader // committed rows; nil: there are none
	Ordered    bool   // Scan will be used
	KeepBefore bool   // remember each key's row as of the last cut, for emission at commit
	CacheBytes int    // bound on the memory of entries; dirty ones are never evicted, and leave less to clean ones
	Seed       uint64 // of the hash; order never depends on it
}

// Overlay is the working state of one store of a task, above the rows that are committed (its base). It holds the writes of two
// generations, the active one and, while a commit is under way, the sealed one, and caches rows read from base.
//
// One table holds the current value of each key; an entry knows whether it is dirty in the active generation, in the sealed one, or clean.
// Keys and values lie in blocks without pointers, values are rewritten in place, and neither a read nor a write of a known key allocates.
//
// An Overlay is not for concurrent use.
type Overlay struct {
	base       Reader
	ordered    bool
	keepBefore bool
	cacheBytes int
	seed       uint64

	arena       arena
	table       table
	entries     []entry
	last        uint32 // the entry that Get found last, which is mostly the one to be written next; 0 if it is gone
	freeEntries uint32

	clean   cleanQueue
	sorted  sorted
	seq     uint64 // numbers writes
	epoch   uint32 // rows read in this one and the last stay in the cache during reads
	misses  int    // reads of base in this epoch
	drops   uint64
	scans   int      // iterators that are open
	linger  []uint32 // entries that may be lingering
	buffers [][]byte // of closed iterators

	active     []uint32 // first-dirtied order
	befores    []past   // the rows of active as of the last cut; only with KeepBefore
	dirtyBytes int
	sealedIDs  []uint32
	isSealed   bool
	sealBuf    []byte

	sealedBytes int // what dirtyBytes was at the cut

	undo undoLog

	warmed uint64 // keeps what Warm reads from being left out
}

// errNilValue is returned by a Put that has no value.
var errNilValue = errors.New("statestore: put with a nil value: use Delete to delete, an empty slice for an empty value")

// NewOverlay returns an empty overlay.
func NewOverlay(cfg OverlayConfig) *Overlay {
	o := &Overlay{base: cfg.Base, ordered: cfg.Ordered, keepBefore: cfg.KeepBefore, cacheBytes: cfg.CacheBytes, seed: cfg.Seed}
	o.reset()
	return o
}

// reset makes the overlay empty and gives its memory back, but for what the next units need anyway.
func (o *Overlay) reset() {
	o.arena = arena{}
	o.table, o.last = table{}, 0
	o.entries = make([]entry, 1, 8)
	o.befores = nil
	o.freeEntries = 0
	o.clean, o.sorted = cleanQueue{}, sorted{}
	if o.ordered {
		o.sorted.links = make([]link, 1, 8)
	}
	o.scans, o.linger = 0, nil
	o.active, o.dirtyBytes = nil, 0
	o.sealedIDs, o.isSealed, o.sealBuf, o.sealedBytes = nil, false, nil, 0
}

// Get returns the current row of key: of the active generation, the sealed one, or base, in this order. The row is valid until the next
// write, Begin or commit call, or until readsPerEpoch further rows had to be read from base. Rows of base, and that there is none, are
// cached. An error is one of base.
func (o *Overlay) Get(key []byte) (Row, bool, error) {
	hash := hashKey(o.seed, key)
	id := o.table.find(o.entries, &o.arena, hash, key)
	if id == 0 {
		if o.base == nil {
			return Row{}, false, nil
		}
		var err error
		if id, err = o.load(hash, key); err != nil {
			return Row{}, false, err
		}
		o.trimBetweenReads()
	}
	o.last = id
	e := &o.entries[id]
	if e.flags&dirty == 0 {
		e.flags |= recent
		e.epoch = o.epoch
	}
	if e.flags&present == 0 {
		return Row{}, false, nil
	}
	return Row{Value: o.arena.bytes(&e.cur), Timestamp: e.ts}, true, nil
}

// Put writes a row. key and value are copied; value must not be nil. It reads base only where KeepBefore needs the row that was there; if
// that fails nothing is written.
func (o *Overlay) Put(key, value []byte, ts int64) error {
	if value == nil {
		return errNilValue
	}
	return o.write(key, value, present, ts)
}

// Delete deletes the row of key. The deletion is a dirty row too, whether or not there was a row; ts is the timestamp of its tombstone.
func (o *Overlay) Delete(key []byte, ts int64) error {
	return o.write(key, nil, 0, ts)
}

func (o *Overlay) write(key, value []byte, is flags, ts int64) error {
	id := o.last
	if id == 0 || !bytes.Equal(o.arena.bytes(&o.entries[id].key), key) {
		var err error
		if id, err = o.entryForWrite(key); err != nil {
			return err
		}
	}
	o.seq++
	o.makeDirty(id)
	e := &o.entries[id]
	o.dirtyBytes += len(value) - int(e.cur.n)
	o.arena.set(&e.cur, value)
	e.ts = ts
	if is == present && e.flags&present == 0 {
		if o.ordered {
			o.sorted.links[id].born = o.seq
		}
		e.flags &^= blind
		if e.flags&known == 0 {
			e.flags |= blind
		}
	}
	e.flags = e.flags&^present | known | is
	return nil
}

// entryForWrite finds the entry of a key, or makes one, with its committed row if the row before the write must be kept.
func (o *Overlay) entryForWrite(key []byte) (uint32, error) {
	hash := hashKey(o.seed, key)
	if id := o.table.find(o.entries, &o.arena, hash, key); id != 0 {
		return id, nil
	}
	if o.keepBefore && o.base != nil {
		return o.load(hash, key)
	}
	id := o.add(hash, key)
	if o.base == nil {
		o.entries[id].flags |= known
		o.cache(id)
	}
	return id, nil
}

// makeDirty saves the entry for an undo, and moves it into the active generation if it is not there.
func (o *Overlay) makeDirty(id uint32) {
	e := &o.entries[id]
	if o.undo.open && e.unit != o.undo.unit {
		o.undo.save(o.arena.bytes(&e.cur), id, e, o.bornOf(id))
		e.unit = o.undo.unit
	}
	if e.flags&active != 0 {
		return
	}
	if o.keepBefore {
		o.keep(e)
	}
	switch {
	case e.flags&sealed != 0:
	case e.flags&lingering != 0:
		e.flags &^= lingering
	default:
		if e.flags&known != 0 {
			o.uncache(e)
		}
		if o.ordered {
			o.sorted.insert(o.entries, &o.arena, id)
		}
	}
	e.flags |= active
	o.active = append(o.active, id)
	o.dirtyBytes += entryBytes + int(e.key.n) + int(e.cur.n)
}

// bornOf returns the write that made the key present; 0 if it was in base, or nobody asks.
func (o *Overlay) bornOf(id uint32) uint64 {
	if !o.ordered {
		return 0
	}
	return o.sorted.links[id].born
}

// keep remembers the row of e, which is about to come next in active, as of the last cut.
func (o *Overlay) keep(e *entry) {
	o.befores = append(o.befores, past{present: e.flags&present != 0, ts: e.ts})
	o.arena.set(&o.befores[len(o.befores)-1].val, o.arena.bytes(&e.cur))
}

// forgetBefores frees the rows that keep remembered, from the i-th on.
func (o *Overlay) forgetBefores(i int) {
	if !o.keepBefore {
		return
	}
	for at := i; at < len(o.befores); at++ {
		o.arena.free(&o.befores[at].val)
	}
	o.befores = o.befores[:i]
}

// load reads base and caches the answer as a clean entry.
func (o *Overlay) load(hash uint32, key []byte) (uint32, error) {
	row, found, err := o.base.Get(key)
	if err != nil {
		return 0, err
	}
	id := o.add(hash, key)
	e := &o.entries[id]
	e.flags |= known
	e.epoch = o.epoch
	if found {
		e.flags |= present
		e.ts = row.Timestamp
		o.arena.set(&e.cur, row.Value)
	}
	o.cache(id)
	return id, nil
}

// add makes an entry of which nothing but the key is known.
func (o *Overlay) add(hash uint32, key []byte) uint32 {
	id := o.freeEntries
	if id != 0 {
		e := &o.entries[id]
		o.freeEntries = e.unit
		*e = entry{flags: e.flags & queued}
	} else {
		o.entries = append(o.entries, entry{})
		id = uint32(len(o.entries) - 1)
		if o.ordered {
			o.sorted.links = append(o.sorted.links, link{})
		}
	}
	e := &o.entries[id]
	e.hash = hash
	o.arena.set(&e.key, key)
	o.table.insert(hash, id)
	return id
}

// remove forgets the key of an entry that is in no list.
func (o *Overlay) remove(id uint32) {
	if o.last == id {
		o.last = 0
	}
	e := &o.entries[id]
	o.table.remove(e.hash, id)
	o.arena.free(&e.key)
	o.arena.free(&e.cur)
	e.flags &= queued
	e.unit = o.freeEntries
	o.freeEntries = id
	if o.ordered {
		o.sorted.links[id] = link{}
	}
}

// Bytes returns how much memory the overlay holds, in bytes.
func (o *Overlay) Bytes() int {
	n := o.arena.held + cap(o.entries)*(entryBytes-16) + 8*len(o.table.slots) + cap(o.sorted.links)*linkBytes
	n += 4*(cap(o.active)+cap(o.sealedIDs)+cap(o.linger)+len(o.clean.ids)) + cap(o.sealBuf)
	return n + cap(o.befores)*pastBytes + o.undo.heldBytes()
}
