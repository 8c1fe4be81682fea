package streams_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// lagOf is the lag of a partition in this process.
func (r *running) lagOf(topic string, partition int32) (lag streams.PartitionLag, here bool) {
	for _, g := range r.app.Lag() {
		if g.Topic == topic && g.Partition == partition {
			return g, true
		}
	}
	return streams.PartitionLag{}, false
}

// caughtUp waits until all partitions of a topic are known to have nothing to be read.
func (r *running) caughtUp(topic string, partition int32, position int64) {
	r.t.Helper()
	r.until("lag 0 of "+topic, func() bool {
		g, here := r.lagOf(topic, partition)
		return here && g.Known && g.Offsets == 0 && g.Time == 0 && g.Position == position && g.End == position
	})
}

// Markers of transactions and records of aborted ones are no lag; neither is an empty partition.
func TestF16LagEndsWithoutAnotherRecord(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 1)
		r := b.run(copyTopic(in, out), b.config("app"))
		rec := task.OutRecord{Value: []byte("v"), Timestamp: time.Now().UnixMilli()}
		tp := task.TopicPartition{Topic: in}
		require.NoError(t, b.client.Transact(b.ctx(), b.name("tx"), true, tp, rec, rec, rec))
		require.NoError(t, b.client.Transact(b.ctx(), b.name("tx"), false, tp, rec, rec))
		r.ready()
		r.caughtUp(in, 0, 7)
		r.caughtUp(in, 1, 0)
		r.until("the commit", func() bool { return b.committed(b.name("app"))[tp] == 7 })
		require.NoError(t, r.end())
		require.Empty(t, r.app.Lag(), "what has ended has no gauge")
	})
}

// The gauge of a partition goes with it.
func TestF16LagOfAPartitionThatMovesIsCountedOnce(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 2), b.topic("out", 1)
	b.values(in, 0, "a")
	b.values(in, 1, "a", "b")
	x := b.run(copyTopic(in, out), b.config("app"))
	x.ready()
	x.caughtUp(in, 0, 1)
	x.caughtUp(in, 1, 2)
	y := b.run(copyTopic(in, out), b.config("app"))
	y.until("one each", func() bool { return len(x.app.Lag()) == 1 && len(y.app.Lag()) == 1 })
	one, other := x.app.Lag()[0], y.app.Lag()[0]
	require.NotEqual(t, one.Partition, other.Partition)
}

// A function that does not return: the end of the partition goes on being told, though the queue of the task is full and nothing is fetched.
// The alarm names the call, and is taken back when the function returns.
func TestLagOfATaskThatIsStuckInACall(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	let := make(chan struct{})
	var once sync.Once
	free := func() { once.Do(func() { close(let) }) }
	t.Cleanup(free)
	var called atomic.Bool
	builder := streams.NewBuilder()
	builder.Stream(in, serde.Bytes, serde.Bytes).TryPeek("blocks", func(context.Context, streams.Record[[]byte, []byte]) error {
		called.Store(true)
		<-let
		return nil
	}).MapValues(func([]byte) []byte { return nil }).To(out)
	c := b.config("app")
	c.Memory, c.StuckAfter = 32<<20, 500*time.Millisecond
	stuck, unstuck := make(chan streams.StuckPartition, 10), make(chan streams.StuckPartition, 10)
	c.Listener.Stuck = func(p streams.StuckPartition) { stuck <- p }
	c.Listener.Unstuck = func(p streams.StuckPartition) { unstuck <- p }
	large := task.OutRecord{Value: make([]byte, 200<<10), Timestamp: time.Now().Add(-time.Hour).UnixMilli()}
	for range 30 { // three times what the queue takes
		b.put(in, 0, large)
	}
	r := b.run(builder, c)
	r.until("the call", called.Load)
	p := <-stuck
	require.Equal(t, in, p.Topic)
	require.Zero(t, p.Position)
	require.GreaterOrEqual(t, p.For, c.StuckAfter)
	require.Contains(t, p.Why, "a call of user code does not return")
	require.Contains(t, p.Why, "at offset 0")

	b.put(in, 0, large, large)
	r.until("the end", func() bool {
		g, _ := r.lagOf(in, 0)
		return g.Known && g.End == 32 && g.Offsets == 32
	})
	g, _ := r.lagOf(in, 0)
	require.True(t, g.Stuck)
	require.GreaterOrEqual(t, g.StuckFor, c.StuckAfter)

	free()
	require.Equal(t, in, (<-unstuck).Topic)
	r.caughtUp(in, 0, 32)
	require.Empty(t, stuck)
}

// A record that is tried again without an end is named by the alarm, with its error and its step, and its age is that of the partition.
func TestStuckPartitionNamesTheRecordThatFails(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	var bad atomic.Bool
	bad.Store(true)
	stuck := make(chan streams.StuckPartition, 1)
	c := b.config("app")
	c.OnFailure, c.StuckAfter = streams.Config{}.OnFailure, 300*time.Millisecond
	c.Listener.Stuck = func(p streams.StuckPartition) { stuck <- p }
	r := b.run(failingOn(in, out, &bad), c)
	r.ready()
	b.put(in, 0, task.OutRecord{Value: []byte("bad"), Timestamp: time.Now().Add(-time.Hour).UnixMilli()})
	p := <-stuck
	for _, want := range []string{"the record at offset 0 has failed", `"fallible"`, "refused"} {
		require.True(t, strings.Contains(p.Why, want), p.Why)
	}
	g, _ := r.lagOf(in, 0)
	require.True(t, g.Known)
	require.EqualValues(t, 1, g.Offsets)
	require.InDelta(t, time.Hour, g.Time, float64(time.Minute))
	bad.Store(false)
	r.caughtUp(in, 0, 1)
}
