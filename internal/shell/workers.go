package shell

import (
	"cmp"
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/task"
)

// workers are the goroutines that run items of one task beside its loop. They begin when there is something to do and end when there has been
// nothing for a while. They decide nothing: the task says what is to be run, and takes the results.
type workers struct {
	l       *taskLoop
	cfg     task.Config
	most    int
	timeout time.Duration // of one item; 0 is none
	idleFor time.Duration

	mu     sync.Mutex
	shut   bool
	ctx    context.Context // of the items that are handed out now
	cancel context.CancelCauseFunc
	lines  lines
	idle   []*worker // the one that has waited least is the last
	all    []*worker
}

// handed is an item with the context that it was handed out under.
type handed struct {
	*task.Item
	ctx context.Context
}

// workerIdle is how long a worker waits for something to do until it ends, if nobody says otherwise.
const workerIdle = 10 * time.Second

var errReleasing = errors.New("the task is being released")

// newWorkers are those of a task whose policy has several, nil for others.
func newWorkers(l *taskLoop, c task.Config) *workers {
	set := c.Spec.Failure.Settings()
	if set.Workers < 2 {
		return nil
	}
	s := &workers{l: l, cfg: c, most: set.Workers, timeout: set.Timeout, idleFor: cmp.Or(l.t.r.cfg.WorkerIdleFor, workerIdle)}
	s.ctx, s.cancel = context.WithCancelCause(l.ctx)
	return s
}

// dispatch lets any worker run an item.
func (s *workers) dispatch(it *task.Item) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut {
		return
	}
	l := &s.lines.of[it.Path]
	l.queue = append(l.queue, handed{it, s.ctx})
	s.attend()
}

// attend sees to it that somebody takes what has been queued.
func (s *workers) attend() {
	switch n := len(s.idle); {
	case n > 0:
		s.idle[n-1].stir()
		s.idle = s.idle[:n-1]
	case len(s.all) < s.most && s.l.ctx.Err() == nil:
		w := &worker{s: s, wake: make(chan struct{}, 1), answers: make(chan task.Answer, 1)}
		s.all = append(s.all, w)
		s.l.t.beside.Add(1)
		go w.run()
	}
}

// attendNext sees to it that somebody takes what may be taken now.
func (s *workers) attendNext() {
	if s.lines.next(s.most) != nil {
		s.attend()
	}
}

// call lets a worker run a callback of its own nodes.
func (s *workers) call(c task.Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.nodes == c.Worker {
			w.calls.queue = append(w.calls.queue, handed{c.Item, s.l.ctx})
			if i := slices.Index(s.idle, w); i >= 0 {
				s.idle = slices.Delete(s.idle, i, i+1)
				w.stir()
			}
			return
		}
	}
	s.l.box.put(task.Done{Result: c.Worker.Refuse(c.Item, nil)}) // its goroutine was ended by the user's code
}

// answer hands an answer to the worker that has asked.
func (s *workers) answer(a task.Answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		if w.id == a.Item {
			select {
			case w.answers <- a:
			default: // it has given up on an earlier one
			}
			return
		}
	}
}

// abort cancels the calls of everything that was handed out so far.
func (s *workers) abort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cancel(errReleasing)
	s.ctx, s.cancel = context.WithCancelCause(s.l.ctx)
}

// close lets the workers end when what they run has ended. The context of the task has ended already.
func (s *workers) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shut = true
	for i := range s.lines.of {
		s.lines.of[i].queue = nil
	}
	s.cancel(errClosed)
	for _, w := range s.idle {
		w.stir()
	}
	s.idle = nil
}

// gone notes that a worker has ended.
func (s *workers) gone(w *worker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(w)
	s.caughtUp(w)
	for _, c := range w.calls.queue {
		s.l.box.put(task.Done{Result: w.nodes.Refuse(c.Item, nil)})
	}
	if !s.shut {
		s.attendNext()
	}
}

func (s *workers) forget(w *worker) {
	is := func(o *worker) bool { return o == w }
	s.all, s.idle = slices.DeleteFunc(s.all, is), slices.DeleteFunc(s.idle, is)
}

// caughtUp notes that a worker does not run what it has taken any more.
func (s *workers) caughtUp(w *worker) {
	if w.line != nil {
		w.line.running--
		w.line = nil
	}
}

// pulses appends those of the workers.
func (s *workers) pulses(dst []*pulse) []*pulse {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range s.all {
		dst = append(dst, &w.pulse)
	}
	return dst
}

// worker is one goroutine with nodes of its own.
type worker struct {
	s       *workers
	pulse   pulse
	wake    chan struct{}
	answers chan task.Answer

	// Under the lock of s.
	nodes *task.Worker
	calls line   // callbacks of its own nodes
	id    uint64 // of the item that runs
	line  *line  // that it was taken from

	// The goroutine's own.
	ctx  context.Context
	item *task.Item // that runs
	over bool       // it has ended as it should
}

func (w *worker) stir() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) run() {
	defer w.s.l.t.beside.Done()
	defer w.s.gone(w)
	defer w.collapse()
	w.work()
	w.over = true
}

func (w *worker) work() {
	c := w.s.cfg
	c.Beat = w.pulse.beat
	w.pulse.beat(-1, -1) // making the nodes calls the user's suppliers
	nodes, err := task.NewWorker(c, w.ask)
	w.pulse.rest()
	if err != nil {
		w.s.l.box.put(task.Unmanned{Err: err})
		return
	}
	w.s.mu.Lock()
	w.nodes = nodes
	w.s.mu.Unlock()
	for it, ok := w.next(); ok; it, ok = w.next() {
		w.do(it)
	}
	w.pulse.beat(-1, -1)
	err = nodes.Close()
	w.pulse.rest()
	if err != nil {
		w.s.l.box.put(task.Unmanned{Err: err})
	}
}

// next waits for something to do. It is false when there is nothing more.
func (w *worker) next() (handed, bool) {
	if it, ok, over := w.take(false); ok || over {
		return it, ok
	}
	patience := time.NewTimer(w.s.idleFor)
	defer patience.Stop()
	for {
		late := false
		select {
		case <-w.wake:
		case <-patience.C:
			late = true
			patience.Reset(w.s.idleFor)
		}
		if it, ok, over := w.take(late); ok || over {
			return it, ok
		}
	}
}

// take takes the next item, a callback of its own first. If there is none the worker is idle or, after it was that for long enough, over.
func (w *worker) take(late bool) (it handed, ok, over bool) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caughtUp(w)
	l := &w.calls
	if len(l.queue) == 0 {
		l = s.lines.next(s.most)
	}
	if l != nil {
		it = l.queue[0]
		l.queue = slices.Delete(l.queue, 0, 1)
		l.running++
		w.line = l
		s.lines.took(l)
		s.idle = slices.DeleteFunc(s.idle, func(o *worker) bool { return o == w })
		w.id = it.ID
		s.attendNext()
		select {
		case <-w.answers: // to what an earlier item has asked
		default:
		}
		return it, true, false
	}
	if s.shut || late && !w.nodes.Owes() {
		s.idle = slices.DeleteFunc(s.idle, func(o *worker) bool { return o == w })
		return it, false, true
	}
	if !slices.Contains(s.idle, w) {
		s.idle = append(s.idle, w)
	}
	return it, false, false
}

// do runs an item. What it is about is the task's again when the result is on its way.
func (w *worker) do(it handed) {
	w.item = it.Item
	fail.Point("item.before")
	r := w.result(it)
	fail.Point("item.after")
	w.item = nil
	w.pulse.rest()
	w.s.mu.Lock()
	w.id = 0
	w.s.mu.Unlock()
	if r == nil {
		return
	}
	if !w.s.l.box.put(task.Done{Result: r}) {
		w.nodes.Disown(r, task.ErrReleased)
		w.pulse.rest()
	}
	fail.Point("item.told")
}

// result runs an item, unless it was cancelled before. It is nil if the task is over.
func (w *worker) result(it handed) *task.Result {
	if it.ID != 0 && it.ctx.Err() != nil {
		if err := context.Cause(it.ctx); errors.Is(err, errReleasing) {
			return w.nodes.Refuse(it.Item, err)
		}
		return nil
	}
	w.ctx = it.ctx
	if it.ID != 0 && w.s.timeout > 0 {
		ctx, cancel := context.WithTimeout(it.ctx, w.s.timeout)
		defer cancel()
		w.ctx = ctx
	}
	return w.nodes.Run(w.ctx, time.Now(), it.Item)
}

// ask asks the task what is in a store.
func (w *worker) ask(q task.Read) task.Answer {
	if w.ctx.Err() != nil || !w.s.l.box.put(q) {
		return task.Answer{Err: cmp.Or(context.Cause(w.ctx), errClosed)}
	}
	select {
	case a := <-w.answers:
		return a
	case <-w.ctx.Done():
		return task.Answer{Err: context.Cause(w.ctx)}
	}
}

// collapse reports a goroutine that ends in the middle: by runtime.Goexit in the user's code, which fails its record, or by a panic that is ours.
func (w *worker) collapse() {
	v := recover()
	if w.over {
		return
	}
	err := &CrashError{Where: "a worker of task " + w.s.l.key.task.String(), Value: v, Stack: debug.Stack()}
	if v == nil && w.item != nil {
		r := w.nodes.Refuse(w.item, err)
		w.s.l.box.put(task.Done{Result: r})
		return
	}
	w.s.l.box.put(task.Unmanned{Err: err})
}
