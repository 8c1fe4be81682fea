package task

import (
	"fmt"
	"time"
)

// Lag says how far a task has come with one input.
type Lag struct {
	Position int64 // the first offset that is not done: processed, left out, put aside to be tried again, or dead-lettered
	Done     int64 // how many offsets above it are done
	// Oldest is the timestamp, in ms, of the record that is taken next; where it has not come yet, the highest that was taken. -1: neither.
	Oldest int64
	Why    string // nothing is taken, in words; empty where there is no reason that the task knows
}

// Lag says how far the task has come with an input.
func (o *Owner) Lag(input int) Lag {
	t := o.t
	q := &t.in.all[input]
	g := Lag{Position: t.low(input), Oldest: q.time, Why: t.whyNot(input)}
	if w := q.window; w != nil {
		g.Done = max(0, w.Width()-int64(w.Open()))
	}
	if p := t.gap(input); p != nil { // the position is its own, and all between it and the end is in one of the two
		g.Done += max(0, p.hi-g.Position-int64(p.window.Open())) + max(0, t.mainLow(input)-p.hi)
	}
	if !q.empty() {
		g.Oldest = q.peek().Timestamp
	}
	return g
}

// whyNot says why the record at the head of an input is not taken.
func (t *Task) whyNot(input int) string {
	f := &t.failure
	at := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
	tr := &f.tries[input]
	switch {
	case t.err != nil:
		return "the task has stopped: " + t.err.Error()
	case tr.attempt > 0 && tr.err != nil:
		return fmt.Sprintf("the record at offset %d has failed %d times, and is tried again at %s (last at %q: %s: %v)",
			tr.offset, tr.attempt, at(max(tr.due, f.until)), tr.err.Node, tr.err.Kind, tr.err.Err)
	case f.until > t.now:
		return fmt.Sprintf("the task takes nothing before %s: %s", at(f.until), f.why)
	case f.emitting:
		return "a row that the task sends at its commit fails, and is tried again"
	case t.holdsBack():
		return "so many records have failed in one way that one at a time is tried"
	case t.out.held() >= t.cfg.CreditBytes:
		return fmt.Sprintf("%d bytes that the task has written wait for the brokers to acknowledge them", t.out.pending())
	case t.commit.blocked || t.commit.wanted:
		return "the task waits for a commit that its function has asked for"
	case len(t.stores) > 0 && t.dirtyBytes() >= t.cfg.DirtyBytes:
		return "the task waits for a commit: it has changed as much of its state as it may"
	case t.crew != nil && t.crew.running > 0 && !t.dispatchable():
		return fmt.Sprintf("%d workers are busy with records that they do not come back with", t.crew.running)
	case t.in.next() >= 0 && t.idles():
		return "the task waits for another input, or for records that were put aside, to come first"
	}
	return ""
}
