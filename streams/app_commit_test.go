package streams_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// passing passes records on through a processor of the test.
func passing(in, out string, f func(*streams.Context[string, string], streams.Record[string, string]) error) *streams.Builder {
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).Process("p", func(*streams.Init) streams.Processor[string, string, string, string] {
		return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
			c.Forward(r)
			return f(c, r)
		})
	}).To(out)
	return sb
}

// After Commit nothing more is processed before what was asked for is committed, outputs too.
func TestAppCommitHoldsTheTask(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		for i := range 6 {
			b.values(in, 0, fmt.Sprint("v", i))
		}
		c := b.config("commit")
		c.CommitInterval = time.Hour
		var asked int64 = -1 // the offset of the last record that asked
		r := b.run(passing(in, to, func(c *streams.Context[string, string], r streams.Record[string, string]) error {
			_, _, offset, _ := c.Source()
			if asked >= 0 {
				if got := b.committedAt("commit", in, 0); got < asked+1 {
					return fmt.Errorf("at offset %d: %d is committed", offset, got)
				}
				if n := len(b.all(to)); int64(n) < asked+1 {
					return fmt.Errorf("at offset %d: %d outputs are there", offset, n)
				}
			}
			if offset%2 == 0 {
				c.Commit()
				asked = offset
			}
			return nil
		}), c)
		r.until("the last commit asked for", func() bool { return b.committedAt("commit", in, 0) == 5 && len(b.all(to)) == 6 })
		require.NoError(t, r.end())
		require.EqualValues(t, 6, b.committedAt("commit", in, 0), "the end commits the rest")
	})
}

// CommitAsync goes on; its function hears of a commit that covers its record, in order.
func TestAppCommitAsyncTellsWhenItIsDone(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		const n = 50
		for i := range n {
			b.values(in, 0, fmt.Sprint("v", i))
		}
		c := b.config("async")
		c.CommitInterval = time.Hour
		var mu sync.Mutex
		var told []int64
		var faults []error
		r := b.run(passing(in, to, func(c *streams.Context[string, string], r streams.Record[string, string]) error {
			_, _, offset, _ := c.Source()
			c.CommitAsync(func(err error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, offset)
				if offset%10 == 0 && b.committedAt("async", in, 0) < offset+1 {
					err = errors.Join(err, fmt.Errorf("offset %d is not committed", offset))
				}
				faults = append(faults, err)
			})
			return nil
		}), c)
		r.until("all functions", func() bool { mu.Lock(); defer mu.Unlock(); return len(told) == n })
		require.NoError(t, r.end())
		for i := range told {
			require.EqualValues(t, i, told[i])
			require.NoError(t, faults[i])
		}
		require.EqualValues(t, n, b.committedAt("async", in, 0))
	})
}

// A record that fails takes the commit that it asked for along.
func TestAppCommitAsyncOfARecordThatFails(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	b.values(in, 0, "good", "bad")
	bad := errors.New("bad")
	told := map[string][]error{} // on the task's goroutine, and read when it has ended
	r := b.run(passing(in, to, func(c *streams.Context[string, string], r streams.Record[string, string]) error {
		c.CommitAsync(func(err error) { told[r.Value] = append(told[r.Value], err) })
		if r.Value == "bad" {
			return bad
		}
		return nil
	}), b.config("fails"))
	require.ErrorIs(t, r.fails(), bad)
	require.Equal(t, []error{nil}, told["good"], "each function is told once")
	require.Len(t, told["bad"], 1)
	require.ErrorIs(t, told["bad"][0], task.ErrRolledBack)
	require.EqualValues(t, 1, b.committedAt("fails", in, 0))
	require.Len(t, b.all(to), 1)
}

// A call that outlasts CallTimeout is given up: its task goes elsewhere, others go on, and it comes back when the call does.
func TestAppWatchdog(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 2), b.topic("out", 1)
	g := newGate(t)
	c := b.config("watchdog")
	c.CallTimeout = 200 * time.Millisecond
	r := b.run(g.pass(in, to), c)
	b.values(in, 0, "block")
	<-g.entered
	stuck := b.name("watchdog")
	r.until("a rebalance without the task", func() bool {
		i := b.embedded.Cluster().GroupInfo(stuck)
		return i != nil && i.Epoch > 1
	})
	b.values(in, 1, "a", "b")
	r.until("the other partition", func() bool { return b.committedAt("watchdog", in, 1) == 2 })
	require.Zero(t, b.committedAt("watchdog", in, 0), "where the task began")
	g.release()
	b.values(in, 0, "c")
	r.until("the partition after the call has returned", func() bool { return b.committedAt("watchdog", in, 0) == 2 })
	require.NoError(t, r.end())
	require.Len(t, b.all(to), 4, "what the late call put out is not there twice")
}

func TestAppCallThatHeedsItsContextIsNotStuckForLong(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	c := b.config("heeds")
	c.CallTimeout = 100 * time.Millisecond
	var calls atomic.Int32
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).TryMapValues("wait", func(ctx ctxType, r streams.Record[string, string]) (string, error) {
		if calls.Add(1) > 1 {
			return r.Value, nil
		}
		<-ctx.Done()
		return "", ctx.Err()
	}).To(to)
	b.values(in, 0, "v")
	r := b.run(sb, c)
	r.until("the second try", func() bool { return len(b.all(to)) == 1 })
	require.NoError(t, r.end())
}

func TestAppMoreStuckCallsThanAllowed(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 3), b.topic("out", 1)
	g := newGate(t)
	c := b.config("stuck")
	c.CallTimeout, c.MaxStuck, c.CloseTimeout = 100*time.Millisecond, 1, 2*time.Second
	r := b.run(g.pass(in, to), c)
	for p := range int32(2) {
		b.values(in, p, "block")
		<-g.entered
	}
	var se *streams.StuckError
	err := r.fails()
	require.ErrorAs(t, err, &se)
	require.Equal(t, []streams.TaskID{{Partition: 0}, {Partition: 1}}, se.Tasks)
	var te *streams.CallTimeoutError
	require.ErrorAs(t, err, &te)
	require.Equal(t, in, te.Part.Topic)
	require.Zero(t, te.Offset)
	require.ErrorContains(t, err, te.Part.String()+" at offset 0")
	require.ErrorContains(t, err, "Config.CallTimeout")
	require.Empty(t, b.all(to))
}
