package task

import (
	"github.com/understudy-streams/understudy/retry"
)

// failure is how a task carries out the policy of its records that fail.
type failure struct {
	fault *Error // of the unit that has just failed, until mend decides
	until int64  // ms; nothing is taken before
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
	first, due  int64  // ms
	err         *Error // the last
	saidForever int64  // ms, when it was last said that it waits
}

// loadFailure makes what the policy needs, from what the last commits say and what lies in the retry store.
func (t *Task) loadFailure() error {
	f := &t.failure
	f.set = t.cfg.Spec.Failure.Settings()
	f.rand, f.until = t.cfg.Seed, notStarted
	f.tries = make([]tries, len(t.in.all))
	for i, in := range t.cfg.Spec.Inputs {
		t.in.all[i].redrives = in.Redrives > 0
	}
	if f.set.Row > 0 && f.aside() {
		f.circuit = retry.NewCircuit(f.set)
	}
	t.loadSuspects()
	if n := t.cfg.Spec.Retries; n > 0 {
		if err := t.loadPool(n - 1); err != nil {
			return err
		}
	}
	t.guard()
	return nil
}

// aside says that the policy puts records aside.
func (f *failure) aside() bool {
	return f.set.Mode == retry.ModeKeyOrdered || f.set.Mode == retry.ModeParallel
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
	if t.dead || t.err != nil || t.unit.kind == ownUnit || err.Kind == KindStore || !t.cfg.Spec.Failure.Named() {
		t.stop(err)
		return
	}
	t.failure.fault = err
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
		t.mendRetry(err)
	case timerUnit, rowUnit:
		t.mendRow(err)
	}
	t.guard()
}

// decide asks the policy.
func (t *Task) decide(p retry.Policy, err *Error, attempt int, first int64) retry.Decision {
	return p.Decide(retry.Failed{
		Err: err.Err, Kind: string(err.Kind), Node: err.Node, Attempt: attempt, First: first, Now: t.now, Rand: t.failure.random(),
	})
}

// mendFresh decides what becomes of the record at the head of the input that the failed unit was about.
func (t *Task) mendFresh(err *Error) {
	i := t.env.input
	r := t.in.all[i].peek()
	tr := t.tried(i, r.Offset)
	p := t.cfg.Spec.Failure.For(string(err.Kind))
	if tr.inline++; p.AtOnce(string(err.Kind), err.Err, tr.inline) {
		return
	}
	d := t.decide(p, err, tr.attempt+1, tr.first)
	err.Attempts = tr.attempt + 1
	t.told(d, err)
	switch d.Verdict {
	case retry.Skipped:
		t.dropped[d.Reason]++
		t.skipped(i, r)
	case retry.Ended:
		t.endFresh(i, r, err, d)
	case retry.Again:
		tr.inline, tr.attempt, tr.due, tr.err = 0, d.Attempt, d.At, err
		t.againFresh(i, r, err, d, p.Settings())
	}
}

// againFresh lets the record at the head be tried again: at once, in its place after a while, or beside the main path.
func (t *Task) againFresh(i int, r *Record, err *Error, d retry.Decision, set retry.Settings) {
	f := &t.failure
	f.counts.Retried++
	aside := set.Mode == retry.ModeKeyOrdered || set.Mode == retry.ModeParallel
	switch {
	case aside && f.pool != nil && f.pool.room(f):
		t.park(i, r, err, d)
	default:
		t.waitForHead(i, err)
	}
}

// waitForHead makes the task wait for the record at the head of an input.
func (t *Task) waitForHead(i int, err *Error) {
	f := &t.failure
	tr := &f.tries[i]
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
	f := &t.failure
	if until > f.until {
		f.until, f.why = until, err.Error()
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
	f := &t.failure
	f.tries[input] = tries{}
	if f.circuit != nil {
		f.circuit.Succeeded()
	}
	f.troubled = f.circuit != nil && f.circuit.Attentive()
	for i := range f.tries {
		f.troubled = f.troubled || f.tries[i].attempt > 0
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

// endFresh does with the record at the head what the policy says of those that have failed for good.
func (t *Task) endFresh(i int, r *Record, err *Error, d retry.Decision) {
	switch d.End {
	case retry.EndSkip:
		t.failure.counts.Skipped++
		t.skipped(i, r)
	case retry.EndDeadLetter:
		if t.flooded() {
			t.failure.tries[i].attempt = d.Attempt
			return
		}
		if t.deadLetter(t.letterOf(i, r, err, d)) {
			t.skipped(i, r)
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

// probes says whether a record may be taken, as far as the breaker is concerned: while it is open one at a time, after each wait.
func (t *Task) probes() bool {
	c := t.failure.circuit
	return c == nil || !c.Open() || c.Probe(t.now)
}
