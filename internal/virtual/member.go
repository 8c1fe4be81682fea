package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
)

const protocolType = "consumer"

// member carries out what the group's member wants, on two connections of its own.
type member struct {
	join, beat *Link
}

func (m *member) carry(p *Process, a group.Action) {
	switch a := a.(type) {
	case group.FindCoordinator:
		m.find(p, a)
	case group.SendJoin:
		m.sendJoin(p, a)
	case group.SendSync:
		m.sendSync(p, a)
	case group.SendHeartbeat:
		m.sendHeartbeat(p, a)
	case group.SendLeave:
		m.sendLeave(p, a)
	case group.Disconnect:
		m.join.Close()
		m.beat.Close()
		p.offset.Close()
	}
}

// to returns the open connection to the node at addr, or a new one.
func (p *Process) to(l *Link, addr string) *Link {
	node := modelbroker.Node(addr)
	if l != nil && !l.dead && l.Node == node {
		return l
	}
	l.Close()
	return p.dial(node)
}

func (m *member) find(p *Process, a group.FindCoordinator) {
	p.ask(modelbroker.FindCoordinatorRequest{Group: a.Group}, func(r modelbroker.Response, err error) {
		ev := group.CoordinatorFound{Req: a.Req, Err: err}
		if err == nil {
			found := r.(modelbroker.FindCoordinatorResponse)
			ev.Addr, ev.Code = modelbroker.Addr(found.Node), found.Code
		}
		p.Tell(engine.Member{Event: ev})
	})
}

func (m *member) sendJoin(p *Process, a group.SendJoin) {
	m.join = p.to(m.join, a.Addr)
	sent := p.World.Now
	m.join.Call(modelbroker.JoinGroupRequest{
		Group: a.Group, MemberID: a.MemberID, Session: a.Session, Rebalance: a.Rebalance, ProtocolType: protocolType,
		Protocols: []modelbroker.Protocol{{Name: a.Protocol, Metadata: append([]byte{}, a.Metadata...)}},
	}, func(r modelbroker.Response, err error) {
		ev := group.JoinDone{Req: a.Req, Sent: sent, Err: err}
		if err == nil {
			j := r.(modelbroker.JoinGroupResponse)
			ev.Code, ev.MemberID, ev.Generation = j.Code, j.MemberID, j.Generation
			ev.Leader = j.Code == kcode.None && j.Leader == j.MemberID
			for _, o := range j.Members {
				ev.Members = append(ev.Members, group.JoinedMember{ID: o.ID, Metadata: o.Metadata})
			}
		}
		p.Tell(engine.Member{Event: ev})
	})
	m.join.limit(a.Rebalance + 5*time.Second)
}

func (m *member) sendSync(p *Process, a group.SendSync) {
	m.join = p.to(m.join, a.Addr)
	sent := p.World.Now
	req := modelbroker.SyncGroupRequest{
		Group: a.Group, MemberID: a.MemberID, Generation: a.Generation, ProtocolType: protocolType, Protocol: a.Protocol,
	}
	for _, as := range a.Assignments {
		req.Plan = append(req.Plan, modelbroker.Assignment{MemberID: as.MemberID, Bytes: append([]byte{}, as.Bytes...)})
	}
	m.join.Call(req, func(r modelbroker.Response, err error) {
		ev := group.SyncDone{Req: a.Req, Sent: sent, Err: err}
		if err == nil {
			s := r.(modelbroker.SyncGroupResponse)
			ev.Code, ev.Assignment = s.Code, s.Assignment
		}
		p.Tell(engine.Member{Event: ev})
	})
	m.join.limit(p.cfg.Engine.Group.Rebalance + 5*time.Second)
}

func (m *member) sendHeartbeat(p *Process, a group.SendHeartbeat) {
	m.beat = p.to(m.beat, a.Addr)
	sent := p.World.Now
	m.beat.Call(modelbroker.HeartbeatRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation}, func(r modelbroker.Response, err error) {
		ev := group.HeartbeatDone{Req: a.Req, Sent: sent, Err: err}
		if err == nil {
			ev.Code = r.(modelbroker.HeartbeatResponse).Code
		}
		p.Tell(engine.Member{Event: ev})
	})
	m.beat.limit(p.cfg.Engine.Group.Session / 3)
}

func (m *member) sendLeave(p *Process, a group.SendLeave) {
	m.beat = p.to(m.beat, a.Addr)
	m.beat.Call(modelbroker.LeaveGroupRequest{Group: a.Group, MemberIDs: []string{a.MemberID}}, func(r modelbroker.Response, err error) {
		ev := group.LeaveDone{Req: a.Req, Err: err}
		if err == nil {
			l := r.(modelbroker.LeaveGroupResponse)
			ev.Code = l.Code
			if ev.Code == kcode.None && len(l.Members) > 0 {
				ev.Code = l.Members[0]
			}
		}
		p.Tell(engine.Member{Event: ev})
	})
	m.beat.limit(2 * time.Second)
}
