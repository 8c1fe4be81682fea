package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// gapWorld is a task that runs with a gap from 70 to 120, whose brokers are known.
func gapWorld(t *testing.T) *world {
	w := recoveringWorld(t, died(t, retry.Metadata{Main: 70}, 70), 5, 120)
	w.metadata()
	require.NotNil(t, w.fetchOf(Input).Event)
	return w
}

// replayed are the offsets at which second paths have begun to be fetched.
func (w *world) replayed() (at []int64) {
	for _, f := range ever[Fetch](w) {
		if add, ok := f.Event.(FetchAdd); ok && f.Purpose == Recover {
			at = append(at, add.Offset)
		}
	}
	return at
}

// What a gap would take of cores, brokers and batches is the first new record's until there is something to show for that.
func TestAGapWaitsForTheFirstNewResult(t *testing.T) {
	w := gapWorld(t)
	w.alive(time.Second)
	require.Empty(t, w.replayed(), "nothing new is taken before the first commit, so the time does not begin")
	w.firstCommit()
	w.after(headStart / 4)
	require.Empty(t, w.replayed())
	w.acked(id00, 1)
	require.Equal(t, w.gapAdd(70), w.fetchOf(Recover).Event, "at once")
	w.alive(time.Second)
	require.Len(t, w.replayed(), 1)
}

func TestAGapDoesNotWaitInVain(t *testing.T) {
	w := gapWorld(t)
	w.firstCommit()
	require.False(t, w.wake.After(w.now.Add(headStart)), "nobody else may wake it up")
	w.after(headStart - time.Millisecond)
	require.Empty(t, w.replayed())
	w.after(time.Millisecond)
	require.Equal(t, []int64{70}, w.replayed())
}

// One task's gap does not take the cores from another task's first result, nor wait for that for longer than it may.
func TestGapsOfAProcessWaitForTheFirstNewResultsOfAllTasks(t *testing.T) {
	both := func(t *testing.T) *world {
		w := openingWorld(t, recovering, id00, id01)
		w.listed(only[ListOffsets](w), 5, 120)
		c := died(t, retry.Metadata{Main: 70}, 70)
		w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: c, in1: c}})
		w.metadata()
		return w
	}
	commit := func(w *world, id task.ID) {
		w.seal(id, 0, 70)
		w.answerCommit(w.lastCommit(), kcode.None)
	}
	t.Run("until all have some", func(t *testing.T) {
		w := both(t)
		commit(w, id00)
		w.acked(id00, 1)
		require.Empty(t, w.replayed(), "the other has not even committed")
		commit(w, id01)
		require.Empty(t, w.replayed())
		w.acked(id01, 1)
		require.Equal(t, []int64{70, 70}, w.replayed())
	})
	t.Run("no longer than it may", func(t *testing.T) {
		w := both(t)
		commit(w, id00)
		w.acked(id00, 1)
		w.after(headStart)
		require.Equal(t, []int64{70}, w.replayed())
		commit(w, id01)
		w.after(headStart)
		require.Equal(t, []int64{70, 70}, w.replayed())
	})
	t.Run("not for one that has ended", func(t *testing.T) {
		w := both(t)
		commit(w, id00)
		w.acked(id00, 1)
		w.step(TaskStuck{Task: id01, Epoch: w.epoch(id01)})
		require.Equal(t, []int64{70}, w.replayed())
	})
}

func TestAGapThatIsClosedAlreadyIsNotFetched(t *testing.T) {
	w := gapWorld(t)
	w.firstCommit()
	w.step(TaskReplays{Task: id00, Epoch: w.epoch(id00), Replay: task.Replay{Lo: 70, Hi: 120, Position: 120, Closed: true}})
	w.after(headStart)
	require.Empty(t, w.replayed())
}

// A task that is released in the meantime begins with its gap when it goes on, if it does.
func TestAGapOfATaskThatIsReleasedMeanwhile(t *testing.T) {
	w := gapWorld(t)
	w.firstCommit()
	w.e.release(w.e.lives[id00])
	w.after(headStart)
	require.Empty(t, w.replayed())
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	w.after(headStart)
	require.Empty(t, w.replayed())
	w.e.resume(w.e.lives[id00])
	w.step(Tick{})
	require.Equal(t, []int64{70}, w.replayed())
}
