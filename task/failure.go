package task

import (
	"github.com/understudy-streams/understudy/retry"
)

// failure is how a task carries out the policy of its records that fail.
type failure struct {
	fault *Error // of the unit that has just failed, until mend decides
	until int64  // ms; nothing is taken before
	long  int64  // ms, how long that was when it was said
	why   string // it waits, for people

	set      retry.Settings
	pool     *pool // records put aside; nil where the policy puts none aside
	tries    []tries
	troubled bool           // something is being tried again, or has failed lately: a success is to be noted
	circuit  *retry.Circuit // nil where nothing is put aside
	rand     uint64
	unsaid   bool // a record at a head has failed since the last commit
	flood    flood
	counts   FailureStats
	suspects suspects
	rows     rows
	emitting bool // a row's emission is to be tried again: nothing else is done before
	notes    []Note
}

// tries is what is known of the record at the head of an input that has failed there.
type tries struct {
	offset      int64 // whose
	inline      int   // tries of this go
	attempt     int
	first, due  int64         // ms
	wait        int64         // ms: from the last failure until due, by the clock that due is of
	err         *Error        // the last
	says        *retry.Letter // of a record that was a dead letter
	saidForever int64         // ms, when it was last said that it waits
}

// waits says that the record is to be tried again.
func (tr *tries) waits() bool { return tr.attempt > 0 || tr.due > 0 }

// loadFailure makes what the policy needs, from what the last commits say and what lies in the retry store.
func (t *Task) loadFailure() error {
	f := &t.failure
	f.set = t.cfg.Spec.Failure.Settings()
	f.rand, f.until = t.cfg.Seed, notStarted
	f.tries = make([]tries, len(t.in.all), 2*len(t.in.all))
	if len(t.cfg.Splits) > 0 {
		f.tries = f.tries[:2*len(t.in.all)] // of the heads of gaps as well
		t.loadGaps()
	}
	for i, in := range t.cfg.Spec.Inputs {
		t.in.all[i].redrives = in.Redrives > 0
	}
	if f.set.Row > 0 && f.set.Mode.PutsAside() {
		f.circuit = retry.NewCircuit(f.set)
	}
	t.loadSuspects()
	if n := t.cfg.Spec.Retries; n > 0 {
		if err := t.loadPool(n - 1); err != nil {
			return err
		}
	}
	if err := t.loadCrew(); err != nil {
		return err
	}
	t.guard()
	return nil
}

// random is a splitmix64.
func (f *failure) random() uint64 {
	f.rand += 0x9e3779b97f4a7c15
	z := f.rand
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// failed takes the failure of a unit that has been undone. One that no policy is about stops the task.
func (t *Task) failed(err *Error) {
	if t.dead || t.err != nil || t.unit.kind == ownUnit || !t.policyIsFor(err) {
		t.stop(err)
		return
	}
	t.failure.fault = err
}

// policyIsFor says that the policy decides about a failure, and that it does not stop the task in any case.
func (t *Task) policyIsFor(err *Error) bool {
	return err.Kind != KindStore && t.cfg.Spec.Failure.Named()
}

// mend decides what becomes of the unit that has failed.
func (t *Task) mend() {
	f := &t.failure
	err := f.fault
	f.fault = nil
	switch t.unit.kind {
	case freshUnit:
		t.mendFresh(err)
	case retryUnit:
		item := t.unit.retried
		t.unit.retried = nil
		t.mendRetry(item, err)
	case replayUnit:
		t.mendReplay(t.unit.gap, err)
	case itemUnit:
		t.mendItem(t.unit.item, err)
	case timerUnit, rowUnit:
		t.mendRow(err)
	}
	t.guard()
}

// decide asks the policy.
func (t *Task) decide(p retry.Policy, err *Error, attempt int, first int64) retry.Decision {
	t.learntRefusal(err)
	return p.Decide(retry.Failed{
		Err: err.Err, Kind: string(err.Kind), Node: err.Node, Attempt: attempt, First: first, Now: t.late(), Rand: t.failure.random(),
	})
}

// late is the time, in milliseconds, at which a record has failed: that of the turn is some milliseconds old by then, and a try that is due by
// it would come early.
func (t *Task) late() int64 {
	if t.cfg.Clock == nil {
		return t.now
	}
	return max(t.now, t.cfg.Clock().UnixMilli()+1) // what is cut off a millisecond is early too
}

// subject is a record of the main path that has failed, or is to be put aside: the one at the head of an input or, with an item, one that was
// taken from there for a worker.
type subject struct {
	input int
	r     *Record
	tries *tries
	item  *Item
	gap   *gap // at the head of which it is, with no item
}

func (t *Task) head(i int, r *Record) subject {
	return subject{input: i, r: r, tries: &t.failure.tries[i]}
}

// finish finishes a record that did not reach the nodes or failed there.
func (t *Task) finish(s subject) {
	switch {
	case s.item != nil:
		t.finishItem(s.item)
	case s.gap != nil:
		t.passReplayed(s.gap, s.r)
	default:
		t.skipped(s.input, s.r)
	}
}

// mendFresh decides what becomes of the record at the head of the input that the failed unit was about.
func (t *Task) mendFresh(err *Error) {
	i := t.env.input
	r := t.in.all[i].peek()
	t.tried(i, r.Offset)
	t.cameBack(i, r.Offset)
	t.mendRecord(t.head(i, r), err)
}

func (t *Task) mendRecord(s subject, err *Error) {
	tr := s.tries
	p := t.cfg.Spec.Failure.For(string(err.Kind))
	if tr.inline++; p.AtOnce(string(err.Kind), err.Err, tr.inline) {
		t.onceMore(s)
		return
	}
	d := t.decide(p, err, tr.attempt+1, tr.first)
	err.Attempts = tr.attempt + 1
	t.told(d, err)
	switch d.Verdict {
	case retry.Skipped:
		t.leaveOut(d.Reason, 1)
		t.finish(s)
	case retry.Ended:
		t.endFresh(s, err, d)
	case retry.Again:
		tr.inline, tr.attempt, tr.due, tr.wait, tr.err = 0, d.Attempt, d.At, d.At-t.now, err
		t.againFresh(s, err, d, p.Settings())
	}
}

// onceMore lets a record be tried again where it is: at the head of its input it is anyway.
func (t *Task) onceMore(s subject) {
	if s.item != nil {
		t.crew.requeue(s.item)
	}
}

// againFresh lets a record of the main path be tried again: in its place after a while, or beside the main path.
func (t *Task) againFresh(s subject, err *Error, d retry.Decision, set retry.Settings) {
	f := &t.failure
	f.counts.Retried++
	if set.Mode.PutsAside() && f.pool != nil && f.pool.room(f) {
		t.park(s, err, d)
	} else {
		t.waitFor(s, err)
	}
}

// waitFor makes the task wait for a record of the main path.
func (t *Task) waitFor(s subject, err *Error) {
	f := &t.failure
	tr := s.tries
	t.onceMore(s)
	f.troubled, f.unsaid = true, true
	t.wait(tr.due, err)
	if f.set.Attempts < 0 && t.now-tr.saidForever >= minute {
		tr.saidForever = t.now
		t.note(Note{Kind: NoteWaits, Err: err, Attempt: tr.attempt, Until: tr.due})
	}
}

const minute = 60_000 // ms

// wait takes nothing until some time.
func (t *Task) wait(until int64, err *Error) {
	if until > t.failure.until {
		t.holdOff(until, err.Error())
	}
}

// holdOff takes nothing until some time, if it does not wait for longer already.
func (t *Task) holdOff(until int64, why string) {
	if f := &t.failure; until > f.until {
		f.until, f.long, f.why = until, until-t.now, why
	}
}

// clock is called when the clock does not go on from where it was: at the first turn, as what is waited for may be of another host's, and when
// it was set back. No wait is longer than it was to be.
func (f *failure) clock(now int64) {
	f.until = min(f.until, now+f.long)
	for i := range f.tries {
		if tr := &f.tries[i]; tr.waits() {
			tr.due = min(tr.due, f.until)
		}
	}
	if f.pool != nil {
		f.pool.index.Bound(now)
	}
}

// tried returns what is known of the record at the head of an input.
func (t *Task) tried(i int, offset int64) *tries {
	tr := &t.failure.tries[i]
	if tr.offset != offset || tr.first == 0 {
		*tr = tries{offset: offset, first: t.now}
	}
	return tr
}

// relieved notes that the record at the head of an input was processed.
func (t *Task) relieved(input int) {
	t.failure.tries[input] = tries{}
	t.succeeded()
}

// succeeded notes that a record was processed while something is being tried again.
func (t *Task) succeeded() {
	f := &t.failure
	if f.circuit != nil {
		f.circuit.Succeeded()
	}
	if f.suspects.active {
		t.survived()
	}
	f.troubled = f.circuit != nil && f.circuit.Attentive()
	for i := range f.tries {
		f.troubled = f.troubled || f.tries[i].waits()
	}
}

// skipped finishes the record at the head of an input, which did not reach the nodes or failed there: time moves on by it all the same.
func (t *Task) skipped(i int, r *Record) {
	q := &t.in.all[i]
	if r.Timestamp >= 0 && !q.redrives {
		q.time = max(q.time, r.Timestamp)
		t.streamTime = max(t.streamTime, r.Timestamp)
	}
	t.failure.tries[i] = tries{}
	t.taken++
	t.in.advance()
}

// endFresh does with a record of the main path what the policy says of those that have failed for good.
func (t *Task) endFresh(s subject, err *Error, d retry.Decision) {
	switch d.End {
	case retry.EndSkip:
		t.failure.counts.Skipped++
		t.finish(s)
	case retry.EndDeadLetter:
		if t.flooded(1) {
			s.tries.attempt = d.Attempt
			t.onceMore(s)
			return
		}
		if t.deadLetter(t.letterOf(s, err, d)) {
			t.finish(s)
		}
	default:
		t.stop(err)
	}
}

// told tells the breaker of a failure. While it is open one record at a time is tried.
func (t *Task) told(d retry.Decision, err *Error) {
	f := &t.failure
	if f.circuit == nil {
		return
	}
	if !d.Counts {
		f.circuit.Release(t.now)
		return
	}
	was := f.circuit.Open()
	f.circuit.Failed(err.Node, d.Class, t.now)
	f.troubled = true
	if !f.circuit.Open() {
		return
	}
	t.wait(f.circuit.Waits(t.now), err)
	if !was {
		f.counts.Outages++
		t.note(Note{Kind: NoteOutage, Err: err, Until: f.until})
	}
}

// noProbe gives a probe back that was let pass and has come to nothing: there was no record for it, or it did not reach the nodes.
func (t *Task) noProbe() {
	c := t.failure.circuit
	if c != nil && c.State() == retry.CircuitProbing && (t.crew == nil || t.crew.running == 0) {
		c.Release(t.now)
	}
}

// probes says whether a record may be taken, as far as the breaker is concerned: while it is open one at a time, after each wait.
// A probe that counts as under way while nothing is with the workers has told nothing: there was no record to take, or its next inline try is
// due at once. It is made again.
func (t *Task) probes() bool {
	c := t.failure.circuit
	return c == nil || !t.holdsBack() && (c.State() != retry.CircuitOpen || c.Probe(t.now))
}

// holdsBack says that the breaker lets nothing be taken before its wait is over, or before a worker has come back with the probe.
func (t *Task) holdsBack() bool {
	c := t.failure.circuit
	switch {
	case c == nil || !c.Open():
		return false
	case c.State() == retry.CircuitProbing:
		return t.crew != nil && t.crew.running > 0
	}
	return c.Waits(t.now) > t.now
}
