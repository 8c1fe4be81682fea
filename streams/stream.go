package streams

import (
	"strconv"

	"github.com/understudy-streams/understudy/streams/serde"
)

// Stream is a stream of records: facts, each of which stands for itself. It is a description, copied freely; records flow when the
// topology runs. The methods of a Stream add steps to its [Builder].
type Stream[K, V any] struct {
	b    *Builder
	step *step
	// keys and values are the serdes that steps downstream write with unless they are told others; nil means by type.
	keys   serde.Serde[K]
	values serde.Serde[V]
	// fromKeys and fromValues are the serdes that raw bytes of an item are in.
	fromKeys   origin[K]
	fromValues origin[V]
	// stored says that raw bytes come from a store: they were decoded when they were put there.
	stored bool
	// rekeyed says that records may lie in another partition than that of their key.
	rekeyed bool
}

// derive is a stream behind a new step that keeps keys and values as they are. Serdes named at the step are for the steps behind it.
func (s Stream[K, V]) derive(next *step, o options) Stream[K, V] {
	s.step = next
	s.keys, s.values = serdes(s.b, next, o, s.keys, s.values)
	return s
}

// child adds a processor step behind the stream.
func (s Stream[K, V]) child(prefix string, o options, function any) *step {
	return s.b.add(&step{kind: processorStep, parents: []*step{s.step}}, prefix, o.name, function)
}

// then adds a step whose node is made by node and checks its function.
func (s Stream[K, V]) then(prefix string, o options, function any, node func(in *instance, next *step) sink[K, V]) *step {
	next := s.child(prefix, o, function)
	s.b.function(next, function)
	next.build = func(in *instance) { attach(in, s.step, node(in, next)) }
	return next
}

func stepOptions(opts []StepOption) (o options) {
	for _, opt := range opts {
		opt.applyStep(&o)
	}
	return o
}

// origin is the serde that raw bytes were written with, known once the topology is being built. It is nil where there are no raw bytes.
type origin[T any] func() serde.Serde[T]

func (o origin[T]) serde() serde.Serde[T] {
	if o == nil {
		return nil
	}
	return o()
}

// derived is a stream of other types behind a step, with the serdes named at the step, or else those that it has anyway.
func derived[K, V any](b *Builder, next *step, o options, keys serde.Serde[K], values serde.Serde[V]) Stream[K, V] {
	out := Stream[K, V]{b: b, step: next}
	out.keys, out.values = serdes(b, next, o, keys, values)
	return out
}

// Filter passes on the records for which keep returns true. It is called for null keys and values too, with the zero value.
func (s Stream[K, V]) Filter(keep func(K, V) bool, opts ...StepOption) Stream[K, V] {
	return s.filter("filter", keep, true, opts)
}

// FilterNot passes on the records for which drop returns false. It is called for null keys and values too, with the zero value.
func (s Stream[K, V]) FilterNot(drop func(K, V) bool, opts ...StepOption) Stream[K, V] {
	return s.filter("filternot", drop, false, opts)
}

func (s Stream[K, V]) filter(prefix string, f func(K, V) bool, want bool, opts []StepOption) Stream[K, V] {
	o := stepOptions(opts)
	return s.derive(s.then(prefix, o, f, func(in *instance, next *step) sink[K, V] {
		return &filterNode[K, V]{in: in, step: next, out: in.out[K, V](next), f: f, want: want}
	}), o)
}

// Map replaces key and value. It is called for null keys and values too, with the zero value; what it returns is not null, except for a
// nil []byte or a nil pointer. The records may belong to other partitions now, so grouping behind it makes a repartition topic.
func (s Stream[K, V]) Map[K2, V2 any](f func(K, V) (K2, V2), opts ...StepOption) Stream[K2, V2] {
	o := stepOptions(opts)
	next := s.then("map", o, f, func(in *instance, next *step) sink[K, V] {
		return &mapNode[K, V, K2, V2]{in: in, step: next, to: newProducer[K2, V2](in, next), f: f}
	})
	out := derived[K2, V2](s.b, next, o, nil, nil)
	out.rekeyed = true
	return out
}

// MapValues replaces the value. It is not called for a null value, which stays null. A nil []byte or a nil pointer that it returns is
// null: a tombstone for whoever reads the output.
func (s Stream[K, V]) MapValues[W any](f func(V) W, opts ...StepOption) Stream[K, W] {
	o := stepOptions(opts)
	next := s.then("mapvalues", o, f, func(in *instance, next *step) sink[K, V] {
		return &mapValuesNode[K, V, W]{in: in, step: next, to: newProducer[K, W](in, next), f: f}
	})
	return s.keyKept[W](next, o)
}

// FlatMap replaces a record by any number of records, which keep its timestamp and headers. It is called for null keys and values too,
// with the zero value. Grouping behind it makes a repartition topic.
func (s Stream[K, V]) FlatMap[K2, V2 any](f func(K, V) []KeyValue[K2, V2], opts ...StepOption) Stream[K2, V2] {
	o := stepOptions(opts)
	next := s.then("flatmap", o, f, func(in *instance, next *step) sink[K, V] {
		return &flatMapNode[K, V, K2, V2]{in: in, step: next, to: newProducer[K2, V2](in, next), f: f}
	})
	out := derived[K2, V2](s.b, next, o, nil, nil)
	out.rekeyed = true
	return out
}

// FlatMapValues replaces a record by one for each value returned, with its key, timestamp and headers. It is not called for a null value,
// which gives no record.
func (s Stream[K, V]) FlatMapValues[W any](f func(V) []W, opts ...StepOption) Stream[K, W] {
	o := stepOptions(opts)
	next := s.then("flatmapvalues", o, f, func(in *instance, next *step) sink[K, V] {
		return &flatMapValuesNode[K, V, W]{in: in, step: next, to: newProducer[K, W](in, next), f: f}
	})
	return s.keyKept[W](next, o)
}

// keyKept is the stream behind a step that replaces values only.
func (s Stream[K, V]) keyKept[W any](next *step, o options) Stream[K, W] {
	out := derived[K, W](s.b, next, o, s.keys, nil)
	out.fromKeys, out.stored, out.rekeyed = s.fromKeys, s.stored, s.rekeyed
	return out
}

// SelectKey replaces the key. It is called for null keys and values too, with the zero value. Grouping behind it makes a repartition topic.
func (s Stream[K, V]) SelectKey[K2 any](f func(K, V) K2, opts ...StepOption) Stream[K2, V] {
	return s.selectKey("selectkey", f, stepOptions(opts))
}

func (s Stream[K, V]) selectKey[K2 any](prefix string, f func(K, V) K2, o options) Stream[K2, V] {
	next := s.then(prefix, o, f, func(in *instance, next *step) sink[K, V] {
		return &selectKeyNode[K, V, K2]{in: in, step: next, to: newProducer[K2, V](in, next), f: f}
	})
	out := derived[K2, V](s.b, next, o, nil, s.values)
	out.fromValues, out.stored, out.rekeyed = s.fromValues, s.stored, true
	return out
}

// Peek calls f for each record and passes the record on. It is called for null keys and values too, with the zero value.
func (s Stream[K, V]) Peek(f func(K, V), opts ...StepOption) Stream[K, V] {
	o := stepOptions(opts)
	return s.derive(s.then("peek", o, f, func(in *instance, next *step) sink[K, V] {
		return &peekNode[K, V]{in: in, step: next, out: in.out[K, V](next), f: f}
	}), o)
}

// ForEach calls f for each record and ends the stream. It is called for null keys and values too, with the zero value.
func (s Stream[K, V]) ForEach(f func(K, V), opts ...StepOption) {
	o := stepOptions(opts)
	next := s.then("foreach", o, f, func(in *instance, next *step) sink[K, V] {
		return &peekNode[K, V]{in: in, step: next, out: in.out[K, V](next), f: f}
	})
	if o.hasSerdes {
		s.b.faultf("step %q puts nothing out: take WithSerdes away from it", next.name)
	}
}

// Split gives each record to the first branch whose function returns true for it. It returns one stream for each branch, and behind them
// one for the records that no branch wants. The functions are called for null keys and values too, with the zero value.
func (s Stream[K, V]) Split(branches ...func(K, V) bool) []Stream[K, V] {
	split := s.child("split", options{}, nil)
	if len(branches) == 0 {
		s.b.faultf("step %q has no branches", split.name)
	}
	out := make([]Stream[K, V], 0, len(branches)+1)
	branch := func(name string) *step {
		next := s.b.add(&step{kind: processorStep, parents: []*step{split}}, split.name+"-"+name, "", nil)
		next.build = func(*instance) {}
		out = append(out, s.derive(next, options{}))
		return next
	}
	for i, f := range branches {
		s.b.function(branch(strconv.Itoa(i)), f)
	}
	branch("rest")
	split.build = func(in *instance) {
		n := &splitNode[K, V]{in: in, step: split, branches: branches}
		for _, o := range out {
			n.outs = append(n.outs, in.out[K, V](o.step))
		}
		attach(in, s.step, n)
	}
	return out
}

// Merge is a stream of the records of all of them, in no order between one and another. Where their serdes differ, steps behind it use those
// that the types have, unless they are told others.
func (s Stream[K, V]) Merge(others ...Stream[K, V]) Stream[K, V] {
	all := append([]Stream[K, V]{s}, others...)
	next := s.b.add(&step{kind: processorStep}, "merge", "", nil)
	out := Stream[K, V]{b: s.b, step: next, stored: true}
	var keys []serde.Serde[K]
	var values []serde.Serde[V]
	var fromKeys []origin[K]
	var fromValues []origin[V]
	for _, in := range all {
		if in.b != s.b {
			s.b.faultf("step %q merges streams of two builders", next.name)
			continue
		}
		next.parents = append(next.parents, in.step)
		keys, values = append(keys, in.keys), append(values, in.values)
		out.rekeyed, out.stored = out.rekeyed || in.rekeyed, out.stored && in.stored
		fromKeys, fromValues = append(fromKeys, in.fromKeys), append(fromValues, in.fromValues)
	}
	out.keys, out.values = common(keys), common(values)
	out.fromKeys, out.fromValues = agreed(fromKeys), agreed(fromValues)
	next.build = func(in *instance) {
		for _, from := range all {
			attach(in, from.step, &mergeNode[K, V]{
				out:        in.out[K, V](next),
				stripKey:   out.fromKeys.serde() == nil,
				stripValue: out.fromValues.serde() == nil,
			})
		}
	}
	return out
}

// agreed is the origin that all have, and none if they differ.
func agreed[T any](all []origin[T]) origin[T] {
	return func() serde.Serde[T] {
		first := all[0].serde()
		for _, o := range all[1:] {
			if !same(first, o.serde()) {
				return nil
			}
		}
		return first
	}
}

// common is the serde of all that have one, and none, which means by type, if two differ.
func common[T any](all []serde.Serde[T]) (one serde.Serde[T]) {
	for _, s := range all {
		switch {
		case s == nil:
		case one == nil:
			one = s
		case !same(one, s):
			return nil
		}
	}
	return one
}
