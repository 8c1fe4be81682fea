package statestore

import "unsafe"

// undoLog holds the entries that a unit has written, as they were before.
type undoLog struct {
	open       bool
	unit       uint32
	saved      []savedEntry
	buf        []byte // values of saved
	activeLen  int    // of the overlay, at Begin
	dirtyBytes int
}

type savedEntry struct {
	id     uint32
	flags  flags
	off, n uint32
	ts     int64
	born   uint64
}

const maxIdleUndoBytes = 1 << 20

func (u *undoLog) save(value []byte, id uint32, e *entry, born uint64) {
	u.saved = append(u.saved, savedEntry{id: id, flags: e.flags, off: uint32(len(u.buf)), n: uint32(len(value)), ts: e.ts, born: born})
	u.buf = append(u.buf, value...)
}

func (u *undoLog) close() {
	u.open = false
	u.clear()
}

func (u *undoLog) clear() {
	u.saved, u.buf = u.saved[:0], u.buf[:0]
	if cap(u.buf) > maxIdleUndoBytes {
		u.buf = nil
	}
	u.activeLen, u.dirtyBytes = 0, 0
}

func (u *undoLog) heldBytes() int {
	return cap(u.buf) + cap(u.saved)*int(unsafe.Sizeof(savedEntry{}))
}

// Begin starts a unit: what is written from here on is kept or undone together. Units do not nest.
func (o *Overlay) Begin() {
	if o.undo.open {
		panic("statestore: Begin inside a unit")
	}
	o.undo.open = true
	if o.undo.unit++; o.undo.unit == 0 {
		o.forgetUnits()
	}
	o.undo.activeLen, o.undo.dirtyBytes = len(o.active), o.dirtyBytes
	o.nextEpoch()
	o.trim()
}

// forgetUnits begins the numbers of units anew: an entry must not look saved because an old unit had the number of this one.
func (o *Overlay) forgetUnits() {
	o.undo.unit = 1
	for i := range o.entries {
		if e := &o.entries[i]; e.flags&known != 0 {
			e.unit = 0 // that of an unused one is the next unused one
		}
	}
}

// Touched returns how many keys the open unit has written.
func (o *Overlay) Touched() int { return len(o.undo.saved) }

// TouchedKey returns the i-th of them, in the order in which the unit first wrote them. It is valid until the next write.
func (o *Overlay) TouchedKey(i int) []byte { return o.arena.bytes(&o.entries[o.undo.saved[i].id].key) }

// Keep ends the unit and keeps its writes.
func (o *Overlay) Keep() {
	if !o.undo.open {
		panic("statestore: Keep without Begin")
	}
	o.undo.close()
}

// Rollback ends the unit and undoes its writes: values, deletions, and the place of its keys in the dirty order.
func (o *Overlay) Rollback() {
	if !o.undo.open {
		panic("statestore: Rollback without Begin")
	}
	o.seq++
	for i := len(o.undo.saved) - 1; i >= 0; i-- {
		o.restore(&o.undo.saved[i])
	}
	o.active = o.active[:o.undo.activeLen]
	o.forgetBefores(o.undo.activeLen)
	o.dirtyBytes = o.undo.dirtyBytes
	o.undo.close()
	o.nextEpoch()
	o.trim()
}

func (o *Overlay) restore(s *savedEntry) {
	e := &o.entries[s.id]
	if s.flags&known == 0 {
		if o.ordered {
			o.sorted.remove(o.entries, &o.arena, s.id)
		}
		o.remove(s.id)
		return
	}
	o.arena.set(&e.cur, o.undo.buf[s.off:s.off+s.n])
	e.ts, e.unit = s.ts, 0
	if o.ordered {
		o.sorted.links[s.id].born = s.born
	}
	// Whether it is sealed is what it is now: the sealed generation may have been applied during the unit.
	e.flags = s.flags&^(sealed|lingering|queued) | e.flags&(sealed|queued)
	if e.flags&dirty == 0 {
		o.settle(s.id)
	}
}

// settle puts an entry that is no longer dirty into the cache. While iterators are open it stays in the sorted index, because the
// rows they took from base are older.
func (o *Overlay) settle(id uint32) {
	if o.ordered {
		if o.scans > 0 {
			o.entries[id].flags |= lingering
			o.linger = append(o.linger, id)
			return
		}
		o.sorted.remove(o.entries, &o.arena, id)
	}
	o.cache(id)
}

// sweep settles what lingered for iterators, now that the last one is closed.
func (o *Overlay) sweep() {
	for _, id := range o.linger {
		e := &o.entries[id]
		if e.flags&lingering != 0 {
			e.flags &^= lingering
			o.settle(id)
		}
	}
	o.linger = o.linger[:0]
}
