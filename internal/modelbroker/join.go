package modelbroker

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func refusedJoin(code kcode.Code, memberID string) JoinGroupResponse {
	return JoinGroupResponse{Code: code, Generation: -1, MemberID: memberID}
}

func (b *Broker) joinGroup(node int32, t *ticket, r JoinGroupRequest) Response {
	if slices.ContainsFunc(r.Protocols, func(p Protocol) bool { return p.Metadata == nil }) {
		b.hangUpOn(t.conn)
		return nil
	}
	g, code := b.coordinate(node, r.Group)
	if code != kcode.None {
		return refusedJoin(code, r.MemberID)
	}
	if r.Session < b.cfg.MinSession || r.Session > b.cfg.MaxSession {
		return refusedJoin(kcode.InvalidSessionTimeout, r.MemberID)
	}
	if !g.exists {
		if r.MemberID != "" {
			return refusedJoin(kcode.UnknownMemberID, r.MemberID)
		}
		g.create()
	}
	if !g.accepts(r) {
		return refusedJoin(kcode.InconsistentGroupProtocol, r.MemberID)
	}
	return g.admit(t, r)
}

// accepts says whether the member speaks what the group speaks.
func (g *group) accepts(r JoinGroupRequest) bool {
	if len(g.members) == 0 {
		return r.ProtocolType != "" && len(r.Protocols) > 0
	}
	return r.ProtocolType == g.protocolType && slices.ContainsFunc(r.Protocols, func(p Protocol) bool { return g.common(p.Name) })
}

func (g *group) admit(t *ticket, r JoinGroupRequest) Response {
	if r.MemberID == "" {
		return g.giveID(r.Session)
	}
	if i := slices.IndexFunc(g.pending, func(p pendingMember) bool { return p.id == r.MemberID }); i >= 0 {
		g.pending[i].expiry.stop()
		g.pending = slices.Delete(g.pending, i, i+1)
		g.add(t, r)
		return nil
	}
	m := g.member(r.MemberID)
	if m == nil {
		return refusedJoin(kcode.UnknownMemberID, r.MemberID)
	}
	same := sameProtocols(m.protocols, r.Protocols)
	switch {
	case g.state == CompletingRebalance && same, g.state == Stable && same && m.id != g.leader:
		return g.joined(m) // its last answer may have been lost
	default:
		g.rejoin(t, m, r)
		return nil
	}
}

// giveID answers MEMBER_ID_REQUIRED. The barrier waits for the member to come back, for a session timeout at most.
func (g *group) giveID(session time.Duration) Response {
	id := g.newMemberID()
	g.pending = append(g.pending, pendingMember{id: id, expiry: g.b.after(session, func() { g.dropPending(id) })})
	return refusedJoin(kcode.MemberIDRequired, id)
}

func (g *group) dropPending(id string) bool {
	i := slices.IndexFunc(g.pending, func(p pendingMember) bool { return p.id == id })
	if i < 0 {
		return false
	}
	g.pending[i].expiry.stop()
	g.pending = slices.Delete(g.pending, i, i+1)
	g.gone()
	return true
}

func (g *group) add(t *ticket, r JoinGroupRequest) {
	m := &member{id: r.MemberID, isNew: true, join: t}
	m.update(r)
	if len(g.members) == 0 {
		g.protocolType = r.ProtocolType
	}
	if g.leader == "" {
		g.leader = m.id
	}
	g.members = append(g.members, m)
	g.newMember = g.state == PreparingRebalance && g.before == Empty
	g.expireIn(m, newMemberTimeout)
	g.prepareOrComplete()
}

// rejoin takes the place of a join of the same member that is parked: that one is never answered.
func (g *group) rejoin(t *ticket, m *member, r JoinGroupRequest) {
	m.join = t
	m.update(r)
	g.prepareOrComplete()
}

func (m *member) update(r JoinGroupRequest) {
	m.session, m.rebalance = r.Session, r.Rebalance
	m.protocols = nil
	for _, p := range r.Protocols {
		m.protocols = append(m.protocols, Protocol{Name: p.Name, Metadata: append([]byte{}, p.Metadata...)})
	}
}

func (g *group) prepareOrComplete() {
	if g.state == PreparingRebalance {
		g.tryComplete()
		return
	}
	g.prepare()
}

// prepare begins a rebalance. Who is parked in SyncGroup is told to join. The barrier lasts until all have joined, at most the rebalance
// timeout; the first one of an empty group lasts InitialRebalanceDelay.
func (g *group) prepare() {
	if g.state == CompletingRebalance {
		g.abandonPlan(kcode.RebalanceInProgress)
	}
	g.syncTimer.stop()
	first := g.state == Empty
	g.transition(PreparingRebalance)
	if first {
		g.delay(g.b.cfg.InitialRebalanceDelay, g.rebalanceTimeout())
		return
	}
	if !g.tryComplete() {
		g.joinTimer = g.b.after(g.rebalanceTimeout(), g.completeJoin)
	}
}

// delay waits for more members of a new group, again and again while new ones come, at most the rebalance timeout.
func (g *group) delay(d, budget time.Duration) {
	left := max(budget-d, 0)
	g.joinTimer = g.b.after(d, func() {
		if g.newMember && left > 0 {
			g.newMember = false
			g.delay(min(g.b.cfg.InitialRebalanceDelay, left), left)
			return
		}
		g.completeJoin()
	})
}

// tryComplete ends the barrier if nobody is missing, unless it is the first one of an empty group, which lasts its time.
func (g *group) tryComplete() bool {
	if g.before == Empty || !g.allJoined() {
		return false
	}
	g.completeJoin()
	return true
}

// gone ends a barrier that waited for one who is gone; the first one of an empty group too.
func (g *group) gone() {
	if g.state == PreparingRebalance && g.allJoined() {
		g.completeJoin()
	}
}

func (g *group) allJoined() bool {
	return len(g.pending) == 0 && !slices.ContainsFunc(g.members, func(m *member) bool { return m.join == nil })
}

// completeJoin ends the barrier: members that are missing are out, and the others get the next generation.
func (g *group) completeJoin() {
	g.joinTimer.stop()
	for _, m := range slices.Clone(g.members) {
		if m.join == nil {
			g.drop(m)
		}
	}
	g.generation++
	if len(g.members) == 0 {
		g.protocol, g.leader = "", ""
		g.transition(Empty)
		g.store()
		return
	}
	g.protocol = g.selectProtocol()
	g.transition(CompletingRebalance)
	for _, m := range g.members {
		m.isNew, m.owesSync = false, true
		g.endJoin(m, g.joined(m))
		g.beat(m)
	}
	generation := g.generation
	g.syncTimer = g.b.after(g.rebalanceTimeout(), func() { g.expireSync(generation) })
}

// joined is the answer to a member's join in the present generation. Only the leader gets the members, and while the group is stable not
// even the leader.
func (g *group) joined(m *member) JoinGroupResponse {
	r := JoinGroupResponse{Generation: g.generation, Protocol: g.protocol, Leader: g.leader, MemberID: m.id}
	if m.id == g.leader && g.state == CompletingRebalance {
		for _, o := range g.members {
			r.Members = append(r.Members, JoinedMember{ID: o.id, Metadata: append([]byte{}, o.metadata(g.protocol)...)})
		}
	}
	return r
}
