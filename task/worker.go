package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

// Worker runs units of a task beside it. It has nodes of its own, made by the same Spec.Build, above stores that are read by asking the task,
// and it changes nothing: what a unit writes and sends is its Result, for the task to apply. One goroutine uses a Worker.
type Worker struct {
	t    *Task // it takes no input and commits nothing: what nodes see of a task
	ask  func(Read) Answer
	item *Item // the running one
	owed int   // callbacks that are not called yet
}

// errScheduled is the error of a processor that schedules punctuations where records are run by workers.
var errScheduled = errors.New("a schedule, in a processor whose records are run by several workers: each would have its own: " +
	"schedule in a processor of another subtopology, or let the policy have one worker")

// NewWorker makes a worker of the task with this config, of which Stores and Positions are not looked at. Its nodes read the stores through
// ask, which waits for the task's Answer; the context that it heeds is the one given to Run. The error is Spec.Build's, or says that it
// schedules punctuations.
func NewWorker(cfg Config, ask func(Read) Answer) (*Worker, error) {
	cfg = cfg.withDefaults()
	if cfg.Spec == nil || cfg.Spec.Build == nil {
		return nil, fmt.Errorf("task %v: a worker without a spec that has Build", cfg.ID)
	}
	t := &Task{
		cfg: cfg, worker: true, started: true, out: newOutbox(cfg.ID, cfg.Epoch), timers: newTimers(),
		destByTopic: make(map[string]int), streamTime: cfg.StreamTime,
	}
	w := &Worker{t: t, ask: ask, item: &Item{}}
	t.env = Env{t: t, input: -1, offset: -1}
	for _, d := range cfg.Spec.Dests {
		t.addDest(d, 0)
	}
	for i, s := range cfg.Spec.Stores {
		// Without room for clean rows: what was read for one item is not true any more for the next.
		t.stores = append(t.stores, statestore.NewOverlay(statestore.OverlayConfig{
			Base: &remote{w: w, store: i}, Ordered: s.Spec.Ordered, Seed: cfg.Seed + uint64(i),
		}))
	}
	if err := t.build(); err != nil {
		return nil, err
	}
	return w, nil
}

// Run runs an item, with ctx for functions that can fail or wait. The result lies in the item.
func (w *Worker) Run(ctx context.Context, now time.Time, it *Item) *Result {
	t := w.t
	w.begin(ctx, now, it)
	w.call(it)
	r := &it.out
	w.gather(r)
	w.owed += len(r.callbacks)
	if it.call != nil {
		w.owed--
	}
	t.env.ctx = nil
	return r
}

// Owes says whether nodes of this worker wait for callbacks: it must not end before, as they are called by nobody else.
func (w *Worker) Owes() bool { return w.owed > 0 }

// begin begins a unit. The memory of the item's last result becomes the outbox.
func (w *Worker) begin(ctx context.Context, now time.Time, it *Item) {
	t := w.t
	w.item = it
	it.out.empty(len(t.stores))
	it.out.Item, it.out.worker = it, w
	t.out.active = it.out.effects
	t.out.fill++
	t.out.journal = t.out.journal[:0]
	t.now, t.streamTime = now.UnixMilli(), it.StreamTime
	t.env.ctx, t.env.input, t.env.offset = ctx, it.Input, it.Record.Offset
	t.unit.entered, t.unit.node = 0, ""
	t.unit.kind, t.unit.item = itemUnit, it
	if it.call != nil {
		t.env.offset, t.unit.node = -1, callbackNode
	}
	for _, s := range t.stores {
		s.Begin()
	}
	if t.cfg.Beat != nil {
		t.cfg.Beat(t.env.input, t.env.offset)
	}
}

// call calls the nodes. A panic is the failure of the unit.
func (w *Worker) call(it *Item) {
	e := &w.t.env
	defer func() {
		if p := recover(); p != nil && e.failed == nil {
			e.failed = e.panicked(w.t.node(), p)
		}
	}()
	if it.call != nil {
		it.call(it.err)
		return
	}
	w.t.graph.Inputs[it.Input](&it.Record)
}

// gather makes what the unit has done its result, and the worker as if it had never been.
func (w *Worker) gather(r *Result) {
	t := w.t
	e := &t.env
	r.callbacks = append(r.callbacks, e.callbacks...)
	if r.Err = e.failed; r.Err == nil {
		r.commit, r.node = e.commit, t.node()
		r.drops = append(r.drops, e.drops...)
		for i, s := range t.stores {
			r.take(i, s)
			s.Rollback()
		}
	} else {
		if over := t.env.ctx; r.Err.Kind == KindStore && over != nil && over.Err() != nil {
			r.Err.Kind = KindProcess // the try has lasted too long: the store has not failed
		}
		r.effects.reset()
		for _, s := range t.stores {
			s.Rollback()
			s.Drop(nil) // an iterator may have been left open, and holds on to rows
		}
	}
	clear(e.callbacks)
	e.callbacks, e.drops, e.commit, e.failed = e.callbacks[:0], e.drops[:0], false, nil
}

// Refuse is the result of an item that was not run, or not to its end; without an error it is that of a callback that does nothing. It may be
// called when the worker's goroutine has ended.
func (w *Worker) Refuse(it *Item, err error) *Result {
	r := &it.out
	r.empty(len(w.t.stores))
	r.Item, r.worker = it, w
	if err != nil {
		r.Err = &Error{Task: w.t.cfg.ID, Partition: -1, Offset: -1, Kind: KindPanic, Err: err}
		if it.Input >= 0 {
			r.Err.Topic, r.Err.Partition, r.Err.Offset = w.t.cfg.Spec.Inputs[it.Input].Topic, w.t.cfg.ID.Partition, it.Record.Offset
		}
	}
	return r
}

// Disown tells the callbacks of a result that nobody takes any more why.
func (w *Worker) Disown(r *Result, err error) {
	calls := r.callbacks
	r.callbacks = nil
	for _, f := range calls {
		w.Run(w.t.cfg.Context, time.UnixMilli(w.t.now), &Item{Input: -1, StreamTime: w.t.streamTime, call: f, err: err})
	}
}

// Close closes the user's processors. The error is a panic of theirs.
func (w *Worker) Close() error { return w.t.closeGraph() }
