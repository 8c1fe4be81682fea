package group

import (
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// Machine is one member of the group, as a state machine.
//
//	Stopped -> Discovering -> Joining -> Syncing -> Joined
//	               ^  |           ^         |          |
//	               |  +-----------+---------+          |
//	               +--------------+--------------------+
//
// Joining covers the time in which tasks are released (between Prepare and Prepared) and that in which JoinGroup is parked. A member that was
// Joined goes back to it straight from Discovering: a coordinator that moved knows it still.
//
// What keeps a task from running twice: a member declares with each JoinGroup what it runs (its claims), runs nothing else until it has
// applied an assignment of a newer generation, and stops everything when its lease is over, whether it hears from the coordinator or not.
type Machine struct {
	cfg  Config
	rng  *rand.Rand
	topo index
	now  time.Time
	acts []Action

	phase    phase
	addr     string // the coordinator's; empty if not known
	memberID string
	mustJoin bool // a JoinGroup is due or under way
	draining bool
	failures int // in a row, of requests that lead to an assignment

	// Numbers of the requests that are out, 0 for none; an answer with another number is old.
	requests                          uint64
	finding, joining, syncing, parted uint64
	beat                              heartbeat

	applied  applied
	prepared *Prepared // what is declared with the next JoinGroup; nil: Prepare comes first
	declared Prepared  // what was declared with the last one
	prepares uint64
	joinSeq  uint64
	round    int32 // the generation that was joined and not yet applied
	reason   string
	pending  string              // why another round is wanted after this one
	plan     assignor.Plan       // the leader's, until it is applied
	numbers  map[string]*numbers // the leader's, of the members of the plan
	others   []string            // topics of the members of the plan that the leader does not read
	shrink   int                 // how often a plan was too large in a row

	followUps int // in a row, for the same tasks

	lease lease

	beatAt, retryAt, followAt, leaveBy time.Time // zero: not due
	beaten                             time.Time // when the last heartbeat was sent
	wake                               time.Time
	fault                              error // why the member leaves
}

// applied is the assignment that the member has.
type applied struct {
	generation int32
	active     []task.ID
	marks      []assignor.Mark
	coming     []assignor.Incoming // what the member shall own
	promised   []task.ID           // of those, the ones that are due in the next round
	members    int
}

type phase uint8

const (
	stopped phase = iota
	discovering
	preparing
	joining
	syncing
	joined
	leaving
)

// New returns a stopped machine.
func New(cfg Config) *Machine {
	return &Machine{cfg: cfg.withDefaults(), numbers: map[string]*numbers{}, rng: rand.New(rand.NewPCG(cfg.Seed, 0x67726f7570)), applied: applied{generation: -1}}
}

// State says where the member is.
func (m *Machine) State() State {
	switch m.phase {
	case discovering:
		return Discovering
	case preparing, joining:
		return Joining
	case syncing:
		return Syncing
	case joined:
		return Joined
	}
	return Stopped
}

// Membership is what a commit must carry: the member id and the generation of the last assignment that was applied, and the
// coordinator's address. The id is empty and the generation -1 where there is no membership.
func (m *Machine) Membership() (memberID string, generation int32, coordinator string) {
	return m.memberID, m.applied.generation, m.addr
}

// Failures is how many requests that lead to an assignment have failed in a row.
func (m *Machine) Failures() int { return m.failures }

// Lease says until when the member's tasks may run if nothing more is heard of the coordinator; zero where there are none.
func (m *Machine) Lease() time.Time { return m.lease.end() }

// Step takes an event and returns what is to be done about it. The slice is reused by the next Step.
func (m *Machine) Step(now time.Time, ev Event) []Action {
	m.now, m.acts = now, m.acts[:0]
	if m.lease.over(now) {
		m.expire()
	}
	switch ev := ev.(type) {
	case Start:
		m.start(ev)
	case TopologyChanged:
		m.topo = indexOf(ev.Topology)
		m.askRound("the topology's partitions have changed")
	case Drain:
		m.drain()
	case Rejoin:
		m.askRound(ev.Reason)
	case Stop:
		m.leave(nil)
	case Prepared:
		m.onPrepared(ev)
	case CoordinatorFound:
		m.onCoordinator(ev)
	case JoinDone:
		m.onJoin(ev)
	case SyncDone:
		m.onSync(ev)
	case HeartbeatDone:
		m.onHeartbeat(ev)
	case LeaveDone:
		m.onLeft(ev)
	case Tick:
		m.wake = time.Time{}
	}
	m.runTimers()
	m.setWake()
	return m.acts
}

func (m *Machine) do(a Action) { m.acts = append(m.acts, a) }

func (m *Machine) number() uint64 {
	m.requests++
	return m.requests
}

func (m *Machine) start(ev Start) {
	if m.phase != stopped {
		return
	}
	m.topo = indexOf(ev.Topology)
	m.memberID, m.addr = "", ""
	m.applied, m.lease, m.draining = applied{generation: -1}, m.lease.fresh(m.cfg), false
	m.prepared, m.pending, m.fault, m.failures, m.shrink, m.followUps = nil, "", nil, 0, 0, 0
	m.mustJoin, m.reason = true, "the member has started"
	m.find()
}

// askRound begins a round, now or as soon as the one under way is over. A round that has not yet been prepared does for it as well.
func (m *Machine) askRound(reason string) {
	switch m.phase {
	case stopped, leaving:
	case joined:
		m.pending = reason
		if m.followAt.IsZero() || m.now.Before(m.followAt) {
			m.followAt = m.now // the timers begin it, between beats
		}
	default:
		switch {
		case !m.mustJoin:
			m.mustJoin, m.reason = true, reason
		case m.prepared != nil || m.phase == joining || m.phase == syncing:
			m.pending = reason
		}
	}
}

// drain asks once for a round in which the others begin to take this member's tasks over.
func (m *Machine) drain() {
	if !m.draining {
		m.draining = true
		m.askRound("the member is draining")
	}
}

// runTimers does what is due.
func (m *Machine) runTimers() {
	if m.phase == leaving && due(m.leaveBy, m.now) {
		m.goodbye()
	}
	if due(m.retryAt, m.now) {
		m.retryAt = time.Time{}
		m.retry()
	}
	if m.phase == joined && due(m.followAt, m.now) {
		if m.followAt = m.betweenBeats(); !m.now.Before(m.followAt) {
			m.prepare(m.pending)
		}
	}
	if due(m.beatAt, m.now) && m.beat.req == 0 {
		m.sendHeartbeat()
	}
}

func due(at, now time.Time) bool { return !at.IsZero() && !now.Before(at) }

// setWake asks to be woken when the next thing is due.
func (m *Machine) setWake() {
	next := time.Time{}
	for _, at := range []time.Time{m.retryAt, m.followAt, m.leaveBy, m.beatDue(), m.lease.end()} {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	if m.phase != stopped && !next.IsZero() && !next.Equal(m.wake) {
		m.wake = next
		m.do(Wake{At: next})
	}
}
