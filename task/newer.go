package task

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/retry"
)

// A newer version of the program may have put records aside in a way that this one cannot read. They stay where they are until it runs again:
// nothing here runs them, ends them or writes over them. Whose key they have is not known, so that they close no gate: later records of their
// keys are not held back.

// newer is what is known of such records.
type newer struct {
	all    int                       // rows in the retry store
	unseen map[retry.Origin]struct{} // those whose record the last commit does not show as done: the main path comes to it again
}

// leaveNewer leaves a row alone that a newer version has written.
func (p *pool) leaveNewer(o retry.Origin, done bool) {
	n := &p.newer
	n.all++
	if done {
		return
	}
	if n.unseen == nil {
		n.unseen = map[retry.Origin]struct{}{}
	}
	n.unseen[o] = struct{}{}
}

// at finds the row of a record that a newer version may have put aside.
func (n *newer) at(o retry.Origin) (retry.Origin, bool) {
	for _, o := range []retry.Origin{o, {Topic: o.Topic, Partition: o.Partition, Offset: o.Offset}} {
		if _, is := n.unseen[o]; is {
			return o, true
		}
	}
	return o, false
}

// alarmNewer tells people of the rows that a newer version has written. o is one of them.
func (t *Task) alarmNewer(o retry.Origin) {
	n := t.failure.pool.newer.all
	t.note(Note{Kind: NoteNewer, Attempt: n, Err: &Error{
		Task: t.cfg.ID, Topic: o.Topic, Partition: o.Partition, Offset: o.Offset, Node: "retry store", Kind: KindDecode,
		Err: fmt.Errorf("%d records were put aside in a form that this version does not know; they stay there until the newer version runs again: %w", n, retry.ErrNewer),
	}})
}

// keptNewer says that the record at the head of an input is put aside in a row of a newer version, and finishes it then: the row is what is to be
// run, and a second one would take its place.
func (t *Task) keptNewer(i int, r *Record) bool {
	if !t.findNewer(i, r) {
		return false
	}
	t.skipped(i, r)
	t.guard()
	return true
}

// findNewer says that a record is put aside in a row of a newer version. Its payload may not have been written.
func (t *Task) findNewer(i int, r *Record) bool {
	p := t.failure.pool
	if p == nil || len(p.newer.unseen) == 0 {
		return false
	}
	o, is := p.newer.at(t.origin(i, r.Offset))
	if !is {
		return false
	}
	delete(p.newer.unseen, o)
	switch err := t.readPayload(o, nil); {
	case err == nil && o.ID != t.topicID(i) && !p.rec.isLike(r):
		return false // it is of another record, and both are there under their own keys
	case errors.Is(err, errNoPayload):
		p.payload = appendPayload(p.payload[:0], o, r)
		t.begin(-1, -1)
		t.unit.node = "retry store"
		t.putPayload(o)
		t.end()
	}
	return true
}
