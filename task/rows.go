package task

import "github.com/understudy-streams/understudy/retry"

// Rows that belong to no record, emissions and punctuations, cannot be put aside: they are tried in their place while the task waits.

// rows is what is known of the row that has failed.
type rows struct {
	timed rowTries
	timer *timer
	at    int64 // the time that the timer was called with

	emitted    rowTries
	table, key int // where the emission goes on
}

// rowTries are the tries of one row.
type rowTries struct {
	attempt int
	first   int64 // ms
}

// tries are those of the row that the running unit is about. A punctuation may wait for its next try while emissions go on.
func (r *rows) tries(kind unitKind) *rowTries {
	if kind == timerUnit {
		return &r.timed
	}
	return &r.emitted
}

// mendRow decides what becomes of the emission or punctuation that has failed.
func (t *Task) mendRow(err *Error) {
	f := &t.failure
	kind := t.unit.kind
	tr := f.rows.tries(kind)
	if tr.first == 0 {
		tr.first = t.now
	}
	d := t.decide(t.cfg.Spec.Failure.For(string(err.Kind)), err, tr.attempt+1, tr.first)
	err.Attempts = tr.attempt + 1
	switch {
	case d.Verdict == retry.Again:
		tr.attempt = d.Attempt
		f.counts.Retried++
		t.wait(d.At, err)
		return
	case d.Verdict == retry.Skipped:
		t.leaveOut(d.Reason, 1)
	case f.set.Rows == retry.EndSkip:
		f.counts.Skipped++
		t.note(Note{Kind: NoteSkip, Err: err})
	case f.set.Rows == retry.EndDeadLetter && t.flooded(1):
		return
	case f.set.Rows == retry.EndDeadLetter:
		if !t.deadLetter(t.letterOfRow(kind, err, tr.first)) {
			return
		}
	default:
		t.stop(err)
	}
	f.rows.pass(kind)
}

// pass goes on behind a row that was processed, or has failed for good.
func (r *rows) pass(kind unitKind) {
	if kind == timerUnit {
		r.timed, r.timer = rowTries{}, nil
		return
	}
	r.emitted = rowTries{}
	r.key++
}

// punctuation runs a schedule in a unit of its own. It is false if it fails; then it is run again first.
func (t *Task) punctuation(due *timer, at int64) bool {
	t.begin(-1, -1)
	t.unit.kind, t.unit.node = timerUnit, due.node
	t.failure.rows.timer, t.failure.rows.at = due, at
	due.f(at)
	if !t.end() {
		return false
	}
	t.failure.rows.pass(timerUnit)
	t.stats.Punctuations++
	return true
}

// again runs the punctuation that has failed.
func (t *Task) again() bool {
	due := t.failure.rows.timer
	return due == nil || due.cancelled || t.punctuation(due, t.failure.rows.at)
}

// before is the stream time that a commit may say: not that of a schedule which has not succeeded yet, or it would be forgotten by whoever runs
// the task next.
func (r *rows) before(streamTime int64) int64 {
	if r.timer == nil || r.timer.clock != StreamTime || r.timer.cancelled {
		return streamTime
	}
	return min(streamTime, r.at-r.at%r.timer.every-1)
}

// emit runs the emissions of the tables that emit at commit: tables in topological order, keys in the order in which they changed first,
// each in a unit of its own. Where one fails it goes on there the next time; until then the task does nothing else.
func (t *Task) emit() (done bool) {
	t.failure.emitting = true
	for !t.emitRest() {
		if t.failure.fault == nil {
			return false
		}
		t.mend()
		if t.err != nil || t.now < t.failure.until {
			return false
		}
	}
	t.failure.emitting = false
	t.failure.rows.table, t.failure.rows.key = 0, 0
	return true
}

func (t *Task) emitRest() bool {
	defer t.recovered()
	r := &t.failure.rows
	for ; r.table < len(t.graph.Tables); r.table, r.key = r.table+1, 0 {
		table := &t.graph.Tables[r.table]
		store := t.stores[table.Store]
		for r.key < store.DirtyLen() {
			t.begin(-1, -1)
			t.unit.kind, t.unit.node = rowUnit, table.Node
			table.Emit(store.Dirty(r.key))
			if !t.end() {
				return false
			}
			t.stats.Emitted++
			r.pass(rowUnit)
		}
	}
	return true
}
