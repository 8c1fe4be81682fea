package streams

import (
	"errors"
	"fmt"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// instance is the node graph of one task while it is made, and what its nodes share afterwards.
type instance struct {
	env    *task.Env
	sub    *subtopology
	ts     int64     // timestamp of the record or punctuation that a processor works on
	fans   []settler // output of each step, by step id
	inputs map[string][]func(*task.Record)
	warms  map[string][]func() []int // of the inputs' sources; to be asked when everything is attached
	tables []task.Table
	closes []func()
	built  bool // the graph is complete: records may flow
	closed bool // the task is over
	err    error
}

type settler interface{ settle() }

// build makes the nodes of all steps of a subtopology and attaches them to each other.
func (sub *subtopology) build(env *task.Env) (*task.Graph, error) {
	in := &instance{
		env:    env,
		sub:    sub,
		fans:   make([]settler, sub.topology.stepCount),
		inputs: make(map[string][]func(*task.Record)),
		warms:  make(map[string][]func() []int),
	}
	defer func() {
		if !in.built { // a supplier panicked, perhaps
			in.close()
		}
	}()
	for _, s := range sub.steps {
		env.Enter(s.id)
		s.build(in)
	}
	for i := len(in.fans) - 1; i >= 0; i-- { // children come after their parents
		if in.fans[i] != nil {
			in.fans[i].settle()
		}
	}
	if in.err != nil {
		return nil, in.err
	}
	in.built = true
	return in.graph(), nil
}

func (in *instance) graph() *task.Graph {
	g := &task.Graph{Tables: in.tables, Close: in.close}
	for _, input := range in.sub.spec.Inputs {
		if input.Redrives > 0 { // it comes after the input that it stands in for
			g.Inputs = append(g.Inputs, g.Inputs[input.Redrives-1])
			g.Warm = append(g.Warm, g.Warm[input.Redrives-1])
			continue
		}
		g.Inputs = append(g.Inputs, entry(in, in.inputs[input.Topic]))
		var warm []int
		for _, of := range in.warms[input.Topic] {
			warm = append(warm, of()...)
		}
		slices.Sort(warm)
		g.Warm = append(g.Warm, slices.Compact(warm))
	}
	return g
}

// entry is the function that takes the records of one topic: mostly one source reads it.
func entry(in *instance, takes []func(*task.Record)) func(*task.Record) {
	if len(takes) == 1 {
		return takes[0]
	}
	return func(r *task.Record) {
		for _, take := range takes {
			if in.env.Failed() {
				return
			}
			take(r)
		}
	}
}

// out is the output of a step. It is made by whoever asks first.
func (in *instance) out[K, V any](s *step) *fan[K, V] {
	if in.fans[s.id] == nil {
		in.fans[s.id] = &fan[K, V]{env: in.env}
	}
	return in.fans[s.id].(*fan[K, V])
}

// attach makes node a receiver of what the step puts out.
func attach[K, V any](in *instance, s *step, node sink[K, V]) {
	f := in.out[K, V](s)
	f.sinks = append(f.sinks, node)
}

// fail says why the graph cannot be made. The first reason counts.
func (in *instance) fail(s *step, err error) {
	if in.err == nil {
		in.err = fmt.Errorf("streams: task %v, step %q: %w", in.env.ID(), s.name, err)
	}
}

// flowing reports whether a step may write and forward. Before the graph is complete it may not, and then the task does not start.
func (in *instance) flowing(s *step) bool {
	if !in.built {
		in.fail(s, errors.New("it wrote to a store or forwarded a record in its supplier or in Start: do so in Process or a punctuation"))
	}
	return in.built && !in.closed && !in.env.Failed()
}

// refuse says what a step did wrong: before the graph is complete the task does not start, and later the unit fails.
func (in *instance) refuse(s *step, err error) {
	if in.built {
		in.env.Fail(s.name, task.KindProcess, err)
		return
	}
	in.fail(s, err)
}

// close closes the processors, the last one first, each even if another panics.
func (in *instance) close() {
	in.closed = true
	n := len(in.closes) - 1
	if n < 0 {
		return
	}
	last := in.closes[n]
	in.closes = in.closes[:n]
	defer in.close()
	last()
}
