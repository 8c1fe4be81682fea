package assignor

import "github.com/understudy-streams/understudy/task"

// Plan is what the leader decided. Members and all lists are sorted.
type Plan struct {
	Members []MemberPlan
	// Frozen are tasks that two members claimed with equal right: both drop them, and nobody runs them until the next round.
	Frozen []task.ID
	// Unassigned are tasks that no member can run.
	Unassigned []task.ID
	// Moves are all changes of owner, begun or done by this plan, each with its reason.
	Moves []Move
	// Forms are the forms of the subtopologies that the plan is made for: who has another must not run a task that it did not run before.
	Forms []Hash
	// Draining is how many members want to leave.
	Draining int
	// Degraded says why the plan moves nothing, if the planned one had failed its own check; empty otherwise.
	Degraded string
}

// MemberPlan is what one member is told.
type MemberPlan struct {
	ID       string
	Active   []task.ID
	Marks    []Mark
	Learners []Incoming
	Standbys []Copy
	// Moves are those of Plan.Moves that begin or end at this member.
	Moves    []Move
	FollowUp FollowUp
	Code     Code
}

// Copy is a standby that a member keeps. Owner runs the task, empty if nobody does.
type Copy struct {
	Task  task.ID
	Owner string
}

// Mark tells an owner that a task of its own shall move: keep running, give it up at the start of the next round.
type Mark struct {
	Task     task.ID
	Receiver string
	// Ready: the receiver is known to be ready, so nothing else has to be asked before the release.
	Ready bool
}

// Incoming tells a member of a task that it shall own.
type Incoming struct {
	Task task.ID
	// Owner runs the task until then.
	Owner string
	// Instant: take it in the next round as you are; a copy that is there, of a standby or of a learner that is ready, goes on following until
	// then. The member says at its next join that it was promised the task (Promised), beside the copy. Otherwise learn it first.
	Instant bool
}

// FollowUp says whether a member asks for another round by itself, and when.
type FollowUp struct {
	Kind FollowUpKind
	// AtMs is how many milliseconds after the SyncGroup answer, for At only.
	AtMs int64
}

// FollowUpKind is when a follow-up happens.
type FollowUpKind uint8

const (
	// None: the member waits for others.
	None FollowUpKind = 0
	// Now: as soon as it has applied the assignment.
	Now FollowUpKind = 1
	// At: FollowUp.AtMs after that.
	At FollowUpKind = 2
)

// Code tells a member that the group cannot use it as it is.
type Code uint8

const (
	// OK: no error.
	OK Code = 0
	// TopologyConflict: the member has another form of a subtopology than the others, under the same topology version.
	TopologyConflict Code = 1
)

// MoveKind says what a Move is.
type MoveKind uint8

const (
	// Marked: the move begins; it is done in the next round.
	Marked MoveKind = iota
	// Transferred: a released task goes to the member that was promised it.
	Transferred
	// Placed: a task without an owner gets one.
	Placed
)

// Move is one change of owner. From is empty where the task had no owner.
type Move struct {
	Task     task.ID
	Kind     MoveKind
	From, To string
	// Reason says why, in words.
	Reason string
}

// Member returns the plan of one member, or nil.
func (p *Plan) Member(id string) *MemberPlan {
	for i := range p.Members {
		if p.Members[i].ID == id {
			return &p.Members[i]
		}
	}
	return nil
}

// Count is how many partitions, and so tasks, a subtopology had when the plan was made.
type Count struct {
	Subtopology int32
	Partitions  int32
}
