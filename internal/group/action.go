package group

import (
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// Action is something that a Machine wants done.
type Action interface{ groupAction() }

// FindCoordinator asks any broker for the group's coordinator; answered by CoordinatorFound.
type FindCoordinator struct {
	Req   uint64
	Group string
}

// SendJoin sends JoinGroup on the join connection; answered by JoinDone.
type SendJoin struct {
	Req                uint64
	Addr               string
	Group              string
	MemberID           string
	Session, Rebalance time.Duration
	Protocol           string
	Metadata           []byte
	Reason             string
}

// SendSync sends SyncGroup on the join connection; answered by SyncDone. Assignments is filled by the leader only.
type SendSync struct {
	Req         uint64
	Addr        string
	Group       string
	MemberID    string
	Generation  int32
	Protocol    string
	Assignments []SyncAssignment
}

// SyncAssignment is what the leader assigns to one member, encoded.
type SyncAssignment struct {
	MemberID string
	Bytes    []byte
}

// SendHeartbeat sends Heartbeat on the heartbeat connection; answered by HeartbeatDone.
type SendHeartbeat struct {
	Req        uint64
	Addr       string
	Group      string
	MemberID   string
	Generation int32
}

// SendLeave sends LeaveGroup on the heartbeat connection; answered by LeaveDone.
type SendLeave struct {
	Req      uint64
	Addr     string
	Group    string
	MemberID string
}

// Disconnect closes all three connections to the coordinator, also under a parked request.
type Disconnect struct{}

// Wake asks for a Tick at that time. It replaces the one before.
type Wake struct{ At time.Time }

// Prepare comes before a JoinGroup: stop the tasks that are marked and whose receiver is ready, within 250 ms (drain, flush, commit, keep the
// store open), then answer Prepared with the same number. Whether a receiver is ready is in its mark, or found out by whoever carries this out.
// A task that cannot be stopped in time stays among the claims.
type Prepare struct {
	Join uint64
	// Marks are those of the assignment that was applied last.
	Marks  []assignor.Mark
	Reason string
}

// Assigned is a new assignment: run Tasks, and close every task that runs and is not among them. Those of Marks shall move: they run on, and
// will be named in the next Prepare. Learners are tasks that this member shall own, Standbys those that it keeps a copy of.
type Assigned struct {
	Generation int32
	MemberID   string
	// Members is how many members the group has, and Draining how many of them want to leave.
	Members  int
	Draining int
	Tasks    []task.ID
	Marks    []assignor.Mark
	Learners []assignor.Incoming
	Standbys []assignor.Copy
	// Counts are the numbers of partitions that the plan was made with. Where one is larger than the member's own, the member's is old.
	Counts []Count
	// Moves are the changes of owner that begin or end at this member, with their reasons; at the leader those of the whole plan.
	Moves []assignor.Move
	// Leader says that this member made the plan. Only it knows Unassigned, the tasks that no member can run, Others, and Degraded, which
	// says why a plan moves nothing although it should.
	Leader     bool
	Unassigned []task.ID
	Degraded   string
	// Others are the topics that members read and the leader does not, sorted: nobody is given those that its Topology does not have.
	Others []string
	Reason string
	// Outdated says that the plan is made for another form of a subtopology than this member has: it gets no more tasks of it.
	Outdated bool
}

// Lost means that the tasks are not this member's any more: stop them all at once, without a commit.
type Lost struct{ Reason string }

// Fatal means that the member cannot go on; it is stopped.
type Fatal struct{ Err error }

// Left means that the member has left after Stop; it is stopped.
type Left struct{}

func (FindCoordinator) groupAction() {}
func (SendJoin) groupAction()        {}
func (SendSync) groupAction()        {}
func (SendHeartbeat) groupAction()   {}
func (SendLeave) groupAction()       {}
func (Disconnect) groupAction()      {}
func (Wake) groupAction()            {}
func (Prepare) groupAction()         {}
func (Assigned) groupAction()        {}
func (Lost) groupAction()            {}
func (Fatal) groupAction()           {}
func (Left) groupAction()            {}
