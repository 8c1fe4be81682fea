package streamstest_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func small(t streamstest.TB, opts ...streamstest.Option) *streamstest.Cluster {
	opts = append([]streamstest.Option{
		streamstest.Members(2), streamstest.Partitions("in", 2), streamstest.WithConfig(streams.Config{Session: 6 * time.Second, CommitInterval: 200 * time.Millisecond, Coalesce: time.Second}),
	}, opts...)
	return streamstest.NewCluster(t, counted(), opts...)
}

// The same seed makes the same run, to the last line of its trace; another one another.
func TestClusterIsDecidedByItsSeed(t *testing.T) {
	play := func(seed uint64) []string {
		c := small(t, streamstest.Seed(seed))
		in := streamstest.In(c, "in", serde.String, serde.String)
		for range 20 {
			in.Pipe("k", "x")
			c.Run(time.Second)
		}
		c.Member(0).Restart(false)
		c.Run(time.Minute)
		return c.Trace(1000)
	}
	require.Equal(t, play(3), play(3))
	require.NotEqual(t, play(3), play(4))
}

// A member that is killed loses what its disk has not flushed; one that is started again, with its disk or without, has its state back from
// the changelog.
func TestMemberIsKilledAndComesBack(t *testing.T) {
	for _, keep := range []bool{true, false} {
		c := small(t, streamstest.Members(1))
		in, counts := streamstest.In(c, "in", serde.String, serde.String), streamstest.Store(c, "counts", serde.String, serde.Int64)
		in.Pipe("k", "x")
		c.Settle(time.Minute)
		c.Member(0).Kill()
		require.False(t, c.Member(0).Running())
		require.Nil(t, c.OwnerOf("in", 0))
		c.Member(0).Restart(keep)
		c.Settle(time.Minute)
		in.Pipe("k", "x")
		c.Settle(time.Minute)
		n, found := counts.Get("k")
		require.True(t, found)
		require.Equal(t, int64(2), n)
		require.Equal(t, "m0.2", c.Member(0).String())
	}
}

// A clean end is known to the group at once; a death only when the session is over.
func TestMemberLeavesOrDies(t *testing.T) {
	taken := func(end func(*streamstest.Member)) time.Duration {
		c := small(t)
		m := c.OwnerOf("in", 0)
		began := c.Now()
		end(m)
		c.RunUntil(func() bool { o := c.OwnerOf("in", 0); return o != nil && o != m }, time.Minute)
		took := c.Now().Sub(began)
		c.Settle(time.Minute)
		require.False(t, m.Running())
		require.NoError(t, m.Err())
		return took
	}
	require.Less(t, taken((*streamstest.Member).Leave), time.Second)
	require.Less(t, taken((*streamstest.Member).Drain), 5*time.Second)
	require.Greater(t, taken((*streamstest.Member).Kill), 5*time.Second)
}

func TestClusterGrows(t *testing.T) {
	c := small(t)
	before := c.Generation()
	added := c.Add()
	require.Equal(t, 2, added.Number())
	require.Len(t, c.Members(), 3)
	c.Member(0).Leave()
	c.Settle(time.Minute)
	require.Greater(t, c.Generation(), before)
	require.NotEmpty(t, c.Rebalances())
	require.Equal(t, c.Generation(), c.Rebalances()[len(c.Rebalances())-1].Generation)
	require.Len(t, c.Tasks(), 2)
	for _, p := range c.Tasks() {
		require.Equal(t, streams.RoleActive, p.Role)
		require.NotEqual(t, c.Member(0), p.Member)
	}
}

// What a disk or a processor takes shows in how long a record needs to its commit.
func TestSlowMembers(t *testing.T) {
	took := func(slow func(*streamstest.Member)) time.Duration {
		c := small(t, streamstest.Members(1))
		in := streamstest.In(c, "in", serde.String, serde.String)
		slow(c.Member(0))
		in.Pipe("k", "x")
		in.Pipe("k", "x", streamstest.ToPartition(1))
		began := c.Now()
		c.Settle(time.Minute)
		counts := streamstest.Store(c, "counts", serde.String, serde.Int64)
		in.Pipe("k", "x")
		c.RunUntil(func() bool { n, _ := counts.Get("k"); return n == 2 }, time.Minute)
		in.Pipe("k", "y")
		c.Settle(time.Minute)
		return c.Now().Sub(began)
	}
	usual := took(func(*streamstest.Member) {})
	require.Less(t, usual, time.Second)
	require.Greater(t, took(func(m *streamstest.Member) { m.Slow(20_000) }), usual+time.Second)
	require.Greater(t, took(func(m *streamstest.Member) { m.SlowDisk(2 * time.Second) }), usual)
}

// An application that stops by its policy ends its member with the error; the test may want that.
func TestMemberEndsWithAnError(t *testing.T) {
	broken := errors.New("broken")
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		TryForEach("bad", func(_ context.Context, r streams.Record[string, string]) error {
			if r.Value == "bad" {
				return broken
			}
			return nil
		})
	r := &recorder{}
	c := streamstest.NewCluster(r, b, streamstest.Members(1), streamstest.OnFailure(retry.Stop()))
	defer r.end()
	in := streamstest.In(c, "in", serde.String, serde.String)
	in.Pipe("k", "good")
	in.Pipe("k", "bad")
	err := c.TryRun(time.Minute)
	require.ErrorIs(t, err, broken)
	require.ErrorContains(t, err, "member m0 has ended")
	var record *streams.RecordError
	require.ErrorAs(t, err, &record)
	require.Equal(t, int64(1), record.Offset)
	require.ErrorIs(t, c.Member(0).Err(), broken)
	require.Equal(t, int64(1), c.Committed("in", 0), "what precedes it")
	c.Member(0).Restart(true)
	require.Contains(t, panicOf(t, func() { c.Run(time.Minute) }), "member m0.2 has ended")
}

// Each member may have a configuration of its own, and its listener hears of what happens to it.
func TestMembersHaveTheirConfig(t *testing.T) {
	assigned := map[int]int{}
	c := small(t, streamstest.WithMemberConfig(func(member int, cfg *streams.Config) {
		cfg.Capacity = 1 + member
		cfg.Listener.Assigned = func(tasks []streams.TaskID) { assigned[member] = len(tasks) }
	}), streamstest.Partitions("in", 6))
	require.Equal(t, map[int]int{0: 2, 1: 4}, assigned)
	require.Len(t, c.Rebalances(), 2)
}

// A test that fails says which seed it was and what happened last.
func TestClusterSaysWhatHappened(t *testing.T) {
	r := &recorder{}
	defer r.end()
	c := small(r, streamstest.Seed(17))
	c.Member(1).Freeze(time.Hour)
	said := panicOf(t, func() { c.RunUntil(func() bool { return false }, 20*time.Second) })
	for _, part := range []string{
		"the condition of RunUntil does not hold after 20s", "seed 17", "m1   is frozen for: 1h0m0s", "──▶ broker", "generation", "m0 is running", "m1 is running, frozen for 59m40s",
	} {
		require.Contains(t, said, part)
	}
	said = panicOf(t, func() { c.Settle(time.Second) })
	require.Contains(t, said, "not settled after 1s: the group is")
}

// Wrong use is said at once, with what to do instead.
func TestWrongUseOfAClusterIsSaid(t *testing.T) {
	cases := map[string]func(c *streamstest.Cluster){
		"there is no member 2: the cluster has 2, from 0 on": func(c *streamstest.Cluster) { c.Member(2) },
		"Freeze(0s) of m0: say for how long":                 func(c *streamstest.Cluster) { c.Member(0).Freeze(0) },
		"BlockIO(-1s) of m0: say for how long":               func(c *streamstest.Cluster) { c.Member(0).BlockIO(-time.Second) },
		"CutOff(0s) of m0: say for how long":                 func(c *streamstest.Cluster) { c.Member(0).CutOff(0) },
		"SlowDisk(-1s) of m0":                                func(c *streamstest.Cluster) { c.Member(0).SlowDisk(-time.Second) },
		"Slow(0) of m0: a factor is more than 0":             func(c *streamstest.Cluster) { c.Member(0).Slow(0) },
		"Kill of m0, which does not run: Restart it first":   func(c *streamstest.Cluster) { c.Member(0).Kill(); c.Member(0).Kill() },
		"Leave of m0, which does not run":                    func(c *streamstest.Cluster) { c.Member(0).Kill(); c.Member(0).Leave() },
		"Run(-1s): time goes on only forward":                func(c *streamstest.Cluster) { c.Run(-time.Second) },
		`topic "elsewhere" does not exist`:                   func(c *streamstest.Cluster) { c.PipeRaw("elsewhere", nil, nil) },
		`topic "in" has no partition 7: it has 2`:            func(c *streamstest.Cluster) { c.PipeRaw("in", nil, nil, streamstest.ToPartition(7)) },
		`no task reads topic "elsewhere"`:                    func(c *streamstest.Cluster) { c.OwnerOf("elsewhere", 0) },
		`no store is named "nothing"`:                        func(c *streamstest.Cluster) { streamstest.Store(c, "nothing", serde.String, serde.String) },
		"nobody runs task 7_0":                               func(c *streamstest.Cluster) { c.Failures(streams.TaskID{Subtopology: 7}) },
		`topic "in" has no dead letters`:                     func(c *streamstest.Cluster) { c.DeadLetters("in") },
	}
	for says, do := range cases {
		r := &recorder{}
		c := small(r)
		require.Contains(t, panicOf(t, func() { do(c) }), says)
		r.end()
	}
}

func TestOptionsBelongToDriverOrCluster(t *testing.T) {
	require.Contains(t, panicOf(t, func() { streamstest.New(&recorder{}, counted(), streamstest.Members(2), streamstest.Seed(1)) }),
		"Members, Seed: for NewCluster, not for New")
	require.Contains(t, panicOf(t, func() { streamstest.NewCluster(&recorder{}, counted(), streamstest.HoldCommits()) }),
		"HoldCommits: for New, not for NewCluster")
	require.Contains(t, panicOf(t, func() {
		streamstest.NewCluster(&recorder{}, counted(), streamstest.WithConfig(streams.Config{Session: -1}))
	}), "Session")
	require.Contains(t, panicOf(t, func() { streamstest.NewCluster(&recorder{}, counted(), streamstest.Partitions("out", 0)) }),
		`topic "out" is written and does not exist`)
}

// panicOf is the message that a test was ended with.
func panicOf(t *testing.T, f func()) (said string) {
	t.Helper()
	defer func() { said, _ = recover().(string) }()
	f()
	return ""
}

// Reads of a cluster see outputs and internal topics as they were written, also what is purged since.
func TestClusterOutputs(t *testing.T) {
	c := small(t)
	in := streamstest.In(c, "in", serde.String, serde.String)
	out := streamstest.Out(c, "out", serde.String, serde.Int64)
	in.Pipe("a", "x")
	in.PipeTombstone("b")
	c.Settle(time.Minute)
	require.Equal(t, []streams.KeyValue[string, int64]{{Key: "a", Value: 1}}, out.ReadKeyValues())
	in.Pipe("a", "x")
	c.Settle(time.Minute)
	require.Equal(t, []streams.KeyValue[string, int64]{{Key: "a", Value: 2}}, out.ReadKeyValues())
	require.Len(t, streamstest.OutRaw(c, "test-counts-changelog").ReadAll(), 2)
	require.True(t, strings.HasPrefix(c.Topology().Internal[0].Name, "test-"))
}
