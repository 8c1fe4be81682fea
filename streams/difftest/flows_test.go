package difftest_test

import (
	"context"
	"errors"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// flow is a Stream of any of the sixteen pairs of types.
type flow interface {
	filter(o opts, keep predicate) flow
	mapKeys(o opts, to kind, key, value mapping) flow
	mapValues(o opts, to kind, f mapping) flow
	flatMap(o opts, f expansion) flow
	flatMapValues(o opts, to kind, f expansion) flow
	selectKey(o opts, to kind, f mapping) flow
	peek(o opts) flow
	split(a, b predicate) []flow
	merge(others ...flow) flow
	repartition(o opts) flow
	group(o opts, by mapping, to kind) groups
	groupByKey(o opts) groups
	toTable(o opts) rows
	process(o opts) flow
	to(o opts, topic string)
	toTopic(o opts, choose func(k, v val) string)
}

type groups interface {
	count(o opts) rows
	reduce(o opts, f mapping) rows
	aggregate(o opts, to kind, f mapping) rows
}

type rows interface {
	filter(o opts, keep predicate) rows
	mapValues(o opts, to kind, f mapping) rows
	toStream() flow
}

// opts are what a step is told besides its function.
type opts struct {
	name         string
	try, not     bool
	keys, values serdeID
	emission     streams.Emission
	unlogged     bool
	mode         int
	boom         func(k, v val) bool // says that the function fails
}

var errBoom = errors.New("boom")

func (o *opts) fails(k, v val) bool { return o.boom != nil && o.boom(k, v) }

// panics is what a plain function does before it answers.
func (o *opts) panics(k, v val) {
	if o.fails(k, v) {
		panic(errBoom)
	}
}

func (o *opts) err(k, v val) error {
	if o.fails(k, v) {
		return errBoom
	}
	return nil
}

func step[K, V any](o opts) []streams.StepOption {
	return []streams.StepOption{streams.As(o.name), streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values))}
}

func tableOpts[K, V any](o opts) []streams.TableOption {
	all := []streams.TableOption{streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values)), o.emission}
	if o.unlogged {
		all = append(all, streams.WithoutChangelog())
	}
	return all
}

type stream[K, V any] struct{ s streams.Stream[K, V] }

type record[K, V any] = streams.Record[K, V]

func (d stream[K, V]) filter(o opts, keep predicate) flow {
	f := func(k K, v V) bool {
		o.panics(valueOf(k), valueOf(v))
		return keep(valueOf(k), valueOf(v)) != o.not
	}
	switch {
	case o.try:
		return stream[K, V]{d.s.TryFilter(o.name, func(_ context.Context, r record[K, V]) (bool, error) {
			k, v := valueOf(r.Key), valueOf(r.Value)
			return keep(k, v) != o.not, o.err(k, v)
		})}
	case o.not:
		return stream[K, V]{d.s.FilterNot(func(k K, v V) bool { return !f(k, v) }, step[K, V](o)...)}
	}
	return stream[K, V]{d.s.Filter(f, step[K, V](o)...)}
}

func (d stream[K, V]) mapKeys(o opts, to kind, key, value mapping) flow {
	if to == kInt {
		return mapKeys[int64](d, o, key, value)
	}
	return mapKeys[*doc](d, o, key, value)
}

func mapKeys[K2, K, V any](d stream[K, V], o opts, key, value mapping) flow {
	if o.try {
		return stream[K2, V]{d.s.TryMap(o.name, func(_ context.Context, r record[K, V]) (K2, V, error) {
			k, v := valueOf(r.Key), valueOf(r.Value)
			return goValue[K2](key(k, v)), goValue[V](value(k, v)), o.err(k, v)
		}, step[K2, V](o)...)}
	}
	return stream[K2, V]{d.s.Map(func(gk K, gv V) (K2, V) {
		k, v := valueOf(gk), valueOf(gv)
		o.panics(k, v)
		return goValue[K2](key(k, v)), goValue[V](value(k, v))
	}, step[K2, V](o)...)}
}

func (d stream[K, V]) mapValues(o opts, to kind, f mapping) flow {
	switch to {
	case kStr:
		return mapValues[string](d, o, f)
	case kBytes:
		return mapValues[[]byte](d, o, f)
	case kInt:
		return mapValues[int64](d, o, f)
	default:
		return mapValues[*doc](d, o, f)
	}
}

func mapValues[W, K, V any](d stream[K, V], o opts, f mapping) flow {
	if o.try {
		return stream[K, W]{d.s.TryMapValues(o.name, func(_ context.Context, r record[K, V]) (W, error) {
			v := valueOf(r.Value)
			return goValue[W](f(val{}, v)), o.err(val{}, v)
		}, step[K, W](o)...)}
	}
	return stream[K, W]{d.s.MapValues(func(v V) W {
		o.panics(val{}, valueOf(v))
		return goValue[W](f(val{}, valueOf(v)))
	}, step[K, W](o)...)}
}

func (d stream[K, V]) flatMap(o opts, f expansion) flow {
	all := func(k, v val) []streams.KeyValue[string, V] {
		var out []streams.KeyValue[string, V]
		for i, w := range f(k, v) {
			out = append(out, streams.KeyValue[string, V]{Key: "abc"[:i], Value: goValue[V](w)})
		}
		return out
	}
	if o.try {
		return stream[string, V]{d.s.TryFlatMap(o.name, func(_ context.Context, r record[K, V]) ([]streams.KeyValue[string, V], error) {
			k, v := valueOf(r.Key), valueOf(r.Value)
			return all(k, v), o.err(k, v)
		}, step[string, V](o)...)}
	}
	return stream[string, V]{d.s.FlatMap(func(gk K, gv V) []streams.KeyValue[string, V] {
		o.panics(valueOf(gk), valueOf(gv))
		return all(valueOf(gk), valueOf(gv))
	}, step[string, V](o)...)}
}

func (d stream[K, V]) flatMapValues(o opts, to kind, f expansion) flow {
	if to == kStr {
		return flatMapValues[string](d, o, f)
	}
	return flatMapValues[[]byte](d, o, f)
}

func flatMapValues[W, K, V any](d stream[K, V], o opts, f expansion) flow {
	all := func(v val) (out []W) {
		for _, w := range f(val{}, v) {
			out = append(out, goValue[W](w))
		}
		return out
	}
	if o.try {
		return stream[K, W]{d.s.TryFlatMapValues(o.name, func(_ context.Context, r record[K, V]) ([]W, error) {
			return all(valueOf(r.Value)), o.err(val{}, valueOf(r.Value))
		}, step[K, W](o)...)}
	}
	return stream[K, W]{d.s.FlatMapValues(func(v V) []W {
		o.panics(val{}, valueOf(v))
		return all(valueOf(v))
	}, step[K, W](o)...)}
}

func (d stream[K, V]) selectKey(o opts, to kind, f mapping) flow {
	switch to {
	case kStr:
		return selectKey[string](d, o, f)
	case kBytes:
		return selectKey[[]byte](d, o, f)
	case kInt:
		return selectKey[int64](d, o, f)
	default:
		return selectKey[*doc](d, o, f)
	}
}

func selectKey[K2, K, V any](d stream[K, V], o opts, f mapping) flow {
	if o.try {
		return stream[K2, V]{d.s.TrySelectKey(o.name, func(_ context.Context, r record[K, V]) (K2, error) {
			k, v := valueOf(r.Key), valueOf(r.Value)
			return goValue[K2](f(k, v)), o.err(k, v)
		}, step[K2, V](o)...)}
	}
	return stream[K2, V]{d.s.SelectKey(func(k K, v V) K2 {
		o.panics(valueOf(k), valueOf(v))
		return goValue[K2](f(valueOf(k), valueOf(v)))
	}, step[K2, V](o)...)}
}

func (d stream[K, V]) peek(o opts) flow {
	if o.try {
		return stream[K, V]{d.s.TryPeek(o.name, func(_ context.Context, r record[K, V]) error {
			return o.err(valueOf(r.Key), valueOf(r.Value))
		})}
	}
	return stream[K, V]{d.s.Peek(func(k K, v V) { o.panics(valueOf(k), valueOf(v)) }, step[K, V](o)...)}
}

func typedPredicate[K, V any](p predicate) func(K, V) bool {
	return func(k K, v V) bool { return p(valueOf(k), valueOf(v)) }
}

func (d stream[K, V]) split(a, b predicate) (out []flow) {
	for _, s := range d.s.Split(typedPredicate[K, V](a), typedPredicate[K, V](b)) {
		out = append(out, stream[K, V]{s})
	}
	return out
}

func (d stream[K, V]) merge(others ...flow) flow {
	var all []streams.Stream[K, V]
	for _, f := range others {
		all = append(all, f.(stream[K, V]).s)
	}
	return stream[K, V]{d.s.Merge(all...)}
}

func (d stream[K, V]) repartition(o opts) flow {
	return stream[K, V]{d.s.Repartition(o.name, streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values)))}
}

func (d stream[K, V]) group(o opts, by mapping, to kind) groups {
	if to == kStr {
		return group[string](d, o, by)
	}
	return group[[]byte](d, o, by)
}

func group[K2, K, V any](d stream[K, V], o opts, by mapping) groups {
	return grouped[K2, V]{d.s.GroupBy(func(k K, v V) K2 {
		o.panics(valueOf(k), valueOf(v))
		return goValue[K2](by(valueOf(k), valueOf(v)))
	}, streams.As(o.name), streams.WithSerdes(serdeOf[K2](o.keys), serdeOf[V](o.values)))}
}

func (d stream[K, V]) groupByKey(o opts) groups {
	return grouped[K, V]{d.s.GroupByKey(streams.As(o.name), streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values)))}
}

func (d stream[K, V]) toTable(o opts) rows {
	return table[K, V]{d.s.ToTable(o.name, tableOpts[K, V](o)...)}
}

func (d stream[K, V]) to(o opts, topic string) {
	d.s.To(topic, streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values)))
}

func (d stream[K, V]) toTopic(o opts, choose func(k, v val) string) {
	d.s.ToTopic(func(k K, v V) string { return choose(valueOf(k), valueOf(v)) }, step[K, V](o)...)
}

// process counts the values it has seen in a store, and forwards in one of several ways.
func (d stream[K, V]) process(o opts) flow {
	store := streams.NewStore(o.name, serde.String, serde.Int64, streams.Ordered())
	return stream[K, V]{d.s.Process(o.name, func(init *streams.Init) streams.Processor[K, V, K, V] {
		seen := store.Open(init)
		return streams.ProcessorFunc[K, V, K, V](func(c *streams.Context[K, V], r record[K, V]) error {
			k, v := valueOf(r.Key), valueOf(r.Value)
			at := seenKey(v)
			n, _ := seen.Get(at)
			seen.Put(at, n+1)
			if n == seenLimit {
				seen.Delete(at)
			}
			c.Forward(r)
			switch o.mode {
			case 1:
				c.Forward(record[K, V]{NullKey: true, Value: r.Value, NullValue: r.NullValue})
			case 2:
				r.Time, r.Headers = r.Time.Add(time.Millisecond), []streams.Header{{Key: "p", Value: []byte{}}}
				c.Forward(r)
				seen.Put("after", n) // with the time of the record in hand, whatever was forwarded
			case 3:
				for at, n := range seen.All() {
					c.Forward(record[K, V]{Key: r.Key, NullKey: r.NullKey, Value: goValue[V](summary(valueOf(r.Value).kind, at, n))})
				}
			}
			return o.err(k, v)
		})
	}, streams.WithStores(store), streams.WithSerdes(serdeOf[K](o.keys), serdeOf[V](o.values)))}
}

const seenLimit = 2

// seenKey is under what a processor counts a value.
func seenKey(v val) string { return []string{"", "x", "y"}[v.digest()%3] }

func summary(k kind, at string, n int64) val {
	if k == kInt {
		return val{kind: k, n: n}
	}
	return val{kind: k, s: at}
}

type grouped[K, V any] struct{ g streams.Grouped[K, V] }

func (g grouped[K, V]) count(o opts) rows {
	return table[K, int64]{g.g.Count(o.name, tableOpts[K, int64](o)...)}
}

func (g grouped[K, V]) reduce(o opts, f mapping) rows {
	return table[K, V]{g.g.Reduce(o.name, func(a, b V) V {
		o.panics(valueOf(a), valueOf(b))
		return goValue[V](f(valueOf(a), valueOf(b)))
	}, tableOpts[K, V](o)...)}
}

func (g grouped[K, V]) aggregate(o opts, to kind, f mapping) rows {
	if to == kBytes {
		return aggregate[[]byte](g, o, f)
	}
	return aggregate[*doc](g, o, f)
}

func aggregate[A, K, V any](g grouped[K, V], o opts, f mapping) rows {
	return table[K, A]{g.g.Aggregate(o.name, func() (start A) { return start }, func(k K, v V, a A) A {
		o.panics(valueOf(a), valueOf(v))
		out := goValue[A](f(valueOf(a), valueOf(v)))
		if b, ok := any(a).([]byte); ok && len(b) > 0 { // in place, which must hurt nobody
			b[0] = '!'
		}
		if d, ok := any(a).(*doc); ok && d != nil {
			d.S = "!"
		}
		return out
	}, tableOpts[K, A](o)...)}
}

type table[K, V any] struct{ t streams.Table[K, V] }

func (d table[K, V]) filter(o opts, keep predicate) rows {
	return table[K, V]{d.t.Filter(typedPredicate[K, V](keep), step[K, V](o)...)}
}

func (d table[K, V]) mapValues(o opts, to kind, f mapping) rows {
	if to == kStr {
		return mapRows[string](d, o, f)
	}
	return mapRows[*doc](d, o, f)
}

func mapRows[W, K, V any](d table[K, V], o opts, f mapping) rows {
	return table[K, W]{d.t.MapValues(func(v V) W { return goValue[W](f(val{}, valueOf(v))) }, step[K, W](o)...)}
}

func (d table[K, V]) toStream() flow { return stream[K, V]{d.t.ToStream()} }

// source reads a topic as a stream or, with table, as a table.
func source(b *streams.Builder, topic string, k, v kind, o opts) (flow, rows) {
	switch k {
	case kStr:
		return sourceOf[string](b, topic, v, o)
	case kBytes:
		return sourceOf[[]byte](b, topic, v, o)
	case kInt:
		return sourceOf[int64](b, topic, v, o)
	default:
		return sourceOf[*doc](b, topic, v, o)
	}
}

func sourceOf[K any](b *streams.Builder, topic string, v kind, o opts) (flow, rows) {
	switch v {
	case kStr:
		return open[K, string](b, topic, o)
	case kBytes:
		return open[K, []byte](b, topic, o)
	case kInt:
		return open[K, int64](b, topic, o)
	default:
		return open[K, *doc](b, topic, o)
	}
}

func open[K, V any](b *streams.Builder, topic string, o opts) (flow, rows) {
	keys, values := serdeOf[K](o.keys), serdeOf[V](o.values)
	if o.name == "" {
		return stream[K, V]{b.Stream(topic, keys, values)}, nil
	}
	all := []streams.TableSourceOption{streams.As(o.name), o.emission}
	if o.unlogged {
		all = append(all, streams.WithoutChangelog())
	}
	return nil, table[K, V]{b.Table(topic, keys, values, all...)}
}
