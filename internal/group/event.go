package group

import (
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Event is something that happened to a Machine.
type Event interface{ groupEvent() }

// Start makes a stopped machine join the group.
type Start struct{ Topology Topology }

// TopologyChanged replaces the topology, normally because partition counts grew; the member rejoins with it.
type TopologyChanged struct{ Topology Topology }

// Tick says that time has passed. It is due at the time of the last Wake; earlier and extra ones do no harm.
type Tick struct{}

// Prepared answers Prepare: Claims run now and go on running, Released were stopped, drained and committed, and can be resumed. Unfit are
// tasks that must not come back, and Replicas the copies of states that are here.
type Prepared struct {
	Join     uint64
	Claims   []task.ID
	Released []task.ID
	// Late are those of Claims that were to be released and could not be in time; another round is asked for when they can.
	Late     []task.ID
	Unfit    []task.ID
	Replicas []assignor.Replica
}

// Drain makes the member ask that its tasks be moved elsewhere, and gives it no new ones. It does not leave by itself.
type Drain struct{}

// Rejoin asks for another round.
type Rejoin struct{ Reason string }

// Stop makes the member leave. All its tasks are stopped already.
type Stop struct{}

// CoordinatorFound answers FindCoordinator.
type CoordinatorFound struct {
	Req  uint64
	Addr string
	Code kcode.Code
	Err  error
}

// JoinDone answers SendJoin. Members is filled for the leader only.
type JoinDone struct {
	Req        uint64
	Sent       time.Time
	Code       kcode.Code
	Err        error
	MemberID   string
	Generation int32
	Leader     bool
	Members    []JoinedMember
}

// JoinedMember is one member of the new generation with the bytes it joined with.
type JoinedMember struct {
	ID       string
	Metadata []byte
}

// SyncDone answers SendSync.
type SyncDone struct {
	Req        uint64
	Sent       time.Time
	Code       kcode.Code
	Err        error
	Assignment []byte
}

// HeartbeatDone answers SendHeartbeat.
type HeartbeatDone struct {
	Req  uint64
	Sent time.Time
	Code kcode.Code
	Err  error
}

// LeaveDone answers SendLeave.
type LeaveDone struct {
	Req  uint64
	Code kcode.Code
	Err  error
}

func (Start) groupEvent()            {}
func (TopologyChanged) groupEvent()  {}
func (Tick) groupEvent()             {}
func (Prepared) groupEvent()         {}
func (Drain) groupEvent()            {}
func (Rejoin) groupEvent()           {}
func (Stop) groupEvent()             {}
func (CoordinatorFound) groupEvent() {}
func (JoinDone) groupEvent()         {}
func (SyncDone) groupEvent()         {}
func (HeartbeatDone) groupEvent()    {}
func (LeaveDone) groupEvent()        {}
