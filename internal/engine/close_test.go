package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// leave answers the LeaveGroup of the last step.
func (w *world) leave() {
	w.t.Helper()
	w.step(Member{group.LeaveDone{Req: only[MemberAction](w).Action.(group.SendLeave).Req}})
}

func TestCloseCommitsThenLeaves(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.step(Close{})
	require.Equal(t, Closing, w.e.State())
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	require.Equal(t, []task.Event{task.Release{}}, w.told(id10))

	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Empty(t, w.told(id00), "all are closed together, so that a commit of the others still goes under this membership")
	w.seal(id10, 0, 130)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []task.Event{task.Close{}}, w.told(id00))
	require.Equal(t, []task.Event{task.Close{}}, w.told(id10))

	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
	require.Empty(t, acted[MemberAction](w), "stores are open")
	w.step(StoresClosed{Task: id10, Epoch: w.epoch(id10)})
	w.leave()
	require.NoError(t, w.done())
	require.Equal(t, Closed, w.e.State())
}

func TestCloseOfOpeningAndRestoringTasks(t *testing.T) {
	w := restoring(t, nil, -1, 0, 8)
	w.step(Close{})
	w.step(StoresClosed{Task: id10, Epoch: w.epoch(id10)})
	w.leave()
	require.NoError(t, w.done())
}

func TestCloseThatIsOverdue(t *testing.T) {
	cases := []struct {
		name  string
		until func(w *world)
		tasks []task.ID
		left  bool
		says  string
	}{
		{"a task does not commit", func(*world) {}, []task.ID{id00}, false, "did not commit within 2s"},
		{"the goodbye is not answered", func(w *world) {
			w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
			w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
		}, nil, true, "the brokers did not answer within 2s"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, nil, id00)
			w.step(Close{Within: 2 * time.Second})
			c.until(w)
			w.after(2*time.Second - 1)
			require.Empty(t, ever[Done](w))
			w.after(1)
			require.Contains(t, w.acts, Action(ToSender{DropAll{Epoch: 1}}), "nothing more is sent")
			for _, id := range c.tasks {
				require.Equal(t, []task.Event{task.Lost{}}, w.told(id))
			}
			if !c.left {
				require.Empty(t, ever[Done](w), "the group is told goodbye")
				w.after(leaveWait)
			}
			var late *CloseError
			require.ErrorAs(t, w.done(), &late)
			require.Equal(t, c.tasks, late.Tasks)
			require.Equal(t, c.left, late.Left)
			require.ErrorContains(t, late, c.says)
		})
	}
}

func TestDeadlinesOutliveEarlierWakeUps(t *testing.T) {
	cases := []struct {
		name  string
		begin func(w *world)
		after time.Duration
	}{
		{"of an end", func(w *world) { w.step(Close{Within: 200 * time.Millisecond}) }, 200 * time.Millisecond},
		{"of a release", func(w *world) { w.rebalance() }, 250 * time.Millisecond},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := marked(t, id00)
			c.begin(w)
			due := w.now.Add(c.after)
			w.after(10 * time.Millisecond) // somebody else's
			require.Equal(t, due, w.wake)
		})
	}
}

func TestCloseInAGreaterHurry(t *testing.T) {
	w := running(t, nil, id00)
	w.step(Close{})
	w.step(Close{Within: time.Second})
	w.after(time.Second)
	w.after(leaveWait)
	var late *CloseError
	require.ErrorAs(t, w.done(), &late)
	require.Equal(t, time.Second, late.Within)
}

func TestAssignmentsAreNotTakenUpWhileClosing(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.step(Close{})
	w.assign([]task.ID{id00, id01})
	require.NotContains(t, w.e.lives, id01)
	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	require.Equal(t, []task.Event{task.Close{}}, w.told(id00))
}

func TestLostWhileClosing(t *testing.T) {
	w := running(t, nil, id00)
	w.step(Close{})
	w.heartbeat(kcode.UnknownMemberID)
	require.Contains(t, w.told(id00), task.Lost{})
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	require.NoError(t, w.done(), "there is no membership left to end")
}

func TestCloseBesideAFaultOfTheMember(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	w.step(Member{group.JoinDone{Req: w.join, Sent: w.now, MemberID: "m", Generation: 1}})
	w.step(Member{group.SyncDone{Req: w.sync, Sent: w.now, Code: kcode.GroupAuthorizationFailed}})
	leave := only[MemberAction](w).Action.(group.SendLeave)
	w.step(Close{})
	require.Empty(t, ever[Done](w), "the member has yet to say why it stops")
	w.step(Member{group.LeaveDone{Req: leave.Req}})
	require.ErrorIs(t, w.done(), kcode.GroupAuthorizationFailed)
}

func TestCloseOfAStoreThatFails(t *testing.T) {
	w := running(t, nil, id10)
	w.step(Close{})
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
	w.step(StoresClosed{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	w.leave()
	require.ErrorIs(t, w.done(), errDown)
}

func TestTaskThatFailsEndsTheApplicationCleanly(t *testing.T) {
	w := running(t, nil, id00, id01)
	failed := &task.Error{Task: id00, Err: errDown}
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: failed})
	require.Equal(t, []task.Event{task.Release{}}, w.told(id01), "what the others have done is committed")
	for _, id := range []task.ID{id00, id01} {
		w.step(TaskReleased{Task: id, Epoch: w.epoch(id)})
	}
	for _, id := range []task.ID{id00, id01} {
		w.step(TaskClosed{Task: id, Epoch: w.epoch(id)})
	}
	w.leave()
	require.ErrorIs(t, w.done(), failed)
}

// What a task that has failed has made and not committed is made again by whoever has it next, and must not come behind that.
func TestTaskThatHasFailedAndIsReleasedSendsNothingMore(t *testing.T) {
	for _, failsFirst := range []bool{true, false} {
		w := running(t, nil, id00, id01)
		fails := func() { w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: errDown}) }
		lets := func() { w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)}) }
		if failsFirst {
			fails()
			require.NotContains(t, acted[ToSender](w), ToSender{ForgetTask{Task: id00, Epoch: w.epoch(id00)}}, "what it did before is committed first")
			lets()
		} else {
			w.step(Close{})
			lets()
			fails()
		}
		require.Contains(t, acted[ToSender](w), ToSender{ForgetTask{Task: id00, Epoch: w.epoch(id00)}})
	}
}

func TestTaskWhoseRecordsAreRefusedIsNotDrained(t *testing.T) {
	w := running(t, nil, id00)
	refused := &ProduceError{To: words0, Code: kcode.MessageTooLarge}
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: refused})
	require.Contains(t, w.told(id00), task.Close{}, "the acks that a drain needs never come")
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	w.leave()
	require.ErrorIs(t, w.done(), refused)
}

func TestFailureOfALifeThatIsOver(t *testing.T) {
	w := running(t, nil, id00)
	w.step(TaskFailed{Task: id00, Epoch: 99, Err: errDown})
	require.Equal(t, Running, w.e.State())
}

func TestTaskThatClosesByItself(t *testing.T) {
	w := running(t, nil, id10)
	w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
	require.Len(t, acted[CloseStores](w), 1)
}

func TestStuckTasks(t *testing.T) {
	w := running(t, func(c *Config) { c.MaxStuck = 1 }, id00, id01, id10)
	w.step(TaskStuck{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id10))
	require.Len(t, w.notices(NoticeStuck), 1)
	require.Equal(t, Running, w.e.State(), "the others go on")
	require.NotZero(t, w.join, "somebody else shall have it")
	require.Contains(t, w.e.lives, id10, "its keys stay reserved here until the call returns")
	w.step(TaskStuck{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	require.Len(t, w.notices(NoticeStuck), 1, "once")

	w.step(TaskStuck{Task: id00, Epoch: w.epoch(id00), Err: errDown})
	var stuck *StuckError
	require.ErrorAs(t, w.e.err, &stuck)
	require.Equal(t, []task.ID{id00, id10}, stuck.Tasks)
	require.ErrorIs(t, stuck, errDown)
	w.step(TaskReleased{Task: id01, Epoch: w.epoch(id01)})
	w.step(TaskClosed{Task: id01, Epoch: w.epoch(id01)})
	w.leave()
	require.ErrorIs(t, w.done(), stuck, "the end does not wait for calls that do not return")
}

func TestStuckTasksAreUnfit(t *testing.T) {
	w := running(t, nil, id00, id01)
	w.step(TaskStuck{Task: id00, Epoch: w.epoch(id00), Err: errDown})
	d := declaredBy(t, w.all)
	require.Equal(t, []task.ID{id00}, d.Unfit)
	require.Equal(t, []task.ID{id01}, d.Claims)
	w.assign([]task.ID{id00, id01})
	require.Empty(t, acted[FetchOffsets](w), "a leader that gives it all the same is not obeyed")
}

func TestCallThatReturnsAfterAll(t *testing.T) {
	w := running(t, nil, id00)
	w.step(TaskStuck{Task: id00, Epoch: w.epoch(id00), Err: errDown})
	w.assign(nil)
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	require.Empty(t, w.e.lives)
	require.Zero(t, w.e.stuck)
	require.Empty(t, w.declared().Unfit, "this process can have the task again, and says so")
}
