package statestore

import (
	"bytes"
	"unsafe"
)

// link is an entry's place in the sorted index: a tree by left and right whose nodes are linked in key order by prev and next.
type link struct {
	left, right uint32
	prev, next  uint32
	born        uint64 // the write that made the key present; 0 if it was in base
}

const linkBytes = int(unsafe.Sizeof(link{}))

// sorted is the index of the entries that are not in base yet, in key order: a treap whose priorities are the keys' hashes, with its nodes
// linked in order as well. There is a link for each entry, so it never allocates.
type sorted struct {
	links    []link
	root     uint32
	removals uint64 // an iterator that stands on an entry seeks anew when this has changed
}

func compareKeys(entries []entry, a *arena, x, y uint32) int {
	return bytes.Compare(a.bytes(&entries[x].key), a.bytes(&entries[y].key))
}

// insert adds an entry that is not in the index.
func (s *sorted) insert(entries []entry, a *arena, id uint32) {
	e, hash := &s.links[id], entries[id].hash
	e.left, e.right, e.prev, e.next = 0, 0, 0, 0
	at := &s.root
	for *at != 0 && entries[*at].hash >= hash {
		if compareKeys(entries, a, id, *at) < 0 {
			e.next = *at
			at = &s.links[*at].left
		} else {
			e.prev = *at
			at = &s.links[*at].right
		}
	}
	s.split(entries, a, *at, id)
	*at = id
	if e.prev != 0 {
		s.links[e.prev].next = id
	}
	if e.next != 0 {
		s.links[e.next].prev = id
	}
}

// split divides the tree below into the children of id, and finds id's neighbours on the way.
func (s *sorted) split(entries []entry, a *arena, below, id uint32) {
	e := &s.links[id]
	less, more := &e.left, &e.right
	for below != 0 {
		if compareKeys(entries, a, below, id) < 0 {
			e.prev = below
			*less = below
			less = &s.links[below].right
			below = *less
		} else {
			e.next = below
			*more = below
			more = &s.links[below].left
			below = *more
		}
	}
	*less, *more = 0, 0
}

// remove takes an entry out of the index.
func (s *sorted) remove(entries []entry, a *arena, id uint32) {
	s.removals++
	at := &s.root
	for *at != id {
		if compareKeys(entries, a, id, *at) < 0 {
			at = &s.links[*at].left
		} else {
			at = &s.links[*at].right
		}
	}
	e := &s.links[id]
	x, y := e.left, e.right
	for x != 0 && y != 0 {
		if entries[x].hash >= entries[y].hash {
			*at = x
			at = &s.links[x].right
			x = *at
		} else {
			*at = y
			at = &s.links[y].left
			y = *at
		}
	}
	*at = x | y
	if e.prev != 0 {
		s.links[e.prev].next = e.next
	}
	if e.next != 0 {
		s.links[e.next].prev = e.prev
	}
	e.left, e.right, e.prev, e.next = 0, 0, 0, 0
}

// seek returns the first entry with a key >= key, or > key if after; 0 if there is none.
func (s *sorted) seek(entries []entry, a *arena, key []byte, after bool) (found uint32) {
	for at := s.root; at != 0; {
		c := bytes.Compare(a.bytes(&entries[at].key), key)
		if c > 0 || c == 0 && !after {
			found, at = at, s.links[at].left
		} else {
			at = s.links[at].right
		}
	}
	return found
}

// seekBefore returns the last entry with a key < key; a nil key is after the last.
func (s *sorted) seekBefore(entries []entry, a *arena, key []byte) (found uint32) {
	for at := s.root; at != 0; {
		if key == nil || bytes.Compare(a.bytes(&entries[at].key), key) < 0 {
			found, at = at, s.links[at].right
		} else {
			at = s.links[at].left
		}
	}
	return found
}
