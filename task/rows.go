package task

import "github.com/understudy-streams/understudy/retry"

// Rows that belong to no record, emissions and punctuations, cannot be put aside: they are tried in their place while the task waits.

// rows is what is known of the row that has failed.
type rows struct {
	attempt int
	first   int64 // ms
	timer   *timer
	at      int64 // the time that the timer was called with

	table, key int // where the emission goes on
}

// mendRow decides what becomes of the emission or punctuation that has failed.
func (t *Task) mendRow(err *Error) {
	f := &t.failure
	if f.rows.first == 0 {
		f.rows.first = t.now
	}
	d := t.decide(t.cfg.Spec.Failure.For(string(err.Kind)), err, f.rows.attempt+1, f.rows.first)
	err.Attempts = f.rows.attempt + 1
	switch {
	case d.Verdict == retry.Again:
		f.rows.attempt = d.Attempt
		f.counts.Retried++
		t.wait(d.At, err)
		return
	case d.Verdict == retry.Skipped:
		t.dropped[d.Reason]++
	case f.set.Rows == retry.EndSkip:
		f.counts.Skipped++
		t.note(Note{Kind: NoteSkip, Err: err})
	case f.set.Rows == retry.EndDeadLetter && t.flooded():
		return
	case f.set.Rows == retry.EndDeadLetter:
		if !t.deadLetter(t.letterOfRow(err)) {
			return
		}
	default:
		t.stop(err)
	}
	t.nextRow()
}

// nextRow goes on behind the row that has failed.
func (t *Task) nextRow() {
	r := &t.failure.rows
	if t.failure.emitting {
		r.key++
	}
	r.attempt, r.first, r.timer = 0, 0, nil
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
	t.failure.rows.timer = nil
	t.failure.rows.attempt, t.failure.rows.first = 0, 0
	t.stats.Punctuations++
	return true
}

// again runs the punctuation that has failed.
func (t *Task) again() bool {
	due := t.failure.rows.timer
	return due == nil || due.cancelled || t.punctuation(due, t.failure.rows.at)
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
	t.failure.rows = rows{timer: t.failure.rows.timer, at: t.failure.rows.at}
	return true
}

func (t *Task) emitRest() bool {
	defer t.recovered()
	r := &t.failure.rows
	for ; r.table < len(t.graph.Tables); r.table, r.key = r.table+1, 0 {
		table := &t.graph.Tables[r.table]
		store := t.stores[table.Store]
		for ; r.key < store.DirtyLen(); r.key++ {
			t.begin(-1, -1)
			t.unit.kind, t.unit.node = rowUnit, table.Node
			table.Emit(store.Dirty(r.key))
			if !t.end() {
				return false
			}
			t.stats.Emitted++
			r.attempt, r.first = 0, 0
		}
	}
	return true
}
