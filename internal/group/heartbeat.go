package group

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// heartbeat is the one that is out; req 0 if none is.
type heartbeat struct {
	req        uint64
	generation int32
	failed     int // in a row
}

// lostBeats is how many heartbeats may fail in a row under a parked request before its connection is given up too.
const lostBeats = 3

// beatMargin is how far from a heartbeat a round is begun. Members beat in step, but for some milliseconds: a round that began right between
// the beats of two would be seen by the second a whole interval before the first, and what it has released would stand still for as long.
const beatMargin = 40 * time.Millisecond

// betweenBeats is the next time at which a round may begin, now if possible.
func (m *Machine) betweenBeats() time.Time {
	margin := min(beatMargin, m.cfg.Heartbeat/8)
	switch since := m.now.Sub(m.beaten); {
	case since < margin:
		return m.beaten.Add(margin)
	case m.beat.req == 0 && !m.beatAt.IsZero() && m.beatAt.Sub(m.now) < margin:
		return later(m.now, m.beatAt).Add(margin)
	}
	return m.now
}

// beatDue is when the next heartbeat is to be sent, zero if one is out or there is nothing to say.
func (m *Machine) beatDue() time.Time {
	if m.beat.req != 0 || m.memberID == "" || m.addr == "" || m.beatGeneration() < 0 {
		return time.Time{}
	}
	return m.beatAt
}

// beatGeneration is the generation that the coordinator knows the member in.
func (m *Machine) beatGeneration() int32 {
	switch m.phase {
	case stopped, leaving:
		return -1
	case syncing:
		return m.round
	}
	return m.applied.generation
}

// sendHeartbeat keeps the membership alive, also while JoinGroup and SyncGroup are parked on the other connection.
func (m *Machine) sendHeartbeat() {
	generation := m.beatGeneration()
	if m.memberID == "" || m.addr == "" || generation < 0 {
		m.beatAt = time.Time{}
		return
	}
	m.beat.req, m.beat.generation, m.beaten = m.number(), generation, m.now
	m.beatAt = m.beatAt.Add(m.cfg.Heartbeat)
	if !m.beatAt.After(m.now) {
		m.beatAt = m.now.Add(m.cfg.Heartbeat)
	}
	m.do(SendHeartbeat{Req: m.beat.req, Addr: m.addr, Group: m.cfg.Group, MemberID: m.memberID, Generation: generation})
}

func (m *Machine) onHeartbeat(ev HeartbeatDone) {
	if ev.Req != m.beat.req || ev.Req == 0 || m.phase == stopped || m.phase == leaving {
		return
	}
	m.beat.req = 0
	if ev.Err != nil {
		m.beatFailed()
		return
	}
	if ev.Code == kcode.CoordinatorNotAvailable || ev.Code == kcode.NotCoordinator {
		m.beatFailed() // as well as it may be otherwise
		return
	}
	m.beat.failed = 0
	current := m.beat.generation == m.beatGeneration()
	switch ev.Code {
	case kcode.None:
		m.lease.alive(ev.Sent)
		if m.beat.generation == m.applied.generation { // between Join and Sync all is well only for as long as others wait for our SyncGroup
			m.lease.stable(ev.Sent)
		}
		if m.phase == joined {
			m.failures = 0
		}
	case kcode.RebalanceInProgress:
		m.lease.alive(ev.Sent)
		if m.phase == joined && current {
			m.prepare(OthersAsked)
		}
	case kcode.IllegalGeneration:
		m.generationGone(current)
	case kcode.UnknownMemberID, kcode.FencedInstanceID:
		m.expelled(ev.Code)
	}
}

// generationGone: the membership lives, the generation does not. While a JoinGroup is out that is as it should be.
func (m *Machine) generationGone(current bool) {
	switch {
	case !current:
	case m.phase == joined:
		m.prepare("the generation is over")
	case m.phase == syncing: // the coordinator has forgotten the round: the parked SyncGroup is not worth waiting for
		m.disconnect()
		m.rejoin()
	case m.phase == discovering && !m.mustJoin:
		m.mustJoin, m.reason = true, "the generation is over"
	}
}

// beatFailed looks for the coordinator. A request parked on the other connection is given time: its answer, or its end, tells more.
func (m *Machine) beatFailed() {
	m.beat.failed++
	switch m.phase {
	case joined:
		if m.beat.failed == 1 {
			m.find()
		} else { // a broker that is down is named as the coordinator until its session is over
			m.rediscover()
		}
	case preparing: // the join will tell
	case joining, syncing:
		if m.beat.failed >= lostBeats && (m.joining != 0 || m.syncing != 0) {
			m.disconnect()
			m.rediscover()
		}
	}
	m.beatAt = m.now.Add(m.cfg.Heartbeat)
}
