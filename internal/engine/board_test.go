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

func TestLearnerShowsThatItIsReadyAndThenAsksForTheTask(t *testing.T) {
	w := following(t, nil, Learner)
	w.learnt()
	require.Len(t, w.notices(NoticeLearned), 1)
	c := only[CommitOffsets](w)
	require.Equal(t, []task.InputOffset{{TopicPartition: log0, Offset: 8, Metadata: "learned/1 20000 m"}}, c.Offsets)
	require.Equal(t, int32(1), c.Generation)
	require.Zero(t, w.join, "the row comes first")
	w.answerCommit(c, kcode.None)
	require.NotZero(t, w.join, "all that is learned here is ready: nothing to wait for")
	require.Equal(t, []assignor.Replica{{Task: id10, Kind: assignor.Learner, Ready: true, Lag: 0}}, w.declared().Replicas)
}

func TestLearnerGoesWithoutARowThatCannotBeWritten(t *testing.T) {
	w := following(t, nil, Learner)
	w.learnt()
	for range boardTries {
		w.answerCommit(w.lastCommit(), kcode.CoordinatorLoadInProgress)
		require.Zero(t, w.join)
		w.alive(3 * time.Second)
	}
	require.NotZero(t, w.join, "a lost board costs a round, and no more")
	require.True(t, declaredBy(t, w.all).Replicas[0].Ready)
}

func TestReadyLearnerWaitsForTheOthers(t *testing.T) {
	id11 := task.ID{Subtopology: 1, Partition: 1}
	w := newWorld(t, nil)
	w.joinGroup()
	w.assignPlan(assignor.PlanData{Members: 2, Learners: []assignor.Incoming{{Task: id10}, {Task: id11}}})
	w.stores(id10, statestore.NoPosition)
	w.listed(latest[ListOffsets](w), 0, 8)
	w.metadata()
	w.learnt()
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	require.Zero(t, w.join, "the other one may be ready soon")
	w.alive(4 * time.Second)
	require.Zero(t, w.join)
	w.alive(2 * time.Second)
	require.NotZero(t, w.join)
}

// A learner that is ready may wait a minute for others, and the task writes on meanwhile. Its owner judges by the row alone, so that it has to name
// a position of now, or the round in which the task could move is spent on finding out.
func TestRowOfALearnerThatWaitsIsKeptUpToDate(t *testing.T) {
	id11 := task.ID{Subtopology: 1, Partition: 1}
	w := newWorld(t, func(c *Config) { c.Coalesce = time.Minute })
	w.joinGroup()
	w.assignPlan(assignor.PlanData{Members: 2, Learners: []assignor.Incoming{{Task: id10}, {Task: id11}}})
	w.stores(id10, statestore.NoPosition)
	w.listed(latest[ListOffsets](w), 0, 8)
	w.metadata()
	w.learnt()
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	end, written := int64(8), 1
	grows := func(by int64, code kcode.Code) {
		end += by
		w.reads(end, end)
		w.alive(tailEvery)
		w.step(Applied{Task: id10, Epoch: w.key(id10)})
		if rows := ever[CommitOffsets](w); len(rows) > written {
			written = len(rows)
			w.answerCommit(rows[written-1], code)
		}
	}
	for range 20 {
		grows(10, kcode.None)
	}
	require.Equal(t, 1, written, "not for little")
	for range 40 {
		grows(leastRate, kcode.None)
		row := ever[CommitOffsets](w)[written-1].Offsets[0]
		_, rate, ok := parseRow(row.Metadata)
		require.True(t, ok)
		require.LessOrEqual(t, float64(end-row.Offset), rate, "the owner would not let go of the task")
	}
	before := written
	for range 40 {
		grows(leastRate, kcode.CoordinatorLoadInProgress)
	}
	require.Equal(t, before+boardTries, written, "a board that takes nothing is left alone")
	require.Zero(t, w.join, "none of it is news")
	w.rebalance()
	require.True(t, w.declared().Replicas[0].Ready, "a row is there")
}

func TestReadinessIsSaidInARoundThatOthersBegin(t *testing.T) {
	id11 := task.ID{Subtopology: 1, Partition: 1}
	w := newWorld(t, nil)
	w.joinGroup()
	w.assignPlan(assignor.PlanData{Members: 2, Learners: []assignor.Incoming{{Task: id10}, {Task: id11}}})
	w.stores(id10, statestore.NoPosition)
	w.listed(latest[ListOffsets](w), 0, 8)
	w.metadata()
	w.learnt()
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.rebalance()
	require.Equal(t, assignor.Replica{Task: id10, Kind: assignor.Learner, Ready: true}, w.declared().Replicas[0])
	require.Equal(t, assignor.Replica{Task: id11, Kind: assignor.Learner, Lag: assignor.LagUnknown}, w.declared().Replicas[1])
}

// KAFKA-10199: what is said of a copy is read afresh at each join.
func TestReadinessIsDroppedWhenTheLearnerFallsBehind(t *testing.T) {
	w := following(t, func(c *Config) { c.AcceptableLag = 100 }, Learner)
	w.learnt()
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.assignPlan(copyPlan(Learner))
	w.reads(9, 9+3*leastRate)
	w.rebalance()
	r := w.declared().Replicas[0]
	require.False(t, r.Ready)
	require.Greater(t, int64(r.Lag), int64(2*leastRate))
}

func TestBoardLetsOnlyWhatIsLearnedBeReleased(t *testing.T) {
	cases := []struct {
		name string
		row  CommittedOffset
		want bool
	}{
		{"the receiver is ready", CommittedOffset{Offset: 0, Metadata: rowText("other", leastRate)}, true},
		{"it needs longer than a second", CommittedOffset{Offset: -2 * leastRate, Metadata: rowText("other", leastRate)}, false},
		{"somebody else was ready once", CommittedOffset{Offset: 0, Metadata: rowText("third", leastRate)}, false},
		{"nobody is", CommittedOffset{Offset: -1}, false},
		{"nobody knows what it says", CommittedOffset{Offset: 0, Metadata: "learned/2 0"}, false},
		{"it cannot be read", CommittedOffset{Code: kcode.UnstableOffsetCommit}, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, nil, id10)
			w.marked()
			w.rebalance()
			f := latest[FetchOffsets](w)
			require.Equal(t, []task.TopicPartition{log0}, f.Parts)
			require.Zero(t, w.join, "the board is waited for")
			w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{log0: c.row}})
			if !c.want {
				require.Equal(t, []task.ID{id10}, w.declared().Claims, "it is never paused")
				require.Empty(t, w.told(id10))
				return
			}
			require.Equal(t, []task.Event{task.Release{}}, w.told(id10))
			w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
			require.Equal(t, []task.ID{id10}, w.declared().Released)
		})
	}
}

// marked marks 1_0, with a receiver that is not known to be ready.
func (w *world) marked() {
	w.rebalance()
	w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}, Marks: []assignor.Mark{{Task: id10, Receiver: "other"}}})
}

func TestBoardThatDoesNotAnswerIsNotWaitedForLong(t *testing.T) {
	w := running(t, nil, id10)
	w.marked()
	w.join = 0
	w.rebalance()
	require.Zero(t, w.join)
	w.after(boardTime)
	require.NotZero(t, w.join)
	require.Equal(t, []task.ID{id10}, w.declared().Claims)
	w.step(OffsetsFetched{Request: ever[FetchOffsets](w)[1].Request, Offsets: map[task.TopicPartition]CommittedOffset{
		log0: {Metadata: rowText("other", leastRate)},
	}})
	require.Empty(t, w.told(id10), "it is declared to run")
}

func TestDrain(t *testing.T) {
	t.Run("ends when others have everything", func(t *testing.T) {
		w := running(t, nil, id10)
		w.step(Drain{})
		require.True(t, declaredBy(t, w.all).Draining)
		w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}, Marks: []assignor.Mark{{Task: id10, Receiver: "other"}}})
		require.Equal(t, Running, w.e.State())
		w.rebalance()
		f := latest[FetchOffsets](w)
		w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{log0: {Metadata: rowText("other", leastRate)}}})
		w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
		w.assignPlan(assignor.PlanData{Members: 2})
		w.closed(id10)
		require.Equal(t, Closing, w.e.State())
	})
	t.Run("ends at once where nobody else is", func(t *testing.T) {
		w := running(t, nil, id10)
		w.step(Drain{})
		w.assignPlan(assignor.PlanData{Members: 1, Active: []task.ID{id10}})
		require.Equal(t, Closing, w.e.State())
		require.Equal(t, []task.Event{task.Release{}}, w.told(id10))
	})
	t.Run("ends at once where all others end, too", func(t *testing.T) {
		w := running(t, nil, id10)
		w.step(Drain{})
		w.assignPlan(assignor.PlanData{Members: 3, Draining: 2, Active: []task.ID{id10}})
		require.Equal(t, Running, w.e.State(), "one stays")
		w.rebalance()
		w.assignPlan(assignor.PlanData{Members: 3, Draining: 3, Active: []task.ID{id10}})
		require.Equal(t, Closing, w.e.State())
	})
	t.Run("ends when it has taken too long", func(t *testing.T) {
		w := running(t, nil, id10)
		w.step(Drain{Within: 20 * time.Second})
		w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}})
		w.alive(19 * time.Second)
		require.Equal(t, Running, w.e.State())
		w.alive(2 * time.Second)
		require.Equal(t, Closing, w.e.State())
	})
	t.Run("takes less time when asked to", func(t *testing.T) {
		w := running(t, nil, id10)
		w.step(Drain{Within: 20 * time.Second})
		w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}})
		w.step(Drain{Within: 5 * time.Second})
		w.step(Drain{Within: time.Minute})
		w.alive(6 * time.Second)
		require.Equal(t, Closing, w.e.State())
	})
	t.Run("ends at once while nothing is owned", func(t *testing.T) {
		w := newWorld(t, nil)
		w.step(Start{})
		w.step(Drain{})
		require.Equal(t, Closed, w.e.State(), "the topics are not there yet")
		w = suspended(t, id10)
		w.step(Drain{})
		require.Equal(t, Closed, w.e.State(), "outside of the group for want of room")
	})
}
