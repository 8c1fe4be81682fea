package task

import "github.com/understudy-streams/understudy/statestore"

// Read is the question of a running item for what is in a store: the row of Key or, where Scan is set, the first rows of a range. It is
// answered with Answer. The task remembers what was asked: if that is written to before the item's result comes, the item is run again.
type Read struct {
	Item    uint64
	Store   int
	Key     []byte
	Scan    bool
	Lo, Hi  []byte // as for statestore.Reader
	Reverse bool
}

// Answer answers a Read. Its bytes are a copy.
type Answer struct {
	Item  uint64
	Row   statestore.Row
	Found bool
	Rows  []statestore.Change // of a range, in its order
	More  bool                // there are more rows than these
	Err   error
}

func (Read) ownerEvent()    {}
func (Answer) ownerAction() {}
