package statestore

import "unsafe"

// flags say what an entry of the overlay stands for.
type flags uint32

const (
	known     flags = 1 << iota // cur is what a read answers; without it the entry has just been made by a write that did not look at base
	present                     // cur is a row; otherwise it says that there is none
	active                      // written since the last cut
	sealed                      // written in the sealed generation, which is not in base yet
	lingering                   // in base by now, but still in the sorted index for the iterators that are open
	recent                      // read since it became clean, or since the cache last spared it
	blind                       // born by a write that did not know whether base had the key
	dirty     = active | sealed
)

// entry is what an overlay knows of one key. Entry 0 is never used, so that 0 can stand for none.
type entry struct {
	// What reads and writes of a known key look at comes first: it is 64 bytes, so most of it comes with one cache line.
	key, cur span
	flags    flags
	epoch    uint32 // when it was last read while clean
	ts       int64
	unit     uint64 // the unit that has saved this entry in its undo log

	hash uint32 // also the priority in the sorted index
	// A clean entry is in the cache's list by prev and next; one that is not yet in base is, in an ordered overlay, in the sorted index:
	// a tree by left and right whose nodes are linked in key order by prev and next. An unused entry has the next unused one in next.
	prev, next  uint32
	left, right uint32
	before      uint32 // its row as of the last cut, in Overlay.befores
	born        uint64 // the write that made the key present; 0 if it was in base
}

const entryBytes = int(unsafe.Sizeof(entry{})) + 16 // with its share of the hash table

// past is the row of a key as of the last cut.
type past struct {
	val     span
	present bool
	ts      int64
	next    uint32 // of the unused ones
}
