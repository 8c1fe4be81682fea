package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// declared reads what the JoinGroup of the last step says.
func (w *world) declared() assignor.MemberData {
	w.t.Helper()
	return declaredBy(w.t, w.acts)
}

// declaredBy reads the last JoinGroup among the actions.
func declaredBy(t *testing.T, acts []Action) assignor.MemberData {
	t.Helper()
	joins := slices.DeleteFunc(slices.Clone(ofType[MemberAction](acts)), func(a MemberAction) bool {
		_, ok := a.Action.(group.SendJoin)
		return !ok
	})
	require.NotEmpty(t, joins, "no JoinGroup")
	s, err := assignor.DecodeSubscription(joins[len(joins)-1].Action.(group.SendJoin).Metadata)
	require.NoError(t, err)
	d, err := assignor.DecodeMemberData(s.UserData)
	require.NoError(t, err)
	return d
}

// marked takes the application to where its tasks run and the first one shall move.
func marked(t *testing.T, tasks ...task.ID) *world {
	w := running(t, nil, tasks...)
	w.rebalance()
	w.assign(tasks, tasks[0])
	require.Empty(t, w.told(tasks[0]), "a mark is no release")
	require.Equal(t, Running, w.e.State())
	return w
}

func TestReleaseWithinTheBudget(t *testing.T) {
	w := marked(t, id00, id01)
	w.rebalance()
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	require.Empty(t, w.told(id01), "a task that stays is never paused")
	require.Zero(t, w.join, "the join waits")
	w.now = w.now.Add(100 * time.Millisecond)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	d := w.declared()
	require.Equal(t, []task.ID{id00}, d.Released)
	require.Equal(t, []task.ID{id01}, d.Claims)
	require.Equal(t, Rebalancing, w.e.State())
}

func TestReleaseWithACommit(t *testing.T) {
	w := marked(t, id00)
	w.rebalance()
	w.seal(id00, 3, 110)
	w.acked(id00, 3)
	c := only[CommitOffsets](w)
	require.Equal(t, int32(2), c.Generation, "until the barrier ends the old generation is good")
	w.answerCommit(c, kcode.None)
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, []task.ID{id00}, w.declared().Released)
}

func TestReleasePastTheBudget(t *testing.T) {
	w := marked(t, id00, id01)
	w.rebalance()
	w.after(249 * time.Millisecond)
	require.Zero(t, w.join)
	w.after(time.Millisecond)
	d := w.declared()
	require.Equal(t, []task.ID{id00, id01}, d.Claims, "it stays claimed: the move waits")
	require.Empty(t, d.Released)
	require.Len(t, w.notices(NoticeReleaseOverdue), 1)

}

func (w *world) lastRebalance() Notice {
	all := w.notices(NoticeRebalanced)
	return all[len(all)-1]
}

// overdue takes the application to where a task missed the budget of its release and was declared to run.
func overdue(t *testing.T) *world {
	w := marked(t, id00, id01)
	w.rebalance()
	w.after(250 * time.Millisecond)
	require.Contains(t, w.declared().Claims, id00)
	return w
}

func TestOverdueReleaseGoesOnUntilTheTaskIsDrained(t *testing.T) {
	w := overdue(t)
	w.assign([]task.ID{id00, id01}, id00)
	require.Empty(t, w.told(id00), "it shall move still: it takes nothing more")
	require.Zero(t, w.join)
	require.Empty(t, w.lastRebalance().Paused, "its pause is not over")
	w.now = w.now.Add(50 * time.Millisecond)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, []task.ID{id00}, w.declared().Released, "its receiver does not ask for the next round, so this member does")
	w.assign([]task.ID{id01})
	require.Equal(t, []Pause{{Task: id00, For: 300 * time.Millisecond, Moved: true}}, w.lastRebalance().Paused, "the whole of it")
	require.Equal(t, []task.Event{task.Close{}}, w.told(id00))
}

// M1: a record that has run for longer than the budget already is not waited for in one round after the other, while what was released stands still.
func TestOverdueReleaseIsNotWaitedForAgain(t *testing.T) {
	w := marked(t, id00, id01)
	w.rebalance()
	w.after(250 * time.Millisecond)
	for range 3 {
		w.assign([]task.ID{id00, id01}, id00)
		w.rebalance()
		d := w.declared()
		require.Equal(t, []task.ID{id00, id01}, d.Claims)
		require.Equal(t, []task.ID{id00}, d.Learned, "its owner asks for the round in which it can move")
	}
	w.assign([]task.ID{id00, id01}, id00, id01)
	w.rebalance()
	require.Zero(t, w.join, "another one has the whole budget")
	w.after(249 * time.Millisecond)
	require.Zero(t, w.join)
	w.step(TaskReleased{Task: id01, Epoch: w.epoch(id01)})
	require.Equal(t, []task.ID{id01}, w.declared().Released)
}

func TestOverdueReleaseThatIsDoneDuringTheJoin(t *testing.T) {
	w := overdue(t)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, "released", w.e.lives[id00].state.String(), "it was declared to run, so nobody else has it")
	w.assign([]task.ID{id00, id01}, id00)
	require.Empty(t, w.told(id00))
	w.alive(100 * time.Millisecond)
	require.Equal(t, []task.ID{id00}, declaredBy(t, w.all).Released)
}

func TestDrainedTaskThatIsGivenBackRuns(t *testing.T) {
	w := overdue(t)
	w.assign([]task.ID{id00, id01}, id00)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, []task.ID{id00}, w.declared().Released)
	w.assign([]task.ID{id00, id01}, id00)
	require.Equal(t, []task.Event{task.Resume{}}, w.told(id00), "its receiver was not there: it runs until the next round")
	require.Zero(t, w.join, "which others ask for")
}

func TestDrainedTaskAsksForTheRoundAfterAllElseIsDone(t *testing.T) {
	w := overdue(t)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	w.assign([]task.ID{id00, id01}, id00, id01)
	if w.join == 0 {
		w.alive(100 * time.Millisecond)
	}
	var told []task.Event
	for _, a := range ever[ToTask](w) {
		if a.Task == id01 {
			told = append(told, a.Event)
		}
	}
	require.Equal(t, []task.Event{task.Release{}}, told, "the round releases it, and nothing in the assignment before takes that back")
}

func TestOverdueReleaseOfATaskThatShallStay(t *testing.T) {
	for _, drained := range []bool{false, true} {
		w := overdue(t)
		if drained {
			w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
		}
		w.assign([]task.ID{id00, id01})
		require.Equal(t, []task.Event{task.Resume{}}, w.told(id00))
	}
}

// A release was taken back, and its answer was still on the way when the next one was asked for: the task runs meanwhile.
func TestAnswerToAReleaseThatWasTakenBack(t *testing.T) {
	w := marked(t, id00)
	w.rebalance()
	w.after(250 * time.Millisecond) // it is late
	w.assign([]task.ID{id00})
	require.Equal(t, []task.Event{task.Resume{}}, w.told(id00))
	w.rebalance()
	w.assign([]task.ID{id00}, id00)
	w.rebalance()
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Zero(t, w.join, "that is the answer to the first")
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, []task.ID{id00}, w.declared().Released)
}

func TestGivenAway(t *testing.T) {
	w := marked(t, id10, id00)
	w.rebalance()
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	epoch := w.epoch(id10)
	w.assign([]task.ID{id00})
	require.Equal(t, []task.Event{task.Close{}}, w.told(id10))
	require.Equal(t, FetchRemove{FetchSource{TopicPartition: words0, Task: id10, Epoch: epoch}}, only[Fetch](w).Event)
	require.Equal(t, ForgetTask{Task: id10, Epoch: epoch}, acted[ToSender](w)[0].Event)
	require.Empty(t, acted[CloseStores](w), "the owner may still read them")
	w.step(TaskClosed{Task: id10, Epoch: epoch})
	require.Len(t, acted[CloseStores](w), 1)
	w.step(StoresClosed{Task: id10, Epoch: epoch})
	require.NotContains(t, w.e.lives, id10)
	require.Equal(t, Running, w.e.State())
}

func TestGivenBack(t *testing.T) {
	w := marked(t, id10)
	w.rebalance()
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	epoch := w.epoch(id10)
	w.assign([]task.ID{id10})
	require.Equal(t, []task.Event{task.Resume{}}, w.told(id10))
	require.Equal(t, epoch, w.epoch(id10), "the same life: nothing is opened or restored")
	require.Empty(t, acted[FetchOffsets](w))
	require.Equal(t, Running, w.e.State())
}

func TestTakenAwayWhileItRuns(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.assign(nil)
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id00), "another member's claim has won: nothing more of ours is committed")
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	require.Empty(t, w.e.lives)
}

func TestAssignedAgainWhileItCloses(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.assign(nil)
	old := w.epoch(id00)
	w.rebalance()
	require.Equal(t, []task.ID{id00}, w.declared().Unfit, "its owner may be in the middle of a step, for longer than a release may take")
	w.assign([]task.ID{id00})
	require.Empty(t, acted[FetchOffsets](w), "the life before has to end first")
	w.rebalance()
	require.Equal(t, []task.ID{id00}, w.declared().Claims, "it is opened as soon as that has ended, whatever round is under way")
	w.assign([]task.ID{id00})
	require.Equal(t, Rebalancing, w.e.State())
	w.step(TaskClosed{Task: id00, Epoch: old})
	require.Equal(t, old+1, w.epoch(id00))
	require.Equal(t, []task.TopicPartition{in0}, latest[FetchOffsets](w).Parts)
}

func TestTakenAwayAgainWhileItCloses(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.assign(nil)
	w.rebalance()
	w.assign([]task.ID{id00})
	w.rebalance()
	w.assign(nil)
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	require.Empty(t, w.e.lives, "it is not opened again")
}

// What was offered to others in a round whose end this member missed may have been somebody's since.
func TestReleasedTaskAfterARoundThatWasMissed(t *testing.T) {
	for _, missed := range []bool{false, true} {
		w := marked(t, id00, id01)
		w.rebalance()
		w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
		require.Equal(t, []task.ID{id00}, w.declared().Released)
		want := task.Event(task.Resume{})
		if missed { // the group has been through a round more than this member
			w.generation++
			want = task.Close{}
		}
		w.assign([]task.ID{id00, id01})
		require.Equal(t, []task.Event{want}, w.told(id00))
		require.Empty(t, w.told(id01), "what was claimed was nobody's meanwhile")
		if missed {
			old := w.epoch(id00)
			w.step(TaskClosed{Task: id00, Epoch: old})
			require.Equal(t, old+2, w.epoch(id00), "it is opened anew, from what is committed now")
			require.Equal(t, []task.TopicPartition{in0}, latest[FetchOffsets](w).Parts)
		}
	}
}

func TestRestoringTasksAreOfferedToWhoeverIsCloserAndTakenAwayAtOnce(t *testing.T) {
	w := restoring(t, nil, -1, 0, 8)
	w.metadata()
	w.rebalance()
	require.Empty(t, w.declared().Claims)
	require.Equal(t, []assignor.Replica{{Task: id10, Kind: assignor.Restoring, Lag: 8}}, w.declared().Replicas)
	w.assign(nil)
	require.Len(t, acted[CloseStores](w), 1)
}

func TestLost(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.seal(id00, 5, 101)
	w.acked(id00, 5)
	c := only[CommitOffsets](w)
	epochs := map[task.ID]uint64{id00: w.epoch(id00), id10: w.epoch(id10)}
	w.heartbeat(kcode.UnknownMemberID)
	require.Len(t, w.notices(NoticeLost), 1)
	require.Equal(t, ToSender{DropAll{Epoch: epochs[id10]}}, acted[ToSender](w)[0], "before anything else")
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id00))
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id10))
	require.Zero(t, w.join, "it joins when its tasks have stopped")
	w.answerCommit(c, kcode.None)
	require.Empty(t, w.told(id00), "the commit is not ours any more")
	w.step(TaskClosed{Task: id00, Epoch: epochs[id00]})
	require.Zero(t, w.join)
	w.step(TaskClosed{Task: id10, Epoch: epochs[id10]})
	w.step(StoresClosed{Task: id10, Epoch: epochs[id10]})
	d := w.declared()
	require.Empty(t, d.Claims)
	require.Empty(t, d.Released)
}

func TestLostUnderAStoreWrite(t *testing.T) {
	w := running(t, nil, id10)
	epoch := w.epoch(id10)
	w.seal(id10, 0, 101)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	require.Len(t, acted[Apply](w), 1)
	w.heartbeat(kcode.UnknownMemberID)
	w.step(TaskClosed{Task: id10, Epoch: epoch})
	require.Empty(t, acted[CloseStores](w), "a write is on the way to them")
	w.step(Applied{Task: id10, Epoch: epoch})
	require.Empty(t, w.told(id10))
	require.Len(t, acted[CloseStores](w), 1)
}

func TestTheSenderKnowsTheLease(t *testing.T) {
	w := running(t, nil, id00)
	until := func() time.Time {
		var at time.Time
		for _, a := range ever[ToSender](w) {
			if l, ok := a.Event.(Leased); ok {
				at = l.Until
			}
		}
		return at
	}
	require.Equal(t, t0.Add(14*time.Second), until(), "the session, less a second")
	w.heartbeat(kcode.None)
	require.Equal(t, w.now.Add(14*time.Second), until())
}

func TestTheLeaseEndsWithoutAWord(t *testing.T) {
	w := running(t, nil, id00)
	w.after(14*time.Second - time.Millisecond)
	require.Empty(t, w.told(id00))
	w.after(time.Millisecond)
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id00))
}

func TestLateTaskThatWasLostMeanwhile(t *testing.T) {
	w := overdue(t)
	w.after(14 * time.Second)
	require.Contains(t, w.told(id00), task.Lost{}, "the lease ends while the join is parked")
	for _, id := range []task.ID{id00, id01} {
		w.step(TaskClosed{Task: id, Epoch: w.epoch(id)})
	}
	w.assign([]task.ID{id00, id01}, id00)
	require.Equal(t, []task.ID{id01}, w.declared().Claims, "its receiver does not ask for the round in which it moves, so this member does")
	require.NotContains(t, w.e.lives, id00, "what is being opened only is let go at once")
}

func TestNothingIsStartedAfterTheLease(t *testing.T) {
	w := restoring(t, nil, -1, 0, 1)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(1, 0)})
	w.now = w.now.Add(time.Minute) // the process slept, and the answer of its store is the first thing that it hears
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Empty(t, acted[StartTask](w))
	require.Len(t, w.notices(NoticeLost), 1)
}
