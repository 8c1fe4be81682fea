package modelbroker

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// FindCoordinatorRequest asks any node for the coordinator of a group.
type FindCoordinatorRequest struct{ Group string }

// FindCoordinatorResponse names the node, also while that is down.
type FindCoordinatorResponse struct {
	Code kcode.Code
	Node int32
}

// JoinGroupRequest is a JoinGroup of version 4 or later, so that a member without an id is given one and has to come again. Metadata must
// not be nil: a broker closes the connection over it.
type JoinGroupRequest struct {
	Group, MemberID    string
	Session, Rebalance time.Duration
	ProtocolType       string
	Protocols          []Protocol
}

// Protocol is a protocol that a member speaks, with its metadata.
type Protocol struct {
	Name     string
	Metadata []byte
}

// JoinGroupResponse ends the barrier. Members is filled for the leader only. Generation is -1 beside a code other than NONE.
type JoinGroupResponse struct {
	Code             kcode.Code
	Generation       int32
	Protocol         string
	Leader, MemberID string
	Members          []JoinedMember
}

// JoinedMember is a member as the leader sees it.
type JoinedMember struct {
	ID       string
	Metadata []byte
}

// SyncGroupRequest fetches the assignment; the leader's has the plan. Empty ProtocolType and Protocol are not checked. No assignment may be
// nil: a broker closes the connection over it.
type SyncGroupRequest struct {
	Group, MemberID        string
	Generation             int32
	ProtocolType, Protocol string
	Plan                   []Assignment
}

// Assignment is what the leader gives one member.
type Assignment struct {
	MemberID string
	Bytes    []byte
}

// SyncGroupResponse has the member's assignment; empty where the leader left it out.
type SyncGroupResponse struct {
	Code       kcode.Code
	Assignment []byte
}

// HeartbeatRequest keeps a membership alive.
type HeartbeatRequest struct {
	Group, MemberID string
	Generation      int32
}

// HeartbeatResponse answers NONE, REBALANCE_IN_PROGRESS, or why the membership is gone.
type HeartbeatResponse struct{ Code kcode.Code }

// LeaveGroupRequest takes members out of the group.
type LeaveGroupRequest struct {
	Group     string
	MemberIDs []string
}

// LeaveGroupResponse has the code of the request, and with NONE one for each member.
type LeaveGroupResponse struct {
	Code    kcode.Code
	Members []kcode.Code
}

// OffsetCommitRequest commits offsets; MemberID "" and Generation -1 are a commit from outside the group.
type OffsetCommitRequest struct {
	Group, MemberID string
	Generation      int32
	Offsets         []task.InputOffset
}

// OffsetCommitResponse has one code per offset of the request.
type OffsetCommitResponse struct{ Codes []kcode.Code }

// OffsetFetchRequest asks for committed offsets; nil Parts means all that there are.
type OffsetFetchRequest struct {
	Group         string
	RequireStable bool
	Parts         []task.TopicPartition
}

// OffsetFetchResponse has one entry per partition of the request, or all that there are, sorted.
type OffsetFetchResponse struct {
	Code  kcode.Code
	Parts []FetchedOffset
}

// FetchedOffset is a committed offset, -1 if there is none.
type FetchedOffset struct {
	task.TopicPartition
	Code     kcode.Code
	Offset   int64
	Metadata string
}

func (FindCoordinatorRequest) request()   {}
func (JoinGroupRequest) request()         {}
func (SyncGroupRequest) request()         {}
func (HeartbeatRequest) request()         {}
func (LeaveGroupRequest) request()        {}
func (OffsetCommitRequest) request()      {}
func (OffsetFetchRequest) request()       {}
func (FindCoordinatorResponse) response() {}
func (JoinGroupResponse) response()       {}
func (SyncGroupResponse) response()       {}
func (HeartbeatResponse) response()       {}
func (LeaveGroupResponse) response()      {}
func (OffsetCommitResponse) response()    {}
func (OffsetFetchResponse) response()     {}
