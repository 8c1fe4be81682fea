package streamstest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// counting counts records by key behind a step that fails the first time for each tenth value, with a policy of several workers.
func counting(p retry.Policy, calls map[string]int) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String, streams.OnFailure(p)).
		TryPeek("flaky", func(_ context.Context, r streams.Record[string, string]) error {
			if calls[r.Value]++; calls[r.Value] == 1 && r.Value[len(r.Value)-1] == '0' {
				return errors.New("does not work yet")
			}
			return nil
		}).
		GroupByKey().
		Count("counts").
		ToStream().
		To("out")
	return b
}

// A policy with several workers has them in a Driver too: what they read of stores the task answers, and records that fail are put aside.
func TestDriverRunsWorkers(t *testing.T) {
	calls := map[string]int{}
	d := streamstest.New(t, counting(retry.KeyOrdered(retry.Workers(4)), calls))
	in := streamstest.In(d, "in", serde.String, serde.String)
	counts := streamstest.Store(d, "counts", serde.String, serde.Int64)
	for i := range 100 {
		in.Pipe(fmt.Sprint("k", i%7), fmt.Sprint(i))
	}
	require.GreaterOrEqual(t, d.Failures(streams.TaskID{}).PutAside, int64(10), "those that fail, and those of their keys behind them")
	d.AdvanceWallClock(time.Minute)
	require.Zero(t, d.Failures(streams.TaskID{}).Parked)
	total := int64(0)
	for _, kv := range counts.All() {
		total += kv.Value
	}
	require.Equal(t, int64(100), total)
	require.Equal(t, int64(100), d.Committed("in", 0))
}

// The nodes of a worker are its own.
func TestDriverMakesNodesForEachWorker(t *testing.T) {
	for workers, nodes := range map[int]int{1: 1, 3: 4} { // those of the task itself come to them
		d, made := instances(t, workers)
		in := streamstest.In(d, "in", serde.String, serde.String)
		for i := range 10 {
			in.Pipe(fmt.Sprint(i), "x")
		}
		require.Equal(t, nodes, *made, "%d workers", workers)
	}
}

// instances is a driver that counts how many times a processor is made.
func instances(t *testing.T, workers int) (*streamstest.Driver, *int) {
	made := new(int)
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String, streams.OnFailure(retry.Parallel(retry.Workers(workers)))).
		Process("pass", func(*streams.Init) streams.Processor[string, string, string, string] {
			*made++
			return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
				c.Forward(r)
				return nil
			})
		}, streams.Concurrent()).
		To("out")
	return streamstest.New(t, b), made
}

// In a cluster the results of workers come in any order, while members come and go.
func TestClusterRunsWorkers(t *testing.T) {
	calls := map[string]int{}
	c := streamstest.NewCluster(t, counting(retry.KeyOrdered(retry.Workers(4)), calls), streamstest.Members(2), streamstest.Partitions("in", 4))
	in := streamstest.In(c, "in", serde.String, serde.String)
	for i := range 200 {
		in.Pipe(fmt.Sprint("k", i%7), fmt.Sprint(i))
		c.Run(20 * time.Millisecond)
	}
	c.Add()
	c.Settle(time.Minute)
	total := int64(0)
	for _, kv := range streamstest.Store(c, "counts", serde.String, serde.Int64).All() {
		total += kv.Value
	}
	require.Equal(t, int64(200), total, "nobody has died, so each is counted once")
	require.Len(t, calls, 200)
}
