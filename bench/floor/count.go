package main

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// longestKey is what fits into a slot. Keys in memory of their own would cost a second cache miss a record.
const longestKey = 16

type slot struct {
	lo, hi    uint64 // the key, filled up with zeros
	count     int64
	timestamp int64
	length    uint8
	dirty     bool
}

// table counts keys: open addressing, at most three quarters full.
type table struct {
	slots []slot
	used  int
	dirty []uint32 // slots
}

func (t *table) add(key []byte, timestamp int64) error {
	if len(key) == 0 || len(key) > longestKey {
		return fmt.Errorf("a key of %d bytes: there is room for 1 to %d", len(key), longestKey)
	}
	if 4*(t.used+1) > 3*len(t.slots) {
		t.grow()
	}
	lo, hi := halves(key)
	i := t.find(lo, hi, uint8(len(key)))
	s := &t.slots[i]
	if s.length == 0 {
		s.lo, s.hi, s.length = lo, hi, uint8(len(key))
		t.used++
	}
	s.count++
	s.timestamp = max(s.timestamp, timestamp)
	if !s.dirty {
		s.dirty = true
		t.dirty = append(t.dirty, uint32(i))
	}
	return nil
}

// find is the slot of the key, or the empty one where it belongs.
func (t *table) find(lo, hi uint64, length uint8) int {
	mask := len(t.slots) - 1
	for i := int(hash(lo, hi)) & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.length == 0 || (s.lo == lo && s.hi == hi && s.length == length) {
			return i
		}
	}
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, max(1<<10, 2*len(old)))
	t.dirty = t.dirty[:0]
	for _, s := range old {
		if s.length == 0 {
			continue
		}
		i := t.find(s.lo, s.hi, s.length)
		t.slots[i] = s
		if s.dirty {
			t.dirty = append(t.dirty, uint32(i))
		}
	}
}

// drain hands out the counts that have changed.
func (t *table) drain(f func(key, value []byte, timestamp int64) error) error {
	var key [longestKey]byte
	var value [8]byte
	for _, i := range t.dirty {
		s := &t.slots[i]
		s.dirty = false
		binary.LittleEndian.PutUint64(key[:], s.lo)
		binary.LittleEndian.PutUint64(key[8:], s.hi)
		binary.BigEndian.PutUint64(value[:], uint64(s.count))
		if err := f(key[:s.length], value[:], s.timestamp); err != nil {
			return err
		}
	}
	t.dirty = t.dirty[:0]
	return nil
}

func halves(key []byte) (lo, hi uint64) {
	if len(key) == 8 { // the benchmark's
		return binary.LittleEndian.Uint64(key), 0
	}
	var b [longestKey]byte
	copy(b[:], key)
	return binary.LittleEndian.Uint64(b[:]), binary.LittleEndian.Uint64(b[8:])
}

// hash mixes by the two halves of a product.
func hash(lo, hi uint64) uint64 {
	a, b := bits.Mul64(lo^0x9e3779b97f4a7c15, hi^0xd6e8feb86659fd93)
	return a ^ b
}
