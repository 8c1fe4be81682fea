package statestore

import (
	"bytes"
	"errors"
)

var (
	errNotOrdered = errors.New("statestore: scan of a store that is not ordered: set Ordered in its OverlayConfig")
	errDropped    = errors.New("statestore: the store was dropped during the scan: scan it again")
)

// failedScan is an iterator over nothing whose Close returns an error.
type failedScan struct{ err error }

func (f failedScan) Next() bool   { return false }
func (f failedScan) Key() []byte  { return nil }
func (f failedScan) Row() Row     { return Row{} }
func (f failedScan) Close() error { return f.err }

// Scan iterates over the rows with lo <= key < hi in key order, or from the end if reverse; a nil lo is the first key, a nil hi after the
// last. It sees the keys that are present now and not deleted by the time it comes to them (a key that is deleted and written again
// counts as deleted), each once, with the value they have by then. Writing, units and commits are allowed while it is open. Close it.
func (o *Overlay) Scan(lo, hi []byte, reverse bool) Iterator {
	if !o.ordered {
		return failedScan{errNotOrdered}
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return failedScan{}
	}
	it := &overlayScan{o: o, reverse: reverse, start: o.seq, drops: o.drops, removals: o.sorted.removals}
	it.key, it.val = []byte{}, []byte{} // never nil: a nil bound is none, a nil value no row
	if n := len(o.buffers); n > 0 {
		it.buf, o.buffers = o.buffers[n-1], o.buffers[:n-1]
	}
	it.bounds(lo, hi)
	it.at = it.seekFirst()
	if o.base != nil {
		it.base = o.base.Scan(lo, hi, reverse)
	}
	o.scans++
	return it
}

// overlayScan merges the sorted index with an iterator of base. Keys of base are looked up in the table: what was written since the start
// counts. The index gives the keys that base did not have; those that were not there at the start are told by their birth.
type overlayScan struct {
	o        *Overlay
	base     Iterator // nil once exhausted
	baseAt   bool     // base stands on a row that has not been used
	reverse  bool
	started  bool
	hasHi    bool
	closed   bool
	lo, hi   []byte
	at       uint32 // next entry of the index; 0 none
	start    uint64
	drops    uint64
	removals uint64
	buf      []byte // lo, hi
	key, val []byte
	ts       int64
	err      error
}

func (it *overlayScan) bounds(lo, hi []byte) {
	it.buf = append(append(it.buf[:0], lo...), hi...)
	it.lo, it.hi = it.buf[:len(lo):len(lo)], it.buf[len(lo):]
	it.hasHi = hi != nil
}

// seekFirst returns the first entry of the index that the scan is to look at from where it stands.
func (it *overlayScan) seekFirst() uint32 {
	o := it.o
	switch {
	case !it.reverse && it.started:
		return it.within(o.sorted.seek(o.entries, &o.arena, it.key, true))
	case !it.reverse:
		return it.within(o.sorted.seek(o.entries, &o.arena, it.lo, false))
	case it.started:
		return it.within(o.sorted.seekBefore(o.entries, &o.arena, it.key))
	case it.hasHi:
		return it.within(o.sorted.seekBefore(o.entries, &o.arena, it.hi))
	}
	return it.within(o.sorted.seekBefore(o.entries, &o.arena, nil))
}

// within returns id, or 0 if its key is past the end of the range.
func (it *overlayScan) within(id uint32) uint32 {
	if id == 0 {
		return 0
	}
	key := it.o.arena.bytes(&it.o.entries[id].key)
	if it.reverse {
		if bytes.Compare(key, it.lo) < 0 {
			return 0
		}
	} else if it.hasHi && bytes.Compare(key, it.hi) >= 0 {
		return 0
	}
	return id
}

func (it *overlayScan) Next() bool {
	if it.closed {
		return false
	}
	if it.drops != it.o.drops {
		return it.fail(errDropped)
	}
	if it.removals != it.o.sorted.removals {
		it.removals = it.o.sorted.removals
		it.at = it.seekFirst()
	}
	for {
		if !it.peekBase() {
			return false
		}
		if it.base == nil && it.at == 0 {
			it.release()
			return false
		}
		if it.step() {
			it.started = true
			return true
		}
	}
}

// peekBase makes base stand on a row, unless it is exhausted. It answers false if base failed.
func (it *overlayScan) peekBase() bool {
	if it.base == nil || it.baseAt {
		return true
	}
	if it.base.Next() {
		it.baseAt = true
		return true
	}
	err := it.base.Close()
	it.base = nil
	if err != nil {
		return it.fail(err)
	}
	return true
}

// step consumes the next key of index and base, and says whether it is to be seen.
func (it *overlayScan) step() bool {
	o := it.o
	c := it.order()
	if c < 0 {
		id := it.at
		it.advance()
		e := &o.entries[id]
		if e.flags&present == 0 || o.sorted.links[id].born > it.start {
			return false
		}
		it.take(o.arena.bytes(&e.key), o.arena.bytes(&e.cur), e.ts)
		return true
	}
	if c == 0 {
		it.advance()
	}
	it.baseAt = false
	key := it.base.Key()
	id := o.table.find(o.entries, &o.arena, hashKey(o.seed, key), key)
	if id == 0 || o.entries[id].flags&(dirty|lingering) == 0 {
		row := it.base.Row()
		it.take(key, row.Value, row.Timestamp)
		return true
	}
	e := &o.entries[id]
	if e.flags&present == 0 || o.sorted.links[id].born > it.start && e.flags&blind == 0 {
		return false
	}
	it.take(key, o.arena.bytes(&e.cur), e.ts)
	return true
}

// order compares the index with base in the direction of the scan; what is exhausted comes last.
func (it *overlayScan) order() int {
	switch {
	case it.at == 0:
		return 1
	case !it.baseAt:
		return -1
	}
	c := bytes.Compare(it.o.arena.bytes(&it.o.entries[it.at].key), it.base.Key())
	if it.reverse {
		return -c
	}
	return c
}

func (it *overlayScan) advance() {
	next := it.o.sorted.links[it.at].next
	if it.reverse {
		next = it.o.sorted.links[it.at].prev
	}
	it.at = it.within(next)
}

// take copies the row, because the entry may be rewritten while the iterator stands on it.
func (it *overlayScan) take(key, value []byte, ts int64) {
	it.key = append(it.key[:0], key...)
	it.val = append(it.val[:0], value...)
	it.ts = ts
}

func (it *overlayScan) Key() []byte { return it.key }

func (it *overlayScan) Row() Row { return Row{Value: it.val, Timestamp: it.ts} }

func (it *overlayScan) fail(err error) bool {
	it.err = err
	it.release()
	return false
}

// Close ends the scan. It returns the error that ended it early, if any.
func (it *overlayScan) Close() error {
	it.release()
	return it.err
}

func (it *overlayScan) release() {
	if it.closed {
		return
	}
	it.closed = true
	if it.base != nil {
		if err := it.base.Close(); it.err == nil {
			it.err = err
		}
		it.base = nil
	}
	o := it.o
	if it.drops != o.drops {
		return
	}
	o.buffers = append(o.buffers, it.buf)
	if o.scans--; o.scans == 0 {
		o.sweep()
	}
}
