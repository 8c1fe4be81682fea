package task

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

// Task is a subtopology at work on one partition. One goroutine owns it; see the package comment. Owner drives it through its life.
type Task struct {
	cfg    Config
	env    Env
	graph  *Graph
	stores []*statestore.Overlay
	// The same, but for the retry store, and that one: nil where there is none.
	written []*statestore.Overlay
	retries *statestore.Overlay

	in     queues
	out    *outbox
	timers timers

	destByTopic map[string]int
	changelogs  []destination // one for each store

	started    bool
	now        int64 // ms; the time of the running turn
	streamTime int64
	idleSince  int64 // ms, when it began to wait for an input; never where it does not

	unit     unit
	commit   commit
	err      error // why the task has stopped
	failure  failure
	draining bool   // being released
	worker   bool   // it is what a Worker's nodes see
	calls    []Call // of workers' callbacks, to be handed over
	calling  int    // calls handed over and not done
	watch    watches
	gaps     *gaps // nil where no input has a second path
	crew     *crew // nil where the task runs everything itself
	dead     bool  // uncommitted state is gone, nothing more can be sealed

	calm    bool          // see isCalm
	keys    [ahead][]byte // scratch of warm
	taken   int64         // records taken from the queues, left out or not
	stats   Stats
	dropped map[string]int64
}

// NewTask makes a task and its nodes. The error is the config's or Spec.Build's.
func NewTask(cfg Config) (*Task, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Task{
		cfg: cfg, in: newQueues(cfg.Positions), out: newOutbox(cfg.ID, cfg.Epoch), timers: newTimers(),
		destByTopic: make(map[string]int), streamTime: cfg.StreamTime, idleSince: never, dropped: make(map[string]int64),
	}
	t.env = Env{t: t, input: -1, offset: -1}
	t.commit = newCommit(len(cfg.Spec.Inputs), len(cfg.Spec.Stores), cfg.Positions)
	for _, d := range cfg.Spec.Dests {
		t.addDest(d, 0)
	}
	t.openStores()
	t.watch = newWatches(len(t.stores))
	if err := t.build(); err != nil {
		return nil, err
	}
	if err := t.loadFailure(); err != nil {
		return nil, err
	}
	return t, nil
}

func (t *Task) openStores() {
	n := len(t.cfg.Spec.Stores)
	for i, s := range t.cfg.Spec.Stores {
		t.stores = append(t.stores, statestore.NewOverlay(statestore.OverlayConfig{
			Base: t.cfg.Stores[i], Ordered: s.Spec.Ordered, KeepBefore: s.KeepBefore,
			CacheBytes: t.cfg.CacheBytes / n, Seed: t.cfg.Seed + uint64(i),
		}))
		t.changelogs = append(t.changelogs, destination{Dest: Dest{Topic: s.Changelog, Compacted: true}})
		if i == t.cfg.Spec.Retries-1 {
			t.retries = t.stores[i]
		} else {
			t.written = append(t.written, t.stores[i])
		}
	}
}

// build makes the nodes. The supplier of a processor is the user's code and may panic.
func (t *Task) build() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = t.env.panicked("", p)
		}
	}()
	graph, err := t.cfg.Spec.Build(&t.env)
	switch {
	case err != nil:
		return fmt.Errorf("task %v: build the nodes: %w", t.cfg.ID, err)
	case t.env.failed != nil:
		return t.env.failed
	case graph == nil || len(graph.Inputs) != len(t.cfg.Spec.Inputs):
		return fmt.Errorf("task %v: the graph does not have an entry node for each of %d inputs", t.cfg.ID, len(t.cfg.Spec.Inputs))
	}
	for i, in := range t.cfg.Spec.Inputs {
		if in.Redrives > 0 {
			graph.Inputs[i] = graph.Inputs[in.Redrives-1]
		}
	}
	t.graph = graph
	return nil
}

// Add puts a batch into the queue of an input. The task owns the batch from here.
func (t *Task) Add(input int, b *Batch) {
	switch {
	case t.dead:
		t.queueOf(input).consumed += b.Bytes
	case input >= len(t.in.all):
		t.gaps.all[input-len(t.in.all)].addReplayed(b)
	default:
		t.in.add(input, b)
	}
}

// Consumed returns the bytes of batches of one input that were finished since the last call, and the batches, which nothing refers to any
// more. The slice is valid until the task goes on.
func (t *Task) Consumed(input int) (int, []*Batch) {
	q := t.queueOf(input)
	if q == nil {
		return 0, nil
	}
	n, done := q.consumed, q.done
	q.consumed, q.done = 0, q.done[:0]
	return n, done
}

// Process takes at most limit records, the lowest timestamp first, and returns how many it took. It ends early where there are no more, at
// a failure, without credit for effects, and where a commit has to come first.
func (t *Task) Process(now time.Time, limit int) int {
	t.turn(now)
	before := t.taken
	for left := limit; left > 0; {
		if t.crew != nil {
			left = t.dispatch(left)
		} else {
			left = t.process(left)
		}
		if t.failure.fault == nil {
			break
		}
		t.mend()
	}
	t.noProbe()
	t.refuseCallbacks()
	return int(t.taken - before)
}

// process runs at most so many records, and says how many are left to be run. It ends where one fails.
func (t *Task) process(left int) (rest int) {
	defer t.recovered()
	rest = left
	if t.halted() {
		return rest
	}
	if !t.again() || t.streamTime >= t.timers.due[StreamTime] && !t.fire(StreamTime, t.streamTime) {
		return rest - 1
	}
	for rest > 0 && !t.halted() {
		if t.calm = t.isCalm(); t.calm {
			t.idleSince = never
			var on bool
			if rest, on = t.stream(rest); !on {
				return rest
			}
			continue
		}
		if t.failure.troubled && !t.probes() {
			return rest
		}
		rest--
		switch {
		case t.failure.pool != nil && t.failure.pool.turn(t):
			if !t.retry() {
				return rest
			}
		case t.gaps != nil && t.gaps.open > 0 && t.replayTurn():
			if t.failure.fault != nil {
				return rest
			}
		case t.idles() || !t.step():
			return rest
		}
	}
	return rest
}

// stream takes record after record for as long as nothing else can be next, which is nearly always. It is false as step is.
func (t *Task) stream(left int) (rest int, on bool) {
	for rest = left; rest > 0 && t.calm && !t.lags() && !t.sated(); {
		rest--
		if !t.step() {
			return rest, false
		}
	}
	return rest, true
}

// turn begins a turn of the task: its clock stands until the next one.
func (t *Task) turn(now time.Time) {
	before := t.now
	t.now = now.UnixMilli()
	switch {
	case !t.started:
		t.started = true
		t.timers.start(t.now)
		t.failure.clock(t.now)
	case t.now < before: // the clock was set back
		if f := &t.failure; f.until > before {
			f.until -= before - t.now
		}
		t.failure.clock(t.now)
	}
}

// halted says that no record may be taken now.
func (t *Task) halted() bool {
	return t.err != nil || t.dead || t.now < t.failure.until || t.failure.emitting || t.sated() || t.retries != nil && t.dirtyBytes() >= t.cfg.DirtyBytes
}

// sated says that a commit has to come before the next record, or acknowledgements. A unit that was kept changes no other reason for a halt.
func (t *Task) sated() bool {
	return t.commit.blocked || t.commit.wanted && t.commit.outstanding == nil || t.out.held() >= t.cfg.CreditBytes ||
		len(t.written) > 0 && t.dirtyBytes() >= t.cfg.DirtyBytes
}

// isCalm says that for now nothing but the next record of an input can be next.
func (t *Task) isCalm() bool {
	f := &t.failure
	return !f.troubled && (f.pool == nil || f.pool.index.Len() == 0 && len(f.pool.spoiled) == 0) && (t.gaps == nil || t.gaps.open == 0) && !t.lags()
}

// lags says that records are held back for an input that has nothing queued although there is more.
func (t *Task) lags() bool { return t.in.lagging > 0 && t.cfg.MaxIdle > 0 }

// idles says that the task takes no record although it has some: it waits for an input that lags, or for what is put aside to be run first. The
// wait for an input is measured from its beginning: once it is over, records are taken until no input lags any more.
func (t *Task) idles() bool {
	switch {
	case t.failure.pool != nil && t.failure.pool.ahead():
		t.idleSince = never
		return true
	case !t.lags():
		t.idleSince = never
		return false
	case t.in.next() < 0:
		return false
	}
	t.idleSince = min(t.idleSince, t.now) // never is later than any time; and the clock may have been set back
	return t.now-t.idleSince < t.cfg.MaxIdle.Milliseconds()
}

// Runnable says whether Process would take a record, or hand one out.
func (t *Task) Runnable() bool {
	if t.halted() || t.holdsBack() {
		return false
	}
	if t.crew != nil {
		return t.dispatchable()
	}
	return t.in.next() >= 0 && !t.idles() || t.failure.pool != nil && t.failure.pool.due(t.now) && !t.names() || t.replayable() != nil
}

// Err returns why the task has stopped, nil while it has not.
func (t *Task) Err() error { return t.err }

func (t *Task) dirtyBytes() int {
	n := 0
	for _, s := range t.stores {
		n += s.DirtyBytes()
	}
	return n
}

// step takes one record: its unit, then what its time sets off. It is false where there is no record and where a unit failed.
func (t *Task) step() bool {
	i := t.in.next()
	if i < 0 {
		return false
	}
	q := &t.in.all[i]
	if q.fresh {
		t.warm(i, q)
	}
	r := q.peek()
	if q.guarded {
		t.calm = false // whatever comes of it
		if taken, on := t.admit(i, r); !taken {
			return on
		}
	}
	t.begin(i, r.Offset)
	if r.Timestamp < 0 && !t.allowNegative(i, r) {
		return t.skip()
	}
	if !q.redrives { // whose time has passed
		q.time = max(q.time, r.Timestamp)
		t.streamTime = max(t.streamTime, r.Timestamp)
	}
	t.graph.Inputs[i](r)
	if !t.end() {
		return false
	}
	t.stats.Processed++
	t.taken++
	t.in.advance()
	if t.failure.troubled {
		t.relieved(i)
	}
	return t.streamTime < t.timers.due[StreamTime] || t.fire(StreamTime, t.streamTime)
}

// warm shows the keys that come next to the stores in which they will be looked up.
func (t *Task) warm(input int, q *queue) {
	q.fresh = false
	if input >= len(t.graph.Warm) || len(t.graph.Warm[input]) == 0 || q.n-q.at < ahead/4 {
		return
	}
	keys := t.keys[:0]
	for i := q.at; i < q.n; i++ {
		if k := q.buffer[i].Key; k != nil {
			keys = append(keys, k)
		}
	}
	for _, s := range t.graph.Warm[input] {
		t.stores[s].Warm(keys)
	}
}

// allowNegative applies the policy for timestamps below zero; the record goes on only if it gets one that is not.
func (t *Task) allowNegative(input int, r *Record) bool {
	switch t.cfg.Spec.Inputs[input].NegativeTimestamp {
	case Drop:
		t.env.Dropped(DroppedNegativeTimestamp, 1)
		return false
	case UseStreamTime:
		if t.streamTime >= 0 {
			r.Timestamp = t.streamTime
			return true
		}
	}
	t.env.Fail("", KindTimestamp, fmt.Errorf("a record with timestamp %d: drop such records or give them the stream time, with the source's option OnNegativeTimestamp",
		r.Timestamp))
	return false
}

// skip ends a unit whose record does not reach the nodes.
func (t *Task) skip() bool {
	if !t.end() {
		return false
	}
	t.taken++
	t.in.advance()
	return true
}

// Punctuate runs the wall-clock schedules that are due.
func (t *Task) Punctuate(now time.Time) {
	t.turn(now)
	if !t.halted() {
		t.punctuate()
		if t.failure.fault != nil {
			t.mend()
		}
		t.refuseCallbacks()
	}
}

func (t *Task) punctuate() {
	defer t.recovered()
	if t.again() && (t.streamTime < t.timers.due[StreamTime] || t.fire(StreamTime, t.streamTime)) {
		t.fire(WallClock, t.now)
	}
}

// fire runs the schedules of one clock that are due at a time, each in a unit of its own. It is false where one failed.
func (t *Task) fire(clock Clock, at int64) bool {
	for {
		due := t.timers.pop(clock, at)
		if due == nil {
			return true
		}
		if !t.punctuation(due, at) {
			return false
		}
	}
}

// Acked takes the memory of acknowledged effects back: of all up to this sequence.
func (t *Task) Acked(seq uint64) { t.out.acked(seq) }

// TakeEffects returns the next effects to hand over, in order, nil if there are none. Effects become ready when they have grown to 64 KiB,
// when Flush is called, and at a seal.
func (t *Task) TakeEffects() *Effects { return t.out.take() }

// Flush makes all effects ready.
func (t *Task) Flush() { t.out.cut() }
