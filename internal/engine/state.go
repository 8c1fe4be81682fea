package engine

// State is the life of an application:
//
//	Created ─→ Starting ─→ Rebalancing ⇄ Running
//	   │        │     ↑         │           │
//	   │        ├─ Suspended ←──┴───────────┤
//	   └────────┴───────┴───────────────────┴──→ Closing ─→ Closed
//
// Starting lasts until the topics are there; Rebalancing until every task assigned here runs; Closing drains, commits and leaves.
// Suspended waits, outside of the group, for room on the disk.
type State uint8

// The states of an application.
const (
	Created State = iota
	Starting
	Rebalancing
	Running
	Suspended
	Closing
	Closed
)

func (s State) String() string {
	return [...]string{"created", "starting", "rebalancing", "running", "suspended", "closing", "closed"}[s]
}

// Role is what a process has a task for.
type Role uint8

// The roles.
const (
	Active  Role = iota // it processes records
	Standby             // it keeps a copy of the state, for the case that the owner fails
	Learner             // it makes a copy of the state, to own the task when that is done
)

func (r Role) String() string { return [...]string{"active", "standby", "learner"}[r] }

// lifeState is how far one task of this process has come:
//
//	opening ─→ restoring ─→ running ⇄ releasing ─→ released
//	  ↑ │          ↑↓          │           │           │
//	  │ └────→ following       └───────────┴───────────┴──→ closing ─→ (gone)
//	  └────────────────────────────────────────────────────────┘
//
// opening waits for stores, committed offsets and log bounds; released tasks keep their stores open and resume at no cost. A standby or a
// learner follows its changelogs; when it is made active it opens again, with its stores as they are, while it reads on. A task that closes
// and has another role here goes on in that, once its owner has ended, with its stores as they are.
type lifeState uint8

const (
	lifeOpening lifeState = iota
	lifeRestoring
	lifeRunning
	lifeReleasing
	lifeReleased
	lifeClosing
	lifeFollowing
)

func (s lifeState) String() string {
	return [...]string{"opening", "restoring", "running", "releasing", "released", "closing", "following"}[s]
}
