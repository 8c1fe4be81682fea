package group

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// find asks for the coordinator. The lease runs on meanwhile, and so do the tasks.
func (m *Machine) find() {
	m.phase = discovering
	m.joining, m.syncing = 0, 0
	m.retryAt, m.followAt = time.Time{}, time.Time{}
	m.finding = m.number()
	m.do(FindCoordinator{Req: m.finding, Group: m.cfg.Group})
}

func (m *Machine) onCoordinator(ev CoordinatorFound) {
	if ev.Req != m.finding || m.phase != discovering {
		return
	}
	m.finding = 0
	if ev.Err != nil || ev.Code != kcode.None {
		if err := refusal(m.cfg.Group, ev.Code); err != nil {
			m.die(err)
			return
		}
		m.backOff()
		return
	}
	if m.addr != ev.Addr {
		if m.addr != "" {
			m.disconnect()
		}
		m.addr = ev.Addr
	}
	if m.mustJoin {
		m.joinAgain()
		return
	}
	m.phase = joined // the membership is as good here as it was there
	m.beatAt = m.now
	if m.pending != "" {
		m.followAt = m.now
	}
}

const backOffMin = 100 * time.Millisecond

// backOff plans the next try of what the phase is about.
func (m *Machine) backOff() {
	d := m.cfg.BackOff
	if m.failures < 10 {
		d = min(d, backOffMin<<m.failures)
	}
	m.failures++
	m.retryAt = m.now.Add(d/2 + time.Duration(m.rng.Int64N(int64(d/2))))
}

func (m *Machine) retry() {
	switch m.phase {
	case discovering:
		m.find()
	case joining:
		m.joinAgain()
	}
}

// disconnect closes the connections; what was asked on them has no answer any more.
func (m *Machine) disconnect() {
	m.joining, m.syncing, m.beat.req = 0, 0, 0
	m.do(Disconnect{})
}

// joinAgain declares again what was declared before, or has it prepared if it no longer holds.
func (m *Machine) joinAgain() {
	if m.prepared == nil {
		m.prepare(m.reason)
		return
	}
	m.sendJoin()
}
