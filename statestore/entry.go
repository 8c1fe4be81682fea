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
	queued                      // in the cache's queue, clean or not
	dirty     = active | sealed
)

// entry is what an overlay knows of one key: 64 bytes without a pointer, so that a read and a write of a known key look at one cache line.
// Entry 0 is never used, so that 0 can stand for none. An unused entry has the next unused one in unit.
type entry struct {
	key, cur span
	flags    flags
	epoch    uint32 // when it was last read while clean
	ts       int64
	unit     uint32 // the unit that has saved this entry in its undo log
	hash     uint32 // also the priority in the sorted index
}

const entryBytes = int(unsafe.Sizeof(entry{})) + 16 // with its share of the hash table

// past is the row of a key as of the last cut.
type past struct {
	val     span
	present bool
	ts      int64
}
