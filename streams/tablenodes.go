package streams

import (
	"fmt"

	"github.com/understudy-streams/understudy/task"
)

// tableNode writes records as rows.
type tableNode[K, V any] struct {
	rows   *rows[K, V]
	keys   encoder[K]
	values encoder[V]
	key    []byte // encoded key of the record, reused
}

func (n *tableNode[K, V]) needs() need {
	all := n.keys.needs(needKey) | n.values.needs(needValue)
	if n.rows.perUpdate { // changes are sent with the values of the record
		all |= n.rows.out.need & needValue
	}
	return all
}

func (n *tableNode[K, V]) warms() []int { return n.rows.warms(n.keys.raw) }

func (n *tableNode[K, V]) push(it *item[K, V]) {
	r := n.rows
	if it.nullKey {
		r.in.env.Dropped(droppedNullKey, 1)
		return
	}
	r.in.env.Enter(r.step.id)
	key, ok := r.encodeKey(&n.keys, n.key[:0], it.key, it.rawKey)
	if !ok {
		return
	}
	n.key = key
	value, size, err := n.values.append(r.value[:0], &it.value, it.rawValue, it.nullValue)
	if err != nil {
		r.fail(task.KindEncode, fmt.Errorf("value: %w", err))
		return
	}
	r.value = value
	found, ok := n.find(key, size >= 0)
	if !ok {
		return
	}
	r.write(key, value, size >= 0, found, it.ts)
	if r.perUpdate {
		r.send(key, it.value, size >= 0, found, it.ts, it.headers)
	}
}

// find reports whether there is a row, as far as that matters: for a change that is sent, and to leave alone what is not there.
func (n *tableNode[K, V]) find(key []byte, present bool) (found, ok bool) {
	if present && !n.rows.perUpdate {
		return false, true
	}
	row, found, err := n.rows.store.Get(key)
	if err != nil {
		n.rows.fail(task.KindStore, err)
		return false, false
	}
	if found {
		n.rows.remember(row)
	}
	return found, true
}

type tableFilterNode[K, V any] struct {
	in   *instance
	step *step
	out  *fan[K, change[V]]
	keep func(K, V) bool
	it   item[K, change[V]]
}

func (n *tableFilterNode[K, V]) needs() need { return needKey | needValue | needOld | n.out.need }

func (n *tableFilterNode[K, V]) push(it *item[K, change[V]]) {
	n.in.env.Enter(n.step.id)
	was := it.value.hasOld && n.keep(it.key, it.value.old)
	is := it.value.hasNew && n.keep(it.key, it.value.new)
	if !was && !is {
		return
	}
	n.it = *it
	n.it.value.hasOld, n.it.value.hasNew = was, is
	if !is {
		n.it.rawValue = nil
	}
	n.out.push(&n.it)
}

type tableMapNode[K, V, W any] struct {
	in   *instance
	step *step
	out  *fan[K, change[W]]
	f    func(V) W
	null func(W) bool
	it   item[K, change[W]]
}

// needs includes the old value where a row can be mapped to none, since only the old one says whether there is anything to delete.
func (n *tableMapNode[K, V, W]) needs() need {
	all := needValue | n.out.need&(needKey|needOld)
	if n.null != nil {
		all |= needOld
	}
	return all
}

func (n *tableMapNode[K, V, W]) push(it *item[K, change[V]]) {
	to, from := &n.it, &it.value
	to.key, to.rawKey, to.ts, to.headers = it.key, it.rawKey, it.ts, it.headers
	to.value = change[W]{hasOld: from.hasOld, hasNew: from.hasNew}
	n.in.env.Enter(n.step.id)
	if from.hasOld && (n.null != nil || n.out.need&needOld != 0) {
		to.value.old = n.f(from.old)
		to.value.hasOld = !isNull(n.null, to.value.old)
	}
	if from.hasNew {
		to.value.new = n.f(from.new)
		to.value.hasNew = !isNull(n.null, to.value.new)
	}
	if to.value.hasOld || to.value.hasNew {
		n.out.push(to)
	}
}

type toStreamNode[K, V any] struct {
	out *fan[K, V]
	it  item[K, V]
}

func (n *toStreamNode[K, V]) needs() need { return n.out.need }

func (n *toStreamNode[K, V]) push(it *item[K, change[V]]) {
	to := &n.it
	to.key, to.rawKey, to.ts, to.headers = it.key, it.rawKey, it.ts, it.headers
	var zero V
	to.value, to.rawValue, to.nullValue = zero, nil, !it.value.hasNew
	if it.value.hasNew {
		to.value, to.rawValue = it.value.new, it.rawValue
	}
	n.out.push(to)
}
