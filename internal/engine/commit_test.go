package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

func TestCommitOrder(t *testing.T) {
	w := running(t, nil, id10)
	w.seal(id10, 4, 120)
	require.Empty(t, acted[CommitOffsets](w), "acks come first")
	w.acked(id10, 3, GroupOffset{log0, 0, 1})
	require.Empty(t, acted[CommitOffsets](w), "all acks")
	w.acked(id10, 4, GroupOffset{log0, 1, 2})
	c := only[CommitOffsets](w)
	require.Equal(t, CommitOffsets{
		Request: c.Request, Coordinator: coordinator, MemberID: "m", Generation: 1,
		Offsets: []task.InputOffset{{TopicPartition: words0, Offset: 120, Metadata: "m"}},
	}, c)
	require.Empty(t, acted[Apply](w))
	w.answerCommit(c, kcode.None)
	a := only[Apply](w)
	require.False(t, a.Bulk)
	require.Equal(t, []statestore.StoreBatch{{
		Store: 0, Changes: []statestore.Change{{Key: []byte("k"), Value: []byte("v")}}, Position: 3,
	}}, a.Batch.Stores)
	require.Empty(t, w.told(id10), "the task is told when its rows are in the store")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id10))
}

func TestCommitOfATaskWithoutStores(t *testing.T) {
	w := running(t, nil, id00)
	w.seal(id00, 0, 101)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
}

func TestCommitWithoutOffsetsNeedsNoRequest(t *testing.T) {
	w := running(t, nil, id00)
	w.step(TaskSealed{&task.Sealed{Task: id00, Epoch: w.epoch(id00)}})
	require.Empty(t, acted[CommitOffsets](w))
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
}

func TestCommitGathers(t *testing.T) {
	cases := []struct {
		name  string
		ready bool // the second task's acks come within the time
	}{
		{"a task that becomes ready goes along", true},
		{"a task that is blocked delays nobody", false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, nil, id00, id01)
			w.seal(id01, 7, 103)
			w.seal(id00, 5, 101)
			w.acked(id00, 5)
			require.Empty(t, acted[CommitOffsets](w), "another task waits for its acks: a moment for it")
			w.after(9 * time.Millisecond)
			require.Empty(t, acted[CommitOffsets](w))
			if c.ready {
				w.acked(id01, 7)
				require.Len(t, only[CommitOffsets](w).Offsets, 2)
				return
			}
			w.after(time.Millisecond)
			first := only[CommitOffsets](w)
			require.Equal(t, []task.InputOffset{{TopicPartition: in0, Offset: 101, Metadata: "m"}}, first.Offsets)
			w.acked(id01, 7)
			require.Empty(t, acted[CommitOffsets](w), "one request at a time")
			w.answerCommit(first, kcode.None)
			require.Equal(t, []task.InputOffset{{TopicPartition: in1, Offset: 103, Metadata: "m"}}, only[CommitOffsets](w).Offsets)
			require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
		})
	}
}

func TestCommitRefused(t *testing.T) {
	cases := []struct {
		name     string
		code     kcode.Code
		err      error
		whole    bool // the code is of the whole request
		metadata string
		fails    bool
	}{
		{name: "a transport error", err: errDown, metadata: "m"},
		{name: "an old generation is no fencing", code: kcode.IllegalGeneration, metadata: "m"},
		{name: "a rebalance is under way", code: kcode.RebalanceInProgress, metadata: "m"},
		{name: "the coordinator has moved", code: kcode.NotCoordinator, metadata: "m"},
		{name: "of the whole request", code: kcode.CoordinatorLoadInProgress, whole: true, metadata: "m"},
		{name: "the metadata is too large: offsets only", code: kcode.OffsetMetadataTooLarge, metadata: ""},
		{name: "the group is not ours to write", code: kcode.GroupAuthorizationFailed, fails: true},
		{name: "nor is the topic", code: kcode.TopicAuthorizationFailed, fails: true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, nil, id00)
			w.seal(id00, 0, 101)
			req := only[CommitOffsets](w)
			switch {
			case c.err != nil:
				w.step(OffsetsCommitted{Request: req.Request, Err: c.err})
			case c.whole:
				w.step(OffsetsCommitted{Request: req.Request, Code: c.code})
			default:
				w.answerCommit(req, c.code)
			}
			if c.fails {
				require.ErrorIs(t, w.e.err, c.code)
				require.Equal(t, Closing, w.e.State())
				require.Empty(t, acted[CommitOffsets](w))
				return
			}
			require.Empty(t, acted[CommitOffsets](w), "not at once")
			require.NotContains(t, w.told(id00), task.Committed{})
			require.Len(t, w.notices(NoticeCommitRefused), 1)
			w.after(100 * time.Millisecond)
			again := only[CommitOffsets](w)
			require.Equal(t, []task.InputOffset{{TopicPartition: in0, Offset: 101, Metadata: c.metadata}}, again.Offsets)
			w.answerCommit(req, kcode.None)
			require.Empty(t, w.told(id00), "an answer to the request before is old")
			w.answerCommit(again, kcode.None)
			require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
		})
	}
}

func TestCommitAnswersThatLackAPartitionAreNoAnswer(t *testing.T) {
	w := running(t, nil, id00)
	w.seal(id00, 0, 101)
	w.step(OffsetsCommitted{Request: only[CommitOffsets](w).Request, Codes: map[task.TopicPartition]kcode.Code{}})
	require.Empty(t, w.told(id00))
	w.after(100 * time.Millisecond)
	require.Len(t, acted[CommitOffsets](w), 1)
}

func TestCommitRefusedForOneTaskOnly(t *testing.T) {
	w := running(t, nil, id00, id01)
	w.seal(id00, 1, 101)
	w.seal(id01, 1, 102)
	w.acked(id00, 1)
	w.acked(id01, 1)
	req := only[CommitOffsets](w)
	w.step(OffsetsCommitted{Request: req.Request, Codes: map[task.TopicPartition]kcode.Code{in0: kcode.None, in1: kcode.NotCoordinator}})
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
	require.Empty(t, w.told(id01))
	w.after(100 * time.Millisecond)
	require.Equal(t, in1, only[CommitOffsets](w).Offsets[0].TopicPartition)
}

func TestCommitThatIsRefusedDelaysNobodyElse(t *testing.T) {
	w := running(t, nil, id00, id01)
	w.seal(id01, 1, 102)
	w.acked(id01, 1)
	for range 4 { // a second and a half of back-off
		w.answerCommit(w.lastCommit(), kcode.NotCoordinator)
		w.after(2 * time.Second)
	}
	w.answerCommit(w.lastCommit(), kcode.NotCoordinator)
	w.seal(id00, 1, 101)
	w.acked(id00, 1)
	w.after(10 * time.Millisecond)
	req := w.lastCommit()
	require.Len(t, req.Offsets, 1)
	require.Equal(t, in0, req.Offsets[0].TopicPartition)
	w.answerCommit(req, kcode.None)
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
	w.after(2 * time.Second)
	require.Equal(t, in1, w.lastCommit().Offsets[0].TopicPartition, "and its own turn comes")
}

func TestCommitUnderTheNextGeneration(t *testing.T) {
	w := running(t, nil, id00)
	w.seal(id00, 0, 101)
	req := only[CommitOffsets](w)
	require.Equal(t, int32(1), req.Generation)
	w.rebalance()
	w.assign([]task.ID{id00})
	w.answerCommit(req, kcode.IllegalGeneration)
	w.after(100 * time.Millisecond)
	require.Equal(t, int32(2), only[CommitOffsets](w).Generation, "the task was kept: its epoch is unbroken")
}

func TestCommitThatWasRefusedGoesAtOnceUnderTheNextGeneration(t *testing.T) {
	w := running(t, nil, id00)
	w.rebalance()
	w.seal(id00, 0, 101)
	for range 3 {
		w.answerCommit(w.lastCommit(), kcode.RebalanceInProgress)
		w.after(time.Second)
	}
	w.answerCommit(w.lastCommit(), kcode.RebalanceInProgress)
	w.assign([]task.ID{id00})
	require.Equal(t, int32(2), only[CommitOffsets](w).Generation)
}

func TestPositionsAdvanceOverContiguousRecordsOnly(t *testing.T) {
	cases := []struct {
		name    string
		acks    []GroupOffset
		at      int64
		foreign bool
	}{
		{"one group", []GroupOffset{{log0, 10, 2}}, 12, false},
		{"two that follow each other", []GroupOffset{{log0, 10, 2}, {log0, 12, 1}}, 13, false},
		{"a group of another topic", []GroupOffset{{in0, 10, 2}}, 10, false},
		{"a group of another partition", []GroupOffset{{task.TopicPartition{Topic: "log", Partition: 1}, 10, 2}}, 10, false},
		{"a duplicate of what is counted", []GroupOffset{{log0, 10, 2}, {log0, 10, 2}}, 12, false},
		{"somebody wrote before", []GroupOffset{{log0, 11, 2}}, 10, true},
		{"somebody wrote between", []GroupOffset{{log0, 10, 2}, {log0, 13, 1}, {log0, 14, 1}}, 12, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := restoring(t, nil, 10, 0, 10)
			w.metadata()
			w.seal(id10, 1, 101)
			w.acked(id10, 1, c.acks...)
			w.answerCommit(only[CommitOffsets](w), kcode.None)
			require.Equal(t, c.at, only[Apply](w).Batch.Stores[0].Position)
			n := w.notices(NoticeForeignWriter)
			if !c.foreign {
				require.Empty(t, n)
				return
			}
			require.Len(t, n, 1)
			require.Equal(t, c.at, n[0].Position)
		})
	}
}

func TestStoreThatFailsACommit(t *testing.T) {
	w := running(t, nil, id10)
	w.seal(id10, 0, 101)
	w.answerCommit(only[CommitOffsets](w), kcode.None)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	require.Equal(t, Closing, w.e.State())
	told := w.told(id10)
	require.Len(t, told, 2)
	require.ErrorIs(t, told[0].(task.Committed).Err, errDown)
	require.Equal(t, task.Release{}, told[1])
	require.ErrorIs(t, w.e.err, errDown)
}

func TestSealOfALifeThatIsOver(t *testing.T) {
	w := running(t, nil, id00)
	w.step(TaskSealed{&task.Sealed{Task: id00, Epoch: w.epoch(id00) - 1}})
	w.step(EffectsDone{EffectsAcked{Task: id00, Epoch: w.epoch(id00) - 1, Seq: 9}})
	w.step(Applied{Task: id00, Epoch: w.epoch(id00)})
	require.Empty(t, w.acts)
	require.Nil(t, w.e.lives[id00].sealed)
}

func TestPurgeDeletesWhatIsCommittedFromRepartitionTopics(t *testing.T) {
	w := running(t, nil, id00, id10)
	before := func() []map[task.TopicPartition]int64 {
		var out []map[task.TopicPartition]int64
		for _, p := range ever[PurgeRecords](w) {
			out = append(out, p.Before)
		}
		return out
	}
	w.alive(30 * time.Second)
	require.Empty(t, before(), "a commit made before may still arrive, and take the offset back")
	w.alive(30 * time.Second)
	require.Equal(t, []map[task.TopicPartition]int64{{words0: 100}}, before())
	w.alive(30 * time.Second)
	require.Len(t, before(), 1, "nothing new is committed")
	w.seal(id10, 0, 130)
	w.answerCommit(w.lastCommit(), kcode.None)
	w.alive(30 * time.Second)
	require.Len(t, before(), 1)
	w.alive(30 * time.Second)
	require.Equal(t, []map[task.TopicPartition]int64{{words0: 100}, {words0: 130}}, before())
}
