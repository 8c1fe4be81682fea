package group

import "time"

// leaseMargin is taken off the lease, so that tasks have stopped when the coordinator gives them away.
const leaseMargin = time.Second

// lease bounds how long the member may run its tasks without hearing from the coordinator. It ends a session timeout after the last sign of
// life, and a rebalance timeout after the last sign that no round went on without the member. Times are when requests were sent, so that the
// coordinator's clock starts later than ours.
type lease struct {
	held                  bool // there is an assignment
	session, rebalance    time.Duration
	lastAlive, lastStable time.Time
}

func (lease) fresh(cfg Config) lease { return lease{session: cfg.Session, rebalance: cfg.Rebalance} }

// alive notes a heartbeat that was answered, be it that a rebalance is under way.
func (l *lease) alive(sent time.Time) { l.lastAlive = later(l.lastAlive, sent) }

// stable notes a heartbeat, JoinGroup or SyncGroup that was answered without an error.
func (l *lease) stable(sent time.Time) { l.lastStable = later(l.lastStable, sent) }

// grant begins the lease of an assignment.
func (l *lease) grant(sent time.Time) {
	l.held = true
	l.alive(sent)
	l.stable(sent)
}

// end is zero where there is no lease.
func (l *lease) end() time.Time {
	if !l.held {
		return time.Time{}
	}
	a, b := l.lastAlive.Add(l.session), l.lastStable.Add(l.rebalance)
	if b.Before(a) {
		a = b
	}
	return a.Add(-leaseMargin)
}

func (l *lease) over(now time.Time) bool { return l.held && !now.Before(l.end()) }

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// expire ends everything at the end of the lease. A JoinGroup or SyncGroup that is out may still be answered, and then its assignment counts;
// whatever is declared after this declares no tasks.
func (m *Machine) expire() {
	m.lose("the coordinator was not heard of for too long")
	switch m.phase {
	case joined:
		m.mustJoin, m.reason = true, "the lease was over"
		m.find()
	case preparing:
		m.prepare(m.reason)
	case discovering:
		m.mustJoin, m.reason = true, "the lease was over"
	}
}

// lose gives up all tasks and all claims.
func (m *Machine) lose(reason string) {
	if m.lease.held {
		m.do(Lost{Reason: reason})
	}
	m.lease.held, m.prepared = false, nil
	m.applied.active, m.applied.marks, m.applied.coming, m.applied.promised = nil, nil, nil, nil
}
