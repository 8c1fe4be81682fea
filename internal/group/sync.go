package group

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// followUpDelay is how long a member waits before it begins the round that it was told to: the answers of the present one are on their way
// to the others, and who misses his has to be waited for. It doubles, up to followUpMost, each time that such a round has changed nothing: a
// member that misses every answer because the next round has begun already would never be able to release anything.
const (
	followUpDelay = 50 * time.Millisecond
	followUpMost  = 5 * time.Second
)

// sync asks for the assignment; the leader brings it. A plan belongs to the JoinGroup answer that it was made from and is never sent twice.
func (m *Machine) sync(ev JoinDone) {
	m.phase, m.plan, m.others = syncing, assignor.Plan{}, nil
	m.syncing = m.number()
	s := SendSync{Req: m.syncing, Addr: m.addr, Group: m.cfg.Group, MemberID: m.memberID, Generation: m.round, Protocol: Protocol}
	if ev.Leader {
		s.Assignments, m.plan = m.lead(ev.Members)
	}
	m.do(s)
	if m.beatAt.IsZero() {
		m.beatAt = m.now.Add(m.cfg.Heartbeat)
	}
}

func (m *Machine) onSync(ev SyncDone) {
	if ev.Req != m.syncing || m.phase != syncing {
		return
	}
	m.syncing = 0
	switch {
	case ev.Err != nil:
		m.rediscover()
	case ev.Code == kcode.None:
		m.apply(ev)
	case ev.Code == kcode.RebalanceInProgress || ev.Code == kcode.IllegalGeneration:
		m.rejoin()
	case ev.Code == kcode.Unknown: // the plan and the members' metadata do not fit into one record
		m.shrink++
		m.phase = joining
		m.backOff()
	default:
		m.joinRefused(ev.Code)
	}
}

// rejoin declares the same again: at once, and from the second time in a row on after a pause.
func (m *Machine) rejoin() {
	m.phase = joining
	m.backOff()
	if m.failures == 1 {
		m.retryAt = m.now
	}
}

// apply takes up an assignment.
func (m *Machine) apply(ev SyncDone) {
	std, err := assignor.DecodeAssignment(ev.Assignment)
	if err != nil {
		m.rejoin()
		return
	}
	plan, err := assignor.DecodePlanData(std.UserData)
	if err != nil { // a leader of another version, or one that left this member out: keep what it lets keep
		plan = assignor.PlanData{}
	}
	if plan.Code == assignor.TopologyConflict {
		m.die(fmt.Errorf("%w (here it is %d)", ErrTopologyConflict, m.cfg.TopologyVersion))
		return
	}
	m.lease.grant(ev.Sent)
	m.phase, m.mustJoin, m.failures, m.shrink = joined, false, 0, 0
	m.prepared, m.retryAt = nil, time.Time{}
	before := m.applied.coming
	m.applied = applied{generation: m.round, active: m.granted(std, plan), members: plan.Members, coming: m.incoming(plan)}
	active := setOf(m.applied.active)
	for _, k := range plan.Marks {
		if active[k.Task] {
			m.applied.marks = append(m.applied.marks, k)
		}
	}
	for _, in := range m.applied.coming {
		if in.Instant {
			m.applied.promised = append(m.applied.promised, in.Task)
		}
	}
	m.beaten = time.Time{}
	m.beatAt = m.now.Add(m.cfg.Heartbeat) // all members' heartbeats are in step from here: they see the next round at the same time
	moves := plan.Moves
	leads := len(m.plan.Members) > 0
	if leads {
		moves = m.plan.Moves
	}
	m.do(Assigned{
		Generation: m.round, MemberID: m.memberID, Members: plan.Members, Draining: plan.Draining, Tasks: m.applied.active, Marks: m.applied.marks,
		Learners: m.applied.coming, Standbys: m.standbys(plan), Counts: plan.Counts, Outdated: m.outdated(plan), Reason: m.reason,
		Leader: leads, Moves: moves, Unassigned: m.plan.Unassigned, Degraded: m.plan.Degraded, Others: m.others,
	})
	m.plan, m.others = assignor.Plan{}, nil
	m.followUp(plan.FollowUp, sameTasks(before, m.applied.coming))
}

// granted are the tasks to run. Those of a subtopology that has another form here count only if they were declared: they stay where they are.
func (m *Machine) granted(std assignor.Assignment, plan assignor.PlanData) []task.ID {
	var out []task.ID
	for _, id := range plan.Active {
		if m.runs(plan, id) {
			out = append(out, id)
		}
	}
	listed, given := setOf(std.Partitions), setOf(plan.Active)
	for _, id := range slices.Concat(m.declared.Claims, m.declared.Released) {
		mine := len(listed) == 0 && given[id]
		for _, tp := range m.topo.ofTask(id) {
			mine = mine || listed[tp]
		}
		if mine {
			out = append(out, id)
		}
	}
	slices.SortFunc(out, task.ID.Compare)
	return slices.Compact(out)
}

func setOf[T comparable](in []T) map[T]bool {
	set := make(map[T]bool, len(in))
	for _, x := range in {
		set[x] = true
	}
	return set
}

// runs says whether the plan's form of the task's subtopology is the one that this member has.
func (m *Machine) runs(plan assignor.PlanData, id task.ID) bool {
	sub, ok := m.topo.byID[id.Subtopology]
	return ok && !sub.Others && slices.Contains(plan.Hashes, assignor.Hash{Subtopology: id.Subtopology, Sum: sub.Hash})
}

// incoming are the tasks of the plan that this member shall own and can run.
func (m *Machine) incoming(plan assignor.PlanData) (out []assignor.Incoming) {
	for _, in := range plan.Learners {
		if m.runs(plan, in.Task) {
			out = append(out, in)
		}
	}
	return out
}

// standbys are the tasks of the plan that this member keeps a copy of, and could run.
func (m *Machine) standbys(plan assignor.PlanData) (out []assignor.Copy) {
	for _, s := range plan.Standbys {
		if m.runs(plan, s.Task) {
			out = append(out, s)
		}
	}
	return out
}

// outdated says that the plan is for another form of a subtopology than the member has.
func (m *Machine) outdated(plan assignor.PlanData) bool {
	return slices.ContainsFunc(plan.Hashes, func(h assignor.Hash) bool {
		sub, has := m.topo.byID[h.Subtopology]
		return has && sub.Hash != h.Sum
	})
}

// followUp plans the round that the member was told to begin. Again says that it waits for the same tasks as before.
func (m *Machine) followUp(f assignor.FollowUp, again bool) {
	if f.Kind != assignor.Now || !again {
		m.followUps = 0
	}
	switch {
	case m.pending != "":
		m.followAt = m.now.Add(followUpDelay)
	case f.Kind == assignor.Now:
		m.pending, m.followAt = "the plan goes on", m.now.Add(min(followUpMost, followUpDelay<<min(m.followUps, 10)))
		m.followUps++
	case f.Kind == assignor.At:
		m.pending, m.followAt = "the plan goes on", m.now.Add(time.Duration(f.AtMs)*time.Millisecond)
	}
}

func sameTasks(a, b []assignor.Incoming) bool {
	return slices.EqualFunc(a, b, func(x, y assignor.Incoming) bool { return x.Task == y.Task })
}

// ErrTopologyConflict stops a member whose topology differs from the group's under the same version.
var ErrTopologyConflict = errors.New("group: other processes run another topology under the same TopologyVersion: raise it with every change of the topology")
