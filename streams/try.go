package streams

import (
	"context"

	"github.com/understudy-streams/understudy/task"
)

// The Try methods are the twins of the plain ones for functions that can fail or do I/O. They are called for every record, with its nulls
// as flags, and get a context that is cancelled when the task has to give up the call. An error fails the record: nothing of it is kept.

// try adds a step whose function can fail. call handles one item in one task.
func (s Stream[K, V]) try(name string, o options, function any, call func(in *instance, next *step) func(*item[K, V]) error) *step {
	s.b.name("name of a Try step", name)
	o.name = name
	next := s.then("try", o, function, func(in *instance, next *step) sink[K, V] {
		return &tryNode[K, V]{in: in, step: next, call: call(in, next)}
	})
	next.fallible = true
	return next
}

// tryNode calls a function that can fail.
type tryNode[K, V any] struct {
	in   *instance
	step *step
	call func(*item[K, V]) error
}

func (n *tryNode[K, V]) needs() need { return needKey | needValue }

func (n *tryNode[K, V]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	if err := n.call(it); err != nil {
		n.in.env.Fail(n.step.name, task.KindProcess, err)
	}
}

// TryFilter is [Stream.Filter] for a function that can fail.
func (s Stream[K, V]) TryFilter(name string, keep func(context.Context, Record[K, V]) (bool, error)) Stream[K, V] {
	return s.derive(s.try(name, options{}, keep, func(in *instance, next *step) func(*item[K, V]) error {
		out := in.out[K, V](next)
		return func(it *item[K, V]) error {
			ok, err := keep(in.env.Context(), record(it))
			if err == nil && ok {
				out.push(it)
			}
			return err
		}
	}), options{})
}

// TryMap is [Stream.Map] for a function that can fail.
func (s Stream[K, V]) TryMap[K2, V2 any](name string, f func(context.Context, Record[K, V]) (K2, V2, error), opts ...StepOption) Stream[K2, V2] {
	o := stepOptions(opts)
	next := s.try(name, o, f, func(in *instance, next *step) func(*item[K, V]) error {
		to := newProducer[K2, V2](in, next)
		return func(it *item[K, V]) (err error) {
			inherit(&to.it, it)
			if to.it.key, to.it.value, err = f(in.env.Context(), record(it)); err == nil {
				to.push()
			}
			return err
		}
	})
	out := derived[K2, V2](s.b, next, o, nil, nil)
	out.rekeyed = true
	return out
}

// TryMapValues is [Stream.MapValues] for a function that can fail. It is called for null values too; what it returns is not null, except
// for a nil []byte or a nil pointer.
func (s Stream[K, V]) TryMapValues[W any](name string, f func(context.Context, Record[K, V]) (W, error), opts ...StepOption) Stream[K, W] {
	o := stepOptions(opts)
	next := s.try(name, o, f, func(in *instance, next *step) func(*item[K, V]) error {
		to := newProducer[K, W](in, next)
		return func(it *item[K, V]) (err error) {
			to.keepKey(it)
			if to.it.value, err = f(in.env.Context(), record(it)); err == nil {
				to.push()
			}
			return err
		}
	})
	return s.keyKept[W](next, o)
}

// TryFlatMap is [Stream.FlatMap] for a function that can fail.
func (s Stream[K, V]) TryFlatMap[K2, V2 any](name string, f func(context.Context, Record[K, V]) ([]KeyValue[K2, V2], error), opts ...StepOption) Stream[K2, V2] {
	o := stepOptions(opts)
	next := s.try(name, o, f, func(in *instance, next *step) func(*item[K, V]) error {
		to := newProducer[K2, V2](in, next)
		return func(it *item[K, V]) error {
			all, err := f(in.env.Context(), record(it))
			for i := 0; err == nil && i < len(all) && !in.env.Failed(); i++ {
				inherit(&to.it, it)
				to.it.key, to.it.value = all[i].Key, all[i].Value
				to.push()
			}
			return err
		}
	})
	out := derived[K2, V2](s.b, next, o, nil, nil)
	out.rekeyed = true
	return out
}

// TryFlatMapValues is [Stream.FlatMapValues] for a function that can fail. It is called for null values too.
func (s Stream[K, V]) TryFlatMapValues[W any](name string, f func(context.Context, Record[K, V]) ([]W, error), opts ...StepOption) Stream[K, W] {
	o := stepOptions(opts)
	next := s.try(name, o, f, func(in *instance, next *step) func(*item[K, V]) error {
		to := newProducer[K, W](in, next)
		return func(it *item[K, V]) error {
			all, err := f(in.env.Context(), record(it))
			for i := 0; err == nil && i < len(all) && !in.env.Failed(); i++ {
				to.keepKey(it)
				to.it.value = all[i]
				to.push()
			}
			return err
		}
	})
	return s.keyKept[W](next, o)
}

// TrySelectKey is [Stream.SelectKey] for a function that can fail.
func (s Stream[K, V]) TrySelectKey[K2 any](name string, f func(context.Context, Record[K, V]) (K2, error), opts ...StepOption) Stream[K2, V] {
	o := stepOptions(opts)
	next := s.try(name, o, f, func(in *instance, next *step) func(*item[K, V]) error {
		to := newProducer[K2, V](in, next)
		return func(it *item[K, V]) (err error) {
			keepValue(&to.it, it)
			if to.it.key, err = f(in.env.Context(), record(it)); err == nil {
				to.push()
			}
			return err
		}
	})
	out := derived[K2, V](s.b, next, o, nil, s.values)
	out.fromValues, out.stored, out.rekeyed = s.fromValues, s.stored, true
	return out
}

// TryPeek is [Stream.Peek] for a function that can fail.
func (s Stream[K, V]) TryPeek(name string, f func(context.Context, Record[K, V]) error) Stream[K, V] {
	return s.derive(s.try(name, options{}, f, func(in *instance, next *step) func(*item[K, V]) error {
		out := in.out[K, V](next)
		return func(it *item[K, V]) error {
			if err := f(in.env.Context(), record(it)); err != nil {
				return err
			}
			out.push(it)
			return nil
		}
	}), options{})
}

// TryForEach is [Stream.ForEach] for a function that can fail.
func (s Stream[K, V]) TryForEach(name string, f func(context.Context, Record[K, V]) error) {
	s.try(name, options{}, f, func(in *instance, _ *step) func(*item[K, V]) error {
		return func(it *item[K, V]) error { return f(in.env.Context(), record(it)) }
	})
}
