package task

import (
	"bytes"
	"slices"

	"github.com/understudy-streams/understudy/statestore"
)

// watches are what running items have read. A unit that is kept and has written to it makes them stale: they have reckoned with what is not
// true any more.
type watches struct {
	running map[uint64]*Item
	stores  []storeWatches
	n       int // keys and ranges watched; nobody looks at what units write while there are none
}

type storeWatches struct {
	keys   map[string][]*Item
	ranges []rangeWatch
}

type rangeWatch struct {
	lo, hi []byte
	item   *Item
}

// seen is what the task notes of an item while somebody else runs it. The runner does not look at it.
type seen struct {
	keys      []seenKey
	ranges    int
	stale     bool
	cancelled bool
	reruns    int
}

type seenKey struct {
	store int
	key   string
}

func newWatches(stores int) watches {
	return watches{running: make(map[uint64]*Item), stores: make([]storeWatches, stores)}
}

// begin begins to watch for an item that is about to be run.
func (w *watches) begin(it *Item) {
	it.seen.stale = false
	w.running[it.ID] = it
}

// end forgets what an item has read.
func (w *watches) end(it *Item) {
	delete(w.running, it.ID)
	for _, k := range it.seen.keys {
		s := &w.stores[k.store]
		left := without(s.keys[k.key], it)
		if len(left) == 0 {
			delete(s.keys, k.key)
		} else {
			s.keys[k.key] = left
		}
	}
	w.n -= len(it.seen.keys) + it.seen.ranges
	if it.seen.ranges > 0 {
		for i := range w.stores {
			w.stores[i].ranges = slices.DeleteFunc(w.stores[i].ranges, func(r rangeWatch) bool { return r.item == it })
		}
	}
	clear(it.seen.keys)
	it.seen.keys, it.seen.ranges = it.seen.keys[:0], 0
}

func without(items []*Item, it *Item) []*Item {
	i := slices.Index(items, it)
	return slices.Delete(items, i, i+1)
}

func (w *watches) key(it *Item, store int, key []byte) {
	s := &w.stores[store]
	if s.keys == nil {
		s.keys = make(map[string][]*Item)
	}
	of := s.keys[string(key)]
	if slices.Contains(of, it) {
		return
	}
	k := string(key)
	s.keys[k] = append(of, it)
	it.seen.keys = append(it.seen.keys, seenKey{store, k})
	w.n++
}

func (w *watches) keyRange(it *Item, store int, lo, hi []byte) {
	s := &w.stores[store]
	s.ranges = append(s.ranges, rangeWatch{lo, hi, it})
	it.seen.ranges++
	w.n++
}

// wrote makes stale whatever has read a key.
func (s *storeWatches) wrote(key []byte) {
	for _, it := range s.keys[string(key)] {
		it.seen.stale = true
	}
	for i := range s.ranges {
		r := &s.ranges[i]
		if bytes.Compare(key, r.lo) >= 0 && (r.hi == nil || bytes.Compare(key, r.hi) < 0) {
			r.item.seen.stale = true
		}
	}
}

// noteWrites tells the watches what the open unit has written. It is about to be kept.
func (t *Task) noteWrites() {
	for i, o := range t.stores {
		s := &t.watch.stores[i]
		if len(s.keys) == 0 && len(s.ranges) == 0 {
			continue
		}
		for j := range o.Touched() {
			s.wrote(o.TouchedKey(j))
		}
	}
}

const (
	answerRows  = 128
	answerBytes = 32 << 10
)

// answer answers a running item's Read; ok is false if the item does not run any more, or its run is void already.
func (t *Task) answer(q Read) (a Answer, ok bool) {
	it := t.watch.running[q.Item]
	if it == nil {
		return Answer{}, false
	}
	a.Item = q.Item
	switch s := t.stores[q.Store]; {
	case t.dead:
		a.Err = ErrLost
	case q.Scan:
		t.answerRange(it, s, &q, &a)
	default:
		var row statestore.Row
		if row, a.Found, a.Err = s.Get(q.Key); a.Found {
			a.Row = statestore.Row{Value: append([]byte{}, row.Value...), Timestamp: row.Timestamp}
		}
		t.watch.key(it, q.Store, q.Key)
	}
	return a, true
}

// answerRange answers with as much of a range as one answer takes, and watches that much.
func (t *Task) answerRange(it *Item, s *statestore.Overlay, q *Read, a *Answer) {
	rows := s.Scan(q.Lo, q.Hi, q.Reverse)
	size := 0
	for rows.Next() {
		if len(a.Rows) == answerRows || size >= answerBytes {
			a.More = true
			break
		}
		row := rows.Row()
		c := statestore.Change{Key: append([]byte{}, rows.Key()...), Value: append([]byte{}, row.Value...), Timestamp: row.Timestamp}
		a.Rows = append(a.Rows, c)
		size += len(c.Key) + len(c.Value)
	}
	a.Err = rows.Close()
	lo, hi := q.Lo, q.Hi
	if a.More {
		if last := a.Rows[len(a.Rows)-1].Key; q.Reverse {
			lo = last
		} else {
			hi = append(bytes.Clone(last), 0)
		}
	}
	t.watch.keyRange(it, q.Store, lo, hi)
}
