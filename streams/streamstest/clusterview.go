package streamstest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// Placed is a task at a member that runs it, or has a copy of its state, as the member itself sees it: a zombie says that it runs tasks which
// another one has by now.
type Placed struct {
	Member *Member
	ID     streams.TaskID
	Role   streams.Role
	State  string // opening, restoring, running, releasing, released, following or closing: see [streams.Listener].Task
	Lag    int64  // changelog records that the state here is behind: 0 for a task that runs, -1 where it is not known yet
}

func (p Placed) String() string {
	return fmt.Sprintf("%v at %v: %v, %s", p.ID, p.Member, p.Role, p.State)
}

// Tasks says which member has which task for what, ordered by task and by member.
func (c *Cluster) Tasks() []Placed {
	var all []Placed
	for _, m := range c.members {
		if m.p == nil {
			continue
		}
		for _, s := range m.p.Engine.Tasks() {
			all = append(all, Placed{Member: m, ID: s.Task, Role: streams.Role(s.Role), State: s.State, Lag: s.Lag})
		}
	}
	slices.SortStableFunc(all, func(a, b Placed) int { return a.ID.Compare(b.ID) })
	return all
}

// Owner returns the member that runs a task, nil if none does. If two believe that they do it is the one that began last.
func (c *Cluster) Owner(id streams.TaskID) *Member {
	if _, p := c.running(id); p != nil {
		return p.m
	}
	return nil
}

// OwnerOf returns the member that runs the task which reads a partition, nil if none does.
func (c *Cluster) OwnerOf(topic string, partition int32) *Member {
	c.t.Helper()
	for _, spec := range c.topology.Subtopologies {
		if slices.ContainsFunc(spec.Inputs, func(in task.Input) bool { return in.Topic == topic }) {
			return c.Owner(task.ID{Subtopology: spec.Subtopology, Partition: partition})
		}
	}
	c.t.Fatalf("streamstest: no task reads topic %q", topic)
	return nil
}

// running is who began last to run a task.
func (c *Cluster) running(id task.ID) (t *virtual.Task, p *process) {
	last := 0
	for _, m := range c.members {
		if m.p == nil {
			continue
		}
		for one, r := range m.p.runs {
			if one.Key.Task == id && r.began > last && runs(one) {
				t, p, last = one, m.p, r.began
			}
		}
	}
	return t, p
}

// runs says whether a task takes records, as it sees it itself.
func runs(t *virtual.Task) bool { return t.Owner != nil && t.Owner.State() <= task.StateRunning }

// shards are those of the tasks that run.
func (c *Cluster) shards(store string) (all []shard) {
	for _, spec := range c.topology.Subtopologies {
		for n := range c.tasksOf(spec) {
			t, p := c.running(task.ID{Subtopology: spec.Subtopology, Partition: n})
			if t == nil {
				continue
			}
			if s, ok := shardOf(spec, store, shard{owner: t.Owner, stores: p.runs[t].stores, sealed: p.runs[t].sealed}); ok {
				all = append(all, s)
			}
		}
	}
	return all
}

func (c *Cluster) tasksOf(spec *task.Spec) (n int32) {
	for _, in := range spec.Inputs {
		n = max(n, c.counts[in.Topic])
	}
	return n
}

// Committed returns the committed offset of an input partition: everything below it is done.
func (c *Cluster) Committed(topic string, partition int32) int64 {
	return max(c.world.Broker.Committed(c.group, task.TopicPartition{Topic: topic, Partition: partition}), 0)
}

// Rebalance is a rebalance as one member has seen it. Each member that has taken part has one of its own.
type Rebalance struct {
	streams.RebalanceInfo
	Member *Member
	At     time.Time // when it was over
}

// Rebalances returns all rebalances so far, in the order in which they were over.
func (c *Cluster) Rebalances() []Rebalance { return slices.Clone(c.rounds) }

// Generation returns the generation of the group: it is higher by one after each rebalance.
func (c *Cluster) Generation() int32 { return c.world.Broker.Group(c.group).Generation }

// Settle lets time pass until the cluster is at rest: every member that runs is in the group, every task runs, copies are complete and nothing is to
// move, everything in the inputs is committed, and no record waits to be tried again. It fails the test, and says what is missing, if that is not so within that time.
func (c *Cluster) Settle(within time.Duration) {
	c.t.Helper()
	if !c.until(func() bool { return len(c.unsettled()) == 0 }, within) {
		c.fail("not settled after %v: %s", within, strings.Join(c.unsettled(), "; "))
	}
}

// Settled says whether the cluster is at rest: see [Cluster.Settle].
func (c *Cluster) Settled() bool { return len(c.unsettled()) == 0 }

// unsettled says what is missing to be at rest.
func (c *Cluster) unsettled() (missing []string) {
	miss := func(format string, args ...any) { missing = append(missing, fmt.Sprintf(format, args...)) }
	g := c.world.Broker.Group(c.group)
	alive := 0
	for _, m := range c.members {
		if m.p == nil {
			continue
		}
		alive++
		if !m.p.Engine.Joined() || m.p.Engine.State() != engine.Running {
			miss("%v is %v", m, m.p.Engine.State())
		}
	}
	if g.State != modelbroker.Stable || len(g.Members) != alive {
		miss("the group is %s with %d members, %d run", g.State, len(g.Members), alive)
	}
	for _, m := range g.Members {
		if plan, ok := virtual.PlanIn(m.Assignment); ok && len(plan.Marks) > 0 {
			miss("tasks are to move: %v", plan.Marks)
		}
	}
	for _, p := range c.Tasks() {
		if p.Role == streams.RoleLearner || p.Role == streams.RoleStandby && (p.State != "following" || p.Lag != 0) {
			miss("%v", p)
		}
	}
	if len(missing) > 0 {
		return missing
	}
	return c.uncommitted()
}

// uncommitted says which tasks do not run and which inputs are not done.
func (c *Cluster) uncommitted() (missing []string) {
	for _, spec := range c.topology.Subtopologies {
		for n := range c.tasksOf(spec) {
			id := task.ID{Subtopology: spec.Subtopology, Partition: n}
			if t, _ := c.running(id); t == nil {
				missing = append(missing, fmt.Sprintf("nobody runs task %v", id))
			} else if f := t.Owner.Stats().Failures; f.Parked > 0 {
				missing = append(missing, fmt.Sprintf("%d records of task %v are put aside", f.Parked, id))
			}
			for _, in := range spec.Inputs {
				tp := task.TopicPartition{Topic: in.Topic, Partition: n}
				if end := c.world.Broker.End(tp); c.Committed(tp.Topic, n) < end {
					missing = append(missing, fmt.Sprintf("%v is committed up to %d of %d", tp, c.Committed(tp.Topic, n), end))
				}
			}
		}
	}
	return missing
}

// view is how the cluster is, in words.
func (c *Cluster) view() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d; the members:", c.Generation())
	for _, m := range c.members {
		switch {
		case m.p == nil && m.err != nil:
			fmt.Fprintf(&b, "\n  %v has ended: %v", m, m.err)
		case m.p == nil:
			fmt.Fprintf(&b, "\n  %v does not run", m)
		default:
			fmt.Fprintf(&b, "\n  %v is %v%s:%s", m, m.p.Engine.State(), m.hindered(), c.has(m))
		}
	}
	return b.String()
}

func (c *Cluster) has(m *Member) (s string) {
	for _, t := range m.p.Engine.Tasks() {
		s += fmt.Sprintf(" %v %v %s", t.Task, t.Role, t.State)
	}
	return s
}

// hindered says what is done to a member at the moment.
func (m *Member) hindered() (s string) {
	now := m.c.world.Now
	for _, x := range []struct {
		until time.Time
		what  string
	}{{m.host.Paused, "frozen"}, {m.host.CutOut, "cut off"}, {m.host.Stuck, "with a blocked disk"}} {
		if x.until.After(now) {
			s += fmt.Sprintf(", %s for %v", x.what, x.until.Sub(now))
		}
	}
	return s
}
