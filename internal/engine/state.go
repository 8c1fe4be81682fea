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

// lifeState is how far one task of this process has come:
//
//	opening ─→ restoring ─→ running ⇄ releasing ─→ released
//	   │           │          │           │           │
//	   └───────────┴──────────┴───────────┴───────────┴──→ closing ─→ (gone)
//
// opening waits for stores, committed offsets and log bounds; released tasks keep their stores open and resume at no cost.
type lifeState uint8

const (
	lifeOpening lifeState = iota
	lifeRestoring
	lifeRunning
	lifeReleasing
	lifeReleased
	lifeClosing
)

func (s lifeState) String() string {
	return [...]string{"opening", "restoring", "running", "releasing", "released", "closing"}[s]
}
