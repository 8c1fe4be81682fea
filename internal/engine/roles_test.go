package engine

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// following takes the application to where it follows the changelog of 1_0, which it has nothing of: it begins at 0 and ends at 8.
func following(t *testing.T, change func(*Config), role Role) *world {
	w := newWorld(t, change)
	w.joinGroup()
	w.assignPlan(copyPlan(role))
	w.stores(id10, statestore.NoPosition)
	l := latest[ListOffsets](w)
	require.Equal(t, []task.TopicPartition{log0}, l.Parts)
	require.Empty(t, ever[FetchOffsets](w), "a copy reads no input")
	w.listed(l, 0, 8)
	w.metadata()
	return w
}

func copyPlan(role Role) assignor.PlanData {
	if role == Standby {
		return assignor.PlanData{Members: 2, Standbys: []assignor.Copy{{Task: id10, Owner: "other"}}}
	}
	return assignor.PlanData{Members: 2, Learners: []assignor.Incoming{{Task: id10, Owner: "other"}}}
}

// learnt lets a follower read to the end, and its write end.
func (w *world) learnt() {
	w.reads(8, 8)
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
}

// reads hands a follower a batch up to an offset.
func (w *world) reads(next, end int64) {
	b := changelog(next, next-1)
	b.HighWatermark = end
	w.step(Restored{Source: w.log(), Batch: b})
}

func (w *world) log() FetchSource {
	return FetchSource{TopicPartition: log0, Task: id10, Epoch: w.key(id10)}
}

func (w *world) key(id task.ID) uint64 {
	require.Contains(w.t, w.e.lives, id)
	return w.e.lives[id].key
}

func TestFollowerReadsItsChangelogOnAndOn(t *testing.T) {
	for _, role := range []Role{Standby, Learner} {
		t.Run(role.String(), func(t *testing.T) {
			w := following(t, nil, role)
			require.Equal(t, Running, w.e.State(), "a copy is nothing to wait for")
			add := only[Fetch](w)
			require.Equal(t, Restore, add.Purpose)
			require.Equal(t, w.log(), add.Event.(FetchAdd).Source)
			require.Equal(t, int64(0), add.Event.(FetchAdd).Offset)
			w.reads(8, 8)
			a := only[Apply](w)
			require.Equal(t, int64(8), a.Batch.Stores[0].Position)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Empty(t, fetchRemoved(w), "there is more to come")
			w.reads(9, 20)
			require.Equal(t, int64(11+1), w.e.Tasks()[0].Lag)
			w.reads(20, 20)
			w.alive(tailEvery + 250*time.Millisecond)
			all := ever[Apply](w)
			require.Equal(t, int64(20), all[len(all)-1].Batch.Stores[0].Position)
			require.Empty(t, ever[StartTask](w))
		})
	}
}

func fetchRemoved(w *world) (out []FetchRemove) {
	for _, f := range acted[Fetch](w) {
		if r, ok := f.Event.(FetchRemove); ok {
			out = append(out, r)
		}
	}
	return out
}

func TestPromotionKeepsTheOpenStore(t *testing.T) {
	for _, role := range []Role{Standby, Learner} {
		t.Run(role.String(), func(t *testing.T) {
			w := following(t, nil, role)
			w.learnt()
			key := w.key(id10)
			if role == Learner {
				w.answerCommit(only[CommitOffsets](w), kcode.None)
			} else {
				w.rebalance()
			}
			asked := len(ever[FetchOffsets](w))
			w.assign([]task.ID{id10})
			require.Equal(t, key, w.key(id10))
			require.NotEqual(t, key, w.epoch(id10), "what comes of the new owner is told from what came before")
			require.Len(t, ever[FetchOffsets](w), asked+1, "only what is committed after the assignment counts")
			w.committedAt(100, latest[FetchOffsets](w))
			w.listed(latest[ListOffsets](w), 0, 9)
			require.Empty(t, ever[StartTask](w), "one record is missing yet")
			w.reads(9, 9)
			require.Equal(t, int64(9), only[Apply](w).Batch.Stores[0].Position)
			w.step(Applied{Task: id10, Epoch: key})
			require.Equal(t, StartTask{Task: id10, Epoch: w.epoch(id10), Stores: key, Spec: w.e.specs[1], Positions: []int64{100}, TopicIDs: make([]retry.TopicID, 1), Committed: []retry.Metadata{retry.NewMetadata(100)}, StreamTime: -1}, only[StartTask](w))
			require.Len(t, w.notices(NoticePromoted), 1)
			require.Len(t, ever[OpenStores](w), 1)
			require.Empty(t, ever[CloseStores](w))
			require.Empty(t, ever[Wipe](w))
			require.Equal(t, Tenure{TopicPartition: log0, Generation: 2, End: 9}, w.begun())
		})
	}
}

func (w *world) begun() Tenure {
	for _, a := range acted[ToSender](w) {
		if t, ok := a.Event.(Tenure); ok {
			return t
		}
	}
	return Tenure{}
}

// A task that was here before may get what was asked for then: the answer was long on its way. Its rows are old.
func TestFollowerTakesNothingTwice(t *testing.T) {
	w := following(t, nil, Standby)
	w.learnt()
	writes := len(ever[Apply](w))
	old := changelog(5, 3, 4)
	w.step(Restored{Source: w.log(), Batch: old})
	w.alive(tailEvery)
	require.Len(t, ever[Apply](w), writes, "nothing of it is new")
	half := changelog(10, 6, 7, 8, 9)
	half.HighWatermark = 10
	w.step(Restored{Source: w.log(), Batch: half})
	w.alive(tailEvery + 250*time.Millisecond)
	all := ever[Apply](w)
	require.Len(t, all, writes+1)
	last := all[len(all)-1].Batch.Stores[0]
	require.Equal(t, int64(10), last.Position)
	require.Equal(t, []byte{8}, last.Changes[0].Key)
	require.Len(t, last.Changes, 2)
}

// KAFKA-10166: what was written last before a promotion is what the owner begins with.
func TestPromotionDuringAWrite(t *testing.T) {
	w := following(t, nil, Standby)
	w.reads(8, 8)
	w.rebalance()
	w.assign([]task.ID{id10})
	w.committedAt(100, latest[FetchOffsets](w))
	w.listed(latest[ListOffsets](w), 0, 8)
	require.Empty(t, ever[StartTask](w), "the write is on the way")
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	require.Len(t, acted[StartTask](w), 1)
}

func TestPromotionOfALogThatSeemsToEndTooEarlyIsLookedAtTwice(t *testing.T) {
	w := following(t, nil, Standby)
	w.learnt()
	w.rebalance()
	w.assign([]task.ID{id10})
	w.committedAt(100, latest[FetchOffsets](w))
	w.listed(latest[ListOffsets](w), 0, 7)
	require.Empty(t, ever[StartTask](w))
	require.Empty(t, ever[Wipe](w))
	w.alive(250 * time.Millisecond)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 0, 7)
	require.Len(t, acted[Wipe](w), 1, "records that the store has are lost")
	require.Len(t, w.notices(NoticeWiped), 1)
}

// demoted takes a running task to where this process is to follow it.
func demoted(t *testing.T, role Role) *world {
	w := running(t, nil, id10)
	w.seal(id10, 0, 101)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	w.rebalance()
	w.assign([]task.ID{id10}, id10)
	w.rebalance()
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []task.ID{id10}, w.declared().Released)
	w.assignPlan(copyPlan(role))
	return w
}

func TestDemotionKeepsTheOpenStore(t *testing.T) {
	for _, role := range []Role{Standby, Learner} {
		t.Run(role.String(), func(t *testing.T) {
			w := demoted(t, role)
			key, epoch := w.key(id10), w.epoch(id10)
			require.Equal(t, []task.Event{task.Close{}}, w.told(id10))
			require.Empty(t, acted[FreeReaders](w), "the owner may be reading")
			w.step(TaskClosed{Task: id10, Epoch: epoch})
			require.Equal(t, FreeReaders{Task: id10, Epoch: key}, only[FreeReaders](w))
			require.Empty(t, ever[CloseStores](w))
			require.Len(t, ever[OpenStores](w), 1)
			w.listed(latest[ListOffsets](w), 0, 12)
			add := only[Fetch](w).Event.(FetchAdd)
			require.Equal(t, FetchSource{TopicPartition: log0, Task: id10, Epoch: key}, add.Source)
			require.Equal(t, int64(0), add.Offset, "from where the store is: nothing was written to its changelog")
			w.reads(12, 12)
			require.Equal(t, int64(12), only[Apply](w).Batch.Stores[0].Position)
		})
	}
}

func TestTaskThatComesBackWhileItsOwnerEnds(t *testing.T) {
	w := demoted(t, Standby)
	key, epoch := w.key(id10), w.epoch(id10)
	w.rebalance()
	w.alive(time.Second) // longer than an owner is waited for
	require.Equal(t, []task.ID{id10}, declaredBy(t, w.all).Unfit, "its owner may be in the middle of a step")
	w.assign([]task.ID{id10})
	w.step(TaskClosed{Task: id10, Epoch: epoch})
	w.committedAt(101, latest[FetchOffsets](w))
	w.listed(latest[ListOffsets](w), 0, 0)
	require.Equal(t, key, only[StartTask](w).Stores)
	require.Empty(t, ever[CloseStores](w))
}

func TestWhoLosesItsLeaseFollowsOn(t *testing.T) {
	w := following(t, nil, Standby)
	w.heartbeat(kcode.UnknownMemberID)
	require.Len(t, w.notices(NoticeLost), 1)
	require.Empty(t, acted[CloseStores](w))
	require.Equal(t, assignor.Standby, w.declared().Replicas[0].Kind)
	w.reads(8, 8)
	require.Len(t, acted[Apply](w), 1)
}

func TestCopyThatIsNotWantedAnyMoreIsClosedAndSaidToBeOnDisk(t *testing.T) {
	w := following(t, nil, Standby)
	w.learnt()
	w.rebalance()
	w.assignPlan(assignor.PlanData{Members: 2})
	require.Len(t, fetchRemoved(w), 1)
	only[CloseStores](w)
	w.step(StoresClosed{Task: id10, Epoch: w.key(id10)})
	w.rebalance()
	require.Equal(t, []assignor.Replica{{Task: id10, Kind: assignor.OnDisk, Lag: assignor.LagUnknown}}, w.declared().Replicas)
}

func TestChangelogThatCannotBeReadEndsACopyAndNothingElse(t *testing.T) {
	w := following(t, nil, Standby)
	w.step(PartStopped{PartFailed{Source: w.log(), Offset: 3, Code: kcode.CorruptMessage, Err: errDown}})
	require.Len(t, acted[CloseStores](w), 1)
	require.ErrorContains(t, w.notices(NoticeRetry)[0].Err, "log-0")
	require.Equal(t, Running, w.e.State())
	w.step(StoresClosed{Task: id10, Epoch: w.key(id10)})
	w.rebalance()
	w.assignPlan(copyPlan(Standby))
	require.Len(t, acted[OpenStores](w), 1, "it may be readable by now")
}

func TestWhoHasAnOlderFormIsToldOnce(t *testing.T) {
	w := running(t, nil, id10)
	w.hashes = map[int32]uint64{0: 10, 1: 99}
	for range 2 {
		w.rebalance()
		w.assign([]task.ID{id10})
	}
	require.Len(t, w.notices(NoticeOutdated), 1)
}

func TestLearningLeavesRoomForWhatRuns(t *testing.T) {
	id11 := task.ID{Subtopology: 1, Partition: 1}
	w := newWorld(t, func(c *Config) { c.RestoreBytes, c.LearnRate = 1000, 10_000 })
	w.joinGroup()
	w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id00}, Learners: []assignor.Incoming{{Task: id11}}})
	w.stores(id11, statestore.NoPosition)
	w.committedAt(100, ever[FetchOffsets](w)[0])
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 0, math.MaxInt32)
	w.metadata()
	src := FetchSource{TopicPartition: task.TopicPartition{Topic: "log", Partition: 1}, Task: id11, Epoch: w.key(id11)}
	piece := func(next int64) {
		b := changelog(next, next-1)
		b.Bytes, b.HighWatermark = 5000, math.MaxInt32
		w.step(Restored{Source: src, Batch: b})
	}
	piece(1)
	require.Len(t, acted[Apply](w), 1)
	w.step(Applied{Task: id11, Epoch: w.key(id11)})
	piece(2)
	require.Empty(t, acted[Apply](w), "5,000 bytes are half a second's worth")
	w.after(400 * time.Millisecond)
	require.Len(t, ever[Apply](w), 1)
	w.after(200 * time.Millisecond)
	require.Len(t, ever[Apply](w), 2)
}

// A row that is being written may be read already by an owner that lets go for it, so the join says what the row says.
func TestJoinWaitsForTheRowThatIsBeingWritten(t *testing.T) {
	t.Run("it is written", func(t *testing.T) {
		w := following(t, nil, Learner)
		w.learnt()
		row := only[CommitOffsets](w)
		w.rebalance()
		require.Zero(t, w.join)
		w.answerCommit(row, kcode.None)
		require.True(t, w.declared().Replicas[0].Ready)
	})
	t.Run("nobody knows whether it is", func(t *testing.T) {
		w := following(t, nil, Learner)
		w.learnt()
		w.rebalance()
		w.after(boardTime)
		require.True(t, w.declared().Replicas[0].Ready)
	})
}

func TestNoRowIsWrittenOnceTheJoinIsSent(t *testing.T) {
	w := following(t, nil, Learner)
	w.rebalance()
	require.False(t, w.declared().Replicas[0].Ready)
	w.learnt()
	require.Empty(t, ever[CommitOffsets](w), "an owner would let go for a learner whose join does not say that it is ready")
	w.assignPlan(copyPlan(Learner))
	require.Len(t, ever[CommitOffsets](w), 1)
}

func TestRowOfAnEarlierMembershipDoesNotCount(t *testing.T) {
	w := following(t, nil, Learner)
	w.learnt()
	row := only[CommitOffsets](w)
	w.rebalance()
	w.answerCommit(row, kcode.None)
	require.True(t, w.declared().Replicas[0].Ready)
	w.assignPlan(copyPlan(Learner))
	w.heartbeat(kcode.UnknownMemberID)
	require.False(t, w.declared().Replicas[0].Ready, "the row names a member that is no more")
}

func TestRebalanceIsMeasuredFromTheMomentItIsHeardOf(t *testing.T) {
	w := running(t, nil, id10)
	w.rebalance()
	w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}, Marks: []assignor.Mark{{Task: id10, Receiver: "other", Ready: true}}})
	w.rebalance()
	w.now = w.now.Add(100 * time.Millisecond)
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	w.now = w.now.Add(200 * time.Millisecond)
	w.assignPlan(assignor.PlanData{Members: 2})
	n := w.lastRebalance()
	require.Equal(t, 300*time.Millisecond, n.Took)
	require.Equal(t, []Pause{{Task: id10, For: 300 * time.Millisecond, Moved: true}}, n.Paused, "it stood still while it was released, too")
	require.Empty(t, n.Tasks)
}

func TestCopyThatHasPassedWhatWasTheEndIsToldToBeRestored(t *testing.T) {
	w := following(t, func(c *Config) { c.RestoreBytes = 1 }, Learner)
	w.reads(8, 20)
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	ends := w.notices(NoticeRestoreEnd)
	require.Len(t, ends, 1, "its log grows on")
	require.Equal(t, Learner, ends[0].Role)
	w.reads(20, 20)
	w.alive(tailEvery + 250*time.Millisecond)
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	require.Len(t, w.notices(NoticeRestoreEnd), 1, "once")
}

// Nothing is asked for beyond the end of a restore: the answer would be waited for by whoever is read next.
func TestFetchesEndWhereARestoreDoes(t *testing.T) {
	bounds := func(w *world) (ends []int64) {
		for _, f := range ever[Fetch](w) {
			if b, ok := f.Event.(FetchBound); ok {
				ends = append(ends, b.End)
			}
		}
		return ends
	}
	t.Run("a copy is read without an end, and has one when it is promoted", func(t *testing.T) {
		w := following(t, nil, Standby)
		require.Zero(t, only[Fetch](w).Event.(FetchAdd).End)
		w.learnt()
		w.rebalance()
		w.assign([]task.ID{id10})
		w.committedAt(100, latest[FetchOffsets](w))
		w.listed(latest[ListOffsets](w), 0, 9)
		require.Equal(t, []int64{9}, bounds(w))
	})
	t.Run("a restore that becomes a copy is read on", func(t *testing.T) {
		w := restoring(t, nil, statestore.NoPosition, 0, 8)
		w.metadata()
		require.Equal(t, int64(8), only[Fetch](w).Event.(FetchAdd).End)
		w.rebalance()
		w.assignPlan(copyPlan(Standby))
		w.listed(latest[ListOffsets](w), 0, 8)
		require.Equal(t, []int64{0}, bounds(w))
	})
}
