package task

import (
	"fmt"
	"math"
	"time"
)

// Owner is the life of a task as a state machine: events in, actions out. It decides when to commit, when to hand effects over and what to
// answer; Task does the work. One goroutine at a time calls Step.
type Owner struct {
	t     *Task
	state State

	now       time.Time
	due       time.Time // the next multiple of the commit interval
	wake      time.Time // the last Wake that was asked for
	budget    int       // records that one Work step takes
	commitNow bool      // Commit{} came
	releasing bool      // Release{} waits for its answer
	patience  int64     // ms since the epoch: rows whose next try comes later do not hold the release up
	lost      bool
	sealed    *Sealed // to be said when its first leg is acknowledged
	actions   []Action
}

const (
	firstBudget = 64
	maxBudget   = 1 << 16
	workTime    = 5 * time.Millisecond
)

// New makes a task and its owner. It starts with the first event.
func New(cfg Config) (*Owner, error) {
	t, err := NewTask(cfg)
	if err != nil {
		return nil, err
	}
	return &Owner{t: t, budget: firstBudget}, nil
}

// State says where the task is in its life.
func (o *Owner) State() State { return o.state }

// Err returns why the task has stopped, nil while it has not. It is known before Failed says it, which waits for the last commit.
func (o *Owner) Err() error { return o.t.Err() }

// Stats returns the counts of the task.
func (o *Owner) Stats() Stats { return o.t.Stats() }

// Env returns what the nodes of the task see.
func (o *Owner) Env() *Env { return &o.t.env }

// Runnable says whether a Work step would take a record.
func (o *Owner) Runnable() bool { return o.state <= StateRunning && o.t.Runnable() }

// Step takes an event and returns what is to be done. The slice is used again by the next Step.
func (o *Owner) Step(now time.Time, ev Event) []Action {
	clear(o.actions)
	o.actions = o.actions[:0]
	o.begin(now)
	if o.state != StateClosed {
		o.take(ev)
	}
	o.settle()
	return o.actions
}

// begin notes the time. The commit interval of a task with nothing to commit passes unused, and one that a clock set back has stretched is
// cut short.
func (o *Owner) begin(now time.Time) {
	o.now = now
	o.t.turn(now)
	if o.due.IsZero() || o.due.Sub(now) > o.t.cfg.CommitInterval || !now.Before(o.due) && !o.t.Dirty() {
		o.due = nextMultiple(now, o.t.cfg.CommitInterval)
	}
}

// nextMultiple returns the first multiple of an interval after now. One that is beyond the range of time is never.
func nextMultiple(now time.Time, every time.Duration) time.Time {
	n := now.UnixNano()
	n -= n % int64(every)
	return time.Unix(0, n+min(int64(every), math.MaxInt64-n))
}

func (o *Owner) take(ev Event) {
	if o.state == StateCreated {
		o.become(StateRunning)
	}
	switch ev := ev.(type) {
	case Fetched:
		o.t.Add(ev.Input, ev.Batch)
	case Acked:
		o.t.Acked(ev.Seq)
	case Work:
		o.work(ev)
	case Tick:
		o.tick()
	case Commit:
		o.commitNow = true
	case Committed:
		o.t.Committed(ev.Err)
	case Release:
		o.release()
	case Resume:
		o.resume()
	case Lost:
		o.lose()
	case Rewrite:
		o.rewrite(ev)
	case Read:
		if a, ok := o.t.answer(ev); ok {
			o.do(a)
		}
	case Done:
		o.done(ev.Result)
	case Unmanned:
		o.t.stop(ev.Err)
	case Trimmed:
		o.t.trimmed(ev.Input, ev.First)
	case Ask:
		ev.Answer(o)
	case Close:
		o.close()
	default:
		panic(fmt.Sprintf("task: unknown event %T", ev))
	}
}

func (o *Owner) work(w Work) {
	if o.state != StateRunning {
		return
	}
	o.t.Punctuate(o.now)
	n := w.Records
	if n <= 0 {
		o.adapt(w)
		n = o.budget
	}
	o.t.Process(o.now, n)
}

// adapt makes the budget fit the time: it doubles while a step takes less than half of it, and shrinks in proportion when it takes more.
func (o *Owner) adapt(w Work) {
	limit := w.Max
	if limit <= 0 {
		limit = workTime
	}
	switch {
	case w.Took <= 0:
	case w.Took > limit:
		o.budget = max(int(int64(o.budget)*int64(limit)/int64(w.Took)), 1)
	case w.Took < limit/2:
		o.budget = min(2*o.budget, maxBudget)
	}
}

func (o *Owner) tick() {
	if o.state != StateRunning {
		return
	}
	o.t.Punctuate(o.now)
}

func (o *Owner) release() {
	o.releasing, o.t.draining = true, true
	o.patience = o.now.UnixMilli() + releasePatience
	if o.t.crew != nil {
		o.t.cancelled()
		o.do(Cancel{})
	}
	if o.state == StateRunning {
		o.become(StateReleasing)
	}
}

// rewrite makes a task commit that has committed everything already: it is not released as long as its changelog says something else.
func (o *Owner) rewrite(ev Rewrite) {
	o.t.Rewrite(ev.Store, ev.Keys)
	o.commitNow = true
	if o.state == StateReleased && (o.t.Dirty() || o.t.Err() != nil) {
		o.become(StateReleasing)
	}
}

// resume takes a release back. One that has no answer yet gets it all the same: who asked counts them, to tell the answer to one release from
// that to the next.
func (o *Owner) resume() {
	switch {
	case o.lost && o.state != StateFailed:
		o.fail(fmt.Errorf("task %v: resumed after it was lost: %w", o.t.cfg.ID, ErrLost))
	case o.t.dead: // whoever asked hears that there is nothing to go on with
		if o.releasing {
			o.releasing = false
			o.do(Released{Forgone: true})
		}
	case o.state == StateReleased, o.state == StateReleasing && o.t.Err() == nil:
		if o.releasing {
			o.do(Released{})
		}
		o.releasing, o.t.draining = false, false
		if o.t.crew != nil {
			o.t.crew.shut = false
		}
		o.become(StateRunning)
	}
}

func (o *Owner) lose() {
	o.lost = true
	o.t.Lost()
	o.releasing = false
	if o.state != StateReleased && o.state != StateFailed {
		o.become(StateReleased)
	}
}

func (o *Owner) close() {
	err := o.t.Close()
	o.answerConsumed()
	o.handOver()
	if err != nil {
		o.do(Failed{err})
	}
	o.become(StateClosed)
	o.do(Closed{})
}

// fail ends the task with what it could commit. The rest of its queues is given up.
func (o *Owner) fail(err error) {
	o.t.abandon(ErrRolledBack, ErrRolledBack)
	o.answerConsumed()
	o.become(StateFailed)
	o.do(Failed{err})
}

func (o *Owner) become(to State) {
	if !o.state.canBecome(to) {
		panic(fmt.Sprintf("task %v: from %v to %v", o.t.cfg.ID, o.state, to))
	}
	o.state = to
}

func (o *Owner) do(a Action) { o.actions = append(o.actions, a) }

// settle does what has become due: a commit, hand-overs, answers, the next wake.
func (o *Owner) settle() {
	if o.state == StateClosed {
		return
	}
	if o.t.Err() != nil && o.state == StateRunning {
		o.become(StateReleasing)
	}
	o.t.closeGaps()
	if o.sealDue() {
		o.seal()
	}
	if o.heldUp() {
		o.sealed = o.t.forgo()
	}
	if !o.t.Outstanding() {
		o.commitNow = o.commitNow && o.t.failure.emitting // there was nothing to commit
	}
	if o.state != StateRunning || o.rests() || o.t.out.lingers(o.now, o.t.cfg.Linger) {
		o.t.Flush()
	}
	if o.sealed != nil && !o.t.Outstanding() {
		o.sealed = nil // dropped meanwhile
	}
	legs := o.sealed != nil && o.t.commit.legs.store >= 0
	ready := o.sealed != nil && o.t.SealReady()
	for e := o.t.TakeEffects(); e != nil; e = o.t.TakeEffects() {
		o.do(Send{Effects: e, Second: legs && ready})
	}
	if ready {
		o.do(Seal{o.sealed})
		o.sealed = nil
	}
	for _, n := range o.t.TakeNotes() {
		o.do(Noted{n})
	}
	for _, r := range o.t.TakeReplays() {
		o.do(Replayed{r})
	}
	o.answerConsumed()
	o.finish()
	o.handOver()
	o.answerWake()
}

// done takes a result. In a task that has been released none counts any more.
func (o *Owner) done(r *Result) {
	o.t.done(r, o.state > StateReleasing || o.t.crew != nil && o.t.crew.shut)
}

// rests says that the task waits for something to come from outside, and not for its workers, who will be back.
func (o *Owner) rests() bool { return !o.t.Runnable() && (o.t.crew == nil || o.t.crew.running == 0) }

// sealDue says whether to commit now.
func (o *Owner) sealDue() bool {
	t := o.t
	if t.Outstanding() || o.state != StateRunning && o.state != StateReleasing {
		return false
	}
	if t.failure.emitting && o.now.UnixMilli() < t.failure.until {
		return false
	}
	due := o.state == StateReleasing || t.failure.emitting || o.commitNow || t.commit.wanted || !o.now.Before(o.due) || t.dirtyBytes() >= t.cfg.DirtyBytes
	return due && t.Dirty()
}

func (o *Owner) seal() {
	o.commitNow = false
	o.sealed = o.t.Seal(o.now)
	if o.t.Err() != nil && o.state == StateRunning {
		o.become(StateReleasing)
	}
}

// finish answers a release or a failure when nothing is left to commit.
func (o *Owner) finish() {
	if o.state == StateReleasing && !o.t.Outstanding() && !o.t.Dirty() && (o.t.calling == 0 || o.t.Err() != nil) {
		if err := o.t.Err(); err != nil {
			o.fail(err)
		} else {
			o.become(StateReleased)
		}
	}
	if o.releasing && (o.state == StateReleased || o.state == StateFailed) {
		o.releasing = false
		o.do(Released{Forgone: o.t.dead && !o.lost && o.state == StateReleased})
	}
}

func (o *Owner) answerConsumed() {
	for i := range o.t.inputs() {
		if n, done := o.t.Consumed(i); n > 0 || len(done) > 0 {
			o.do(Consumed{Input: i, Bytes: n, Batches: done})
		}
	}
}

// answerWake asks for a Tick when something becomes due by itself.
func (o *Owner) answerWake() {
	if o.state != StateRunning && !(o.state == StateReleasing && o.t.failure.emitting) {
		return
	}
	at := time.Time{}
	earlier := func(t time.Time) {
		if at.IsZero() || t.Before(at) {
			at = t
		}
	}
	if !o.t.Outstanding() && o.t.Dirty() {
		earlier(o.due)
	}
	if next := o.t.timers.due[WallClock]; next != never && !o.t.halted() {
		earlier(time.UnixMilli(next))
	}
	if o.t.idleSince != never && o.t.idles() {
		earlier(time.UnixMilli(o.t.idleSince).Add(o.t.cfg.MaxIdle))
	}
	if len(o.t.out.active.Groups) > 0 {
		earlier(time.UnixMilli(o.t.out.since).Add(o.t.cfg.Linger))
	}
	o.t.failureWake(func(ms int64) { earlier(time.UnixMilli(ms)) })
	if at.IsZero() || at.Equal(o.wake) && o.now.Before(at) {
		return
	}
	o.wake = at
	o.do(Wake{at})
}
