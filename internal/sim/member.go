package sim

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
	join, beat *link
}

func (m *member) carry(p *process, a group.Action) {
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
		m.join.close()
		m.beat.close()
		p.offset.close()
	}
}

// to returns the open connection to the node at addr, or a new one.
func (p *process) to(l *link, addr string) *link {
	node := modelbroker.Node(addr)
	if l != nil && !l.dead && l.node == node {
		return l
	}
	l.close()
	return p.dial(node)
}

func (m *member) find(p *process, a group.FindCoordinator) {
	p.ask(modelbroker.FindCoordinatorRequest{Group: a.Group}, func(r modelbroker.Response, err error) {
		ev := group.CoordinatorFound{Req: a.Req, Err: err}
		if err == nil {
			found := r.(modelbroker.FindCoordinatorResponse)
			ev.Addr, ev.Code = modelbroker.Addr(found.Node), found.Code
		}
		p.tell(engine.Member{Event: ev})
	})
}

func (m *member) sendJoin(p *process, a group.SendJoin) {
	m.join = p.to(m.join, a.Addr)
	sent := p.w.now
	m.join.call(modelbroker.JoinGroupRequest{
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
		p.tell(engine.Member{Event: ev})
	})
	m.join.limit(a.Rebalance + 5*time.Second)
}

func (m *member) sendSync(p *process, a group.SendSync) {
	m.join = p.to(m.join, a.Addr)
	sent := p.w.now
	req := modelbroker.SyncGroupRequest{
		Group: a.Group, MemberID: a.MemberID, Generation: a.Generation, ProtocolType: protocolType, Protocol: a.Protocol,
	}
	for _, as := range a.Assignments {
		req.Plan = append(req.Plan, modelbroker.Assignment{MemberID: as.MemberID, Bytes: append([]byte{}, as.Bytes...)})
	}
	m.join.call(req, func(r modelbroker.Response, err error) {
		ev := group.SyncDone{Req: a.Req, Sent: sent, Err: err}
		if err == nil {
			s := r.(modelbroker.SyncGroupResponse)
			ev.Code, ev.Assignment = s.Code, s.Assignment
		}
		p.tell(engine.Member{Event: ev})
	})
	m.join.limit(rebalance + 5*time.Second)
}

func (m *member) sendHeartbeat(p *process, a group.SendHeartbeat) {
	m.beat = p.to(m.beat, a.Addr)
	sent := p.w.now
	m.beat.call(modelbroker.HeartbeatRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation}, func(r modelbroker.Response, err error) {
		ev := group.HeartbeatDone{Req: a.Req, Sent: sent, Err: err}
		if err == nil {
			ev.Code = r.(modelbroker.HeartbeatResponse).Code
		}
		p.tell(engine.Member{Event: ev})
	})
	m.beat.limit(session / 3)
}

func (m *member) sendLeave(p *process, a group.SendLeave) {
	m.beat = p.to(m.beat, a.Addr)
	m.beat.call(modelbroker.LeaveGroupRequest{Group: a.Group, MemberIDs: []string{a.MemberID}}, func(r modelbroker.Response, err error) {
		ev := group.LeaveDone{Req: a.Req, Err: err}
		if err == nil {
			l := r.(modelbroker.LeaveGroupResponse)
			ev.Code = l.Code
			if ev.Code == kcode.None && len(l.Members) > 0 {
				ev.Code = l.Members[0]
			}
		}
		p.tell(engine.Member{Event: ev})
	})
	m.beat.limit(2 * time.Second)
}
