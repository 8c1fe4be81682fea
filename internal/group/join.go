package group

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// Protocol is the name of the group protocol that members agree on.
const Protocol = "learner-v1"

// OthersAsked is the reason of a member that joins because the coordinator has called everybody.
const OthersAsked = "another member joined, left or asked for it"

// prepare begins a round: marked tasks are released first.
func (m *Machine) prepare(reason string) {
	m.phase, m.mustJoin, m.reason, m.pending = preparing, true, reason, ""
	m.prepared, m.retryAt, m.followAt = nil, time.Time{}, time.Time{}
	m.joining, m.syncing = 0, 0
	m.prepares++
	p := Prepare{Join: m.prepares, Reason: reason}
	if m.lease.held {
		p.Marks = m.applied.marks
	}
	m.do(p)
}

func (m *Machine) onPrepared(ev Prepared) {
	if ev.Join != m.prepares || m.prepared != nil || !m.mustJoin || m.phase != preparing && m.phase != discovering {
		return
	}
	m.prepared = &ev
	switch {
	case m.fault != nil:
		m.leave(m.fault)
	case m.phase == preparing:
		m.sendJoin()
	}
}

// sendJoin declares what was prepared. The number in the bytes changes each time: the broker answers a follower that joins with the same
// bytes with the old generation, and a coordinator that died has forgotten the round.
func (m *Machine) sendJoin() {
	m.phase, m.retryAt = joining, time.Time{}
	m.declared = *m.prepared
	m.joinSeq++
	m.joining = m.number()
	m.do(SendJoin{
		Req: m.joining, Addr: m.addr, Group: m.cfg.Group, MemberID: m.memberID, Session: m.cfg.Session, Rebalance: m.cfg.Rebalance,
		Protocol: Protocol, Metadata: m.metadata(), Reason: m.reason,
	})
}

func (m *Machine) onJoin(ev JoinDone) {
	if ev.Req != m.joining || m.phase != joining {
		return
	}
	m.joining = 0
	switch {
	case ev.Err != nil:
		m.rediscover()
	case ev.Code == kcode.None:
		m.lease.stable(ev.Sent)
		m.memberID, m.round = ev.MemberID, ev.Generation
		m.sync(ev)
	case ev.Code == kcode.MemberIDRequired:
		m.memberID = ev.MemberID
		m.joinAgain()
	default:
		m.joinRefused(ev.Code)
	}
}

// joinRefused deals with the codes that JoinGroup and SyncGroup share.
func (m *Machine) joinRefused(code kcode.Code) {
	switch code {
	case kcode.UnknownMemberID, kcode.FencedInstanceID:
		m.expelled(code)
	case kcode.CoordinatorNotAvailable, kcode.NotCoordinator:
		m.rediscover()
	default:
		if err := refusal(m.cfg.Group, code); err != nil {
			m.die(err)
			return
		}
		m.phase = joining
		m.backOff()
	}
}

// rediscover looks for the coordinator after a pause. What was declared is declared again: the round may be lost, or may have gone on.
func (m *Machine) rediscover() {
	m.phase = discovering
	m.joining, m.syncing, m.followAt = 0, 0, time.Time{}
	m.backOff()
}

// expelled: the group does not know the member any more, so others may have its tasks.
func (m *Machine) expelled(code kcode.Code) {
	unanswered := m.joining != 0 || m.syncing != 0
	m.lose("the group does not know this member any more: " + code.Error())
	m.memberID, m.applied, m.beat, m.mustJoin = "", applied{generation: -1, members: m.applied.members}, heartbeat{}, true
	m.beatAt = time.Time{}
	if unanswered { // its answer may never come
		m.disconnect()
	}
	if m.phase == discovering {
		m.prepared, m.reason = nil, "the member was removed from the group"
		return
	}
	m.prepare("the member was removed from the group")
}
