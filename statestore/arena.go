package statestore

import (
	"encoding/binary"
	"math/bits"
)

// inlineBytes is how many bytes a span holds by itself: most keys and counters need no block at all.
const inlineBytes = 16

// span is a byte string of up to inlineBytes in place, or else a reference to a block of an arena. It holds no pointer, so that the
// garbage collector never looks into a table of spans.
type span struct {
	data [inlineBytes]byte
	n    uint32
}

// Blocks come in size classes: steps of 16 bytes up to 128, then four to a doubling, so that at most a fifth of a block is wasted.
const classes = 9 + 24*4

// Chunks are small, because a process has hundreds of stores and most hold little. Larger blocks have a chunk of their own.
const (
	smallBlock, smallChunk   = 512, 4 << 10
	mediumBlock, mediumChunk = 4 << 10, 16 << 10
	maxSpareBytes            = 1 << 20 // chunks of a single block that are kept for reuse, not given back
)

// arena holds byte strings in blocks of size classes. A freed block is used again by its class; a chunk without a used block serves any
// class of its size. Nothing is given back to the Go heap but large blocks, so a steady state neither allocates nor grows.
type arena struct {
	chunks  []chunk
	partial [classes]uint32 // by class: chunks with room, as number+1
	empty   [2]uint32       // small and medium chunks without a used block, as number+1
	gone    uint32          // numbers of chunks given back, as number+1
	held    int             // bytes of all chunks
	spare   int             // bytes of unused single-block chunks
}

type chunk struct {
	data       []byte
	class      int32
	used       uint32 // blocks in use
	free       uint32 // offset+1 of the first freed block; a freed block holds the next one's in its first bytes
	fresh      uint32 // offset of what was never used
	prev, next uint32 // in the list it is in, as number+1
}

func classOf(n int) int32 {
	if n <= 128 {
		return int32((n + 15) / 16)
	}
	k := bits.Len(uint(n - 1)) // 2^(k-1) < n <= 2^k
	quarter := (n - 1 - 1<<(k-1)) >> (k - 3)
	return int32(9 + (k-8)*4 + quarter)
}

func classBytes(c int32) int {
	if c <= 8 {
		return int(c) * 16
	}
	k, quarter := int(c-9)/4+8, int(c-9)%4
	return 1<<(k-1) + (quarter+1)<<(k-3)
}

// chunkKind returns 0 for small, 1 for medium chunks and 2 for those with a single block.
func chunkKind(block int) (kind, size int) {
	switch {
	case block <= smallBlock:
		return 0, smallChunk
	case block <= mediumBlock:
		return 1, mediumChunk
	}
	return 2, block
}

// bytes returns what s holds; the slice is valid until s is set or freed.
func (a *arena) bytes(s *span) []byte {
	if s.n <= inlineBytes {
		return s.data[:s.n:s.n]
	}
	c, off := s.block()
	return a.chunks[c].data[off : off+s.n : off+s.n]
}

func (s *span) block() (c, off uint32) {
	return binary.LittleEndian.Uint32(s.data[:]), binary.LittleEndian.Uint32(s.data[4:])
}

// cost returns the bytes of the block behind s, 0 if it has none.
func (a *arena) cost(s *span) int {
	if s.n <= inlineBytes {
		return 0
	}
	c, _ := s.block()
	return classBytes(a.chunks[c].class)
}

// set makes s hold a copy of b, in place if b fits without wasting the block. b may be part of what s holds, or of any other span.
func (a *arena) set(s *span, b []byte) {
	if s.n <= inlineBytes && len(b) <= inlineBytes {
		s.n = uint32(copy(s.data[:], b))
		return
	}
	old := *s
	if room := a.cost(s); len(b) > inlineBytes && len(b) <= room && len(b) >= room/4 {
		c, off := s.block()
		s.n = uint32(copy(a.chunks[c].data[off:off+uint32(room)], b))
		return
	}
	if len(b) <= inlineBytes {
		s.n = uint32(copy(s.data[:], b))
	} else {
		a.place(s, b)
	}
	a.free(&old)
}

// place puts a copy of b into a new block.
func (a *arena) place(s *span, b []byte) {
	class := classOf(len(b))
	head := a.partial[class]
	if head == 0 {
		head = a.addChunk(class)
	}
	c := &a.chunks[head-1]
	size := uint32(classBytes(class))
	off := c.fresh
	if c.free != 0 {
		off = c.free - 1
		c.free = binary.LittleEndian.Uint32(c.data[off:])
	} else {
		c.fresh += size
	}
	if c.used == 0 && len(c.data) == int(size) && size > mediumBlock {
		a.spare -= len(c.data)
	}
	c.used++
	if c.free == 0 && c.fresh+size > uint32(len(c.data)) {
		a.unlink(&a.partial[class], head)
	}
	s.n = uint32(copy(c.data[off:], b))
	binary.LittleEndian.PutUint32(s.data[:], head-1)
	binary.LittleEndian.PutUint32(s.data[4:], off)
}

// free gives the block of s back and makes s empty.
func (a *arena) free(s *span) {
	if s.n <= inlineBytes {
		s.n = 0
		return
	}
	i, off := s.block()
	s.n = 0
	c := &a.chunks[i]
	size := uint32(classBytes(c.class))
	full := c.free == 0 && c.fresh+size > uint32(len(c.data))
	binary.LittleEndian.PutUint32(c.data[off:], c.free)
	c.free = off + 1
	c.used--
	if full {
		a.link(&a.partial[c.class], i+1)
	}
	if c.used == 0 {
		a.retire(i + 1)
	}
}

// retire takes a chunk without a used block away from its class, or keeps it there if it can serve no other.
func (a *arena) retire(id uint32) {
	c := &a.chunks[id-1]
	c.free, c.fresh = 0, 0
	kind, size := chunkKind(classBytes(c.class))
	if kind < 2 {
		a.unlink(&a.partial[c.class], id)
		a.link(&a.empty[kind], id)
		return
	}
	if a.spare+size <= maxSpareBytes {
		a.spare += size
		return
	}
	a.unlink(&a.partial[c.class], id)
	c.data = nil
	a.held -= size
	a.link(&a.gone, id)
}

// addChunk gives class a chunk with room and returns its number+1.
func (a *arena) addChunk(class int32) uint32 {
	kind, size := chunkKind(classBytes(class))
	var id uint32
	switch {
	case kind < 2 && a.empty[kind] != 0:
		id = a.empty[kind]
		a.unlink(&a.empty[kind], id)
	case a.gone != 0:
		id = a.gone
		a.unlink(&a.gone, id)
	default:
		a.chunks = append(a.chunks, chunk{})
		id = uint32(len(a.chunks))
	}
	c := &a.chunks[id-1]
	if c.data == nil {
		c.data = make([]byte, size)
		a.held += size
		if kind == 2 {
			a.spare += size // place takes it off again
		}
	}
	c.class, c.used, c.free, c.fresh = class, 0, 0, 0
	a.link(&a.partial[class], id)
	return id
}

func (a *arena) link(head *uint32, id uint32) {
	c := &a.chunks[id-1]
	c.prev, c.next = 0, *head
	if *head != 0 {
		a.chunks[*head-1].prev = id
	}
	*head = id
}

func (a *arena) unlink(head *uint32, id uint32) {
	c := &a.chunks[id-1]
	if c.prev == 0 {
		*head = c.next
	} else {
		a.chunks[c.prev-1].next = c.next
	}
	if c.next != 0 {
		a.chunks[c.next-1].prev = c.prev
	}
	c.prev, c.next = 0, 0
}
