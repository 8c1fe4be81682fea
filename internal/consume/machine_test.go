package consume

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestCommitsOfALifeThatIsOverAreRefused(t *testing.T) {
	w := newWorld(t, Config{})
	w.ends[at(0)] = 10
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.step(Begin{})
	w.settle()
	for src := range w.sources {
		w.deliver(src, 5)
	}
	first := w.take(3)
	require.Len(t, first, 3)
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.ids++
	w.step(Commit{ID: w.ids, Offsets: map[task.TopicPartition]int64{at(0): 3}, Lives: map[task.TopicPartition]uint64{at(0): first[0].life}})
	var refused *CommitRefusedError
	require.ErrorAs(t, w.answers[w.ids], &refused)
	require.Equal(t, at(0), refused.Partition)

	waits := w.commit(map[task.TopicPartition]int64{at(0): 1})
	w.step(Unassign{Parts: []task.TopicPartition{at(0)}})
	require.ErrorAs(t, w.answers[waits], &refused, "also one that is on its way")
}

func TestAnswersComeInTheOrderOfTheCommits(t *testing.T) {
	w := newWorld(t, Config{})
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.step(Begin{})
	w.settle()
	w.refuse = kcode.CoordinatorLoadInProgress
	a := w.commit(map[task.TopicPartition]int64{at(0): 1})
	w.settle()
	b := w.commit(map[task.TopicPartition]int64{at(7): 1}) // refused at once
	require.Empty(t, w.order)
	c := w.commit(map[task.TopicPartition]int64{at(0): 2})
	w.later(time.Second)
	w.settle()
	require.Equal(t, []uint64{a, b, c}, w.order)
	require.Error(t, w.answers[b])
	require.EqualValues(t, 2, w.kept[at(0)])
}

func TestTopicThatStaysAwayIsAnError(t *testing.T) {
	m := New(Config{Group: group.Config{Group: "g"}, Topics: []string{"gone"}, MissingFor: time.Second})
	now := time.Unix(1000, 0)
	m.Step(now, Begin{})
	require.NoError(t, m.Fault(true))
	m.Step(now, Metadata{Topics: map[string]Topic{}})
	require.NoError(t, m.Fault(true), "a broker that has just started may not know of it")
	now = now.Add(time.Second)
	m.Step(now, Metadata{Topics: map[string]Topic{}})
	var missing *engine.MissingTopicError
	require.ErrorAs(t, m.Fault(false), &missing, "also a Poll that goes on waiting is told")
	require.NoError(t, m.Fault(false), "it is not told all the time")
	require.ErrorAs(t, m.Fault(true), &missing)
	require.ErrorContains(t, m.Fault(true), "WaitForTopics")
	require.NotContains(t, m.Fault(true).Error(), "application", "it says each thing once, and of a consumer")
	for range 4 {
		now = now.Add(time.Second / 2)
		m.Step(now, Metadata{Topics: map[string]Topic{}})
	}
	require.ErrorAs(t, m.Fault(false), &missing, "and again later")
	require.NoError(t, m.Fault(false), "nothing piles up")
	m.Step(now, Metadata{Topics: map[string]Topic{"gone": {Leaders: make([]engine.Leader, 1)}}})
	require.NoError(t, m.Fault(true), "until it appears")
}

func TestOutageIsSaidOnce(t *testing.T) {
	m := New(Config{Group: group.Config{Group: "g"}, Topics: []string{"t"}})
	now := time.Unix(1000, 0)
	m.Step(now, Begin{})
	none := &BrokersError{Addresses: []string{"a:1", "b:2"}, Err: errors.New("refused")}
	for i := range 6 {
		m.Step(now, Metadata{Err: none})
		err := m.Fault(true)
		if i != outageAfter-1 {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, none)
		require.ErrorContains(t, err, "a:1, b:2")
		now = now.Add(time.Second)
	}
}

func TestTakeAllocatesNothing(t *testing.T) {
	w := newWorld(t, Config{})
	w.ends[at(0)] = 1 << 40
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.step(Begin{})
	w.settle()
	var src engine.FetchSource
	for src = range w.sources {
	}
	const runs, size = 200, 500
	batches := make([]*task.Batch, runs+2)
	for i := range batches {
		b := &task.Batch{From: int64(i) * size, Next: int64(i+1) * size, Bytes: size, HighWatermark: 1 << 40}
		for o := b.From; o < b.Next; o++ {
			b.Records = append(b.Records, task.Record{Offset: o})
		}
		batches[i] = b
	}
	scratch := make([]task.Record, size)
	n, next := 0, 0
	visit := func(c Chunk) { n += len(c.Records) }
	// Each batch costs the message that brings it and the one that gives its room back: per batch, not per record.
	allocs := testing.AllocsPerRun(runs, func() {
		w.m.Step(w.now, Arrived{Deliver: engine.Deliver{Source: src, Batch: batches[next]}})
		next++
		w.m.Take(w.now, scratch, visit)
	})
	require.LessOrEqual(t, allocs, 4.0)
	require.GreaterOrEqual(t, n, runs*size)
}
