package streams

import "github.com/understudy-streams/understudy/task"

// item is a record on its way from node to node. A node never writes to an item it was given: siblings see the same one. A node that
// changes something pushes an item of its own, which it uses again for the next record.
type item[K, V any] struct {
	key   K
	value V
	// rawKey and rawValue are the encoded forms as the source or the store has them, nil where nobody has them or the key or value
	// changed since. They are borrowed until push returns.
	rawKey, rawValue []byte
	nullKey          bool // key is the zero value
	nullValue        bool // value is the zero value
	ts               int64
	headers          []task.Header
}

// change is what happened to one row of a table: the value of a table's item.
type change[V any] struct {
	old, new       V
	hasOld, hasNew bool // there was a row, there is a row
}

// need says which decoded parts of an item a node looks at. What nobody downstream needs is never decoded.
type need uint8

const (
	needKey need = 1 << iota
	needValue
	needOld // the old value of a change; needValue is the new one
)

// sink is a node as its upstream sees it.
type sink[K, V any] interface {
	push(it *item[K, V])
	needs() need
}

// fan is the output of a step in one task: the nodes attached to it.
type fan[K, V any] struct {
	env   *task.Env
	one   sink[K, V] // where there is no other, as is most often; known once the whole graph is attached
	sinks []sink[K, V]
	need  need  // of all sinks together; known once the whole graph is attached
	warm  []int // stores in which the raw key of an item is looked up; known then too
}

// warmer is a node that looks the raw key of its items up in stores, or passes it on to one that does.
type warmer interface{ warms() []int }

func (f *fan[K, V]) push(it *item[K, V]) {
	if f.one != nil {
		if !f.env.Failed() {
			f.one.push(it)
		}
		return
	}
	for _, s := range f.sinks {
		if f.env.Failed() {
			return
		}
		s.push(it)
	}
}

// settle computes need. It is called after the fans of all later steps.
func (f *fan[K, V]) settle() {
	if len(f.sinks) == 1 {
		f.one = f.sinks[0]
	}
	for _, s := range f.sinks {
		f.need |= s.needs()
		if w, ok := s.(warmer); ok {
			f.warm = append(f.warm, w.warms()...)
		}
	}
}
