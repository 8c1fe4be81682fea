package streams

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
)

// Role is what a process has a task for.
type Role uint8

// The roles of a process for a task.
const (
	RoleActive  = Role(engine.Active)  // it processes records
	RoleStandby = Role(engine.Standby) // it keeps a copy of the state, for the case that the owner fails
	RoleLearner = Role(engine.Learner) // it copies the state, to own the task when that is done; the owner runs it meanwhile
)

func (r Role) String() string { return engine.Role(r).String() }

// TaskInfo says how things are with a task in this process.
type TaskInfo struct {
	ID   TaskID
	Role Role
	// State is opening, restoring, running, releasing, released, following or closing: see [Listener].Task.
	State string
	// Since is when it came into that state.
	Since time.Time
	// Owner is the member of the group that runs the task, this one if Role is RoleActive; empty where that is not known.
	Owner string
	// Lag is how many changelog records the state here is behind: 0 for a task that runs, -1 where it is not known yet.
	Lag int64
	// Position is the offset of its first changelog that the state here has come to; -1 where there is none. Its newest part may be in memory
	// only: after a crash it is read from the changelog again.
	Position int64
	// Ready is set for a learner that could take its task over.
	Ready bool
	// ETA estimates how long it takes to catch up; 0 where there is nothing to catch up with, or no telling.
	ETA time.Duration
	// Reason is that of the task's last move here or from here, in words; empty if it has not moved.
	Reason string
	// Failures are about the records that have failed, for a task that runs here; nil if it does not, or is in the middle of a long call.
	Failures *Failures
}

// failuresWithin is how long Tasks waits for what tasks say of their failures.
const failuresWithin = 20 * time.Millisecond

// Tasks returns the tasks that this process runs, or has a copy of, in order; none before Run and after it. It may be called at any time, by
// functions of the listener as well, and takes no longer than one decision of the runtime and 20 ms.
func (a *App) Tasks() []TaskInfo {
	a.mu.Lock()
	r := a.runtime
	a.mu.Unlock()
	if r == nil || a.State() == StateClosed {
		return nil
	}
	var out []TaskInfo
	failures := r.Failures(failuresWithin)
	for _, s := range r.Tasks() {
		info := TaskInfo{
			ID: s.Task, Role: Role(s.Role), State: s.State, Since: s.Since, Owner: s.Owner, Lag: s.Lag, Position: s.Position,
			Ready: s.Ready, ETA: s.ETA, Reason: s.Move,
		}
		if f, told := failures[s.Task]; told && s.Role == engine.Active {
			info.Failures = &f
		}
		out = append(out, info)
	}
	return out
}
