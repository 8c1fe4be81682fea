package consume

import (
	"slices"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// beginHandover releases what is to move before the join is sent.
func (m *Machine) beginHandover(a group.Prepare) {
	m.member.prepare = &handover{join: a.Join, until: m.now.Add(m.cfg.Release)}
	var parts []*part
	for _, k := range a.Marks {
		for _, p := range m.order {
			if p.id == k.Task && k.Ready {
				parts = append(parts, p)
			}
		}
	}
	m.revoke(parts)
}

// revoke begins to hand partitions over: nothing more of them is returned. What user code has seen it is told, and what it may be looking at
// waits for the next Poll.
func (m *Machine) revoke(parts []*part) {
	var told []task.TopicPartition
	m.member.revocations++
	for _, p := range parts {
		if p.phase != held {
			continue
		}
		p.phase, p.flushed = revoking, false
		if m.cfg.Listens && p.hasUser() {
			p.revocation = m.member.revocations
			told = append(told, p.tp)
		}
	}
	if len(told) > 0 {
		m.tell(TellRevoked{Revocation: m.member.revocations, Generation: m.member.generation, Parts: told})
	}
	m.do(Ready{})
}

func (m *Machine) onTold(revocation uint64) {
	for _, p := range m.order {
		if p.revocation == revocation && revocation != 0 {
			p.revocation, p.processing = 0, false
		}
	}
}

// settleHandovers releases what is ready, and answers the member when all is, or when the time is up.
func (m *Machine) settleHandovers() {
	for _, p := range m.order {
		if p.phase != revoking || !m.handedOver(p) {
			continue
		}
		p.phase = released
		p.unask()
		m.forget(p)
		if m.member.prepare == nil && slices.Contains(m.member.late, p.id) {
			m.member.free = drained(p)
		}
	}
	m.settlePrepare()
	if why := m.member.free; why != "" {
		m.member.free = ""
		m.stepMember(group.Rejoin{Reason: why})
	}
}

// handedOver says whether nothing of a part is under way any more.
func (m *Machine) handedOver(p *part) bool {
	if p.revocation != 0 || p.processing && !m.closing {
		return false
	}
	if !p.flushed {
		p.flushed = true
		if m.cfg.CommitInterval > 0 {
			m.commitDone(p)
		}
		m.sayEnd(p)
		m.flushCommits()
	}
	return !m.commits.has(p) && m.saysEnd(p)
}

func (m *Machine) settlePrepare() {
	h := m.member.prepare
	if h == nil {
		return
	}
	if slices.ContainsFunc(m.order, func(p *part) bool { return p.phase == revoking }) && m.now.Before(h.until) {
		m.wakeAt(h.until)
		return
	}
	m.member.prepare, m.member.late = nil, nil
	ev := group.Prepared{Join: h.join}
	for _, p := range m.order {
		switch p.phase {
		case released:
			p.offered = max(m.member.generation, 0)
			ev.Released = append(ev.Released, p.id)
		case revoking:
			m.member.late = append(m.member.late, p.id)
			ev.Late, ev.Claims = append(ev.Late, p.id), append(ev.Claims, p.id)
		case held:
			ev.Claims = append(ev.Claims, p.id)
		}
	}
	m.stepMember(ev)
}
