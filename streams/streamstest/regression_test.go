package streamstest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// What others have got wrong about records that fail, through a whole topology or a whole group.

// failsFor fails for values that begin with "bad".
func failsFor(_ context.Context, r streams.Record[string, string]) error {
	if strings.HasPrefix(r.Value, "bad") {
		return errRefused
	}
	return nil
}

// apache/kafka PR #16684, #18739: what failed behind a store's cache had no source record any more that could be buried.
func TestRegressionFailureBehindATableBuriesTheRawSourceRecord(t *testing.T) {
	counting := func(p retry.Policy, fail *bool) *streamstest.Driver {
		b := streams.NewBuilder()
		b.Stream("in", serde.String, serde.String, streams.OnFailure(p)).
			MapValues(strings.ToUpper).
			GroupByKey().
			Count("counts").
			ToStream().
			TryForEach("behind", func(_ context.Context, r streams.Record[string, int64]) error {
				if *fail && r.Key == "bad" {
					return errRefused
				}
				return nil
			})
		return streamstest.New(t, b)
	}
	for name, p := range map[string]retry.Policy{
		"keys": retry.KeyOrdered(retry.Attempts(2), retry.ThenDeadLetter()), "parallel": retry.Parallel(retry.Attempts(2), retry.ThenDeadLetter()),
	} {
		t.Run(name, func(t *testing.T) {
			fail := true
			d := counting(p, &fail)
			in, counts := streamstest.In(d, "in", serde.String, serde.String), streamstest.Store(d, "counts", serde.String, serde.Int64)
			in.Pipe("bad", "raw", streamstest.AtMillis(5))
			in.Pipe("good", "raw")
			d.AdvanceWallClock(time.Minute)
			letters := d.DeadLetters("in")
			require.Len(t, letters, 1)
			require.Equal(t, "raw", string(letters[0].Value))
			require.Equal(t, "bad", string(letters[0].Key))
			require.EqualValues(t, 5, letters[0].Time.UnixMilli())
			require.Equal(t, "behind", letters[0].Node)
			require.Equal(t, []streams.KeyValue[string, int64]{{Key: "good", Value: 1}}, counts.All(), "the count is undone with it")
			fail = false
			require.NoError(t, d.Redrive(letters[0]))
			d.AdvanceWallClock(time.Minute)
			n, _ := counts.Get("bad")
			require.EqualValues(t, 1, n)
		})
	}
	t.Run("a table that emits at the commit", func(t *testing.T) {
		fail := true
		d := counting(retry.Ordered(retry.Attempts(2), retry.Rows(retry.EndDeadLetter)), &fail)
		streamstest.In(d, "in", serde.String, serde.String).Pipe("bad", "raw")
		d.AdvanceWallClock(time.Minute)
		letters := d.DeadLetters("in")
		require.Len(t, letters, 1, "no record has failed, a row has")
		require.Equal(t, "counts", letters[0].Row)
		require.Equal(t, "row", letters[0].Class)
		require.Equal(t, "bad", string(letters[0].Key))
		require.Equal(t, 2, letters[0].Attempts)
		require.ErrorIs(t, d.Redrive(letters[0]), retry.ErrNoRecord)
		require.EqualValues(t, 1, d.Committed("in", 0))
	})
}

// KAFKA-16448: the second of three nodes failed, the policy was to skip, and what the first had written and sent stayed.
func TestRegressionSkippedRecordLeavesNothingOfTheNodesBefore(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"ordered": retry.Ordered(retry.Attempts(1), retry.ThenSkip()), "keys": retry.KeyOrdered(retry.Attempts(2), retry.ThenSkip()),
		"workers": retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenSkip()), "asked for": retry.Ordered(retry.SkipIf("bad", func(err error) bool { return errors.Is(err, errRefused) })),
	} {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			in := b.Stream("in", serde.String, serde.String, streams.OnFailure(p))
			in.To("first")
			in.GroupByKey().Count("counts")
			in.TryPeek("second", failsFor).To("third")
			d := streamstest.New(t, b)
			records := streamstest.In(d, "in", serde.String, serde.String)
			for _, v := range []string{"1", "bad", "2"} {
				records.Pipe("k", v)
			}
			d.AdvanceWallClock(time.Minute)
			n, _ := streamstest.Store(d, "counts", serde.String, serde.Int64).Get("k")
			require.EqualValues(t, 2, n)
			require.Len(t, streamstest.OutRaw(d, "first").ReadAll(), 2)
			require.Len(t, streamstest.OutRaw(d, "third").ReadAll(), 2)
			require.EqualValues(t, 3, d.Committed("in", 0))
		})
	}
}

// cannot is a serde that cannot write values that begin with "bad".
type cannot struct{ serde.Serde[string] }

func (c cannot) Append(dst []byte, v string) ([]byte, error) {
	if strings.HasPrefix(v, "bad") {
		return dst, errRefused
	}
	return c.Serde.Append(dst, v)
}

// KIP-1348: an output that could not be encoded ended the application, each time that it was started.
func TestRegressionOutputThatCannotBeEncodedFollowsThePolicy(t *testing.T) {
	encoding := func(t *testing.T, p retry.Policy) (*streamstest.Driver, *streamstest.Input[string, string]) {
		b := streams.NewBuilder()
		b.Stream("in", serde.String, serde.String, streams.OnFailure(p)).MapValues(func(v string) string { return v }).
			To("out", streams.WithValueSerde[string](cannot{serde.String}))
		d := streamstest.New(t, b)
		return d, streamstest.In(d, "in", serde.String, serde.String)
	}
	bury, skip := retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter()), retry.Ordered(retry.Attempts(1), retry.ThenSkip())
	for _, mode := range []func(...retry.Option) retry.Policy{retry.Ordered, retry.KeyOrdered, retry.Parallel} {
		d, in := encoding(t, mode(retry.OnProduce(bury)))
		for _, v := range []string{"1", "bad", "2"} {
			in.Pipe("k", v)
		}
		d.AdvanceWallClock(time.Minute)
		letters := d.DeadLetters("in")
		require.Len(t, letters, 1)
		require.Equal(t, "bad", string(letters[0].Value), "the record, not its output")
		require.Len(t, streamstest.OutRaw(d, "out").ReadAll(), 2)
		require.EqualValues(t, 3, d.Committed("in", 0))
		d.Restart(true)
		require.Len(t, d.DeadLetters("in"), 1, "once")

		d, in = encoding(t, mode(retry.OnProduce(skip)))
		in.Pipe("k", "bad")
		in.Pipe("k", "2")
		require.EqualValues(t, 1, d.Failures(task00).Skipped)
		require.EqualValues(t, 2, d.Committed("in", 0))

		d, in = encoding(t, mode(retry.ThenDeadLetter())) // which is not about outputs
		err := in.TryPipe("k", "bad")
		var failed *streams.RecordError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, streams.KindEncode, failed.Kind)
		require.Empty(t, d.DeadLetters("in"))
	}
}

// confluentinc/parallel-consumer #909, #875: a group that went up and down in turns was given the same offsets in several generations, and left
// gaps.
func TestRegressionGroupThatFlapsLeavesNoGap(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"keys": retry.KeyOrdered(retry.Workers(4)), "parallel": retry.Parallel(retry.Workers(4)), "one by one": retry.KeyOrdered(),
	} {
		t.Run(name, func(t *testing.T) {
			calls := map[string]int{}
			c := streamstest.NewCluster(t, counting(p, calls), streamstest.Members(2), streamstest.Partitions("in", 4),
				streamstest.WithConfig(streams.Config{Session: 6 * time.Second, CommitInterval: 300 * time.Millisecond, Coalesce: 100 * time.Millisecond}))
			in := streamstest.In(c, "in", serde.String, serde.String)
			n := 0
			for flap := range 8 {
				for range 25 {
					in.Pipe(fmt.Sprint("k", n%9), fmt.Sprint(n))
					n++
					c.Run(40 * time.Millisecond)
				}
				if m := c.Member(1); flap%2 == 0 && m.Running() {
					m.Leave()
				} else if !m.Running() {
					m.Restart(true)
				}
			}
			if m := c.Member(1); !m.Running() {
				m.Restart(true)
			}
			c.Settle(2 * time.Minute)
			total := int64(0)
			for _, kv := range streamstest.Store(c, "counts", serde.String, serde.Int64).All() {
				total += kv.Value
			}
			require.EqualValues(t, n, total, "nobody has died, so each is counted once")
			require.Len(t, calls, n)
		})
	}
}

// IBM/sarama #3593, #3681: commits of one who had been thrown out counted, and what had waited over the rebalance did not go on. The zombie has
// records put aside that become due while it is out.
func TestRegressionZombieWithRetriesChangesNothing(t *testing.T) {
	down := true
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String, streams.OnFailure(retry.Parallel(retry.Backoff(20*time.Second, 20*time.Second), retry.Jitter(0), retry.NoBreaker(), retry.ThenDeadLetter()))).
		TryPeek("step", func(_ context.Context, r streams.Record[string, string]) error {
			if down && r.Value == "bad" {
				return errRefused
			}
			return nil
		}).
		GroupByKey().
		Count("counts").
		ToStream().
		To("out")
	c := streamstest.NewCluster(t, b, streamstest.Members(2), streamstest.Partitions("in", 2),
		streamstest.WithConfig(streams.Config{Session: 6 * time.Second, CommitInterval: 300 * time.Millisecond, Coalesce: 100 * time.Millisecond}))
	in := streamstest.In(c, "in", serde.String, serde.String)
	for i := range 20 {
		in.Pipe(fmt.Sprint("k", i), "bad")
	}
	c.Run(2 * time.Second)
	zombie := c.OwnerOf("in", 0)
	e := c.Explain("in", 0, 0)
	require.Equal(t, streams.RecordParked, e.State)
	require.Equal(t, errRefused.Error(), e.Error)
	down = false
	zombie.Freeze(40 * time.Second) // it wakes when all of them are due
	c.Run(15 * time.Second)
	require.NotEqual(t, zombie, c.OwnerOf("in", 0))
	offsets := []int64{c.Committed("in", 0), c.Committed("in", 1)}
	for range 40 {
		c.Run(time.Second)
		for p := range int32(2) {
			at := c.Committed("in", p)
			require.GreaterOrEqual(t, at, offsets[p], "an offset never goes back")
			offsets[p] = at
		}
	}
	c.Settle(2 * time.Minute)
	require.Empty(t, c.DeadLetters("in"))
	rows := streamstest.Store(c, "counts", serde.String, serde.Int64).All()
	require.Len(t, rows, 20)
	for _, kv := range rows {
		require.EqualValues(t, 1, kv.Value, "%s: all had been committed as put aside, and only their new owner has run them", kv.Key)
	}
}

// In a cluster dead letters are looked at and come back as they do with a driver.
func TestDeadLettersOfAClusterComeBack(t *testing.T) {
	down := true
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String, streams.OnFailure(retry.KeyOrdered(retry.Attempts(2), retry.Backoff(time.Second, time.Second), retry.ThenDeadLetter()))).
		TryPeek("step", func(ctx context.Context, r streams.Record[string, string]) error {
			if down {
				return failsFor(ctx, r)
			}
			return nil
		}).
		To("out")
	c := streamstest.NewCluster(t, b, streamstest.Members(2), streamstest.Partitions("in", 2))
	in := streamstest.In(c, "in", serde.String, serde.String)
	in.Pipe("a", "bad", streamstest.ToPartition(1))
	in.Pipe("a", "behind", streamstest.ToPartition(1))
	c.Run(500 * time.Millisecond)
	require.Equal(t, streams.RecordParked, c.Explain("in", 1, 0).State)
	require.Equal(t, streams.RecordFollows, c.Explain("in", 1, 1).State)
	c.Settle(time.Minute)
	letters := c.DeadLetters("in")
	require.Len(t, letters, 1)
	require.Equal(t, streams.RecordCommitted, c.Explain("in", 1, 0).State)
	down = false
	require.NoError(t, c.Redrive(letters[0]))
	c.Run(time.Second)
	c.Settle(time.Minute)
	require.Len(t, streamstest.Out(c, "out", serde.String, serde.String).ReadAll(), 2)
}
