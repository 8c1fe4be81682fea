package streams_test

import (
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// leftBehind commits an offset as a process does that was killed then.
func (b *bed) leftBehind(app, topic string, partition int32, offset int64) {
	b.t.Helper()
	k, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	require.NoError(b.t, err)
	defer k.Close()
	m := retry.NewMetadata(offset)
	m.Running = true
	text, ok := m.Encode(offset)
	require.True(b.t, ok)
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: topic, Partition: partition, At: offset, LeaderEpoch: -1, Metadata: text})
	require.Eventually(b.t, func() bool {
		said, err := kadm.NewClient(k).CommitOffsets(b.ctx(), b.name(app), os)
		return err == nil && said.Ok()
	}, 20*time.Second, 100*time.Millisecond, "the offset cannot be committed")
}

// saidOf is what the last commit of a partition says.
func (b *bed) saidOf(app, topic string, partition int32) (offset int64, m retry.Metadata) {
	b.t.Helper()
	offsets, err := b.client.Committed(b.ctx(), b.name(app))
	require.NoError(b.t, err)
	o := offsets[task.TopicPartition{Topic: topic, Partition: partition}]
	m, err = retry.ParseMetadata(o.Metadata, o.Offset, 1<<40)
	require.NoError(b.t, err)
	return o.Offset, m
}

// numbered puts the numbers from from to below to.
func (b *bed) numbered(topic string, partition int32, from, to int) {
	b.t.Helper()
	for ; from < to; from = min(to, from+5_000) {
		var values []string
		for n := from; n < min(to, from+5_000); n++ {
			values = append(values, strconv.Itoa(n))
		}
		b.values(topic, partition, values...)
	}
}

// sluice holds up the calls for the records whose numbers are low until it is opened.
type sluice struct {
	below int
	open  chan struct{}
	calls sync.Map // of a value: *atomic.Int64
}

func newSluice(below int) *sluice { return &sluice{below: below, open: make(chan struct{})} }

func (g *sluice) call(c ctxType, value string) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return err
	}
	calls, _ := g.calls.LoadOrStore(value, new(atomic.Int64))
	calls.(*atomic.Int64).Add(1)
	if n >= g.below {
		return nil
	}
	select {
	case <-g.open:
		return nil
	case <-c.Done():
		return c.Err()
	}
}

// gated passes on what comes through the sluice.
func gated(g *sluice, in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String).
		TryMapValues("call", func(c ctxType, r streams.Record[string, string]) (string, error) { return r.Value, g.call(c, r.Value) }).
		To(out)
	return b
}

// recovers is a configuration for parallel recovery.
func (b *bed) recovers(app string) streams.Config {
	c := b.config(app)
	c.OnFailure, c.Recovery, c.RecoverAbove = retry.Parallel(retry.Workers(4)), streams.RecoverParallel, 20
	return c
}

// seen counts the values of a topic.
func (b *bed) seen(topic string) map[string]int {
	b.t.Helper()
	out := map[string]int{}
	for _, v := range b.texts(topic) {
		out[v]++
	}
	return out
}

// hasNumbers reports whether all the numbers from from to below to are there.
func hasNumbers(seen map[string]int, from, to int) bool {
	for n := from; n < to; n++ {
		if seen[strconv.Itoa(n)] == 0 {
			return false
		}
	}
	return true
}

// With committed 70 and 120 at the end of the log, what comes from 120 on is processed at once, and 70 to 119 beside it.
func TestAppRecoveryOf70To120(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		b.numbered(in, 0, 0, 120)
		b.leftBehind("app", in, 0, 70)
		g := newSluice(72) // two of the four workers are held up by the gap, and one is kept free of it
		var mu sync.Mutex
		var told []streams.Recovery
		c := b.recovers("app")
		c.Listener.Recovery = func(r streams.Recovery) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, r)
		}
		r := b.run(gated(g, in, out), c)
		r.ready()
		b.numbered(in, 0, 120, 130)
		require.Eventually(t, func() bool { return hasNumbers(b.seen(out), 120, 130) }, 20*time.Second, 20*time.Millisecond, "what is new is not processed")
		require.True(t, r.app.Recovering())
		r.until("all that is not held up", func() bool { return len(b.seen(out)) == 58 && r.app.Recovery()[0].Left == 2 })
		all := r.app.Recovery()
		require.Len(t, all, 1)
		require.Equal(t, []any{in, int32(0), int64(70), int64(120), int64(2), streams.RecoveryReplaying},
			[]any{all[0].Topic, all[0].Partition, all[0].Lo, all[0].Hi, all[0].Left, all[0].State})
		r.until("a commit of both paths", func() bool {
			offset, m := b.saidOf("app", in, 0)
			return offset == 70 && m.Main == 130 && m.Running && slices.Equal(m.Holes, []retry.Run{{From: 70, To: 72}})
		})

		close(g.open)
		r.until("the end of the replay", func() bool { return !r.app.Recovering() })
		all = r.app.Recovery()
		require.Equal(t, []any{int64(0), streams.RecoveryDone}, []any{all[0].Left, all[0].State})
		r.until("the commit of all", func() bool { return b.offset("app", in, 0) == 130 })
		require.NoError(t, r.end())
		seen := b.seen(out)
		require.True(t, hasNumbers(seen, 70, 130))
		require.Len(t, seen, 60)
		mu.Lock()
		defer mu.Unlock()
		require.GreaterOrEqual(t, len(told), 2)
		require.EqualValues(t, 50, told[0].Left, "it is told when it begins")
		require.Equal(t, streams.RecoveryDone, told[len(told)-1].State)
	})
}

// A lag that is not above the threshold, or an end that was clean, is no reason to give the order up.
func TestAppRecoveryIsNotBegunWhereItIsNotWorthIt(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	b.numbered(in, 0, 0, 120)
	b.leftBehind("app", in, 0, 100)
	r := b.run(gated(newSluice(0), in, out), b.recovers("app"))
	r.until("all", func() bool { return b.offset("app", in, 0) == 120 })
	require.Empty(t, r.app.Recovery())
	require.NoError(t, r.end())
	b.numbered(in, 0, 120, 300)
	r = b.run(gated(newSluice(0), in, out), b.recovers("app"))
	r.until("all", func() bool { return b.offset("app", in, 0) == 300 })
	require.Empty(t, r.app.Recovery(), "the end was clean")
	require.False(t, r.app.Recovering())
	require.NoError(t, r.end())
}

// What the log has lost of the gap is told to the offset, and the rest is replayed.
func TestAppRecoveryThatRetentionHasOvertaken(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		b.numbered(in, 0, 0, 120)
		b.leftBehind("app", in, 0, 70)
		require.NoError(t, b.client.DeleteRecords(b.ctx(), task.TopicPartition{Topic: in}, 100))
		var lost atomic.Pointer[streams.OffsetRange]
		c := b.recovers("app")
		c.Listener.RecoveryLost = func(_ string, _ int32, r streams.OffsetRange) { lost.Store(&r) }
		r := b.run(gated(newSluice(0), in, out), c)
		r.until("the commit of all", func() bool { return b.offset("app", in, 0) == 120 })
		require.Equal(t, &streams.OffsetRange{From: 70, To: 100}, lost.Load())
		all := r.app.Recovery()
		require.Len(t, all, 1)
		require.Equal(t, streams.RecoveryLost, all[0].State)
		require.Equal(t, []streams.OffsetRange{{From: 70, To: 100}}, all[0].Lost)
		require.NoError(t, r.end())
		seen := b.seen(out)
		require.True(t, hasNumbers(seen, 100, 120))
		require.Len(t, seen, 20)
	})
}

// A gap moves with its partition: what the first process has replayed of it stays done.
func TestAppRecoveryMovesWithItsPartition(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 1)
		const end = 2_000
		for p := range int32(2) {
			b.numbered(in, p, int(p)*10_000, int(p)*10_000+end)
			b.leftBehind("app", in, p, 70)
		}
		slow := func() *streams.Builder {
			s := streams.NewBuilder()
			s.Stream(in, serde.String, serde.String).
				TryMapValues("slow", func(_ ctxType, r streams.Record[string, string]) (string, error) {
					time.Sleep(2 * time.Millisecond)
					return r.Value, nil
				}).
				To(out)
			return s
		}
		c := b.recovers("app")
		c.OnFailure = retry.Parallel(retry.Workers(2))
		first := b.run(slow(), c)
		first.until("some of both gaps", func() bool {
			all := first.app.Recovery()
			return len(all) == 2 && all[0].Left < end-70 && all[1].Left < end-70
		})
		c = b.recovers("app")
		c.OnFailure = retry.Parallel(retry.Workers(2))
		second := b.run(slow(), c)
		second.until("the rest of a gap", func() bool { return len(second.app.Recovery()) == 1 })
		require.Less(t, second.app.Recovery()[0].Left, int64(end-70), "it goes on where the first has stopped")
		for p := range int32(2) {
			second.until("the commit of all", func() bool { return b.offset("app", in, p) == end })
		}
		require.False(t, first.app.Recovering())
		require.False(t, second.app.Recovering())
		require.NoError(t, first.end())
		require.NoError(t, second.end())
		seen := b.seen(out)
		for p := range 2 {
			require.True(t, hasNumbers(seen, p*10_000+70, p*10_000+end), "partition %d", p)
		}
		again := 0
		for _, n := range seen {
			again += n - 1
		}
		require.Less(t, again, 1_000, "what was done is not done again")
	})
}
