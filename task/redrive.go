package task

import "github.com/understudy-streams/understudy/retry"

// redriven takes the record at the head of an input of redriven ones: it is put aside, due now, or where the policy puts none aside it is
// tried in its place, in both cases at the entry node of the input that it came from. One that has come back too often is ended again.
func (t *Task) redriven(i int, r *Record) (taken, on bool) {
	tr := t.tried(i, r.Offset)
	if tr.says == nil {
		says, original, ok := retry.ParseLetter(retryHeaders(r.Headers))
		if ok {
			r.Headers = taskHeaders(original)
		} else {
			says.Origin = t.origin(i, r.Offset)
		}
		says.Redriven = max(says.Redriven, 1)
		tr.says = &says
	}
	switch {
	case !tr.says.Returns():
		t.endRedriven(i, r, retry.ErrNoRecord, tr.says.Class)
	case tr.says.Redriven > retry.MaxRedrives:
		t.endRedriven(i, r, retry.ErrRedriven, "redriven")
	case t.failure.pool == nil || t.failure.pool.drains:
		t.failure.troubled = true // there is something to forget when it is done
		return true, true
	default:
		t.parkEntry(t.head(i, r), &retry.Entry{
			Origin: t.origin(i, r.Offset), Key: r.Key, NullKey: r.Key == nil, Due: t.now, First: t.now, Stream: t.streamTime,
			Redriven: tr.says.Redriven, Root: tr.says.Origin,
		}, nil)
	}
	t.guard()
	return false, t.err == nil && !t.halted()
}

// endRedriven ends a record that came back and is not to be run.
func (t *Task) endRedriven(i int, r *Record, why error, class string) {
	err := &Error{
		Task: t.cfg.ID, Topic: t.cfg.Spec.Inputs[i].Topic, Partition: t.cfg.ID.Partition, Offset: r.Offset, Kind: KindProcess,
		Err: why, Attempts: t.failure.tries[i].says.Attempts,
	}
	t.endFresh(t.head(i, r), err, retry.Decision{Verdict: retry.Ended, End: t.failure.set.Then, Class: class})
}
