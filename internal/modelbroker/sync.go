package modelbroker

import (
	"slices"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func (b *Broker) syncGroup(node int32, t *ticket, r SyncGroupRequest) Response {
	if slices.ContainsFunc(r.Plan, func(a Assignment) bool { return a.Bytes == nil }) {
		b.hangUpOn(t.conn)
		return nil
	}
	g, code := b.coordinate(node, r.Group)
	if code == kcode.None {
		code = g.fence(r.MemberID, r.Generation)
	}
	if code == kcode.None && (r.ProtocolType != "" && r.ProtocolType != g.protocolType || r.Protocol != "" && r.Protocol != g.protocol) {
		code = kcode.InconsistentGroupProtocol
	}
	if code == kcode.None && g.state == PreparingRebalance {
		code = kcode.RebalanceInProgress
	}
	if code != kcode.None {
		return SyncGroupResponse{Code: code}
	}
	return g.sync(t, g.member(r.MemberID), r.Plan)
}

// fence says whether the member is one of the generation.
func (g *group) fence(memberID string, generation int32) kcode.Code {
	switch {
	case g.member(memberID) == nil:
		return kcode.UnknownMemberID
	case generation != g.generation:
		return kcode.IllegalGeneration
	}
	return kcode.None
}

func (g *group) sync(t *ticket, m *member, plan []Assignment) Response {
	m.owesSync = false
	if g.state == Stable {
		g.beat(m)
		return SyncGroupResponse{Assignment: append([]byte{}, m.assignment...)}
	}
	m.sync = t // takes the place of an earlier one, which is never answered
	if m.id == g.leader {
		g.applyPlan(plan)
	}
	return nil
}

// applyPlan stores the leader's plan. Metadata and assignments of all members are one record: a group that is too large for it begins anew.
func (g *group) applyPlan(plan []Assignment) {
	for _, m := range g.members {
		m.assignment = []byte{}
	}
	for _, a := range plan {
		if m := g.member(a.MemberID); m != nil {
			m.assignment = append([]byte{}, a.Bytes...)
		}
	}
	if g.recordBytes() > recordLimit {
		g.abandonPlan(kcode.Unknown)
		g.prepare()
		return
	}
	g.transition(Stable)
	g.store()
	for _, m := range g.members {
		if m.sync != nil {
			g.endSync(m, SyncGroupResponse{Assignment: append([]byte{}, m.assignment...)})
			g.beat(m)
		}
	}
}

// recordBytes is the size of the group's record: per member the bytes, the ids and addresses (about 20 bytes), lengths and timeouts.
func (g *group) recordBytes() int {
	n := batchOverhead + len(g.name) + len(g.protocolType) + len(g.protocol) + len(g.leader) + 40
	for _, m := range g.members {
		n += len(m.metadata(g.protocol)) + len(m.assignment) + len(m.id) + 44
	}
	return n
}

// abandonPlan answers those that are parked in SyncGroup with the code.
func (g *group) abandonPlan(code kcode.Code) {
	for _, m := range g.members {
		m.assignment = []byte{}
		if m.sync != nil {
			g.endSync(m, SyncGroupResponse{Code: code})
			g.beat(m)
		}
	}
}

// expireSync evicts the members that joined and never sent their SyncGroup.
func (g *group) expireSync(generation int32) {
	if g.generation != generation || g.state != CompletingRebalance && g.state != Stable {
		return
	}
	late := 0
	for _, m := range slices.Clone(g.members) {
		if m.owesSync {
			g.drop(m)
			late++
		}
	}
	if late > 0 {
		g.prepare()
	}
}
