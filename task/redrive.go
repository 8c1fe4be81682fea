package task

import "github.com/understudy-streams/understudy/retry"

// redriven puts the record at the head of an input of redriven ones aside, due now: it is run at the entry node of the input that it came
// from. One that has come back too often is dead-lettered again.
func (t *Task) redriven(i int, r *Record) {
	says, original, ok := retry.ParseLetter(retryHeaders(r.Headers))
	e := retry.Entry{
		Origin: t.origin(i, r.Offset), Key: r.Key, NullKey: r.Key == nil, Due: t.now, First: t.now, Stream: t.streamTime, Redriven: 1,
	}
	rec := *r
	if ok {
		e.Redriven, e.Root = max(says.Redriven, 1), says.Origin
		rec.Headers = taskHeaders(original)
	}
	t.failure.tries[i] = tries{offset: r.Offset, first: t.now}
	if e.Redriven > retry.MaxRedrives {
		err := &Error{
			Task: t.cfg.ID, Topic: t.cfg.Spec.Inputs[i].Topic, Partition: t.cfg.ID.Partition, Offset: r.Offset, Kind: KindProcess,
			Err: retry.ErrRedriven,
		}
		t.endFresh(t.head(i, &rec), err, retry.Decision{Verdict: retry.Ended, End: t.failure.set.Then, Class: "redriven"})
		return
	}
	t.parkEntry(t.head(i, &rec), &e, nil)
}
