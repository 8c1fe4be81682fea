package streams

import (
	"fmt"

	"github.com/understudy-streams/understudy/streams/serde"
)

// Store declares a key-value store for processors. It is a description: each task has rows of its own. Attach it to every processor that
// uses it with [WithStores], and open it in the processor's supplier with [Store.Open].
type Store[K, V any] struct {
	d        *storeDef
	keys     origin[K]
	values   origin[V]
	readOnly bool
}

// AnyStore is a *[Store] of any types.
type AnyStore interface{ def() *storeDef }

func (s *Store[K, V]) def() *storeDef {
	if s == nil {
		return nil
	}
	return s.d
}

// defOf is the store behind any of them, nil if there is none.
func defOf(s AnyStore) *storeDef {
	if s == nil {
		return nil
	}
	return s.def()
}

// StoreOption is an option of [NewStore]: [Ordered], [WithoutChangelog], [Unordered].
type StoreOption interface{ applyStore(o *options) }

// Ordered makes a store whose rows can be iterated over, all of them or by range or prefix, in the byte order of their keys.
func Ordered() OrderedOption { return OrderedOption{} }

// OrderedOption is what [Ordered] returns.
type OrderedOption struct{}

func (OrderedOption) applyStore(o *options)       { o.ordered = true }
func (OrderedOption) applyTable(o *options)       { o.ordered = true }
func (OrderedOption) applyTableSource(o *options) { o.ordered = true }

// NewStore declares a store. The name is its identity on disk and in its changelog, <application id>-<name>-changelog, and must survive a
// change of the code. Without [Ordered] the store is read by key only.
func NewStore[K, V any](name string, keys serde.Serde[K], values serde.Serde[V], opts ...StoreOption) *Store[K, V] {
	var o options
	for _, opt := range opts {
		opt.applyStore(&o)
	}
	return &Store[K, V]{
		d:    &storeDef{name: name, ordered: o.ordered, unordered: o.unordered, noChangelog: o.noChangelog, noSerde: isNil(keys) || isNil(values)},
		keys: func() serde.Serde[K] { return keys }, values: func() serde.Serde[V] { return values },
	}
}

// AddStore adds a store to the topology. [WithStores] does it too; a store that no processor uses is not made.
func (b *Builder) AddStore(store AnyStore) { b.addStore(defOf(store)) }

func (b *Builder) addStore(d *storeDef) {
	if d == nil {
		b.faultf("a store is nil: make it with NewStore")
		return
	}
	if d.table != nil && d.table != b {
		b.faultf("store %q is that of a table of another builder: build both with one", d.name)
		return
	}
	for _, other := range b.stores {
		if other == d {
			return
		}
	}
	b.name("name of a store", d.name)
	if d.noSerde {
		b.faultf("store %q has a nil serde: give NewStore one for its keys and one for its values", d.name)
	}
	b.stores = append(b.stores, d)
}

// Open returns the store of the task that a processor is made for. It is called in the supplier. A store that is not attached to the
// processor cannot be opened: the task fails to start, saying so.
func (s *Store[K, V]) Open(init *Init) *StoreHandle[K, V] {
	h := &StoreHandle[K, V]{in: init.in, step: init.step, name: s.d.name, readOnly: s.readOnly}
	if !init.attached(s.d) {
		init.in.fail(init.step, fmt.Errorf("store %q is not attached to it: name it in WithStores", s.d.name))
		return h
	}
	keys, values := s.keys.serde(), s.values.serde()
	changelog := init.in.sub.changelog(s.d)
	h.rows = init.in.env.Store(init.in.sub.storeIndex(s.d))
	h.ordered = s.d.ordered
	h.sorted = serde.IsOrderPreserving(keys)
	h.keys, h.keysBack = newEncoder(keys, nil, false, changelog, true), storeDecoder(keys, changelog, true)
	h.values, h.valuesBack = newEncoder(values, nil, false, changelog, false), storeDecoder(values, changelog, false)
	return h
}
