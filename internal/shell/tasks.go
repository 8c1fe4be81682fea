package shell

import (
	"context"
	"errors"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// tasks are the goroutines of the running tasks.
type tasks struct {
	r  *Runtime
	mu sync.RWMutex
	by map[lifeKey]*taskLoop

	beside sync.WaitGroup // workers
	turn   turn
}

func newTasks(r *Runtime) *tasks { return &tasks{r: r, by: map[lifeKey]*taskLoop{}} }

// tell puts an event into a task's mailbox. One for a task that has ended is dropped.
func (t *tasks) tell(id task.ID, epoch uint64, ev task.Event) {
	t.mu.RLock()
	l := t.by[lifeKey{id, epoch}]
	t.mu.RUnlock()
	if l != nil {
		l.box.put(ev)
	}
}

// start makes a task's owner and runs it.
func (t *tasks) start(a engine.StartTask) {
	l := &taskLoop{t: t, key: lifeKey{a.Task, a.Epoch}, box: newMailbox[task.Event](), wake: newWakeup(time.Now)}
	l.ctx, l.cancel = context.WithCancelCause(t.r.work)
	c := task.Config{
		ID: a.Task, Epoch: a.Epoch, Spec: a.Spec, Positions: a.Positions, Committed: a.Committed, Announce: true, Clock: time.Now, StreamTime: a.StreamTime, Refused: a.Refused, Workers: true,
		Beat: l.pulse.beat, Turn: t.turn.ask, Splits: a.Splits, TopicIDs: a.TopicIDs,
	}
	c = t.r.cfg.NewTask(l.ctx, c)
	if ts := t.r.stores.of(a.Task, a.Stores); ts != nil {
		c.Stores = make([]statestore.Reader, len(c.Spec.Stores))
		for i := range c.Stores {
			c.Stores[i] = ts.Reader(i)
		}
	}
	for _, in := range c.Spec.Inputs {
		l.inputs = append(l.inputs, task.TopicPartition{Topic: in.Topic, Partition: a.Task.Partition})
	}
	l.inputs = append(l.inputs, l.inputs...) // those of second paths have the higher numbers
	l.workers = newWorkers(l, c)
	t.mu.Lock()
	t.by[l.key] = l
	t.mu.Unlock()
	l.ended = make(chan struct{})
	fail.Point("task.started")
	go l.run(c)
}

// close ends what still runs, and waits for it, except for what is stuck in a user call.
func (t *tasks) close() {
	t.mu.RLock()
	loops := make([]*taskLoop, 0, len(t.by))
	for _, l := range t.by {
		loops = append(loops, l)
	}
	t.mu.RUnlock()
	for _, l := range loops {
		l.cancel(errClosed)
		l.box.close()
	}
	limit := time.NewTimer(endWait)
	defer limit.Stop()
	for _, l := range loops {
		select {
		case <-l.ended:
		case <-limit.C:
			return // whoever is left is in a user call that does not heed its context
		}
	}
	done := make(chan struct{})
	go func() {
		t.beside.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-limit.C:
	}
}

// endWait is how long the end of the process waits for user calls whose context has ended, after everything else is done or given up.
const endWait = 100 * time.Millisecond

// calls are the user calls that are under way.
func (t *tasks) calls() []engine.Call {
	t.mu.RLock()
	defer t.mu.RUnlock()
	var out []engine.Call
	for _, l := range t.by {
		for _, p := range l.pulses() {
			if n := p.n.Load(); n != idle {
				out = append(out, l.call(n))
			}
		}
	}
	slices.SortFunc(out, func(a, b engine.Call) int { return a.Task.Compare(b.Task) })
	return out
}

var (
	errClosed = errors.New("the application has ended")
	errStuck  = errors.New("the call has outlasted the watchdog")
)

// taskLoop is the goroutine of one life of a task. What it owns is touched by it alone.
type taskLoop struct {
	t      *tasks
	key    lifeKey
	inputs []task.TopicPartition
	box    *mailbox[task.Event]
	wake   *wakeup
	ctx    context.Context // the user's functions get it; it ends with the life
	cancel context.CancelCauseFunc
	ended  chan struct{}
	owner  *task.Owner
	closed bool
	over   bool // the goroutine has ended as it should

	workers *workers // nil where the policy has one, which is this loop
	pulse   pulse
	stuck   atomic.Bool
}

// pulses are all that the watchdog looks at.
func (l *taskLoop) pulses() []*pulse {
	all := []*pulse{&l.pulse}
	if l.workers != nil {
		all = l.workers.pulses(all)
	}
	return all
}

// call says which record a running user call is about.
func (l *taskLoop) call(pulse int64) engine.Call {
	if pulse <= idle {
		return engine.Call{Task: l.key.task, Offset: -1}
	}
	return engine.Call{Task: l.key.task, Part: l.inputs[pulse&0xffff], Offset: pulse>>16 - 1}
}

func (l *taskLoop) step(now time.Time, ev task.Event) {
	actions := l.owner.Step(now, ev)
	l.pulse.rest()
	l.carry(actions)
}

func (l *taskLoop) run(c task.Config) {
	defer close(l.ended)
	defer l.wake.stop()
	defer l.leave()
	defer l.collapse()
	l.live(c)
	l.over = true
}

func (l *taskLoop) live(c task.Config) {
	l.pulse.beat(-1, -1) // making the nodes calls the user's suppliers
	owner, err := task.New(c)
	l.pulse.rest()
	if err != nil {
		l.t.r.post(engine.TaskFailed{Task: l.key.task, Epoch: l.key.epoch, Err: err})
		l.idle()
		return
	}
	l.owner = owner
	l.step(time.Now(), task.Tick{})
	l.loop()
}

// collapse reports a goroutine that ends in the middle: by a panic outside of a unit, which is a fault of ours, or by runtime.Goexit in the
// user's code. Nothing of the task is committed any more; the application ends as it does for any task that fails.
func (l *taskLoop) collapse() {
	v := recover()
	if l.over {
		return
	}
	call := l.call(l.pulse.n.Load())
	err := error(&CrashError{Where: "the goroutine of task " + l.key.task.String(), Value: v, Stack: debug.Stack()})
	if v == nil {
		te := &task.Error{Task: call.Task, Partition: -1, Offset: call.Offset, Kind: task.KindPanic, Err: err, Stack: debug.Stack()}
		if call.Offset >= 0 {
			te.Topic, te.Partition = call.Part.Topic, call.Part.Partition
		}
		err = te
	}
	l.carry([]task.Action{task.Failed{Err: err}, task.Closed{}})
}

// idle waits for the Close of a task that could not be built.
func (l *taskLoop) idle() {
	for {
		select {
		case <-l.ctx.Done():
			return
		case <-l.box.signal:
		}
		for _, ev := range l.box.take(nil) {
			switch ev.(type) {
			case task.Close:
				l.carry([]task.Action{task.Closed{}})
				return
			case task.Release:
				l.carry([]task.Action{task.Released{}})
			}
		}
	}
}

func (l *taskLoop) loop() {
	var evs []task.Event
	var took time.Duration
	for !l.closed {
		if !l.owner.Runnable() && !l.block() {
			return
		}
		evs = l.box.take(evs)
		for _, ev := range evs {
			l.step(time.Now(), ev)
		}
		now := time.Now()
		if l.wake.due(now) {
			l.step(now, task.Tick{})
		}
		if !l.closed && l.owner.Runnable() {
			fail.Point("process.before")
			l.step(now, task.Work{Took: took})
			fail.Point("process.after")
			took = time.Since(now)
		}
	}
}

// block waits for a message or the time asked for; it reports false when the process ends.
func (l *taskLoop) block() bool {
	select {
	case <-l.box.signal:
		return true
	case <-l.wake.timer.C:
		l.wake.fired()
		return true
	case <-l.ctx.Done():
		return errors.Is(context.Cause(l.ctx), errStuck) && l.hear()
	}
}

// hear lets a task whose call has come back after all hear its Close.
func (l *taskLoop) hear() bool {
	select {
	case <-l.box.signal:
		return true
	case <-l.t.r.work.Done():
		return false
	}
}

func (l *taskLoop) carry(actions []task.Action) {
	id, epoch := l.key.task, l.key.epoch
	r := l.t.r
	for _, a := range actions {
		switch a := a.(type) {
		case task.Send:
			if a.Second {
				fail.Point("leg.before")
			}
			r.sender.put(engine.EffectsMade{Effects: a.Effects})
			fail.Point("effects.handed")
			if a.Second {
				fail.Point("leg.after")
			}
		case task.Seal:
			fail.Point("seal.before")
			r.post(engine.TaskSealed{Sealed: a.Sealed})
			fail.Point("seal.after")
		case task.Consumed:
			r.fetch.consumed(engine.FetchSource{TopicPartition: l.inputs[a.Input], Task: id, Epoch: epoch, Index: a.Input}, a.Bytes, a.Batches)
		case task.Dispatch:
			l.workers.dispatch(a.Item)
		case task.Call:
			l.workers.call(a)
		case task.Answer:
			l.workers.answer(a)
		case task.Cancel:
			l.workers.abort()
		case task.Wake:
			l.wake.move(a.At)
		case task.Replayed:
			r.post(engine.TaskReplays{Task: id, Epoch: epoch, Replay: a.Replay})
		case task.Noted:
			r.post(engine.TaskNoted{Task: id, Epoch: epoch, Note: a.Note})
		case task.Released:
			fail.Point("task.released")
			r.post(engine.TaskReleased{Task: id, Epoch: epoch, Forgone: a.Forgone})
		case task.Closed:
			l.closed = true
			fail.Point("task.closed")
			r.post(engine.TaskClosed{Task: id, Epoch: epoch})
		case task.Failed:
			r.post(engine.TaskFailed{Task: id, Epoch: epoch, Err: r.disk.ofTask(a.Err)})
		}
	}
}

func (l *taskLoop) leave() {
	l.cancel(errClosed)
	l.box.close()
	if l.workers != nil {
		l.workers.close()
	}
	l.t.mu.Lock()
	delete(l.t.by, l.key)
	l.t.mu.Unlock()
}
