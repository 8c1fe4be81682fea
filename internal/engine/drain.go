package engine

import (
	"cmp"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/group"
)

// draining is an end that waits until others have taken over: the tasks run on here until somebody has learned them.
type draining struct {
	on    bool
	until time.Time
}

const drainWithin = 10 * time.Minute

// drain begins to hand everything over. An end that is under way goes on; a drain that is under way may be given less time.
func (e *Engine) drain(ev Drain) {
	if e.state == Closing || e.state == Closed || e.state == Created {
		return
	}
	until := e.now.Add(cmp.Or(ev.Within, drainWithin))
	if e.draining.on {
		e.draining.until = minTime(e.draining.until, until)
		return
	}
	e.draining = draining{on: true, until: until}
	e.step(group.Drain{})
}

// settleDraining ends the application when it owns nothing more, when nobody is there to take it over, or when it has waited long enough.
func (e *Engine) settleDraining() {
	if !e.draining.on || e.state == Closing || e.state == Closed {
		return
	}
	if e.state == Suspended || !e.now.Before(e.draining.until) {
		e.close(0)
		return
	}
	e.wakeAt(e.draining.until)
	if e.prepare == nil && (e.assigned && e.alone() || !e.owns()) {
		e.close(0)
	}
}

// alone says that there is nobody to hand anything over to: all others, if there are any, want to leave as well.
func (e *Engine) alone() bool { return e.members == 1 || e.members > 0 && e.leaving == e.members }

// owns says that there is a task that processes here, or will if all goes on as it is.
func (e *Engine) owns() bool {
	return slices.ContainsFunc(e.order, func(l *life) bool { return l.runsHere() && !l.stuck })
}
