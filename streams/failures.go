package streams

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/task"
)

// Failures are about the records of one task that have failed: counts since the task was started here, and how it is with those that are put
// aside. No gauge is negative.
type Failures = task.FailureStats

// Explanation says where one record is, and why it is not done. Its String is for people.
type Explanation = task.Explanation

// RecordState is where a record is.
type RecordState = task.RecordState

// The states of a record.
const (
	RecordAhead     = task.RecordAhead     // the task has not come to it
	RecordHead      = task.RecordHead      // it is next, and has failed
	RecordRunning   = task.RecordRunning   // a worker runs it
	RecordParked    = task.RecordParked    // it is put aside and will be tried again
	RecordFollows   = task.RecordFollows   // it is put aside behind one of its key
	RecordInert     = task.RecordInert     // it was put aside before a crash and waits for the main path to come to it again
	RecordDone      = task.RecordDone      // it is done, and not committed yet
	RecordCommitted = task.RecordCommitted // it is done: processed, skipped or dead-lettered
)

// ErrNotHere is returned by Explain for a partition whose task does not run in this process, or does not answer in time.
var ErrNotHere = errors.New("streams: the task does not run in this process, or is in the middle of a long call: ask the process that App.Tasks names as its owner")

// Explain says where a record of a topic that is read is, and why it is not done. It waits for the call of user code that is under way, if
// there is one, until ctx ends. The error is ErrNotHere, or about a topic that is not read.
func (a *App) Explain(ctx context.Context, topic string, partition int32, offset int64) (Explanation, error) {
	for _, s := range a.Topology().Subtopologies {
		if !slices.ContainsFunc(s.Inputs, func(in task.Input) bool { return in.Topic == topic }) {
			continue
		}
		a.mu.Lock()
		r := a.runtime
		a.mu.Unlock()
		if r == nil {
			return Explanation{}, ErrNotHere
		}
		id := task.ID{Subtopology: s.Subtopology, Partition: partition}
		var reads bool // not yet, where it is a topic of a pattern that has just come
		e, told := shell.Ask(ctx, r, id, func(o *task.Owner) (e Explanation) {
			var i int
			if i, reads = o.Input(topic); reads {
				e = o.Explain(i, offset)
			}
			return e
		})
		if !told || !reads {
			return Explanation{}, ErrNotHere
		}
		return e, nil
	}
	return Explanation{}, fmt.Errorf("streams: topic %q is not read", topic)
}

// tellFailure reports what a task says of a record that has failed.
func (l *Listener) tellFailure(n *task.Note) {
	err := NewRecordError(n.Err)
	switch {
	case n.Kind == task.NoteDeadLetter && l.DeadLetter != nil:
		l.DeadLetter(err)
	case n.Kind == task.NoteSkip && l.Skipped != nil:
		l.Skipped(err)
	case n.Kind == task.NoteWaits && l.Waits != nil:
		l.Waits(err, timeOf(n.Until))
	case n.Kind == task.NoteOutage && l.Outage != nil:
		l.Outage(err, timeOf(n.Until))
	case n.Kind == task.NoteSuspect && l.Suspect != nil:
		l.Suspect(err, n.Attempt)
	}
}

// logFailure writes a line, at most one in ten seconds for each kind and task: whoever wants all looks at the dead letters.
func (a *App) logFailure(n engine.Notice) {
	what := map[task.NoteKind]string{
		task.NoteDeadLetter: "record has failed for good, it is in the dead-letter topic",
		task.NoteSkip:       "record has failed for good, it is left out",
		task.NoteWaits:      "record fails again and again, the task waits for it",
		task.NoteOutage:     "records fail one after the other in the same way: one at a time is tried from here on",
		task.NoteSuspect:    "processes have died in the middle of a record",
		task.NoteNewer:      "records that a newer version of the program has put aside stay in the retry topic until it runs again",
	}[n.Failure.Kind]
	if what == "" || !a.sayAgain(what+n.Task.String()) {
		return
	}
	fields := []zap.Field{zap.Stringer("task", n.Task), zap.Int("attempt", n.Failure.Attempt)}
	if e := n.Failure.Err; e != nil {
		fields = append(fields, zap.String("topic", e.Topic), zap.Int32("partition", e.Partition), zap.Int64("offset", e.Offset), zap.Error(NewRecordError(e)))
	}
	a.cfg.Log.Warn(what, fields...)
}
