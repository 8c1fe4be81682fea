package kafka

import (
	"context"
	"time"

	"github.com/IBM/sarama"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// Coordinator asks any broker which one coordinates the group. Codes such as CoordinatorNotAvailable are answers, not errors.
func (c *Client) Coordinator(ctx context.Context, group string) (addr string, code kcode.Code, err error) {
	req := &sarama.FindCoordinatorRequest{Version: 2, CoordinatorKey: group, CoordinatorType: sarama.CoordinatorGroup}
	var res *sarama.FindCoordinatorResponse
	err = c.anyBroker(ctx, "FindCoordinator", func(k *conn) (err error) {
		res, err = k.broker.FindCoordinator(req)
		return err
	})
	if err != nil {
		return "", kcode.None, err
	}
	if res.Err != sarama.ErrNoError {
		return "", kcode.Code(res.Err), nil
	}
	if res.Coordinator == nil {
		return "", kcode.CoordinatorNotAvailable, nil
	}
	return res.Coordinator.Addr(), kcode.None, nil
}

// GroupConn is a private connection to a group's coordinator. Each call blocks until it is answered, the read timeout is over or Close is
// called, and calls on one GroupConn are answered one after the other; so a member has one for JoinGroup and SyncGroup, one for heartbeats and
// leaving, one for offsets. It is safe for concurrent use.
type GroupConn struct{ conn *conn }

// DialGroup opens a private connection. readTimeout bounds each call; on the connection that joins it must be longer than the rebalance
// timeout.
func (c *Client) DialGroup(ctx context.Context, addr string, readTimeout time.Duration) (*GroupConn, error) {
	ctx, cancel := c.within(ctx)
	defer cancel(nil)
	k, err := c.settings.dial(ctx, addr, readTimeout)
	if err != nil {
		return nil, err
	}
	return &GroupConn{conn: k}, nil
}

// Addr is the broker's address.
func (g *GroupConn) Addr() string { return g.conn.addr }

// Close closes the connection at once; a parked call returns an error with ErrClosed in its chain.
func (g *GroupConn) Close() { g.conn.close() }

// JoinRequest is a JoinGroup with one protocol.
type JoinRequest struct {
	Group        string
	MemberID     string // empty: a new member
	ProtocolType string
	Protocol     string
	Metadata     []byte // nil is sent as empty: a broker closes the connection over nil
	Session      time.Duration
	Rebalance    time.Duration
	Reason       string // for the broker's log
}

// JoinResponse is the answer. The member leads if Leader is MemberID; only then it has Members.
type JoinResponse struct {
	Code       kcode.Code
	Generation int32
	Protocol   string
	Leader     string
	MemberID   string
	Members    []JoinMember
}

// JoinMember is a member as the leader sees it.
type JoinMember struct {
	MemberID string
	Metadata []byte
}

// Join sends JoinGroup and waits for the barrier.
func (g *GroupConn) Join(r JoinRequest) (JoinResponse, error) {
	req := &sarama.JoinGroupRequest{
		Version: 8, GroupId: r.Group, MemberId: r.MemberID, ProtocolType: r.ProtocolType,
		SessionTimeout: int32(r.Session.Milliseconds()), RebalanceTimeout: int32(r.Rebalance.Milliseconds()),
	}
	if r.Reason != "" {
		req.Reason = &r.Reason
	}
	req.AddGroupProtocol(r.Protocol, notNil(r.Metadata))
	res, err := g.conn.broker.JoinGroup(req)
	if err != nil {
		return JoinResponse{}, g.conn.fail("JoinGroup", err)
	}
	out := JoinResponse{
		Code: kcode.Code(res.Err), Generation: res.GenerationId, Protocol: res.GroupProtocol, Leader: res.LeaderId, MemberID: res.MemberId,
	}
	for _, m := range res.Members {
		out.Members = append(out.Members, JoinMember{MemberID: m.MemberId, Metadata: notNil(m.Metadata)})
	}
	return out, nil
}

// SyncRequest is a SyncGroup. Only the leader has Assignments.
type SyncRequest struct {
	Group        string
	MemberID     string
	Generation   int32
	ProtocolType string
	Protocol     string
	Assignments  []SyncAssignment
}

// SyncAssignment is the plan for one member; nil bytes are sent as empty.
type SyncAssignment struct {
	MemberID   string
	Assignment []byte
}

// SyncResponse is the answer. Assignment is empty for a member that the leader left out.
type SyncResponse struct {
	Code       kcode.Code
	Assignment []byte
}

// Sync sends SyncGroup and waits for the leader's plan.
func (g *GroupConn) Sync(r SyncRequest) (SyncResponse, error) {
	req := &sarama.SyncGroupRequest{
		Version: 5, GroupId: r.Group, MemberId: r.MemberID, GenerationId: r.Generation, ProtocolType: &r.ProtocolType, ProtocolName: &r.Protocol,
	}
	for _, a := range r.Assignments {
		req.AddGroupAssignment(a.MemberID, notNil(a.Assignment))
	}
	res, err := g.conn.broker.SyncGroup(req)
	if err != nil {
		return SyncResponse{}, g.conn.fail("SyncGroup", err)
	}
	return SyncResponse{Code: kcode.Code(res.Err), Assignment: notNil(res.MemberAssignment)}, nil
}

// HeartbeatRequest is a Heartbeat.
type HeartbeatRequest struct {
	Group      string
	MemberID   string
	Generation int32
}

// Heartbeat sends a heartbeat.
func (g *GroupConn) Heartbeat(r HeartbeatRequest) (kcode.Code, error) {
	req := &sarama.HeartbeatRequest{Version: 4, GroupId: r.Group, MemberId: r.MemberID, GenerationId: r.Generation}
	res, err := g.conn.broker.Heartbeat(req)
	if err != nil {
		return kcode.None, g.conn.fail("Heartbeat", err)
	}
	return kcode.Code(res.Err), nil
}

// LeaveRequest is a LeaveGroup of one member.
type LeaveRequest struct {
	Group    string
	MemberID string
	Reason   string // for the broker's log
}

// Leave leaves the group. On a real broker a parked JoinGroup of the member is answered UnknownMemberID at once.
func (g *GroupConn) Leave(r LeaveRequest) (kcode.Code, error) {
	member := sarama.MemberIdentity{MemberId: r.MemberID}
	if r.Reason != "" {
		member.Reason = &r.Reason
	}
	// A connection to a broker that speaks version 2 at most would read the field of that version.
	req := &sarama.LeaveGroupRequest{Version: 5, GroupId: r.Group, MemberId: r.MemberID, Members: []sarama.MemberIdentity{member}}
	res, err := g.conn.broker.LeaveGroup(req)
	if err != nil {
		return kcode.None, g.conn.fail("LeaveGroup", err)
	}
	if code := kcode.Code(res.Err); code != kcode.None {
		return code, nil
	}
	for _, m := range res.Members {
		if m.Err != sarama.ErrNoError {
			return kcode.Code(m.Err), nil
		}
	}
	return kcode.None, nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}
