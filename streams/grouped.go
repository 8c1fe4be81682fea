package streams

import "github.com/understudy-streams/understudy/streams/serde"

// Grouped is a stream grouped by key, to be aggregated into a [Table]. Records with a null key or a null value are left out of every
// aggregation and counted.
type Grouped[K, V any] struct {
	s       Stream[K, V]
	o       options
	through map[string]Stream[K, V] // repartition topics made so far, by name
}

// GroupBy groups the records by the key that f returns. Records move to the partition of their new key through a repartition topic, named
// <application id>-<name>-repartition after [As] or else after the store of the aggregation. f is called for null keys and values too,
// with the zero value.
func (s Stream[K, V]) GroupBy[K2 any](f func(K, V) K2, opts ...RepartitionOption) Grouped[K2, V] {
	prefix := "groupby"
	if o := repartitionOptions(opts); o.name != "" {
		prefix += "-" + o.name
	}
	return grouped(s.selectKey(prefix, f, options{}), opts)
}

// GroupByKey groups the records by their key. It makes a repartition topic only behind a step that replaced the key.
func (s Stream[K, V]) GroupByKey(opts ...RepartitionOption) Grouped[K, V] { return grouped(s, opts) }

func grouped[K, V any](s Stream[K, V], opts []RepartitionOption) Grouped[K, V] {
	g := Grouped[K, V]{s: s, o: repartitionOptions(opts), through: make(map[string]Stream[K, V])}
	if g.o.name != "" {
		s.b.name("name of a grouping", g.o.name)
	}
	if g.o.hasPartitions && !s.rekeyed {
		s.b.faultf("the grouping behind step %q makes no repartition topic, since the key is still the one it was read with: take Partitions away, or put a Repartition in front",
			s.step.name)
	}
	if g.o.failure != nil && !s.rekeyed {
		s.b.faultf("the grouping behind step %q makes no repartition topic, since the key is still the one it was read with: name OnFailure at the source",
			s.step.name)
	}
	if g.o.recovery != nil && !s.rekeyed {
		s.b.faultf("the grouping behind step %q makes no repartition topic, since the key is still the one it was read with: say how to recover at the source",
			s.step.name)
	}
	g.s.keys, g.s.values = serdes(s.b, s.step, g.o, s.keys, s.values)
	return g
}

// located is the grouped stream with equal keys in one partition.
func (g Grouped[K, V]) located(store string) Stream[K, V] {
	if !g.s.rekeyed {
		return g.s
	}
	name := g.o.name
	if name == "" {
		name = store
	}
	if s, ok := g.through[name]; ok {
		return s
	}
	o := g.o
	o.name = ""
	s := g.s.through(name, o, true)
	g.through[name] = s
	return s
}

// Count counts the records of each key in a store of that name. The values are not looked at, unless their bytes can stand for null, as the
// JSON text null does for a pointer.
func (g Grouped[K, V]) Count(store string, opts ...TableOption) Table[K, int64] {
	return aggregate(g, "count", orderOfNone, store, opts, nil, serde.Int64, fold[K, V, int64]{
		next: func(_ *K, _ *V, n int64, _ bool) int64 { return n + 1 },
	})
}

// Reduce combines the values of each key: the first one is the result as it is, f combines the result so far with the next. A nil []byte
// or a nil pointer that it returns deletes the row.
func (g Grouped[K, V]) Reduce(store string, f func(result, value V) V, opts ...TableOption) Table[K, V] {
	return aggregate(g, "reduce", orderOfValues, store, opts, f, g.s.values, fold[K, V, V]{
		uses: needValue,
		next: func(_ *K, v *V, result V, found bool) V {
			if !found {
				return *v
			}
			return f(result, *v)
		},
	})
}

// Aggregate folds the values of each key into a result of another type: start makes the result of a key that has none, f folds the next
// value in. f may change the result in place and return it. A nil []byte or a nil pointer that it returns deletes the row.
func (g Grouped[K, V]) Aggregate[A any](store string, start func() A, f func(key K, value V, result A) A, opts ...TableOption) Table[K, A] {
	t := aggregate(g, "aggregate", orderOfFold, store, opts, f, nil, fold[K, V, A]{
		uses: needKey | needValue,
		next: func(k *K, v *V, result A, found bool) A {
			if !found {
				result = start()
			}
			return f(*k, *v, result)
		},
	})
	t.b.function(t.step, start)
	return t
}

// aggregate adds the step of an aggregation. function is the user's, for its name; nil if there is none.
func aggregate[K, V, A any](g Grouped[K, V], prefix string, by order, store string, opts []TableOption, function any, values serde.Serde[A], f fold[K, V, A]) Table[K, A] {
	b := g.s.b
	o := tableOptions(opts)
	b.name("store of a "+prefix, store)
	s := g.located(store)
	next := b.add(&step{kind: processorStep, parents: []*step{s.step}, keyed: true}, prefix+"-"+store, "", nil)
	if function != nil {
		b.function(next, function)
	}
	next.order = b.commutes(next, by, o)
	keys, values := serdes(b, next, o, s.keys, values)
	def := b.tableStore(next, store, o)
	next.resolve = func() { keys, values = resolve(b, next, "key", keys), resolve(b, next, "value", values) }
	next.build = func(in *instance) {
		changelog := in.sub.changelog(def)
		n := &aggregateNode[K, V, A]{
			rows: newRows(in, next, def, keys, values, changelog),
			keys: newEncoder(keys, s.fromKeys.serde(), s.stored, changelog, true),
			fold: f,
		}
		n.fold.uses |= hiddenNull[V](s.fromValues.serde())
		attach(in, s.step, n)
	}
	return newTable(b, next, def, keys, values, func() serde.Serde[K] { return keys }, func() serde.Serde[A] { return values })
}
