package consume

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
)

// What commits say beside their offsets, where there is recovery: that a member was running, and what below the position of the main path is
// not done. Everything is decided when a commit is asked for, so a seek behind it changes nothing of it.

// commitAt is a commit that says that the main path of a part is done up to an offset.
func (m *Machine) commitAt(p *part, offset int64) commitPart {
	x := commitPart{tp: p.tp, life: p.life, offset: offset}
	if m.cfg.RecoverAbove <= 0 {
		return x
	}
	x.said = retry.NewMetadata(offset)
	x.said.Running, x.said.Topic = true, m.routing.topics[p.tp.Topic]
	if g := p.openGap(); g != nil {
		g.main = max(offset, g.hi)
		if g.asked >= g.returned { // what lies up to the position holds no record
			g.asked = max(g.asked, g.position)
		}
		x.gap = g
		x.offset, x.said.Main, x.said.Holes = g.describe()
	}
	return x
}

// commitReplayed is a commit that says the same of the gap.
func (m *Machine) commitReplayed(p *part, offset int64) commitPart {
	p.gap.asked = offset
	return m.commitAt(p, p.gap.main)
}

// commitTaken is a commit of what was returned of a part, up to positions of both paths, of which -1 is none; false if nothing was.
func (m *Machine) commitTaken(p *part, main, replayed int64) (commitPart, bool) {
	g := p.openGap()
	switch {
	case g == nil:
		return m.commitAt(p, main), main >= 0
	case main < 0 && replayed <= g.lo:
		return commitPart{}, false
	case main < 0:
		main = g.main
	}
	g.asked = max(g.asked, replayed)
	return m.commitAt(p, main), true
}

// taken is what was returned of both paths of a part; -1 is nothing.
func (p *part) taken() (main, replayed int64) {
	main, replayed = -1, -1
	if p.moved {
		main = p.position
	}
	if p.gap != nil {
		replayed = p.gap.position
	}
	return main, replayed
}

// covered says whether a commit covers all that was returned of a part.
func (p *part) covered(x *commitPart) bool {
	g := p.openGap()
	if g == nil {
		return x.offset >= p.position
	}
	return x.gap == g && x.said.Main >= p.position && x.offset >= min(g.returned, g.hi)
}

// sayAgain is the last commit of a part once more, which says now whether a member is running.
func (m *Machine) sayAgain(p *part, running bool) commitPart {
	p.marking = true
	x := commitPart{tp: p.tp, life: p.life, offset: p.kept, said: p.said}
	x.said.Running, x.said.Topic = running, m.routing.topics[p.tp.Topic]
	return x
}

// settleRecovery commits what nobody asks for: that a member is running, before whatever ends it, and that nothing of a gap is left.
func (m *Machine) settleRecovery() {
	if m.cfg.RecoverAbove <= 0 {
		return
	}
	for _, p := range m.order {
		if p.phase != held || !p.ready() || m.commits.has(p) {
			continue
		}
		if g := p.openGap(); g != nil && g.position >= g.hi && g.asked >= g.returned && g.asked < g.hi {
			m.commitInside(m.commitAt(p, g.main))
		} else if p.kept >= 0 && !p.said.Running && !p.marking {
			m.commitInside(m.sayAgain(p, true))
		}
	}
}

// sayEnd lets the last commit of a part that is not on its way say that no member is running any more.
func (m *Machine) sayEnd(p *part) {
	var last *commitPart
	for _, q := range m.commits.queue {
		for i := range q.parts {
			if x := &q.parts[i]; x.tp == p.tp && x.life == p.life && !x.done {
				last = x
			}
		}
	}
	if last != nil && last.sent == 0 {
		last.said.Running = false
	}
}

// saysEnd says whether what is committed of a part tells that its end was a proper one, as far as that can be had.
func (m *Machine) saysEnd(p *part) bool {
	if m.cfg.RecoverAbove <= 0 || p.kept < 0 || !p.said.Running || p.marking {
		return true
	}
	m.commitInside(m.sayAgain(p, false))
	m.flushCommits()
	return false
}

// keepSaid notes what a commit that was made says.
func (m *Machine) keepSaid(p *part, x *commitPart) {
	p.said, p.marking = x.said, false
	g := p.gap
	if g == nil || x.gap != g {
		return
	}
	g.sealed = true
	before := g.left
	g.left = lengthOf(x.said.Holes)
	if g.left < before {
		g.rate = engine.Pace(g.rate, before-g.left, m.now.Sub(g.paced))
		g.heartbeat, g.paced = m.now, m.now
	}
	if g.left == 0 && !g.closed {
		g.closed = true
		m.forgetPath(p, &g.path)
		m.share()
		m.tell(TellRecovery{g.status(p, m.now)})
	}
	m.do(Ready{})
}
