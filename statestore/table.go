package statestore

import (
	"bytes"
	"encoding/binary"
	"math/bits"
)

// hashKey hashes a key with a seed. Whoever does not know the seed cannot choose colliding keys.
func hashKey(seed uint64, key []byte) uint32 {
	const m1, m2 = 0xa0761d6478bd642f, 0xe7037ed1a0b428db
	h := seed ^ m1
	n := uint64(len(key))
	for len(key) >= 8 {
		h = mix(h^binary.LittleEndian.Uint64(key), m1^seed)
		key = key[8:]
	}
	h = mix(h^tail(key), m2^n)
	h = mix(h^m2, m1)
	return uint32(h ^ h>>32)
}

// tail packs the up to 7 bytes that are left; which of them it repeats follows from how many there are.
func tail(b []byte) uint64 {
	n := len(b)
	switch {
	case n >= 4:
		return uint64(binary.LittleEndian.Uint32(b)) | uint64(binary.LittleEndian.Uint32(b[n-4:]))<<32
	case n > 0:
		return uint64(b[0]) | uint64(b[n/2])<<8 | uint64(b[n-1])<<16
	}
	return 0
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// table finds entries by key: open addressing with linear probing. A slot is hash<<32 | entry number, 0 if free.
type table struct {
	slots []uint64
	used  int
}

func (t *table) find(entries []entry, a *arena, hash uint32, key []byte) uint32 {
	if t.used == 0 {
		return 0
	}
	mask := uint32(len(t.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := t.slots[i]
		if s == 0 {
			return 0
		}
		if uint32(s>>32) == hash && bytes.Equal(a.bytes(&entries[uint32(s)].key), key) {
			return uint32(s)
		}
	}
}

func (t *table) insert(hash, id uint32) {
	if 8*(t.used+1) > 5*len(t.slots) {
		t.grow()
	}
	t.used++
	t.put(uint64(hash)<<32 | uint64(id))
}

func (t *table) put(slot uint64) {
	mask := uint32(len(t.slots) - 1)
	i := uint32(slot>>32) & mask
	for t.slots[i] != 0 {
		i = (i + 1) & mask
	}
	t.slots[i] = slot
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]uint64, max(16, 2*len(old)))
	for _, s := range old {
		if s != 0 {
			t.put(s)
		}
	}
}

// remove takes the entry out and moves later ones of its run forward, so that no probe needs to pass a dead slot.
func (t *table) remove(hash, id uint32) {
	mask := uint32(len(t.slots) - 1)
	i := hash & mask
	for t.slots[i] != uint64(hash)<<32|uint64(id) {
		i = (i + 1) & mask
	}
	t.used--
	for j := i; ; {
		j = (j + 1) & mask
		s := t.slots[j]
		if s == 0 {
			break
		}
		// s may move to i unless its home lies cyclically within (i, j].
		if home := uint32(s>>32) & mask; (j-home)&mask >= (j-i)&mask {
			t.slots[i] = s
			i = j
		}
	}
	t.slots[i] = 0
}
