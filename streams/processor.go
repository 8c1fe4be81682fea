package streams

import (
	"errors"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// Processor is a step written by hand. One belongs to one task and is called by one goroutine.
//
// An error or a panic fails the record: what it wrote to stores and forwarded is undone.
//
// A Processor may also implement [Starter] and [io.Closer]. Close is called when its task ends, for whatever reason; what it returns is not
// looked at.
type Processor[K, V, KO, VO any] interface {
	Process(c *Context[KO, VO], r Record[K, V]) error
}

// Starter is implemented by a [Processor] that does something before its first record, such as to schedule a punctuation.
type Starter[KO, VO any] interface {
	Start(c *Context[KO, VO]) error
}

// ProcessorFunc is a Processor without state of its own.
type ProcessorFunc[K, V, KO, VO any] func(c *Context[KO, VO], r Record[K, V]) error

// Process calls f.
func (f ProcessorFunc[K, V, KO, VO]) Process(c *Context[KO, VO], r Record[K, V]) error {
	return f(c, r)
}

// Init is what the supplier of a processor sees of the task it makes one for. It is valid until the supplier returns.
type Init struct {
	in   *instance
	step *step
}

// Task returns the task.
func (i *Init) Task() TaskID { return i.in.env.ID() }

func (i *Init) attached(d *storeDef) bool {
	for _, s := range i.step.stores {
		if s == d {
			return true
		}
	}
	return false
}

// Process adds a step written by hand. The supplier is called once for each task. The name is that of the step. Records forwarded may have
// any key, so grouping behind it makes a repartition topic.
//
// The processor sees null keys and values as flags of the [Record].
func (s Stream[K, V]) Process[KO, VO any](name string, supplier func(*Init) Processor[K, V, KO, VO], opts ...ProcessOption) Stream[KO, VO] {
	var o options
	for _, opt := range opts {
		opt.applyProcess(&o)
	}
	s.b.name("name of a Process", name)
	o.name = name
	next := s.then("process", o, supplier, func(in *instance, next *step) sink[K, V] {
		return newProcessorNode(in, next, supplier)
	})
	next.fallible, next.processor, next.concurrent = true, true, o.concurrent
	next.order = orderOfStores
	for _, d := range o.stores {
		s.b.addStore(d)
	}
	next.stores = slices.DeleteFunc(o.stores, func(d *storeDef) bool { return d == nil })
	out := derived[KO, VO](s.b, next, o, nil, nil)
	out.rekeyed = true
	return out
}

// processorNode calls a processor.
type processorNode[K, V, KO, VO any] struct {
	in        *instance
	step      *step
	processor Processor[K, V, KO, VO]
	context   Context[KO, VO]
}

func newProcessorNode[K, V, KO, VO any](in *instance, s *step, supplier func(*Init) Processor[K, V, KO, VO]) *processorNode[K, V, KO, VO] {
	n := &processorNode[K, V, KO, VO]{in: in, step: s}
	n.context = Context[KO, VO]{in: in, step: s, to: newProducer[KO, VO](in, s)}
	n.processor = supplier(&Init{in: in, step: s})
	if isNil(n.processor) {
		in.fail(s, errors.New("the supplier returned no processor"))
		return n
	}
	if c, ok := n.processor.(interface{ Close() error }); ok {
		in.closes = append(in.closes, func() { c.Close() })
	}
	if starter, ok := n.processor.(Starter[KO, VO]); ok && in.err == nil {
		if err := starter.Start(&n.context); err != nil {
			in.fail(s, err)
		}
	}
	return n
}

func (n *processorNode[K, V, KO, VO]) needs() need { return needKey | needValue }

func (n *processorNode[K, V, KO, VO]) push(it *item[K, V]) {
	n.context.enter(it.ts, it.headers)
	if err := n.processor.Process(&n.context, record(it)); err != nil {
		n.in.env.Fail(n.step.name, task.KindProcess, err)
	}
}
