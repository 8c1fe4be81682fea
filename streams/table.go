package streams

import "github.com/understudy-streams/understudy/streams/serde"

// Table is a table: one row a key, changed by each record. Like [Stream] it is a description. What flows from it are the changes of its
// rows, at each commit or with each record (see [Emission]).
//
// A table that becomes another one by Filter or MapValues keeps no state of its own: it is computed from the rows of the table above,
// before and after each change, so that a row that never was in the result is never deleted from it. Functions are called for both, and
// must give the same answer for the same row.
type Table[K, V any] struct {
	b          *Builder
	step       *step // whose output are the changes
	def        *storeDef
	keys       serde.Serde[K]
	values     serde.Serde[V]
	fromKeys   origin[K]
	fromValues origin[V]
	derived    bool // the store is that of a table above
}

func newTable[K, V any](b *Builder, s *step, def *storeDef, keys serde.Serde[K], values serde.Serde[V], fromKeys origin[K], fromValues origin[V]) Table[K, V] {
	return Table[K, V]{b: b, step: s, def: def, keys: keys, values: values, fromKeys: fromKeys, fromValues: fromValues}
}

// Table reads a topic as a table. The rows are in a store with the name given by [As], or else the topic's name. Later records replace
// earlier ones, whatever their timestamps; a null value deletes the row. Records with a null key are dropped and counted.
func (b *Builder) Table[K, V any](topic string, keys serde.Serde[K], values serde.Serde[V], opts ...TableSourceOption) Table[K, V] {
	var o options
	for _, opt := range opts {
		opt.applyTableSource(&o)
	}
	b.name("topic of a Table", topic)
	store := o.name
	if store == "" {
		store = topic
	} else {
		b.name("store of a Table", store)
	}
	return source(b, topicRef{name: topic}, "", keys, values, o).toTable(store, o)
}

// ToTable makes a table of a stream: its records are the changes of the rows, a null value deletes a row. Records with a null key are
// dropped and counted. Behind a step that replaced the key the records go through a repartition topic first.
func (s Stream[K, V]) ToTable(store string, opts ...TableOption) Table[K, V] {
	o := tableOptions(opts)
	s.b.name("store of a Table", store)
	if s.rekeyed {
		s = s.through(store, options{keys: o.keys, values: o.values}, true)
	}
	return s.toTable(store, o)
}

func (s Stream[K, V]) toTable(store string, o options) Table[K, V] {
	b := s.b
	next := b.add(&step{kind: processorStep, parents: []*step{s.step}, keyed: true}, "table-"+store, "", nil)
	next.order = b.commutes(next, orderOfRows, o)
	keys, values := serdes(b, next, o, s.keys, s.values)
	def := b.tableStore(next, store, o)
	next.resolve = func() { keys, values = resolve(b, next, "key", keys), resolve(b, next, "value", values) }
	next.build = func(in *instance) {
		changelog := in.sub.changelog(def)
		n := &tableNode[K, V]{
			rows:   newRows(in, next, def, keys, values, changelog),
			keys:   newEncoder(keys, s.fromKeys.serde(), s.stored, changelog, true),
			values: newEncoder(values, s.fromValues.serde(), s.stored, changelog, false),
		}
		attach(in, s.step, n)
	}
	return newTable(b, next, def, keys, values, func() serde.Serde[K] { return keys }, func() serde.Serde[V] { return values })
}

// Store returns the store of the table's rows, for processors to look things up in ([WithStores]); they cannot write to it. A processor
// that uses it is in the table's subtopology, and what it reads must be co-partitioned with the table. It sees what the records before its
// own have made of the table. A table made by Filter or MapValues has no rows of its own: that is a fault.
func (t Table[K, V]) Store() *Store[K, V] {
	if t.derived {
		t.b.faultf("step %q has no store of its own: use that of the table above, or make one with ToStream and ToTable", t.step.name)
	}
	return &Store[K, V]{d: t.def, keys: t.fromKeys, values: t.fromValues, readOnly: true}
}

// Filter is the table of the rows for which keep returns true. A row that no longer is in it is deleted downstream; one that never was in
// it is not.
func (t Table[K, V]) Filter(keep func(K, V) bool, opts ...StepOption) Table[K, V] {
	o := stepOptions(opts)
	next := t.then("tablefilter", o, keep, func(in *instance, next *step) sink[K, change[V]] {
		return &tableFilterNode[K, V]{in: in, step: next, out: in.out[K, change[V]](next), keep: keep}
	})
	t.keys, t.values = serdes(t.b, next, o, t.keys, t.values)
	t.step, t.derived = next, true
	return t
}

// MapValues is the table of the values that f makes of the rows. A nil []byte or a nil pointer that it returns is no row.
func (t Table[K, V]) MapValues[W any](f func(V) W, opts ...StepOption) Table[K, W] {
	o := stepOptions(opts)
	next := t.then("tablemapvalues", o, f, func(in *instance, next *step) sink[K, change[V]] {
		return &tableMapNode[K, V, W]{in: in, step: next, out: in.out[K, change[W]](next), f: f, null: nullOf[W]()}
	})
	keys, values := serdes[K, W](t.b, next, o, t.keys, nil)
	out := newTable(t.b, next, t.def, keys, values, t.fromKeys, nil)
	out.derived = true
	return out
}

// ToStream is the stream of the table's changes: the new row, or a null value for a row that was deleted.
func (t Table[K, V]) ToStream(opts ...StepOption) Stream[K, V] {
	o := stepOptions(opts)
	next := t.b.add(&step{kind: processorStep, parents: []*step{t.step}}, "tostream-"+t.def.name, o.name, nil)
	next.build = func(in *instance) {
		attach[K, change[V]](in, t.step, &toStreamNode[K, V]{out: in.out[K, V](next)})
	}
	keys, values := serdes(t.b, next, o, t.keys, t.values)
	return Stream[K, V]{b: t.b, step: next, keys: keys, values: values, fromKeys: t.fromKeys, fromValues: t.fromValues, stored: true}
}

// then adds a step whose node is made by node and checks its function.
func (t Table[K, V]) then(prefix string, o options, function any, node func(in *instance, next *step) sink[K, change[V]]) *step {
	next := t.b.add(&step{kind: processorStep, parents: []*step{t.step}}, prefix, o.name, function)
	t.b.function(next, function)
	next.build = func(in *instance) { attach(in, t.step, node(in, next)) }
	return next
}
