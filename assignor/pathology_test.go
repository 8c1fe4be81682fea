package assignor

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// What went wrong in other runtimes, each with the issue that told of it, and what this one does instead.

func twoTasks(names ...string) *groupModel {
	g := newGroup(Subtopology{ID: 0, Partitions: 2, Stateful: true})
	for _, n := range names {
		g.add(n)
	}
	return g
}

func (g *groupModel) holds(name string, t task.ID, kind Kind, lag Lag) {
	g.members[name].copies[t] = Replica{Task: t, Kind: kind, Lag: lag}
}

// KAFKA-10287, KAFKA-10319: one number meant both "I run it" and "I do not know", and a standby was taken for the active task.
func TestPathologyRunningIsNotUnknown(t *testing.T) {
	g := twoTasks("a", "b", "c")
	g.holds("a", id(0, 0), Standby, LagUnknown)
	g.holds("b", id(0, 0), Standby, LagRunning) // nonsense: it says it runs it and does not claim it
	g.holds("c", id(0, 0), Standby, 4_000_000)
	g.round()
	require.Contains(t, g.plan.Member("c").Active, id(0, 0), "a lag that is known goes before any that is not")

	g = twoTasks("a", "b")
	g.members["a"].run = map[task.ID]bool{id(0, 0): true, id(0, 1): true}
	g.holds("b", id(0, 0), Standby, LagUnknown)
	g.round()
	require.Equal(t, []Incoming{{Task: id(0, 0), Owner: "a"}}, g.plan.Member("b").Learners, "an unknown lag is never caught up")
}

// KAFKA-13600: with no copy caught up the task went to a member without any.
func TestPathologyNobodyIsCaughtUp(t *testing.T) {
	g := twoTasks("a", "b", "c")
	g.holds("b", id(0, 0), OnDisk, 9_000_000)
	g.holds("c", id(0, 0), Standby, 8_000_000)
	g.round()
	require.Contains(t, g.plan.Member("c").Active, id(0, 0))
}

// KAFKA-12984, KAFKA-13406, KAFKA-14639: a member with old claims, and two claims of equal right.
func TestPathologyStaleClaims(t *testing.T) {
	for _, c := range []struct {
		name   string
		ga, gb int32
		owner  string
	}{{"older", 6, 7, "b"}, {"newer", 8, 7, "a"}, {"equal", 7, 7, ""}} {
		t.Run(c.name, func(t *testing.T) {
			g := twoTasks("a", "b")
			for name, generation := range map[string]int32{"a": c.ga, "b": c.gb} {
				g.members[name].Generation = generation
				g.members[name].run[id(0, 0)] = true
			}
			g.generation = 8
			again := g.round()
			if c.owner == "" {
				require.Equal(t, []task.ID{id(0, 0)}, g.plan.Frozen)
				require.True(t, again)
				require.Equal(t, Now, g.plan.Member("a").FollowUp.Kind)
				g.round()
				require.Empty(t, g.plan.Frozen)
				require.Len(t, append(g.plan.Member("a").Active, g.plan.Member("b").Active...), 2)
				return
			}
			require.Contains(t, g.plan.Member(c.owner).Active, id(0, 0))
		})
	}
}

// KAFKA-9821, KAFKA-10078: who had to ask for the next round was restarted and forgot, and nobody asked.
func TestPathologyFollowUpIsForgotten(t *testing.T) {
	for _, who := range []string{"receiver", "owner"} {
		t.Run(who, func(t *testing.T) {
			g := newGroup(Subtopology{ID: 0, Partitions: 2})
			g.add("a")
			g.round()
			g.add("b")
			require.True(t, g.round(), "the receiver asks")
			restarted := "b2"
			if who == "owner" {
				delete(g.members, "a")
				restarted = "a2"
			} else {
				delete(g.members, "b")
			}
			g.add(restarted)
			g.settle(t, 3)
			requireBalanced(t, g.subs, g.runs())
		})
	}
}

// KAFKA-9184, KAFKA-9841, KAFKA-9849, KAFKA-9851: a worker came back from the dead with its old tasks.
func TestPathologyBackFromTheDead(t *testing.T) {
	g := twoTasks("a", "b")
	g.settle(t, 3)
	dead := g.members["a"]
	delete(g.members, "a")
	g.settle(t, 3)
	g.members["a"] = dead // it runs what it ran, and its generation is old
	g.round()
	g.requireSingleOwners(t)
	g.catchUp()
	g.settle(t, 4)
	requireBalanced(t, g.subs, g.runs())
}

// KAFKA-12495, KAFKA-10413: members that joined one shortly after the other set off a storm of rounds.
func TestPathologyJoinStorm(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 24, Stateful: true})
	g.add("a")
	g.add("b")
	g.settle(t, 3)
	for i := range 4 {
		g.add(fmt.Sprintf("new-%d", i))
		require.False(t, g.round(), "a cold learner asks when it is ready, and not before")
		require.Empty(t, g.paused)
	}
	for batches := 0; g.busy(); batches++ {
		require.Less(t, batches, 3)
		g.catchUp()
		require.False(t, g.round())
		require.Empty(t, g.needless)
	}
	requireBalanced(t, g.subs, g.runs())
}

// The delay of a clean-up equal to that of a probing rebalance: the state of a learner was removed just before it was needed. A learner stays in
// every plan from its first round until the task is there.
func TestPathologyLearnerIsInEveryPlan(t *testing.T) {
	g := twoTasks("a")
	g.settle(t, 1)
	g.add("b")
	for range 50 {
		g.round()
		require.Len(t, g.plan.Member("b").Learners, 1)
	}
}

// FallbackPriorTaskAssignor: without lags there was a plan that changed nothing, and another rebalance each time. A member that cannot tell its
// lag learns cold, and nobody asks for a round.
func TestPathologyNoLags(t *testing.T) {
	g := twoTasks("a")
	g.settle(t, 1)
	g.add("b")
	for _, x := range []task.ID{id(0, 0), id(0, 1)} {
		g.holds("b", x, OnDisk, LagUnknown)
	}
	for range 3 {
		require.False(t, g.round())
		require.Equal(t, []Incoming{{Task: id(0, 0), Owner: "a"}}, g.plan.Member("b").Learners)
	}
}

// KAFKA-12486: a corrupted task was restored where it was for hours, while a copy stood by.
func TestPathologyCorruptedTask(t *testing.T) {
	g := twoTasks("a", "b")
	g.policy.Standbys = 1
	g.settle(t, 3)
	g.catchUp()
	g.settle(t, 1)
	was := sorted(g.members["a"].run)[0]
	delete(g.members["a"].run, was) // it has dropped its claim
	g.members["a"].Unfit = []task.ID{was}
	g.round()
	require.Contains(t, g.plan.Member("b").Active, was)
	require.NotContains(t, g.plan.Member("a").Standbys, Copy{Task: was, Owner: "b"}, "it must not be given the task in any form")
}

// KAFKA-10716, KAFKA-17251: a process that came back had lost its identity, and its state was of no use. Here the disk speaks for it.
func TestPathologyRestartKeepsItsState(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 12, Stateful: true})
	for _, n := range []string{"a", "b", "c"} {
		g.add(n)
	}
	g.settle(t, 3)
	had := sorted(g.members["a"].run)
	delete(g.members, "a")
	g.settle(t, 3)
	back := g.add("a-again")
	for _, x := range had {
		back.copies[x] = Replica{Task: x, Kind: OnDisk, Lag: 900}
	}
	g.settle(t, 2)
	require.Equal(t, had, sorted(back.run), "it has what it had, and learned nothing")
}

// KAFKA-21166, KAFKA-20899: standbys that were swapped in every round, or moved although nothing had changed.
func TestPathologyStandbysSwap(t *testing.T) {
	for n := 2; n <= 7; n++ {
		for standbys := 1; standbys <= 3; standbys++ {
			g := newGroup(Subtopology{ID: 0, Partitions: 11, Stateful: true}, Subtopology{ID: 1, Partitions: 5, Stateful: true})
			g.policy = Policy{Standbys: standbys, LearnersPerMember: 20, Learners: 99}
			for i := range n {
				g.add(fmt.Sprintf("m%d", i)).Rack = fmt.Sprintf("r%d", i%3)
				g.settle(t, 6)
			}
			before := rest(g.plan)
			for range 5 {
				g.catchUp()
				require.False(t, g.round())
				require.Equal(t, before, rest(g.plan), "%d members, %d standbys", n, standbys)
			}
		}
	}
}

// KAFKA-20665, KAFKA-21090, KAFKA-21111: a task was learned in the process that ran it, and closed and restored there.
func TestPathologyLearnerInTheSameProcess(t *testing.T) {
	g := twoTasks("a")
	g.settle(t, 1)
	g.members["a"].Process = [16]byte{1}
	g.add("b").Process = [16]byte{1}
	g.round()
	require.Empty(t, g.plan.Moves)
	require.Empty(t, g.plan.Degraded)
}

// The protocol's first draft: every learner that became ready paused every marked task.
func TestPathologyReadyPausesOnlyItsOwn(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 16, Stateful: true})
	g.add("a")
	g.add("b")
	g.settle(t, 3)
	for i := range 4 {
		g.add(fmt.Sprintf("new-%d", i))
	}
	g.round()
	for len(g.learning()) > 0 {
		var name, x string
		_, err := fmt.Sscanf(g.learning()[0], "%s %s", &name, &x)
		require.NoError(t, err)
		g.members[name].ready(parse(t, x))
		g.round()
		require.Equal(t, []task.ID{parse(t, x)}, g.paused)
		require.Empty(t, g.needless)
	}
	requireBalanced(t, g.subs, g.runs())
}
