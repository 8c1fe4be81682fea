package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

var errFull = &NoRoomError{Dir: "/state/app", Free: 7, Err: errors.New("no space left on device")}

const disk = int64(100 << 30)

// full tells the Engine that the disk is full.
func (w *world) full() { w.step(StoreTrouble{errFull}) }

// member returns the last action of one type that the member wanted done.
func member[T group.Action](w *world) (found T, ok bool) {
	for _, a := range ever[MemberAction](w) {
		if m, is := a.Action.(T); is {
			found, ok = m, true
		}
	}
	return found, ok
}

func (w *world) leaving() (group.SendLeave, bool) { return member[group.SendLeave](w) }

// released answers a release, and the close that follows from it.
func (w *world) released(id task.ID) {
	w.t.Helper()
	w.step(TaskReleased{Task: id, Epoch: w.epoch(id)})
	w.closed(id)
}

// goodbye answers the LeaveGroup.
func (w *world) goodbye() {
	w.t.Helper()
	leave, ok := w.leaving()
	require.True(w.t, ok, "the member has not left")
	w.step(Member{group.LeaveDone{Req: leave.Req}})
}

// suspended takes a running application out of the group.
func suspended(t *testing.T, tasks ...task.ID) *world {
	w := running(t, func(c *Config) { c.StateDir = "/state/app" }, tasks...)
	w.full()
	for _, id := range tasks {
		w.released(id)
	}
	w.goodbye()
	return w
}

// joins answers what comes before the next JoinGroup of an application that has just been resumed.
func (w *world) joins() {
	w.t.Helper()
	only[EnsureTopics](w)
	require.Equal(w.t, Starting, w.e.State())
	w.topics()
	find, ok := member[group.FindCoordinator](w)
	require.True(w.t, ok)
	w.join = 0
	w.step(Member{group.CoordinatorFound{Req: find.Req, Addr: coordinator}})
	require.NotZero(w.t, w.join)
}

func TestFullDiskSuspendsAllTasksAndTheMemberLeaves(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.full()
	require.Equal(t, Suspended, w.e.State())
	require.Equal(t, []Notice{{Kind: NoticeSuspended, Err: errFull}}, w.notices(NoticeSuspended))
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00), "a task without stores as well: the member cannot have it from outside the group")
	require.Equal(t, []task.Event{task.Release{}}, w.told(id10))

	w.seal(id10, 1, 120) // what is done is committed
	w.acked(id10, 1, GroupOffset{log0, 0, 1})
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	only[Apply](w) // there may be room in memory
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id10))

	w.released(id00)
	_, leaves := w.leaving()
	require.False(t, leaves, "a task still processes")
	w.full() // it says so again and again
	w.released(id10)
	w.goodbye()
	require.Len(t, w.notices(NoticeSuspended), 1)
	require.Equal(t, Suspended, w.e.State())
	require.Equal(t, []ToSender{{DropAll{Epoch: w.e.epochs}}}, acted[ToSender](w), "nothing more is sent")

	requests := 0
	for range 100 { // no heartbeats
		w.after(10 * time.Millisecond)
		requests += len(acted[MemberAction](w))
	}
	require.Zero(t, requests)
	only[ProbeDisk](w)
}

func TestFullDiskIsProbedWithPausesThatGrow(t *testing.T) {
	w := suspended(t, id10)
	for _, pause := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second} {
		w.after(0)
		require.Equal(t, w.now.Add(pause), w.wake)
		w.after(pause - time.Millisecond)
		require.Empty(t, acted[ProbeDisk](w))
		w.after(time.Millisecond)
		only[ProbeDisk](w)
		w.after(time.Minute)
		require.Empty(t, acted[ProbeDisk](w), "one at a time")
		w.step(DiskProbed{Free: 64<<20 - 1, Total: disk})
	}
	w.after(15 * time.Second)
	w.step(DiskProbed{Free: disk, Total: disk, Err: errFull})
	require.Empty(t, acted[ReadyStores](w), "a quota may be used up where there is room")
	w.after(15 * time.Second)
	w.step(DiskProbed{Free: 64 << 20, Total: disk})
	only[ReadyStores](w)
	w.step(StoresReady{errFull})
	require.Empty(t, acted[EnsureTopics](w))
	w.after(15 * time.Second)
	w.step(DiskProbed{Free: 64 << 20, Total: disk})
	only[ReadyStores](w)
	w.step(StoresReady{})
	require.Len(t, w.notices(NoticeResumed), 1)
	w.joins()
	w.assign([]task.ID{id10})
	w.openAll()
	w.metadata()
	require.Equal(t, Running, w.e.State())
	require.NoError(t, w.e.err)
}

func TestRoomIsJudgedByTheSizeOfTheDisk(t *testing.T) {
	for total, enough := range map[int64]int64{disk: 64 << 20, 100 << 20: 10 << 20, 0: 0} {
		require.Equal(t, enough, (&suspension{}).enough(total))
	}
	require.EqualValues(t, 256<<20, (&suspension{again: 2}).enough(disk), "what was not enough is not")
	require.EqualValues(t, 50<<20, (&suspension{again: 9}).enough(100<<20), "but half of it is")
}

// Some file systems do not say how much is free. What could be written must do then.
func TestRoomThatIsNotKnownIsEnough(t *testing.T) {
	w := suspended(t, id10)
	w.after(time.Second)
	w.step(DiskProbed{Free: -1, Total: -1, Err: errFull})
	require.Empty(t, acted[ReadyStores](w))
	w.after(2 * time.Second)
	w.step(DiskProbed{Free: -1, Total: -1})
	only[ReadyStores](w)
}

// A disk that is full again at once is waited for longer, and for more room; after some time that is forgotten.
func TestDiskThatIsFullAgainAtOnce(t *testing.T) {
	for _, c := range []struct {
		calm  time.Duration
		free  int64
		pause time.Duration
		done  bool
	}{{30 * time.Second, 100 << 20, 2 * time.Second, false}, {30 * time.Second, 128 << 20, 2 * time.Second, true}, {time.Minute, 100 << 20, time.Second, true}} {
		w := suspended(t, id10)
		w.after(time.Second)
		w.step(DiskProbed{Total: disk})
		w.after(2 * time.Second)
		w.step(DiskProbed{Free: disk, Total: disk})
		w.step(StoresReady{})
		w.joins()
		w.assign([]task.ID{id10})
		w.openAll()
		w.metadata()
		w.alive(c.calm)
		w.full()
		w.released(id10)
		w.goodbye()
		w.after(0)
		require.Equal(t, w.now.Add(c.pause), w.wake)
		w.after(c.pause)
		w.step(DiskProbed{Free: c.free, Total: disk})
		require.Len(t, acted[ReadyStores](w), map[bool]int{true: 1}[c.done], "%+v", c)
	}
}

// The database blocks in a write. The member leaves all the same, and comes back when that write has ended.
func TestFullDiskThatBlocksAWrite(t *testing.T) {
	w := running(t, nil, id10)
	w.seal(id10, 1, 120)
	w.acked(id10, 1, GroupOffset{log0, 0, 1})
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	only[Apply](w)
	epoch := w.epoch(id10)
	w.full()
	w.alive(4750 * time.Millisecond)
	_, leaves := w.leaving()
	require.False(t, leaves, "it may still come about")
	w.after(250 * time.Millisecond)
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id10), "its rows are not in the store: it must not read from it any more")
	w.step(TaskClosed{Task: id10, Epoch: epoch})
	require.Empty(t, acted[CloseStores](w))
	w.goodbye()
	w.after(time.Second)
	only[ProbeDisk](w)
	w.step(DiskProbed{Free: disk, Total: disk})
	require.Empty(t, acted[ReadyStores](w))
	w.step(Applied{Task: id10, Epoch: epoch})
	only[CloseStores](w)
	w.step(StoresClosed{Task: id10, Epoch: epoch})
	only[ReadyStores](w)
}

// A write that fails for want of room is no failure of the application. Its offsets are committed, so the store is behind.
func TestWriteThatFailsForWantOfRoom(t *testing.T) {
	w := running(t, nil, id10)
	w.seal(id10, 1, 120)
	w.acked(id10, 1, GroupOffset{log0, 0, 1})
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10), Err: errFull})
	require.Equal(t, Suspended, w.e.State())
	require.NoError(t, w.e.err)
	require.Contains(t, w.told(id10), task.Lost{})
	require.NotContains(t, w.told(id10), task.Committed{})
	w.closed(id10)
	w.goodbye()
}

func TestTaskThatCannotReadABrokenStore(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.step(TaskFailed{Task: id10, Epoch: w.epoch(id10), Err: &task.Error{Kind: task.KindStore, Err: errFull}})
	require.Equal(t, Suspended, w.e.State())
	require.NoError(t, w.e.err)
	w.closed(id10)
	w.released(id00)
	w.goodbye()
}

func TestFullDiskWhileATaskIsOpened(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	w.assign([]task.ID{id00, id10})
	w.step(StoresOpened{Task: id10, Epoch: w.epoch(id10), Err: errFull})
	require.Equal(t, Suspended, w.e.State())
	require.NotContains(t, w.e.lives, id10)
	require.NotContains(t, w.e.lives, id00)
	w.goodbye()
}

func TestFullDiskWhileATaskIsRestored(t *testing.T) {
	w := restoring(t, nil, statestore.NoPosition, 0, 8)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(8, 6, 7)})
	require.True(t, only[Apply](w).Bulk)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10), Err: errFull})
	require.Equal(t, Suspended, w.e.State())
	w.closed(id10)
	require.Empty(t, w.e.lives)
	require.NoError(t, w.e.err)
}

// A rebalance that is under way goes on without the tasks.
func TestFullDiskDuringARebalance(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.rebalance()
	require.NotZero(t, w.join)
	w.full()
	w.assign([]task.ID{id00, id01, id10}, id10)
	require.Equal(t, Suspended, w.e.State())
	require.NotContains(t, w.e.lives, id01, "nothing is opened")
	require.NotContains(t, w.told(id00), task.Resume{})
	w.released(id00)
	require.Zero(t, w.join, "nor is a round asked for")
	w.released(id10)
	w.goodbye()
}

func TestFullDiskWhileMarkedTasksAreReleased(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.rebalance()
	w.assign([]task.ID{id00, id10}, id10)
	w.rebalance()
	require.Equal(t, []task.Event{task.Release{}}, w.told(id10))
	w.full()
	require.Empty(t, w.told(id10), "it is being released already")
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	require.NotZero(t, w.join, "the others' round waits for no drain")
	w.closed(id10)
	w.assign([]task.ID{id00})
	w.released(id00)
	w.goodbye()
	require.Empty(t, w.e.lives)
}

func TestLeaseThatEndsOnAFullDisk(t *testing.T) {
	w := running(t, nil, id10)
	w.full()
	w.after(time.Minute)
	require.Equal(t, []task.Event{task.Lost{}, task.Close{}}, w.told(id10))
	w.closed(id10)
	w.goodbye()
	w.after(time.Second)
	only[ProbeDisk](w)
}

func TestCloseOfASuspendedApplication(t *testing.T) {
	t.Run("outside of the group", func(t *testing.T) {
		w := suspended(t, id10)
		w.step(Close{})
		require.NoError(t, w.done())
	})
	t.Run("while it leaves", func(t *testing.T) {
		w := running(t, nil, id10)
		w.full()
		w.released(id10)
		leave, _ := w.leaving()
		w.step(Close{})
		require.Empty(t, ever[Done](w))
		w.step(Member{group.LeaveDone{Req: leave.Req}})
		require.NoError(t, w.done())
	})
	t.Run("while a task drains", func(t *testing.T) {
		w := running(t, nil, id10)
		w.full()
		w.step(Close{})
		w.released(id10)
		w.goodbye()
		require.NoError(t, w.done())
	})
	t.Run("while it is made ready", func(t *testing.T) {
		w := suspended(t, id10)
		w.after(time.Second)
		w.step(DiskProbed{Free: disk, Total: disk})
		only[ReadyStores](w)
		w.step(Close{})
		require.NoError(t, w.done())
		w.step(StoresReady{})
		require.Empty(t, w.acts)
	})
	t.Run("with a write that does not end", func(t *testing.T) {
		w := running(t, nil, id10)
		w.seal(id10, 1, 120)
		w.acked(id10, 1, GroupOffset{log0, 0, 1})
		w.answerCommit(only[CommitOffsets](w), kcode.None)
		w.full()
		w.step(Close{})
		w.alive(4750 * time.Millisecond)
		require.Empty(t, w.told(id10))
		w.after(250 * time.Millisecond)
		require.Contains(t, w.told(id10), task.Lost{})
		w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
		w.goodbye()
		require.NoError(t, w.done(), "all is committed")
	})
}

func TestDiskThatIsFullAtTheEnd(t *testing.T) {
	w := running(t, nil, id10)
	w.seal(id10, 1, 120)
	w.acked(id10, 1, GroupOffset{log0, 0, 1})
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.step(Close{})
	w.full()
	require.Equal(t, Closing, w.e.State())
	require.Empty(t, w.notices(NoticeSuspended))
	w.alive(4750 * time.Millisecond)
	w.after(250 * time.Millisecond)
	w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
	w.goodbye()
	require.NoError(t, w.done())
}

func TestFullDiskBeforeTheGroupIsJoined(t *testing.T) {
	w := newWorld(t, nil)
	w.full()
	require.Equal(t, Created, w.e.State())
	w.step(Start{})
	w.full()
	require.Equal(t, Suspended, w.e.State())
	w.topics() // is not taken for a start
	require.Equal(t, Suspended, w.e.State())
	require.Empty(t, acted[MemberAction](w))
	w.after(time.Second)
	only[ProbeDisk](w)
	w.step(DiskProbed{Free: disk, Total: disk})
	w.step(StoresReady{})
	w.joins()
}

// What was asked for before the member left is answered to nobody, and holds nothing up afterwards.
func TestWhatWasOnItsWayWhenTheDiskWasFull(t *testing.T) {
	back := func(w *world) {
		w.t.Helper()
		w.goodbye()
		w.after(time.Second)
		w.step(DiskProbed{Free: disk, Total: disk})
		w.step(StoresReady{})
		w.joins()
		w.assign([]task.ID{id10})
	}
	t.Run("a commit", func(t *testing.T) {
		w := running(t, nil, id10)
		w.seal(id10, 1, 120)
		w.acked(id10, 1, GroupOffset{log0, 0, 1})
		old := only[CommitOffsets](w)
		w.full()
		w.alive(4750 * time.Millisecond)
		w.after(250 * time.Millisecond)
		w.closed(id10)
		back(w)
		w.openAll()
		w.metadata()
		w.seal(id10, 1, 130)
		w.acked(id10, 1, GroupOffset{log0, 1, 1})
		require.NotEqual(t, old.Request, only[CommitOffsets](w).Request)
	})
	t.Run("the offsets of a task that is opened", func(t *testing.T) {
		w := newWorld(t, nil)
		w.joinGroup()
		w.assign([]task.ID{id10})
		old := latest[FetchOffsets](w)
		w.full()
		w.closed(id10)
		back(w)
		require.NotEqual(t, old.Request, latest[FetchOffsets](w).Request)
	})
	t.Run("the topics", func(t *testing.T) {
		w := newWorld(t, nil)
		w.step(Start{})
		w.full()
		w.after(time.Second)
		w.step(DiskProbed{Free: disk, Total: disk})
		w.step(StoresReady{})
		require.Empty(t, acted[EnsureTopics](w), "they are asked for already")
		w.topics()
		_, joins := member[group.FindCoordinator](w)
		require.True(t, joins)
	})
}

func TestStuckTaskOnAFullDisk(t *testing.T) {
	w := running(t, nil, id00, id10)
	w.step(TaskStuck{Task: id00, Epoch: w.epoch(id00), Err: errDown})
	w.full()
	w.released(id10)
	w.goodbye()
	w.after(time.Second)
	w.step(DiskProbed{Free: disk, Total: disk})
	w.step(StoresReady{})
	w.joins()
	require.Contains(t, w.e.lives, id00, "its call has not come back, and the group is told that it is unfit here")
}

func TestOtherTroubleOfTheDiskEndsTheApplication(t *testing.T) {
	broken := errors.New("input/output error: the disk is failing")
	t.Run("running", func(t *testing.T) {
		w := running(t, func(c *Config) { c.StateDir = "/state/app" }, id10)
		w.step(StoreTrouble{broken})
		require.Equal(t, Closing, w.e.State())
		require.Equal(t, &StoreError{Op: "flush", Dir: "/state/app", Err: broken}, w.e.err)
		require.EqualError(t, w.e.err, "flush state in /state/app: input/output error: the disk is failing")
	})
	t.Run("probing", func(t *testing.T) {
		w := suspended(t, id10)
		w.after(time.Second)
		w.step(DiskProbed{Free: disk, Total: disk, Err: broken})
		require.Equal(t, &StoreError{Op: "probe", Dir: "/state/app", Err: broken}, w.done())
	})
	t.Run("made ready", func(t *testing.T) {
		w := suspended(t, id10)
		w.after(time.Second)
		w.step(DiskProbed{Free: disk, Total: disk})
		w.step(StoresReady{broken})
		require.Equal(t, &StoreError{Op: "reopen", Dir: "/state/app", Err: broken}, w.done())
	})
}
