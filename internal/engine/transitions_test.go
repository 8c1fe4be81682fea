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

// A receiver would never have learned such a task, and it would never move.
func TestTaskWhoseStoresHaveNoChangelogMovesAsAStatelessOne(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Specs[1].Stores[0].Changelog = "" })
	w.joinGroup()
	for _, s := range w.e.topology().Subtopologies {
		require.False(t, s.Stateful)
	}
	require.True(t, newWorld(t, nil).e.topology().Subtopologies[1].Stateful)
}

func TestApplicationIsNotReadyWhileARoundGoesOnInWhichItsTasksAreHeldBack(t *testing.T) {
	w := restoring(t, nil, 4, 2, 8)
	require.Equal(t, Rebalancing, w.e.State())
	w.rebalance()
	require.Equal(t, assignor.Restoring, w.declared().Replicas[0].Kind)
	require.Equal(t, Rebalancing, w.e.State())
	w.assignPlan(copyPlan(Standby))
	require.Equal(t, Running, w.e.State(), "it has no task any more")
}

func TestAcksOfTheLastOwnerAreNotTheFollowers(t *testing.T) {
	w := demoted(t, Standby)
	epoch := w.epoch(id10)
	w.step(TaskClosed{Task: id10, Epoch: epoch})
	w.step(EffectsDone{EffectsAcked{Task: id10, Epoch: epoch, Seq: 9, Offsets: []GroupOffset{{TopicPartition: log0, Base: 50, Count: 1}}}})
	require.Empty(t, w.notices(NoticeForeignWriter))
	w.step(TaskStuck{Task: id10, Epoch: epoch})
	require.Empty(t, w.notices(NoticeStuck))
}

// What lies beyond the end that a restore goes up to is left out; whoever follows on must not miss it.
func TestTaskThatIsHeldBackAtItsEndFollowsFromThere(t *testing.T) {
	w := restoring(t, nil, 4, 2, 8)
	w.metadata()
	b := changelog(11, 4, 7, 9)
	b.From = 4
	w.step(Restored{Source: w.source(), Batch: b})
	require.Equal(t, int64(8), only[Apply](w).Batch.Stores[0].Position)
	w.rebalance()
	add := latest[Fetch](w).Event.(FetchAdd)
	require.Equal(t, int64(8), add.Offset)
	late := changelog(12, 11)
	late.From, late.HighWatermark = 11, 12
	w.step(Restored{Source: w.log(), Batch: late})
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	w.alive(time.Second)
	require.Len(t, ever[Apply](w), 1, "it was asked for before, and something before it is missing")
	again := changelog(12, 9, 11)
	again.From, again.HighWatermark = 8, 12
	w.step(Restored{Source: w.log(), Batch: again})
	w.alive(time.Second)
	all := ever[Apply](w)
	require.Equal(t, []int{9, 11}, keys(all[len(all)-1].Batch))
}

func TestWhatIsReadWhileAStoreIsEmptiedIsNotTaken(t *testing.T) {
	w := following(t, nil, Standby)
	w.learnt()
	w.rebalance()
	w.assign([]task.ID{id10})
	w.committedAt(100, latest[FetchOffsets](w))
	w.listed(latest[ListOffsets](w), 0, 7)
	w.alive(250 * time.Millisecond)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 0, 7)
	require.Len(t, acted[Wipe](w), 1)
	w.reads(9, 9)
	p := w.e.lives[id10].restore[0]
	require.Zero(t, p.read)
	require.Empty(t, p.changes)
	require.Equal(t, leastBound, w.e.bound(p))
}

// A round that begins may end lives at once, and so must not begin in the middle of a look at all of them.
func TestStalledLearnerAsksForARoundInWhichTasksEnd(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	id11 := task.ID{Subtopology: 1, Partition: 1}
	w.assignPlan(assignor.PlanData{
		Members: 2, Active: []task.ID{id00}, Marks: []assignor.Mark{{Task: id00, Receiver: "other", Ready: true}},
		Learners: []assignor.Incoming{{Task: id10}, {Task: id11}},
	})
	w.stores(id10, statestore.NoPosition)
	w.stores(id11, statestore.NoPosition)
	var bounds ListOffsets
	for _, l := range ever[ListOffsets](w) {
		bounds.Parts = append(bounds.Parts, l.Parts...)
	}
	for _, l := range ever[ListOffsets](w) {
		w.listed(ListOffsets{Request: l.Request, Parts: bounds.Parts}, 0, 1e6)
	}
	w.listed(ListOffsets{Request: w.e.opens.list, Parts: []task.TopicPartition{log0, {Topic: "log", Partition: 1}}}, 0, 1e6)
	require.Equal(t, "following", w.e.lives[id11].state.String())
	w.alive(w.e.cfg.StallAfter + time.Second)
	require.NotEmpty(t, w.notices(NoticeStalled))
	require.NotZero(t, w.join)
	require.True(t, declaredBy(t, w.all).Replicas[0].Stalled)
}

// Whoever's owner does not let go must not hold up the others.
func TestLearnerThatAsksAgainHoldsNoOtherUp(t *testing.T) {
	w := following(t, nil, Learner)
	w.learnt()
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	for range 5 {
		w.assignPlan(copyPlan(Learner))
		w.alive(longAsk + time.Second)
		require.NotZero(t, w.join, "its owner has not let go")
	}
	id11, id12 := task.ID{Subtopology: 1, Partition: 1}, task.ID{Subtopology: 1, Partition: 2}
	more := copyPlan(Learner)
	more.Learners = append(more.Learners, assignor.Incoming{Task: id11}, assignor.Incoming{Task: id12})
	w.assignPlan(more)
	w.stores(id11, statestore.NoPosition)
	w.alive(time.Second)
	require.Zero(t, w.join, "it has asked already")
	l := w.e.lives[id11]
	log1 := task.TopicPartition{Topic: "log", Partition: 1}
	w.listed(ListOffsets{Request: w.e.opens.list, Parts: []task.TopicPartition{log1}}, 0, 0)
	require.Equal(t, "following", l.state.String())
	w.alive(250 * time.Millisecond)
	w.answerCommit(w.lastCommit(), kcode.None)
	require.True(t, l.learn.shown)
	w.alive(6 * time.Second)
	require.NotZero(t, w.join)
}

// Somebody who was removed may write for a moment yet. To empty the store for that would cost hours.
func TestPromotionOfALogThatGrowsMeanwhileEmptiesNoStore(t *testing.T) {
	w := following(t, nil, Standby)
	w.learnt()
	w.rebalance()
	w.assign([]task.ID{id10})
	w.committedAt(100, latest[FetchOffsets](w))
	for end := int64(9); end < 12; end++ {
		w.reads(end, end)
		l := latest[ListOffsets](w)
		w.listed(l, 0, end-1)
		w.step(Applied{Task: id10, Epoch: w.key(id10)})
		w.alive(250 * time.Millisecond)
		require.NotEqual(t, l.Request, latest[ListOffsets](w).Request)
	}
	w.listed(latest[ListOffsets](w), 0, 11)
	require.Empty(t, ever[Wipe](w))
	require.Len(t, acted[StartTask](w), 1)
}

// Its row would be that of a learner, and would be there still when it is one.
func TestWhoIsHeldBackWritesNoRow(t *testing.T) {
	w := restoring(t, nil, 4, 2, 8)
	w.metadata()
	w.rebalance()
	require.Equal(t, assignor.Restoring, w.declared().Replicas[0].Kind)
	w.reads(8, 8)
	w.step(Applied{Task: id10, Epoch: w.key(id10)})
	w.alive(time.Second)
	require.Len(t, w.notices(NoticeLearned), 1)
	require.Empty(t, ever[CommitOffsets](w))
}
