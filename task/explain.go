package task

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/retry"
)

// Explanation says where one record of an input is in a task.
type Explanation struct {
	State   RecordState
	Attempt int    // tries that have failed
	Due     int64  // ms since the epoch: not tried before; 0 where nothing is to be waited for
	Node    string // of the last failure
	Class   string
	Error   string
	Behind  retry.Origin // the record that it waits for, of its key
	Waits   int64        // ms since the epoch: the whole task takes nothing before
	Why     string       // the task waits
	// Committed and Position are the offsets of the record's partition up to which everything is committed and has been taken.
	Committed, Position int64
}

// RecordState is where a record is.
type RecordState string

// The states of a record.
const (
	RecordAhead     RecordState = "ahead"     // the task has not come to it
	RecordGap       RecordState = "gap"       // the main path has left it behind; the second path has not come to it
	RecordHead      RecordState = "head"      // it is next, and has failed
	RecordRunning   RecordState = "running"   // a worker runs it
	RecordParked    RecordState = "parked"    // it is put aside and will be tried again
	RecordFollows   RecordState = "follows"   // it is put aside behind one of its key
	RecordInert     RecordState = "inert"     // it was put aside before a crash and waits for the main path to come to it again
	RecordDone      RecordState = "done"      // it is done, and not committed yet
	RecordCommitted RecordState = "committed" // it is done: processed, skipped or dead-lettered
)

func (e Explanation) String() string {
	s := string(e.State)
	if e.Attempt > 0 {
		s += fmt.Sprintf(", failed %d times (last at %q: %s: %s)", e.Attempt, e.Node, e.Class, e.Error)
	}
	if e.Due > 0 {
		s += ", tried again not before " + time.UnixMilli(e.Due).UTC().Format(time.RFC3339Nano)
	}
	if e.Behind != (retry.Origin{}) {
		s += fmt.Sprintf(", waits behind %s-%d at offset %d, which has the same key", e.Behind.Topic, e.Behind.Partition, e.Behind.Offset)
	}
	if e.Why != "" {
		s += fmt.Sprintf("; the task takes nothing before %s: %s", time.UnixMilli(e.Waits).UTC().Format(time.RFC3339Nano), e.Why)
	}
	return s + fmt.Sprintf("; partition: %d taken, %d committed", e.Position, e.Committed)
}

// Input is the number of the input that reads a topic, of which there is a partition for the task.
func (o *Owner) Input(topic string) (int, bool) {
	for i, in := range o.t.cfg.Spec.Inputs {
		if in.Topic == topic {
			return i, !o.t.in.all[i].absent
		}
	}
	return 0, false
}

// Explain says where the record at an offset of an input is.
func (o *Owner) Explain(input int, offset int64) Explanation {
	t := o.t
	f := &t.failure
	q := &t.in.all[input]
	e := Explanation{Committed: t.commit.low[input], Position: q.position}
	if f.until > t.now {
		e.Waits, e.Why = f.until, f.why
	}
	if f.pool != nil {
		if item, inert := f.pool.index.Find(t.origin(input, offset)); item != nil {
			t.explainParked(&e, item, inert)
			return e
		}
	}
	tr := &f.tries[input]
	g := t.gap(input)
	if g != nil && offset < g.hi {
		tr = g.tries
	}
	switch {
	case offset < e.Committed:
		e.State = RecordCommitted
	case g != nil && offset < g.hi:
		e.State = g.stateOf(offset)
	case q.window != nil && offset < q.window.Next() && q.window.IsOpen(offset):
		e.State = RecordRunning
	case offset < q.position:
		e.State = RecordDone
	default:
		e.State = RecordAhead
	}
	if tr.offset == offset && tr.attempt > 0 && (e.State == RecordAhead || e.State == RecordGap) {
		e.State, e.Attempt, e.Due = RecordHead, tr.attempt, tr.due
		if tr.err != nil {
			e.Node, e.Class, e.Error = tr.err.Node, retry.Class(string(tr.err.Kind), tr.err.Err), tr.err.Err.Error()
		}
	}
	return e
}

func (t *Task) explainParked(e *Explanation, item *retry.Item, inert bool) {
	e.Attempt, e.Node, e.Class, e.Error = item.Attempt, item.Node, item.Class, t.messageOf(item)
	switch {
	case inert:
		e.State = RecordInert
	case item.Running():
		e.State = RecordRunning
	case item.Due == retry.Follows:
		e.State = RecordFollows
		if head := item.Ahead(); head != nil {
			e.Behind = head.Origin
		}
	default:
		e.State, e.Due = RecordParked, item.Due
	}
}
