package group

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// busyPlan is a plan in which everything happens at once.
func busyPlan(members, each int32) assignor.Plan {
	p := assignor.Plan{Forms: []assignor.Hash{{Subtopology: 0, Sum: 1}}}
	name := func(i int32) string { return fmt.Sprintf("understudy-0123456789abcdef-%03d", i%members) }
	for i := range members {
		m := assignor.MemberPlan{ID: name(i), FollowUp: assignor.FollowUp{Kind: assignor.Now}}
		for k := range each {
			here := id(0, i*each+k)
			m.Active = append(m.Active, here)
			m.Standbys = append(m.Standbys, assignor.Copy{Task: id(0, (i+1)%members*each+k), Owner: name(i + 1)})
		}
		m.Marks = []assignor.Mark{{Task: m.Active[0], Receiver: name(i + 2)}}
		m.Learners = []assignor.Incoming{{Task: id(0, (i+members-2)%members*each), Owner: name(i + members - 2)}}
		move := assignor.Move{Task: m.Active[0], Kind: assignor.Marked, From: m.ID, To: name(i + 2), Reason: "it has 2 more tasks"}
		p.Moves = append(p.Moves, move)
		m.Moves = []assignor.Move{move}
		p.Members = append(p.Members, m)
	}
	return p
}

// The fuller the record is, the more is left out of a plan: hints, standbys, the standard lists, moves, in this order; never what runs (I16).
func TestPlanIsThinnedInOrder(t *testing.T) {
	r := newRig(t)
	topo := smallTopology()
	topo.Partitions["in"] = 2000
	r.step(Start{Topology: topo})
	plan := busyPlan(100, 20)
	last, seen := whole, map[cut]bool{}
	step := func(taken int) int {
		if taken > hintBudget && taken < planBudget-30_000 {
			return planBudget - 30_000 // nothing changes between
		}
		return taken + 200
	}
	for taken := hintBudget - 30_000; ; taken = step(taken) {
		out, thin, ok := r.m.fit(plan, nil, taken)
		if !ok {
			require.Greater(t, taken, planBudget/2, "most of the record is the members'")
			break
		}
		size, actives := 0, 0
		var c cut
		for _, a := range out {
			size += len(a.Bytes)
			std, err := assignor.DecodeAssignment(a.Bytes)
			require.NoError(t, err)
			data, err := assignor.DecodePlanData(std.UserData)
			require.NoError(t, err)
			actives += len(data.Active)
			c = seenIn(std, data)
		}
		budget := planBudget
		if c == whole {
			budget = hintBudget
		}
		require.LessOrEqual(t, taken+size, budget)
		require.Equal(t, 2000, actives)
		require.GreaterOrEqual(t, c, last, "%d bytes are taken", taken)
		last, seen[c] = c, true
		if c == noMarks {
			require.Empty(t, thin.Moves, "none of them begins")
			require.Equal(t, tooLarge, thin.Degraded)
			require.Zero(t, thin.Members[0].FollowUp, "no round for a move that does not begin (S9)")
		} else {
			require.Empty(t, thin.Degraded)
			require.Len(t, thin.Moves, 100)
		}
	}
	require.Len(t, seen, int(noMarks)+1, "every step is one of its own: %v", seen)
	require.NotEmpty(t, plan.Members[0].Standbys, "the plan itself is left as it is")
	require.NotEmpty(t, plan.Members[0].Learners[0].Owner)
}

// seenIn is what was left out, to judge by what arrives.
func seenIn(std assignor.Assignment, data assignor.PlanData) cut {
	switch {
	case len(data.Marks) == 0 && len(data.Learners) == 0:
		return noMarks
	case len(std.Partitions) == 0:
		return noLists
	case len(data.Standbys) == 0:
		return noStandbys
	case len(data.Moves) == 0 && data.Learners[0].Owner == "" && data.Standbys[0].Owner == "":
		return noHints
	}
	return whole
}

// A double claim is repaired even where nothing else can be planned.
func TestThinnedPlanKeepsTheRepair(t *testing.T) {
	plan := busyPlan(3, 2)
	plan.Frozen = []task.ID{id(0, 99)}
	require.Equal(t, assignor.Now, noMarks.of(plan).Members[0].FollowUp.Kind)
}

// What a member leaves out, from the least missed on.
func TestMetadataIsThinnedInOrder(t *testing.T) {
	r := newRig(t)
	r.step(Start{Topology: wideTopology(20)}).found("a:1")
	p := Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1)}, Released: []task.ID{id(0, 2)}, Unfit: []task.ID{id(0, 3)}}
	for i := range int32(300) {
		p.Replicas = append(p.Replicas,
			assignor.Replica{Task: id(0, i), Kind: assignor.OnDisk, Lag: 1 << 40}, assignor.Replica{Task: id(1, i), Kind: assignor.Standby, Lag: 1 << 40, CatchUp: 77},
			assignor.Replica{Task: id(2, i), Kind: assignor.Learner, Lag: 1 << 40, Ready: true})
	}
	r.step(p)
	r.m.applied.promised = []task.ID{id(0, 4)}
	var last string
	var order []string
	for members := 1; members < 400; members++ {
		r.m.applied.members = members
		b := r.m.metadata()
		s, err := assignor.DecodeSubscription(b)
		require.NoError(t, err)
		d := decode(t, b)
		require.Equal(t, p.Claims, d.Claims)
		require.Equal(t, p.Released, d.Released)
		require.Equal(t, p.Unfit, d.Unfit)
		kinds, lags := map[assignor.Kind]bool{}, false
		for _, x := range d.Replicas {
			kinds[x.Kind] = true
			lags = lags || x.Kind == assignor.Standby && x.Lag >= 0
		}
		require.True(t, kinds[assignor.Promised])
		now := fmt.Sprintf("on disk %t, standby %t with lag %t, lists %t, learner %t",
			kinds[assignor.OnDisk], kinds[assignor.Standby], lags, len(s.Owned) > 0, kinds[assignor.Learner])
		if now != last {
			order, last = append(order, now), now
		}
		if kinds[assignor.Learner] || len(s.Owned) > 0 {
			require.LessOrEqual(t, len(b), metadataBudget/members)
		}
	}
	require.Equal(t, []string{
		"on disk true, standby true with lag true, lists true, learner true",
		"on disk false, standby true with lag true, lists true, learner true",
		"on disk false, standby true with lag false, lists true, learner true",
		"on disk false, standby false with lag false, lists true, learner true",
		"on disk false, standby false with lag false, lists false, learner true",
		"on disk false, standby false with lag false, lists false, learner false",
	}, order)
}

// bigGroup is a group over the model of a broker: all members join at once.
func bigGroup(t *testing.T, members int, topo Topology, policy assignor.Policy) *world {
	w := newWorld(t, 1, 3)
	w.topo, w.policy, w.unchecked = topo, policy, true
	for range members {
		w.spawn()
	}
	return w
}

func (w *world) recordSize() (metadata, assignments int) {
	for _, m := range w.broker.Group("g").Members {
		metadata += len(m.Metadata)
		assignments += len(m.Assignment)
	}
	return metadata, assignments
}

// 2,000 tasks at 100 members, with two standbys each: metadata and assignments take less than half of what the record holds.
func TestLargeGroupFits(t *testing.T) {
	topo := Topology{Partitions: map[string]int32{}}
	for i := range int32(20) {
		name := fmt.Sprintf("orders-service-some-topic-%02d", i)
		topo.Subtopologies = append(topo.Subtopologies, Subtopology{ID: i, Topics: []string{name}, Stateful: true, Hash: uint64(i) + 1})
		topo.Partitions[name] = 100
	}
	w := bigGroup(t, 100, topo, assignor.Policy{Standbys: 2})
	most := 0
	for range 10 {
		w.run(500 * time.Millisecond)
		metadata, assignments := w.recordSize()
		most = max(most, metadata+assignments)
	}
	w.requireConverged()
	w.procs[7].step(Rejoin{Reason: "so that all is declared"})
	w.run(time.Second)
	metadata, assignments := w.recordSize()
	t.Logf("metadata %d bytes, assignments %d, at most %d in all", metadata, assignments, most)
	require.Less(t, max(most, metadata+assignments), 500_000)
}

// A pattern that matches 500 topics, at 100 members that do not know of each other: their lists of topics do not fit into one record. The
// broker refuses, the members leave them out, and the group lives on.
func TestManyTopicsNeverFailTheGroup(t *testing.T) {
	topo := Topology{Partitions: map[string]int32{}}
	s := Subtopology{ID: 0, Hash: 1}
	for i := range 500 {
		name := fmt.Sprintf("%s-%04d", strings.Repeat("tenant-", 4), i)
		s.Topics = append(s.Topics, name)
		topo.Partitions[name] = 200
	}
	topo.Subtopologies = []Subtopology{s}
	w := bigGroup(t, 100, topo, assignor.Policy{})
	w.run(10 * time.Second)
	w.requireConverged()
	refused := 0
	for _, p := range w.procs {
		refused += p.refused
	}
	require.Positive(t, refused, "the first try was too large")
	metadata, assignments := w.recordSize()
	t.Logf("metadata %d bytes, assignments %d", metadata, assignments)
	require.Less(t, metadata+assignments, planBudget)
	require.Equal(t, modelbroker.Stable, w.broker.Group("g").State)
	for _, p := range w.procs {
		require.Zero(t, p.losses, "nobody lost a task over it\n%s", w.trace.String())
	}
}
