package task

import "fmt"

// State is where an Owner is in its life.
//
//	             Resume
//	           ┌─────────┐
//	           ▼         │
//	Created ─► Running ─► Releasing ─► Released ─► Closed
//	           ▲             │            │          ▲
//	           │             ▼            │          │
//	           │           Failed ────────┼──────────┤
//	           └──────────────────────────┘          │
//	             Resume                              │
//	           any state ────── Close ───────────────┘
//
// A record that fails takes the task through Releasing too: what precedes it is committed first. A task that is lost goes to Released
// without a commit; it cannot be resumed.
type State uint8

const (
	StateCreated   State = iota // made, no event yet
	StateRunning                // processes records
	StateReleasing              // takes nothing more; commits the rest
	StateReleased               // nothing uncommitted; can be resumed
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
	StateCreated:   {StateRunning, StateReleasing, StateReleased, StateClosed},
	StateRunning:   {StateReleasing, StateReleased, StateFailed, StateClosed},
	StateReleasing: {StateRunning, StateReleased, StateFailed, StateClosed},
	StateReleased:  {StateRunning, StateFailed, StateClosed},
	StateFailed:    {StateReleased, StateClosed},
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
