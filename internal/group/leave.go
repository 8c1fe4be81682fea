package group

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
)

// leaveTimeout bounds how long the member waits for the answer to its goodbye; without one the session runs out by itself.
const leaveTimeout = 3 * time.Second

// leave says goodbye, so that the group need not wait for the session to run out. With a fault the member stops for that reason.
func (m *Machine) leave(fault error) {
	if m.phase == leaving {
		return
	}
	if fault != nil {
		m.fault = fault
	}
	m.finding, m.joining, m.syncing, m.beat = 0, 0, 0, heartbeat{}
	m.retryAt, m.followAt, m.beatAt = time.Time{}, time.Time{}, time.Time{}
	m.lease.held = false
	if m.phase == stopped || m.memberID == "" || m.addr == "" {
		m.goodbye()
		return
	}
	m.phase, m.leaveBy = leaving, m.now.Add(leaveTimeout)
	m.parted = m.number()
	m.do(SendLeave{Req: m.parted, Addr: m.addr, Group: m.cfg.Group, MemberID: m.memberID})
}

func (m *Machine) onLeft(ev LeaveDone) {
	if m.phase == leaving && ev.Req == m.parted {
		m.goodbye()
	}
}

func (m *Machine) goodbye() {
	if m.phase != stopped {
		m.disconnect()
	}
	m.phase, m.leaveBy, m.wake, m.parted = stopped, time.Time{}, time.Time{}, 0
	m.memberID, m.applied, m.mustJoin, m.prepared = "", applied{generation: -1}, false, nil
	if m.fault != nil {
		m.do(Fatal{Err: m.fault})
		m.fault = nil
		return
	}
	m.do(Left{})
}

// die stops the member over something that no retry mends. It leaves when its tasks have stopped, and no earlier: others get them then.
func (m *Machine) die(err error) {
	running := m.lease.held
	m.lose(err.Error())
	if !running {
		m.leave(err)
		return
	}
	m.fault = err
	m.prepare("the member stops: " + err.Error())
}

// refusal is the error behind a code that stays the same however often one asks, nil for the others.
func refusal(group string, code kcode.Code) error {
	remedy := map[kcode.Code]string{
		kcode.InconsistentGroupProtocol: "the group is in use by members that are not of this runtime; stop them, or choose another application id " +
			"(a Kafka Streams process that has ended stays a member for its session.timeout.ms, 45 s, unless it was closed to leave the group)",
		kcode.InvalidGroupID:           "the broker does not accept the group's name; choose another application id",
		kcode.InvalidSessionTimeout:    "the session timeout is outside the broker's group.min.session.timeout.ms and group.max.session.timeout.ms",
		kcode.GroupMaxSizeReached:      "the group is full; raise the broker's group.max.size or start fewer members",
		kcode.GroupAuthorizationFailed: "grant this user READ on the group",
		kcode.TopicAuthorizationFailed: "grant this user READ on the topics",
		kcode.ClusterAuthorization:     "grant this user access to the cluster",
		kcode.SaslAuthenticationFailed: "check the user and the password",
	}[code]
	if remedy == "" {
		return nil
	}
	return fmt.Errorf("group %s: %w: %s", group, code, remedy)
}
