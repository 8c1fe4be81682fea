package streams

import (
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// fold is how an aggregation takes in a record.
type fold[K, V, A any] struct {
	uses need // what next looks at
	// next is the new result. found says whether there was one; result is the zero value otherwise.
	next func(key *K, value *V, result A, found bool) A
}

// aggregateNode folds records into the rows of its store.
type aggregateNode[K, V, A any] struct {
	rows *rows[K, A]
	keys encoder[K]
	fold fold[K, V, A]
	key  []byte // encoded key of the record, reused
	old  []byte // bytes that the result so far is decoded from, reused
}

func (n *aggregateNode[K, V, A]) needs() need { return n.fold.uses | n.keys.needs(needKey) }

func (n *aggregateNode[K, V, A]) warms() []int { return n.rows.warms(n.keys.raw) }

func (n *aggregateNode[K, V, A]) push(it *item[K, V]) {
	if droppedForNull(n.rows.in, it) {
		return
	}
	n.rows.in.env.Enter(n.rows.step.id)
	key, ok := n.rows.encodeKey(&n.keys, n.key[:0], it.key, it.rawKey)
	if !ok {
		return
	}
	n.key = key
	row, found, err := n.rows.store.Get(key)
	if err != nil {
		n.rows.fail(task.KindStore, err)
		return
	}
	ts := it.ts
	var result A
	if found {
		ts = max(ts, row.Timestamp)
		if result, ok = n.decode(row); !ok {
			return
		}
		n.rows.remember(row) // before the function may change the result in place
	}
	result = n.fold.next(&it.key, &it.value, result, found)
	n.rows.replace(key, result, found, ts, it.headers)
}

// decode returns the result so far. The function may change it in place, and the row may be overwritten while it is in use, so it is
// decoded from a copy.
func (n *aggregateNode[K, V, A]) decode(row statestore.Row) (A, bool) {
	n.old = append(n.old[:0], row.Value...)
	result, _, err := n.rows.values.decode(n.old)
	if err != nil {
		n.rows.fail(task.KindDecode, err)
	}
	return result, err == nil
}

// droppedForNull leaves records without key or value out of an aggregation.
func droppedForNull[K, V any](in *instance, it *item[K, V]) bool {
	switch {
	case it.nullKey:
		in.env.Dropped(droppedNullKey, 1)
	case it.nullValue:
		in.env.Dropped(droppedNullValue, 1)
	default:
		return false
	}
	return true
}
