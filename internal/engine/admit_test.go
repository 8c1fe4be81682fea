package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// restoringStores takes a task to where it restores a store from each of these logs, which have so many records.
func restoringStores(t *testing.T, change func(*Config), logs []string, records ...int64) *world {
	w := openingWorld(t, func(c *Config) {
		c.Specs[1].Stores = nil
		for _, log := range logs {
			c.Specs[1].Stores = append(c.Specs[1].Stores, task.Store{Spec: statestore.Spec{Name: "of " + log}, Changelog: log})
		}
		if change != nil {
			change(c)
		}
	}, id10)
	f := latest[FetchOffsets](w)
	positions := make([]int64, len(logs))
	for i := range positions {
		positions[i] = statestore.NoPosition
	}
	w.stores(id10, positions...)
	w.committedAt(100, f)
	ev := OffsetsListed{Request: latest[ListOffsets](w).Request, Earliest: map[task.TopicPartition]int64{}, End: map[task.TopicPartition]int64{}}
	for i, log := range logs {
		tp := task.TopicPartition{Topic: log}
		ev.Earliest[tp], ev.End[tp] = 0, records[i]
	}
	w.now = w.now.Add(123 * time.Millisecond) // apart from what the group does at times of its own
	w.step(ev)
	return w
}

// began lists the logs whose restores have begun, in order.
func (w *world) began() []string {
	out := []string{}
	for _, n := range w.notices(NoticeRestoreBegin) {
		out = append(out, n.Part.Topic)
	}
	return out
}

func (w *world) sourceOf(store int, log string) FetchSource {
	return FetchSource{TopicPartition: task.TopicPartition{Topic: log}, Task: id10, Epoch: w.epoch(id10), Index: store}
}

// What is read ahead of all stores is bounded; the smallest begin.
func TestRestoresTakeTurns(t *testing.T) {
	w := restoringStores(t, func(c *Config) { c.RestoreBytes = 20 << 20 }, []string{"a", "b", "c", "d"}, 1e6, 10, 2e6, 3e6)
	require.Equal(t, []string{"b", "a"}, w.began())
	w.step(Restored{Source: w.sourceOf(1, "b"), Batch: changelog(10, 1, 2)})
	require.Len(t, acted[Apply](w), 1)
	require.Len(t, w.began(), 2, "what was read is not written yet")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []string{"b", "a", "c"}, w.began())

	big := changelog(1e6, 1)
	big.Bytes = 29 << 20
	w.step(Restored{Source: w.sourceOf(0, "a"), Batch: big})
	require.Len(t, acted[Apply](w), 1)
	require.Len(t, w.began(), 3)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []string{"b", "a", "c", "d"}, w.began())
}

func TestSmallRestoresGoTogether(t *testing.T) {
	w := restoringStores(t, nil, []string{"a", "b", "c", "d"}, 1e6, 10, 20, 30)
	require.Equal(t, []string{"b", "c", "d", "a"}, w.began())
}

// A log that nobody leads must not keep the others waiting.
func TestRestoreThatHearsNothingLetsOthersBegin(t *testing.T) {
	w := restoringStores(t, nil, []string{"a", "b", "c"}, 1e6, 2e6, 3e6)
	require.Equal(t, []string{"a", "b"}, w.began())
	began := w.now
	w.step(Restored{Source: w.sourceOf(1, "b"), Batch: changelog(5, 1)})
	for len(w.began()) < 3 && w.now.Before(began.Add(2*stalledAfter)) {
		w.now = w.wake
		w.step(Tick{})
	}
	require.Equal(t, []string{"a", "b", "c"}, w.began())
	require.Equal(t, stalledAfter, w.now.Sub(began), "it asks to be woken")
}

// Restores from one broker are read in turns: whoever waits for his hears nothing, and will take his room yet.
func TestRestoreThatWaitsForItsTurnKeepsItsRoom(t *testing.T) {
	w := restoringStores(t, nil, []string{"a", "b", "c"}, 1e6, 2e6, 3e6)
	known := MetadataKnown{Leaders: map[task.TopicPartition]Leader{in0: {1, 5}, words0: {1, 5}}, Counts: map[string]int32{"in": 2, "words": 1}}
	for _, log := range []string{"a", "b", "c"} {
		known.Leaders[task.TopicPartition{Topic: log}], known.Counts[log] = Leader{1, 5}, 1
	}
	w.step(known)
	began := w.now
	for at := int64(0); w.now.Before(began.Add(3 * stalledAfter)); at++ {
		w.step(Restored{Source: w.sourceOf(0, "a"), Batch: changelog(at+1, at)})
		w.now = w.now.Add(stalledAfter / 2)
		w.step(Tick{})
	}
	require.Equal(t, []string{"a", "b"}, w.began())
}

// The changes of a bulk write are made as large at once as they will be.
func TestRestoreMakesRoomForItsChangesOnce(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 9_000 }, statestore.NoPosition, 0, 200)
	w.metadata()
	p := w.e.lives[id10].restore[0]
	w.step(Restored{Source: w.source(), Batch: changelog(10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9)})
	first := &p.changes[0]
	for at := int64(10); p.writing < 0; at++ {
		w.step(Restored{Source: w.source(), Batch: changelog(at+1, at)})
	}
	require.Same(t, first, &only[Apply](w).Batch.Stores[0].Changes[0])
	require.Len(t, only[Apply](w).Batch.Stores[0].Changes, 44)
}

// Otherwise a task would stand still for as long as others are learned, which may be hours.
func TestLearningLeavesRoomForRestores(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	learn := func(n int32) (out []assignor.Incoming) {
		for i := range n {
			out = append(out, assignor.Incoming{Task: task.ID{Subtopology: 1, Partition: 1 + i}})
		}
		return out
	}
	w.assignPlan(assignor.PlanData{Members: 2, Learners: learn(3)})
	lists := func() {
		var parts []task.TopicPartition
		for i := range int32(4) {
			parts = append(parts, task.TopicPartition{Topic: "log", Partition: i})
		}
		w.listed(ListOffsets{Request: w.e.opens.list, Parts: parts}, 0, 1e9)
	}
	for i := range int32(3) {
		w.stores(task.ID{Subtopology: 1, Partition: 1 + i}, statestore.NoPosition)
	}
	lists()
	lists()
	require.Len(t, w.notices(NoticeRestoreBegin), 1)
	w.rebalance()
	w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}, Learners: learn(3)})
	w.stores(id10, statestore.NoPosition)
	w.committedAt(100, latest[FetchOffsets](w))
	lists()
	n := w.notices(NoticeRestoreBegin)
	require.Equal(t, log0, n[len(n)-1].Part)
}

func TestCopiesThatHaveCaughtUpShareWhatTheyMayHold(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.RestoreBytes = 4 << 20 })
	w.joinGroup()
	const n = 12
	plan := assignor.PlanData{Members: 2}
	leaders := map[task.TopicPartition]Leader{}
	ends := ListOffsets{}
	for i := range int32(n) {
		plan.Standbys = append(plan.Standbys, assignor.Copy{Task: task.ID{Subtopology: 1, Partition: i}})
		tp := task.TopicPartition{Topic: "log", Partition: i}
		leaders[tp], ends.Parts = Leader{1, 5}, append(ends.Parts, tp)
	}
	w.assignPlan(plan)
	for _, s := range plan.Standbys {
		w.stores(s.Task, statestore.NoPosition)
	}
	for range 2 {
		ends.Request = w.e.opens.list
		w.listed(ends, 0, 8)
	}
	w.step(MetadataKnown{Leaders: leaders, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}})
	for _, s := range plan.Standbys {
		b := changelog(8, 7)
		b.HighWatermark = 8
		src := FetchSource{TopicPartition: task.TopicPartition{Topic: "log", Partition: s.Task.Partition}, Task: s.Task, Epoch: w.key(s.Task)}
		w.step(Restored{Source: src, Batch: b})
		w.step(Applied{Task: s.Task, Epoch: w.key(s.Task)})
	}
	bounds := map[FetchSource]int{}
	for _, f := range ever[Fetch](w) {
		switch ev := f.Event.(type) {
		case FetchAdd:
			bounds[ev.Source] = ev.Bound
		case FetchBound:
			bounds[ev.Source] = ev.Bound
		}
	}
	sum := 0
	for src, bound := range bounds {
		p := w.e.lives[src.Task].restore[0]
		require.Equal(t, w.e.bound(p), bound)
		require.LessOrEqual(t, w.e.piece(p), bound/2, "or either would wait for the other")
		sum += bound
	}
	require.Len(t, bounds, n)
	require.Less(t, sum, 3*w.e.cfg.RestoreBytes)
}

// There is nothing to read for it, so nothing would come that lets the task go on.
func TestCopyThatWaitsForItsTurnAndLacksNothingIsMadeActiveAtOnce(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.RestoreBytes = 1000 })
	w.joinGroup()
	large := task.ID{Subtopology: 1, Partition: 1}
	w.assignPlan(assignor.PlanData{Members: 2, Standbys: []assignor.Copy{{Task: large, Owner: "other"}, {Task: id10, Owner: "other"}}})
	w.stores(large, statestore.NoPosition)
	w.listed(latest[ListOffsets](w), 0, 1e9)
	w.stores(id10, 8)
	w.listed(latest[ListOffsets](w), 0, 8)
	require.Len(t, w.notices(NoticeRestoreBegin), 1)
	b := changelog(8, 7)
	b.Bytes, b.HighWatermark = 5000, 1e9
	w.step(Restored{Source: FetchSource{TopicPartition: task.TopicPartition{Topic: "log", Partition: 1}, Task: large, Epoch: w.key(large)}, Batch: b})
	w.rebalance()
	w.assignPlan(assignor.PlanData{Members: 2, Active: []task.ID{id10}, Standbys: []assignor.Copy{{Task: large, Owner: "other"}}})
	require.True(t, w.e.lives[id10].restore[0].waits)
	w.committedAt(100, latest[FetchOffsets](w))
	require.Empty(t, ever[StartTask](w))
	w.listed(latest[ListOffsets](w), 0, 8)
	require.Len(t, ever[StartTask](w), 1)
}
