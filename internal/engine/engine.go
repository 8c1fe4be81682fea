package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// Reset says where to begin where there is no usable offset (auto.offset.reset).
type Reset uint8

const (
	ResetStop     Reset = iota // end the application with an error
	ResetEarliest              // at the oldest record there is
	ResetLatest                // after the newest record there is
)

// Config describes an application to its Engine. Zero durations are replaced by the defaults named here.
type Config struct {
	Group         group.Config
	Specs         []*task.Spec             // by subtopology
	Hashes        map[int32]uint64         // of the structure of each subtopology
	Matches       func(topic string) bool  // some source reads topics by a pattern, and this is one; nil where none does
	NoOffset      func(topic string) Reset // nothing committed yet; nil means earliest
	OutOfRange    func(topic string) Reset // the committed offset is not there any more; nil means stop
	Release       time.Duration            // budget of a release at the start of a rebalance; default 250 ms
	CloseWithin   time.Duration            // budget of a clean end; default 30 s
	Gather        time.Duration            // how long the committer waits for other tasks' acks; default 10 ms
	PurgeEvery    time.Duration            // of repartition topics; default 30 s (repartition.purge.interval.ms)
	RefreshEvery  time.Duration            // of metadata; default 30 s (metadata.max.age.ms)
	Backoff       time.Duration            // before something is tried again, doubled up to 2 s; default 100 ms (retry.backoff.ms)
	MissingFor    time.Duration            // how long a topic may be gone before the application ends; default 10 s
	QueueBytes    int                      // bound of an input partition's queue; default 4 MiB
	RestoreBytes  int                      // of one bulk write of a restore; those of all stores read three times as much ahead; default 32 MiB
	MaxStuck      int                      // user calls past the watchdog before the application ends; default 3
	StateDir      string                   // where the stores are, for errors
	LearnRate     int                      // bytes a second that standbys and learners take in while tasks run here; default 64 MiB, negative: no bound
	Coalesce      time.Duration            // how long a learner that is ready waits for others; default 5 s
	AcceptableLag int64                    // changelog records that a learner may be behind and is ready; default 10,000 (acceptable.recovery.lag)
	StateCleanup  time.Duration            // after which a state that nobody uses is deleted; default 1 h (state.cleanup.delay.ms)
	Recover       int64                    // lag of an input, in records, above which a task that recovers goes on at the log's end after an end that was none; default 0, never
	StuckAfter    time.Duration            // an input partition that has records and does not move is reported; default 5 min, negative: never
	StallAfter    time.Duration            // without getting closer to the end, after which a learner is stalled; default 5 min
}

func (c Config) withDefaults() Config {
	c.Release = cmp.Or(c.Release, 250*time.Millisecond)
	c.CloseWithin = cmp.Or(c.CloseWithin, 30*time.Second)
	c.Gather = cmp.Or(c.Gather, 10*time.Millisecond)
	c.PurgeEvery = cmp.Or(c.PurgeEvery, 30*time.Second)
	c.RefreshEvery = cmp.Or(c.RefreshEvery, 30*time.Second)
	c.Backoff = cmp.Or(c.Backoff, 100*time.Millisecond)
	c.MissingFor = cmp.Or(c.MissingFor, 10*time.Second)
	c.QueueBytes = cmp.Or(c.QueueBytes, 4<<20)
	c.RestoreBytes = cmp.Or(c.RestoreBytes, 32<<20)
	c.MaxStuck = cmp.Or(c.MaxStuck, 3)
	c.LearnRate = cmp.Or(c.LearnRate, 64<<20)
	c.Coalesce = cmp.Or(c.Coalesce, 5*time.Second)
	c.AcceptableLag = cmp.Or(c.AcceptableLag, 10_000)
	c.StateCleanup = cmp.Or(c.StateCleanup, time.Hour)
	c.StuckAfter = cmp.Or(c.StuckAfter, 5*time.Minute)
	c.StallAfter = cmp.Or(c.StallAfter, 5*time.Minute)
	if c.NoOffset == nil {
		c.NoOffset = func(string) Reset { return ResetEarliest }
	}
	if c.OutOfRange == nil {
		c.OutOfRange = func(string) Reset { return ResetStop }
	}
	return c
}

// Engine decides for one process of an application. See the package comment.
type Engine struct {
	cfg    Config
	now    time.Time
	out    []Action
	state  State
	err    error
	member *group.Machine
	specs  map[int32]*task.Spec
	counts map[string]int32
	ids    map[string]topicID
	past   map[topicID]bool // of topics that have others in their places
	first  map[string]int32 // counts, as they were when the application started

	lives    map[task.ID]*life
	refusals map[task.ID]*refusals
	order    []*life // by task id
	epochs   uint64
	lastReq  uint64
	stuck    int

	prepare   *prepare  // a release that is under way for the next join
	late      []task.ID // declared to run with the last join because they missed its release
	assigned  bool      // an assignment has been applied and not been lost
	granted   int32     // the generation of the last assignment that was applied
	left      bool      // leaving the group has begun
	disk      suspension
	leased    time.Time // the end of the lease that the sender knows
	parted    bool      // there is no membership to leave: the member stopped by itself
	gaveUp    bool      // the end is not clean: only the goodbye to the group is waited for
	closeBy   time.Time
	within    time.Duration // the budget of the end that is under way
	grounded  bool          // the topics are there, and the group is not joined yet
	startTry  int
	startAt   time.Time // when EnsureTopics is tried again
	ensuring  bool
	opens     opening
	restores  restores
	leading   bool // there may be gaps that wait for what is new
	follow    follower
	learners  learners
	board     board
	stored    stored
	draining  draining
	outdated  bool      // the plan is for another form of a subtopology than ours
	members   int       // of the group, in the last assignment
	leaving   int       // of those, the ones that want to leave
	roundAt   time.Time // when the round under way was heard of; zero if there is none
	routes    routes
	lags      lags
	committer committer
	purge     purge
	refreshAt time.Time
	wake      time.Time
}

// New returns an Engine that waits for Start.
func New(cfg Config) *Engine {
	e := &Engine{cfg: cfg.withDefaults(), member: group.New(cfg.Group), specs: map[int32]*task.Spec{}, lives: map[task.ID]*life{}, refusals: map[task.ID]*refusals{}}
	for _, s := range cfg.Specs {
		e.specs[s.Subtopology] = s
	}
	e.routes.init()
	e.restores.heard = map[int32]time.Time{}
	e.purge.init()
	return e
}

// State returns the life of the application.
func (e *Engine) State() State { return e.state }

// Ready reports whether every task that is assigned here runs.
func (e *Engine) Ready() bool { return e.state == Running }

// Step tells the Engine what happened and returns what is to be done.
func (e *Engine) Step(now time.Time, ev Event) []Action {
	e.now, e.out = now, e.out[:0]
	if e.state == Closed {
		return nil
	}
	if until := e.member.Lease(); !until.IsZero() && !now.Before(until) {
		e.step(group.Tick{}) // the process has slept: whatever comes first, the tasks are lost before it
	}
	e.handle(ev)
	e.settle()
	return e.out
}

func (e *Engine) handle(ev Event) {
	switch ev := ev.(type) {
	case Start:
		e.start()
	case Close:
		e.close(ev.Within)
	case Tick:
		e.tick()
	case TopicsReady:
		e.topicsReady(ev)
	case Member:
		e.step(ev.Event)
	case OffsetsFetched:
		e.offsetsFetched(ev)
	case StoresOpened:
		e.storesOpened(ev)
	case StoresClosed:
		e.storesClosed(ev)
	case OffsetsListed:
		e.offsetsListed(ev)
	case Restored:
		e.restored(ev)
	case Taken:
		e.taken(ev)
	case Applied:
		e.applied(ev)
	case EffectsDone:
		e.effectsDone(ev.Acked)
	case TaskSealed:
		e.taskSealed(ev.Sealed)
	case TaskReplays:
		e.taskReplays(ev)
	case TaskNoted:
		e.note(Notice{Kind: NoticeFailure, Task: ev.Task, Err: ev.Note.Err, Failure: &ev.Note})
	case TaskReleased:
		e.taskReleased(ev)
	case TaskClosed:
		e.taskClosed(ev.Task, ev.Epoch)
	case TaskFailed:
		e.taskFailed(ev)
	case TaskStuck:
		e.taskStuck(ev)
	case OffsetsCommitted:
		e.offsetsCommitted(ev)
	case PartMoved:
		e.partMoved(ev.Lost)
	case PartStopped:
		e.partStopped(ev.Failed)
	case MetadataKnown:
		e.metadataKnown(ev)
	case StoreTrouble:
		e.storeTrouble(ev.Err)
	case DiskProbed:
		e.diskProbed(ev)
	case StoresReady:
		e.storesReady(ev)
	case Drain:
		e.drain(ev)
	case StoredKnown:
		e.storedKnown(ev)
	case StoredDropped:
		e.storedDropped(ev)
	case LagKnown:
		e.lagKnown(ev)
	case Heard:
		e.note(ev.Note)
	}
}

// settle does what follows from whatever happened, once per Step.
func (e *Engine) settle() {
	e.flushFollowers()
	e.flushLearners() // may begin a round
	e.settlePrepare() // may bring an assignment, which opens tasks
	e.flushOpens()
	e.flushRestores()
	e.flushLeads()
	e.flushRoutes()
	e.flushCommits()
	e.settleDraining()
	e.settleState()
}

func (e *Engine) do(a Action) { e.out = append(e.out, a) }

func (e *Engine) note(n Notice) { e.do(Note{Note: n}) }

// wakeAt asks for a Tick. Each Tick forgets what was asked for: who waits longer asks again whenever the Engine settles.
func (e *Engine) wakeAt(t time.Time) {
	if e.wake.IsZero() || t.Before(e.wake) {
		e.wake = t
		e.do(Wake{At: t})
	}
}

func (e *Engine) request() uint64 {
	e.lastReq++
	return e.lastReq
}

// backoff is how long to wait before try n+1.
func (e *Engine) backoff(n int) time.Duration {
	return min(e.cfg.Backoff<<min(n, 10), 2*time.Second)
}

func (e *Engine) tick() {
	e.wake = time.Time{}
	if e.state == Starting && !e.ensuring && !e.grounded && !e.now.Before(e.startAt) {
		e.ensure()
	}
	e.step(group.Tick{})
	e.beginGroup()
	e.tickStored()
	e.tickRecovery()
	e.tickLag()
	if e.assigned {
		e.tickRefresh()
		e.tickPurge()
	}
	if e.state == Closing && !e.now.Before(e.closeBy) {
		e.giveUp()
	}
}

func (e *Engine) start() {
	if e.state != Created {
		return
	}
	e.setState(Starting)
	e.ensure()
}

func (e *Engine) ensure() {
	e.ensuring = true
	e.do(EnsureTopics{})
}

func (e *Engine) topicsReady(ev TopicsReady) {
	e.ensuring = false
	if e.stopping() {
		return
	}
	if ev.Err != nil {
		if !ev.Temporary {
			e.fail(ev.Err)
			return
		}
		e.note(Notice{Kind: NoticeRetry, What: "topics", Err: ev.Err})
		e.startAt = e.now.Add(e.backoff(e.startTry))
		e.startTry++
		return
	}
	e.startTry = 0
	e.counts, e.ids = ev.Partitions, e.recognized(ev.IDs)
	if e.first == nil {
		e.first = maps.Clone(e.counts)
	}
	if ev.Specs != nil {
		e.respec(ev.Specs)
	}
	if ev.QueueBytes > 0 {
		e.cfg.QueueBytes = ev.QueueBytes
	}
	if e.state == Starting {
		e.grounded = true
		e.beginGroup()
		return
	}
	e.step(group.TopologyChanged{Topology: e.topology()})
	e.renewAll()
}

// beginGroup joins the group once the topics are there and what is on disk is known.
func (e *Engine) beginGroup() {
	if e.state != Starting || !e.grounded || e.lookAtDisk() {
		return
	}
	e.grounded = false
	e.setState(Rebalancing)
	e.step(group.Start{Topology: e.topology()})
	if e.draining.on {
		e.step(group.Drain{})
	}
}

func (e *Engine) setState(s State) {
	if e.state == s {
		return
	}
	e.state = s
	e.note(Notice{Kind: NoticeState, State: s})
}

// fail ends the application with its first error, as cleanly as can be: what the other tasks have finished is committed.
func (e *Engine) fail(err error) {
	if e.err == nil {
		e.err = err
	}
	e.close(0)
}

func (e *Engine) close(within time.Duration) {
	if e.state == Closing && within > 0 && e.now.Add(within).Before(e.closeBy) {
		e.closeIn(within) // somebody is in more of a hurry
	}
	if e.state == Closing || e.state == Closed {
		return
	}
	if within <= 0 {
		within = e.cfg.CloseWithin
	}
	e.closeIn(within)
	e.setState(Closing)
	for _, l := range slices.Clone(e.order) {
		switch l.state {
		case lifeRunning:
			e.release(l)
		case lifeOpening, lifeRestoring, lifeFollowing:
			e.closeLife(l)
		}
	}
}

func (e *Engine) closeIn(within time.Duration) {
	e.within, e.closeBy = within, e.now.Add(within)
}

// settleState moves the application's state on as far as its tasks allow.
func (e *Engine) settleState() {
	e.settleDrain()
	switch e.state {
	case Rebalancing, Running:
		if e.settled() {
			e.setState(Running)
		} else {
			e.setState(Rebalancing)
		}
	case Suspended:
		e.settleSuspended()
	case Closing:
		e.settleClosing()
	}
	switch {
	case e.state == Closing:
		e.wakeAt(e.closeBy)
	case e.state == Starting && !e.ensuring && !e.grounded:
		e.wakeAt(e.startAt)
	}
}

func (e *Engine) settled() bool {
	if !e.assigned || e.prepare != nil {
		return false
	}
	for _, l := range e.order {
		if l.state != lifeRunning && !l.stuck && (l.runsHere() || l.held) {
			return false
		}
	}
	return true
}

// settleClosing closes tasks once all are released, then leaves the group, then ends.
func (e *Engine) settleClosing() {
	for _, l := range e.order {
		if l.state == lifeReleasing && !l.stuck {
			return
		}
	}
	for _, l := range slices.Clone(e.order) {
		if l.state == lifeReleased {
			e.closeLife(l)
		}
	}
	if slices.ContainsFunc(e.order, func(l *life) bool { return !l.stuck && !e.onlyDisk(l) }) {
		return
	}
	switch {
	case e.parted:
		e.finish()
	case !e.left:
		e.left = true
		e.step(group.Stop{}) // answered at once if it never joined; a member that stops over a fault has yet to tell it
	}
}

func (e *Engine) finish() {
	if e.state == Closed {
		return
	}
	e.setState(Closed)
	e.do(Done{Err: e.err})
}

// leaveWait is how long an end that is not clean waits for the group's answer to the goodbye.
const leaveWait = 100 * time.Millisecond

// giveUp ends what could not be ended cleanly in time: what is not committed is processed again by whoever comes next. The group hears of
// it, so that it need not wait for the session to run out.
func (e *Engine) giveUp() {
	if e.gaveUp {
		e.finish()
		return
	}
	e.gaveUp = true
	if e.err == nil {
		e.err = e.overdue()
	}
	e.do(ToSender{Event: DropAll{Epoch: e.epochs}})
	for _, l := range e.order {
		e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Lost{}})
	}
	if e.left || e.member.State() == group.Stopped {
		e.finish()
		return
	}
	e.left = true
	e.closeBy = e.now.Add(leaveWait)
	e.step(group.Stop{})
}

func (e *Engine) overdue() error {
	var open []task.ID
	for _, l := range e.order {
		if l.state != lifeReleased { // which is committed
			open = append(open, l.id)
		}
	}
	return &CloseError{Within: e.within, Tasks: open, Left: e.left}
}
