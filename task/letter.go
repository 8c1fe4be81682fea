package task

import (
	"cmp"
	"fmt"

	"github.com/understudy-streams/understudy/retry"
)

// letter is a dead letter that is to be written: the record as it was read, and what there is to say of its failure.
type letter struct {
	input      int // whose dead-letter topic takes it
	key, value []byte
	timestamp  int64
	original   []Header
	says       retry.Letter
	err        *Error
	attempt    int
}

func (t *Task) letterFor(input int, r *Record, err *Error, class string, attempts int, first int64) *letter {
	return &letter{
		input: input, key: r.Key, value: r.Value, timestamp: r.Timestamp, original: r.Headers, err: err, attempt: attempts,
		says: retry.Letter{
			Origin: retry.Origin{Topic: err.Topic, Partition: err.Partition, Offset: err.Offset}, Attempts: attempts, First: first, Class: class, Node: err.Node,
			Task: t.cfg.ID.String(), Exception: retry.Class(string(err.Kind), err.Err), Message: err.Err.Error(), Stack: string(err.Stack),
		},
	}
}

// letterOf is the dead letter of a record of the main path.
func (t *Task) letterOf(s subject, err *Error, d retry.Decision) *letter {
	l := t.letterFor(t.entryInput(s.input), s.r, err, d.Class, err.Attempts, s.tries.first)
	if says := s.tries.says; says != nil {
		l.says.Origin, l.says.Redriven, l.says.Row = says.Origin, says.Redriven, says.Row
	}
	return l
}

// letterOfRetry is the dead letter of a record that was put aside, which was just read. It is nil where the policy skips it.
func (t *Task) letterOfRetry(item *retry.Item, err *Error, d retry.Decision) *letter {
	if d.End != retry.EndDeadLetter {
		return nil
	}
	p := t.failure.pool
	l := t.letterFor(t.entryInput(p.inputs[item.Topic]), &p.rec, err, d.Class, max(item.Attempt+1, 1), item.First)
	l.says.Origin, l.says.Redriven = item.Origin, item.Redriven
	if item.Root != (retry.Origin{}) {
		l.says.Origin = item.Root
	}
	return l
}

// letterOfRow is the dead letter of a row that belongs to no record: its key and value, or for a punctuation neither.
func (t *Task) letterOfRow(kind unitKind, err *Error, first int64) *letter {
	f := &t.failure
	r, of := Record{Timestamp: t.rowTime()}, ""
	if kind == rowUnit {
		table := &t.graph.Tables[f.rows.table]
		key, row, present, _, _ := t.stores[table.Store].Dirty(f.rows.key)
		if r.Key = key; present {
			r.Value, r.Timestamp = row.Value, row.Timestamp
		}
		of = t.cfg.Spec.Stores[table.Store].Spec.Name
	} else {
		of = f.rows.timer.node
	}
	l := t.letterFor(0, &r, err, retry.ClassRow, err.Attempts, first)
	l.says.Row = cmp.Or(of, "punctuation") // without a name it would be no letter
	return l
}

// deadLetter writes a dead letter, in a unit of its own. It is false if that cannot be done: then the task stops.
func (t *Task) deadLetter(l *letter) bool {
	t.begin(-1, -1)
	t.unit.node = "dead letter"
	t.send(l)
	if !t.end() {
		return false
	}
	t.letterSent(l)
	return true
}

// send appends a dead letter to what the task sends. It is called in a unit.
func (t *Task) send(l *letter) {
	d := t.cfg.Spec.Inputs[l.input].DeadLetters - 1
	if d < 0 {
		t.env.Fail("dead letter", KindProduce, fmt.Errorf("there is no topic for dead letters of %q", t.cfg.Spec.Inputs[l.input].Topic))
		return
	}
	headers := taskHeaders(l.says.AppendHeaders(nil, retryHeaders(l.original)))
	b := append(append(t.env.Tail(), l.key...), l.value...)
	t.env.Send(d, -1, b, length(l.key), length(l.value), max(l.timestamp, 0), headers)
}

func (t *Task) letterSent(l *letter) {
	t.failure.counts.DeadLetters++
	t.failure.flood.sent++
	t.note(Note{Kind: NoteDeadLetter, Err: l.err, Attempt: l.attempt})
}

// flood counts dead letters by the minute.
type flood struct {
	minute int64
	sent   int
}

// flooded says that no more dead letters may be written in this minute, of which so many belong together. The task waits for the next one. More
// than a minute's at once are written at the beginning of a minute: else they never would be.
func (t *Task) flooded(together int) bool {
	f := &t.failure
	if f.set.Flood <= 0 {
		return false
	}
	if m := t.now / minute; m != f.flood.minute {
		f.flood = flood{minute: m}
	}
	if f.flood.sent == 0 || f.flood.sent+together <= f.set.Flood {
		return false
	}
	t.holdOff((f.flood.minute+1)*minute, fmt.Sprintf("%d dead letters were written in this minute", f.flood.sent))
	return true
}
