package engine

import (
	"time"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// TaskStatus is what is known of a task that is here.
type TaskStatus struct {
	Task     task.ID
	Role     Role
	State    string
	Owner    string // the member that runs it, where that is known
	Lag      int64  // changelog records that a copy is behind; -1 unknown, 0 for what runs
	Position int64  // of the first changelog; -1 where there is none
	Ready    bool   // a learner that could take over
	ETA      time.Duration
	Since    time.Time // of State
	Move     string    // the reason of its last move
}

// maxETA is the longest that is told of.
const maxETA = 365 * 24 * time.Hour

// Joined reports whether the last assignment stands: no other round has begun here, as far as this process knows.
func (e *Engine) Joined() bool { return e.assigned && e.member.State() == group.Joined }

// Tasks returns what is known of the tasks that are here, in order. It changes nothing.
func (e *Engine) Tasks() []TaskStatus {
	if e.state == Closed {
		return nil
	}
	out := make([]TaskStatus, 0, len(e.order))
	member, _, _ := e.member.Membership()
	for _, l := range e.order {
		s := TaskStatus{Task: l.id, Role: l.role, State: l.state.String(), Owner: l.owner, Position: -1, Since: l.since, Move: l.move}
		if l.role == Active {
			s.Owner = member
		}
		e.progressOf(l, &s)
		out = append(out, s)
	}
	return out
}

func (e *Engine) progressOf(l *life, s *TaskStatus) {
	for i := range l.spec.Stores {
		if l.spec.Stores[i].Changelog != "" && i < len(l.at) {
			s.Position = l.at[i]
			break
		}
	}
	if !l.restores() {
		return
	}
	s.Lag = l.lag()
	if s.Lag > 0 {
		s.ETA = time.Duration(min(e.eta(l, s.Lag), maxETA.Seconds()) * float64(time.Second))
	}
	s.Ready = l.learn != nil && l.learn.ready
}
