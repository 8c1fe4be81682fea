package statestore

import "unsafe"

const pastBytes = int(unsafe.Sizeof(past{}))

// DirtyLen returns how many keys the active generation has written.
func (o *Overlay) DirtyLen() int { return len(o.active) }

// DirtyBytes returns the memory of the active generation's keys and values, in bytes.
func (o *Overlay) DirtyBytes() int { return o.dirtyBytes }

// Dirty returns the i-th key of the active generation in the order in which keys were first written, its row now, and with KeepBefore its
// row as of the last cut. A key that was first written by a unit that has been rolled back is not among them. All is valid until the
// next write or commit call.
func (o *Overlay) Dirty(i int) (key []byte, now Row, isPresent bool, before Row, hadBefore bool) {
	e := &o.entries[o.active[i]]
	key = o.arena.bytes(&e.key)
	if isPresent = e.flags&present != 0; isPresent {
		now.Value = o.arena.bytes(&e.cur)
	}
	now.Timestamp = e.ts
	if o.keepBefore {
		if p := &o.befores[i]; p.present {
			hadBefore = true
			before = Row{Value: o.arena.bytes(&p.val), Timestamp: p.ts}
		}
	}
	return key, now, isPresent, before, hadBefore
}

// Seal cuts: the active generation becomes the sealed one, and a new one begins. It appends one Change per dirty key to dst, in the order
// in which keys were first written. Their bytes are a copy that stays valid until the Seal that follows Applied, also beside further writes;
// after Drop they stay for good, as nobody waits then for whoever is still reading them. It panics if a generation is sealed already, or
// inside a unit.
func (o *Overlay) Seal(dst []Change) []Change {
	if o.isSealed {
		panic("statestore: Seal while a generation is sealed")
	}
	if o.undo.open {
		panic("statestore: Seal inside a unit")
	}
	buf := o.sealBuffer()
	for _, id := range o.active {
		e := &o.entries[id]
		var c Change
		buf, c.Key = appendCopy(buf, o.arena.bytes(&e.key))
		if e.flags&present != 0 {
			buf, c.Value = appendCopy(buf, o.arena.bytes(&e.cur))
		}
		c.Timestamp = e.ts
		dst = append(dst, c)
		e.flags = e.flags&^active | sealed
	}
	o.forgetBefores(0)
	o.sealBuf = buf
	o.active, o.sealedIDs = o.sealedIDs[:0], o.active
	o.sealedBytes, o.dirtyBytes = o.dirtyBytes, 0
	o.isSealed = true
	o.nextEpoch()
	o.trim()
	return dst
}

// sealBuffer returns an empty buffer with room for the active generation, which is not to be moved while it fills.
func (o *Overlay) sealBuffer() []byte {
	need := o.dirtyBytes - len(o.active)*entryBytes
	have := cap(o.sealBuf)
	if need > have || have > 64<<10 && need < have/16 {
		return make([]byte, 0, need+need/4)
	}
	return o.sealBuf[:0]
}

// appendCopy appends b to buf, which has room, and returns the copy; it is not nil.
func appendCopy(buf, b []byte) (longer, copied []byte) {
	n := len(buf)
	buf = append(buf, b...)
	if len(b) == 0 {
		return buf, []byte{}
	}
	return buf, buf[n:len(buf):len(buf)]
}

// Sealed says whether a generation is sealed and not yet applied.
func (o *Overlay) Sealed() bool { return o.isSealed }

// Applied says that the sealed generation is in base. Its entries become clean unless they have been written again.
func (o *Overlay) Applied() {
	if !o.isSealed {
		panic("statestore: Applied while no generation is sealed")
	}
	o.isSealed, o.sealedBytes = false, 0
	for _, id := range o.sealedIDs {
		e := &o.entries[id]
		e.flags &^= sealed
		if e.flags&active == 0 {
			e.flags &^= recent
			o.settle(id)
		}
	}
	o.sealedIDs = o.sealedIDs[:0]
	o.nextEpoch()
	o.trim()
}

// Drop forgets everything that is not in base, both generations and the cache, and takes base in place of the old one if it is not nil.
// Iterators that are open end with an error. A unit that is open goes on, with nothing written.
func (o *Overlay) Drop(base Reader) {
	if base != nil {
		o.base = base
	}
	o.drops++
	o.undo.clear()
	o.nextEpoch()
	o.reset()
}
