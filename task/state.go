package task

import "fmt"

// State is where an Owner is in its life.
//
//	Created ──► Running ──► Releasing ──► Released
//	               ▲            │            │
//	               ├── Resume ──┴── Resume ──┘
//
//	Running ──── Lost ────► Released      without a commit; it cannot be resumed
//	Released ── Rewrite ──► Releasing     its changelog has to be repaired first
//	Releasing ─ failure ──► Failed        what precedes the failure is committed first
//	Released ── Resume ───► Failed        of a task that was lost
//	any ──────── Close ───► Closed
//
// A record that fails takes the task from Running through Releasing to Failed.
type State uint8

const (
	StateCreated   State = iota // made, no event yet
	StateRunning                // processes records
	StateReleasing              // takes nothing more; commits the rest
	StateReleased               // nothing uncommitted; Resume is possible
	StateFailed                 // a unit or a commit failed; only Close is left
	StateClosed
)

var stateNames = [...]string{"created", "running", "releasing", "released", "failed", "closed"}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// legal has the transitions that exist. Everything else is our bug.
var legal = map[State][]State{
	StateCreated:   {StateRunning},
	StateRunning:   {StateReleasing, StateReleased, StateClosed},
	StateReleasing: {StateRunning, StateReleased, StateFailed, StateClosed},
	StateReleased:  {StateRunning, StateReleasing, StateFailed, StateClosed},
	StateFailed:    {StateClosed},
	StateClosed:    {},
}

func (s State) canBecome(to State) bool {
	for _, n := range legal[s] {
		if n == to {
			return true
		}
	}
	return false
}
