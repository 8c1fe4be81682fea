package engine

import (
	"cmp"
	"time"

	"github.com/understudy-streams/understudy/internal/group"
)

// draining is an end that waits until others have taken over: the tasks run on here until somebody has learned them.
type draining struct {
	on    bool
	until time.Time
}

const drainWithin = 10 * time.Minute

// drain begins to hand everything over. An end that is under way goes on.
func (e *Engine) drain(ev Drain) {
	if e.stopping() || e.state == Created || e.draining.on {
		return
	}
	e.draining = draining{on: true, until: e.now.Add(cmp.Or(ev.Within, drainWithin))}
	e.step(group.Drain{})
}

// settleDraining ends the application when it owns nothing more, when nobody else is there, or when it has waited long enough.
func (e *Engine) settleDraining() {
	if !e.draining.on || e.stopping() || e.state == Closed {
		return
	}
	if !e.now.Before(e.draining.until) {
		e.close(0)
		return
	}
	e.wakeAt(e.draining.until)
	if !e.assigned || e.prepare != nil {
		return
	}
	if e.members > 1 {
		for _, l := range e.order {
			if l.runsHere() && !l.stuck {
				return
			}
		}
	}
	e.close(0)
}
