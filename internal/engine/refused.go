package engine

import (
	"errors"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// A record that a broker refuses was made by a unit that is done: no policy can undo it any more. Where the task has a policy for produce, its
// life is given up without a commit, as in a crash, and the next one begins at the last commit with the refusal known: then the unit fails in
// its place.

// refusals are what is known of the records of one task.
type refusals struct {
	known []task.Refusal
	grant int32 // the generation that granted the last life that has ended so
	lives int   // that have ended so without another offset being committed
	done  int64 // offsets that were committed by then, of all inputs together
}

// mostRefusals bounds the lives that end without progress: what a unit writes may be another record each time, which is never known.
const mostRefusals = 32

// mostKnown bounds what is remembered of one task; the oldest are forgotten first.
const mostKnown = 1000

// makeAgain goes back to the last commit of a task of which a broker has refused a record. It reports false where that would not help.
func (e *Engine) makeAgain(l *life, err error) bool {
	var refused *ProduceError
	// One whose process leaves for want of room has its next life later, or elsewhere: that is no reason to end the application.
	if !errors.As(err, &refused) || !refused.one || e.state == Closing || l.role != Active || !l.spec.Failure.For(string(task.KindProduce)).Named() || l.logs(refused.To) {
		return false
	}
	r := e.refusals[l.id]
	if r == nil {
		r = &refusals{grant: -1}
		e.refusals[l.id] = r
	}
	done := int64(0)
	for _, offset := range l.done {
		done += max(0, offset)
	}
	if done > r.done {
		r.done, r.lives = done, 0
	}
	now := e.now.UnixMilli()
	r.known = slices.DeleteFunc(r.known, func(k task.Refusal) bool { return !k.Holds(now) })
	known := slices.ContainsFunc(r.known, func(k task.Refusal) bool { return k.Topic == refused.To.Topic && k.Print == refused.record })
	if r.lives++; known || r.lives > mostRefusals {
		return false
	}
	if len(r.known) >= mostKnown {
		r.known = slices.Delete(r.known, 0, 1)
	}
	r.known = append(r.known, task.Refusal{Topic: refused.To.Topic, Print: refused.record, At: now, Err: refused})
	e.note(Notice{Kind: NoticeRetry, What: "records of task " + l.id.String() + " that " + refused.To.String() + " does not take, from its last commit on", Err: refused})
	r.grant = e.granted
	e.loseLife(l)
	l.again, l.then = true, Active
	return true
}

// logs says that a partition is that of one of the changelogs of a life.
func (l *life) logs(tp task.TopicPartition) bool {
	for i := range l.spec.Stores {
		if l.changelog(i) == tp {
			return true
		}
	}
	return false
}

// repeats says that a life follows one that was given up here, and that nobody can have run the task in between: a last commit which says that the
// task runs tells of no crash then.
func (e *Engine) repeats(l *life) bool {
	r := e.refusals[l.id]
	return r != nil && r.grant == l.grant
}

// repeat tells a life what is known of refused records.
func (e *Engine) repeat(l *life, start *StartTask) {
	r := e.refusals[l.id]
	if r == nil {
		return
	}
	start.Refused = slices.Clone(r.known)
	for i := range start.Committed {
		start.Committed[i].Running = start.Committed[i].Running && !e.repeats(l)
	}
	r.grant = -1
}
