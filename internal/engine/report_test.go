package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// How long a copy needs is reckoned by its own pace, however slow that is; once it has caught up, its pace says nothing any more.
func TestETAOfACopy(t *testing.T) {
	for _, role := range []Role{Standby, Learner} {
		t.Run(role.String(), func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.RestoreBytes = 1 }) // each piece is written as it comes
			w.joinGroup()
			w.assignPlan(copyPlan(role))
			w.stores(id10, statestore.NoPosition)
			w.listed(latest[ListOffsets](w), 0, 100_000)
			w.metadata()
			status := func() TaskStatus { return w.e.Tasks()[0] }
			require.Equal(t, int64(100_000), status().Lag)
			require.Zero(t, status().ETA, "there is no telling yet")
			w.reads(500, 100_000)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Zero(t, status().ETA, "nor after one write")
			w.alive(250 * time.Millisecond)
			w.reads(1000, 100_000)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Equal(t, int64(1000), status().Position)
			require.Equal(t, int64(99_000), status().Lag)
			require.Equal(t, 99*250*time.Millisecond, status().ETA, "1,000 took a quarter of a second")
			w.rebalance()
			require.Equal(t, int32(25), w.declared().Replicas[0].CatchUp)
			w.assignPlan(copyPlan(role))

			w.reads(100_000, 100_000)
			w.alive(time.Minute)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Zero(t, status().Lag)
			require.Zero(t, status().ETA)
			w.reads(100_001, 100_001)
			require.Equal(t, time.Second/leastRate, status().ETA.Round(time.Microsecond))
			require.Equal(t, role == Learner, status().Ready)
		})
	}
}

// Who owns a task, whether it could be taken over, and why it moves, is told at each of its steps.
func TestStatusOfATaskThatMovesHere(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	plan := copyPlan(Learner)
	plan.Moves = []assignor.Move{{Task: id10, Kind: assignor.Marked, From: "other", To: "m", Reason: "other has 2 more tasks"}}
	w.assignPlan(plan)
	w.stores(id10, statestore.NoPosition)
	w.listed(latest[ListOffsets](w), 0, 8)
	w.metadata()
	is := func(role Role, state, owner string, ready bool) {
		t.Helper()
		s := w.e.Tasks()[0]
		require.Equal(t, TaskStatus{
			Task: id10, Role: role, State: state, Owner: owner, Ready: ready, Move: "other has 2 more tasks", Lag: s.Lag, Position: s.Position, ETA: s.ETA, Since: s.Since,
		}, s)
	}
	is(Learner, "following", "other", false)
	w.learnt()
	is(Learner, "following", "other", true)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	done := assignor.PlanData{
		Members: 2, Active: []task.ID{id10},
		Moves: []assignor.Move{{Task: id10, Kind: assignor.Transferred, From: "other", To: "m", Reason: "other has handed it over"}},
	}
	w.assignPlan(done)
	is(Active, "opening", "m", false)
	w.committedAt(100, latest[FetchOffsets](w))
	w.listed(latest[ListOffsets](w), 0, 8)
	is(Active, "running", "m", false)
	require.Zero(t, w.e.Tasks()[0].Lag)
}
