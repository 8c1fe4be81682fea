package assignor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// A round that begins before the new owner has begun to process takes the task from it only for a copy that is much closer to the end.
func TestTaskThatHasJustMovedStaysForAFewRecords(t *testing.T) {
	id := task.ID{}
	owner := func(lag Lag) string {
		hashes := []Hash{{Subtopology: 0, Sum: 1}}
		plan := Assign(State{
			Subtopologies: []Subtopology{{ID: 0, Partitions: 1, Stateful: true}}, Policy: Policy{Standbys: 1, AcceptableLag: 100},
			Members: []Member{
				{ID: "a", Process: [16]byte{1}, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Standby, Lag: 0}}},
				{ID: "b", Process: [16]byte{2}, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Restoring, Lag: lag}}},
			},
		})
		require.Empty(t, plan.Degraded)
		for _, m := range plan.Members {
			if len(m.Active) > 0 {
				return m.ID
			}
		}
		return ""
	}
	require.Equal(t, "b", owner(1))
	require.Equal(t, "b", owner(100))
	require.Equal(t, "a", owner(101))
}

// What is learned of a task whose owner has not begun to process is learned on: the owner lets go of the task at each join, but it keeps it, and to
// forget the learner would begin another move in its place, and in the next round perhaps yet another.
func TestLearnerOfATaskThatIsRestoredGoesOn(t *testing.T) {
	hashes := []Hash{{Subtopology: 0, Sum: 1}, {Subtopology: 1, Sum: 1}}
	plan := Assign(State{
		Subtopologies: []Subtopology{{ID: 0, Partitions: 2, Stateful: true}, {ID: 1, Partitions: 3}},
		Members: []Member{
			{ID: "a", Hashes: hashes, Claims: []task.ID{id(1, 0)}},
			{ID: "b", Hashes: hashes, Claims: []task.ID{id(0, 1)}, Replicas: []Replica{{Task: id(0, 0), Kind: Learner, Lag: LagUnknown}}},
			{ID: "c", Hashes: hashes, Claims: []task.ID{id(1, 2)}, Replicas: []Replica{{Task: id(0, 0), Kind: Restoring, Lag: 50_000}}},
			{ID: "d", Hashes: hashes, Claims: []task.ID{id(1, 1)}, Replicas: []Replica{{Task: id(0, 1), Kind: Learner, Lag: LagUnknown}}},
		},
	})
	require.Empty(t, plan.Degraded)
	require.Equal(t, []task.ID{id(0, 0), id(1, 2)}, plan.Member("c").Active)
	require.Equal(t, []Incoming{{Task: id(0, 0), Owner: "c"}}, plan.Member("b").Learners)
	require.Equal(t, []Incoming{{Task: id(0, 1), Owner: "b"}}, plan.Member("d").Learners)
	require.Equal(t, []Mark{{Task: id(0, 0), Receiver: "b"}}, plan.Member("c").Marks)
	for _, m := range plan.Members {
		require.Equal(t, None, m.FollowUp.Kind, "nothing else moves for it")
	}
}

// What is to move, and has not come to run where it was to be run until then, goes to its receiver if that is ready: nobody is paused by it, and
// left where it is the round would have changed nothing. In the simulation such rounds came as soon as it took tasks a little longer to begin.
func TestWhatIsToMoveIsNotLeftWithWhoHasNotBegunToRunIt(t *testing.T) {
	id := task.ID{Subtopology: 1}
	hashes := []Hash{{Subtopology: 1, Sum: 1}}
	for name, c := range map[string]struct {
		receiver []Replica
		owner    string
	}{
		"ready":                       {[]Replica{{Task: id, Kind: Learner, Lag: 0, Ready: true}, {Task: id, Kind: Promised, Ready: true, Lag: LagUnknown}}, "c"},
		"not ready":                   {[]Replica{{Task: id, Kind: Learner, Lag: 9_000}}, "b"},
		"a copy that nobody moves to": {[]Replica{{Task: id, Kind: Standby, Lag: 0}}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			p := Assign(State{
				Subtopologies: []Subtopology{{ID: 1, Partitions: 1, Stateful: true}}, Policy: Policy{AcceptableLag: 100},
				Members: []Member{
					{ID: "b", Process: [16]byte{2}, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Restoring, Lag: 2}}},
					{ID: "c", Process: [16]byte{3}, Hashes: hashes, Replicas: c.receiver},
				},
			})
			require.Empty(t, p.Degraded)
			for _, m := range p.Members {
				require.Equal(t, m.ID == c.owner, slices.Contains(m.Active, id), m.ID)
				if c.owner == "c" {
					require.Empty(t, m.Marks, "it is there")
				}
			}
		})
	}
}
