package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// A standby or a learner follows the changelogs of its task for as long as it is one. What it reads is written in large pieces while it is far
// behind, and several times a second when it has caught up: what has been read and not been written is all that a promotion has to wait for.
const (
	tailEvery = 200 * time.Millisecond
	bulkTail  = 5 << 20 // bytes of a write from which on tables of their own cost less, where most keys are there already
)

// follower paces what followers write.
type follower struct {
	freeAt time.Time // the budget is used up until then
	due    time.Time // a write that waits is due; zero if none does
}

// follows says whether the task has anything that can be followed.
func (l *life) follows() bool { return hasChangelogs(l.spec) }

// hasChangelogs says whether there is any state that another process could have as well. A task without it, though it may have stores, is
// moved as one that is stateless: its receiver would wait for ever to have learned it.
func hasChangelogs(s *task.Spec) bool {
	return slices.ContainsFunc(s.Stores, func(st task.Store) bool { return st.Changelog != "" })
}

// runsHere says that the life is, or shall be, the one that processes.
func (l *life) runsHere() bool {
	if l.state == lifeClosing && l.again {
		return l.then == Active
	}
	return l.role == Active
}

// beginFollow follows the changelogs from the stored positions on, or goes on with it.
func (e *Engine) beginFollow(l *life) {
	l.open, l.learn = nil, &learning{since: e.now}
	e.setLife(l, lifeFollowing)
	for _, p := range l.restore {
		p.tail, p.goal = true, p.end
		switch {
		case !p.begun:
			p.begun, p.writing = true, -1
			e.fit(l, p)
			e.beginPart(l, p)
		case p.done, !p.waits && !p.wiping && e.routes.all[l.source(p)] == nil: // it was read to its end
			p.done = false
			e.fetchPart(l, p)
		default:
			e.endRoute(l.source(p), 0)
		}
	}
}

// pace says whether a follower may write what it has read. It is asked again when it may.
func (e *Engine) pace(l *life, p *restorePart) bool {
	if l.state != lifeFollowing {
		return true // somebody waits for the task
	}
	size := p.bytes + len(p.changes)*changeBytes
	at := e.follow.freeAt
	if size < e.piece(p) { // it has caught up: that is little, and not to be held up
		at = p.wrote.Add(tailEvery)
	}
	if e.now.Before(at) {
		e.writeAt(at)
		return false
	}
	e.spend(size)
	return true
}

func (e *Engine) writeAt(at time.Time) {
	if e.follow.due.IsZero() || at.Before(e.follow.due) {
		e.follow.due = at
	}
}

// spend takes bytes out of the budget that followers have while tasks run beside them.
func (e *Engine) spend(size int) {
	if e.cfg.LearnRate <= 0 || !e.anyRuns() {
		return
	}
	if e.follow.freeAt.Before(e.now) {
		e.follow.freeAt = e.now
	}
	e.follow.freeAt = e.follow.freeAt.Add(time.Duration(float64(size) / float64(e.cfg.LearnRate) * float64(time.Second)))
}

func (e *Engine) anyRuns() bool {
	return slices.ContainsFunc(e.order, func(l *life) bool { return l.state == lifeRunning })
}

// flushFollowers writes what has waited long enough.
func (e *Engine) flushFollowers() {
	if e.follow.due.IsZero() {
		return
	}
	if e.now.Before(e.follow.due) {
		e.wakeAt(e.follow.due)
		return
	}
	e.follow.due = time.Time{}
	for _, l := range e.order {
		if l.state != lifeFollowing {
			continue
		}
		for _, p := range l.restore {
			e.writePart(l, p)
		}
	}
	if !e.follow.due.IsZero() {
		e.wakeAt(e.follow.due)
	}
}

// lag is how many changelog records are missing in the stores, as far as is known; -1 where it is not.
func (l *life) lag() int64 {
	if len(l.restore) == 0 || l.state == lifeOpening && !l.begun() {
		return l.lacked
	}
	n := int64(0)
	for _, p := range l.restore {
		n += max(0, p.end-max(p.pos, p.first))
	}
	return n
}

// begun says that all changelogs are being read.
func (l *life) begun() bool {
	for _, p := range l.restore {
		if !p.begun {
			return false
		}
	}
	return len(l.restore) > 0
}
