package modelbroker

import "github.com/understudy-streams/understudy/internal/kcode"

func (b *Broker) heartbeat(node int32, r HeartbeatRequest) Response {
	g, code := b.coordinate(node, r.Group)
	if code == kcode.None {
		code = g.fence(r.MemberID, r.Generation)
	}
	if code == kcode.None {
		g.beat(g.member(r.MemberID))
		if g.state == PreparingRebalance {
			code = kcode.RebalanceInProgress
		}
	}
	return HeartbeatResponse{Code: code}
}

func (b *Broker) leaveGroup(node int32, r LeaveGroupRequest) Response {
	g, code := b.coordinate(node, r.Group)
	if code != kcode.None {
		return LeaveGroupResponse{Code: code}
	}
	resp := LeaveGroupResponse{}
	for _, id := range r.MemberIDs {
		code := kcode.None
		if m := g.member(id); m != nil {
			g.remove(m)
		} else if !g.dropPending(id) {
			code = kcode.UnknownMemberID
		}
		resp.Members = append(resp.Members, code)
	}
	return resp
}
