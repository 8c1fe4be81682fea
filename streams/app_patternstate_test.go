package streams_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// countPattern counts the keys of all topics of a bed that begin with "t.".
func (b *bed) countPattern(out string) *streams.Builder {
	builder := streams.NewBuilder()
	builder.StreamPattern("t", streams.Matching(regexp.QuoteMeta(b.name("t."))+".*"), serde.String, serde.String).
		GroupByKey().Count("n").ToStream().To(out)
	return builder
}

// fiveOfEach puts five records of each of ten keys where their key belongs.
func (b *bed) fiveOfEach(topic string, partitions int32) {
	b.t.Helper()
	for i := range 10 {
		key := []byte(fmt.Sprint("k", i))
		for range 5 {
			b.put(topic, task.PartitionFor(key, partitions), task.OutRecord{Key: key, Value: []byte("v"), Timestamp: time.Now().UnixMilli()})
		}
	}
}

// owns is how many tasks run at an application.
func owns(r *running) (n int) {
	for _, task := range r.app.Tasks() {
		if task.Role == streams.RoleActive {
			n++
		}
	}
	return n
}

// Several members take in a new topic of a pattern with their state, and in one round, or two.
func TestStateOfAPatternWhenATopicAppears(t *testing.T) {
	t.Parallel()
	for _, members := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(members, " members"), func(t *testing.T) {
			t.Parallel()
			b := embeddedBed(t)
			first, second, out := b.topic("t.a", 4), b.topic("t.b", 4), b.topic("out", 1)
			var rounds atomic.Int32
			var apps []*running
			for i := range members {
				c := b.config("app")
				c.MetadataInterval = 300 * time.Millisecond
				if i == 0 {
					c.Listener.Rebalanced = func(streams.RebalanceInfo) { rounds.Add(1) }
				}
				apps = append(apps, b.run(b.countPattern(out), c))
			}
			ready := func() bool {
				return !slices.ContainsFunc(apps, func(r *running) bool { return !r.app.Ready() })
			}
			apps[0].until("all are ready, with their share", func() bool {
				return ready() && !slices.ContainsFunc(apps, func(r *running) bool { return owns(r) < 4/members })
			})
			count := func(each int64) {
				t.Helper()
				want := map[string]int64{}
				for i := range 10 {
					want[fmt.Sprint("k", i)] = each
				}
				apps[0].until(fmt.Sprintf("%d of each key", each), func() bool { return total(b.counts(out)) >= 10*each })
				require.Equal(t, want, b.counts(out))
			}
			b.fiveOfEach(first, 4)
			b.fiveOfEach(second, 4)
			count(10)
			apps[0].until("all is committed", func() bool { return total2(b, "app") == 100 })
			before := rounds.Load()
			third := b.topic("t.c", 4)
			b.fiveOfEach(third, 4)
			count(15)
			b.fiveOfEach(first, 4)
			b.fiveOfEach(third, 4)
			count(25)
			apps[0].until("all have seen it", func() bool {
				return ready() && !slices.ContainsFunc(apps, func(r *running) bool { return !slices.Contains(r.app.Topology().Sources, third) })
			})
			require.LessOrEqual(t, rounds.Load()-before, int32(max(members, 2)), "generations of a new topic: at the worst one for each member, by when it looked")
			for _, r := range apps {
				require.NoError(t, r.end())
			}
		})
	}
}

// What does not fit the state that there is ends the application, and says which topic.
func TestATopicOfAPatternWithTooManyPartitions(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	one, out := b.topic("t.a", 2), b.topic("out", 1)
	c := b.config("app")
	c.MetadataInterval = 200 * time.Millisecond
	r := b.run(b.countPattern(out), c)
	r.ready()
	b.fiveOfEach(one, 2)
	r.until("they are counted", func() bool { return total(b.counts(out)) == 50 })
	require.NoError(t, r.end())

	require.NoError(t, b.client.DeleteTopic(b.ctx(), one))
	wide := b.topic("t.b", 3)
	err := b.run(b.countPattern(out), c).fails()
	var changed *streams.PartitionsChangedError
	require.ErrorAs(t, err, &changed)
	require.Equal(t, streams.PartitionsChangedError{
		Topic: wide, Partitions: 3, Internal: b.name("app-n-changelog"), Kind: streams.ChangelogTopic, Tasks: 2, Pattern: true,
	}, *changed)
	require.ErrorContains(t, err, "leave it out with Except")
}

func TestStartThatWaitsForTopics(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.name("in"), b.topic("out", 1)
	var waits atomic.Int32
	logged, logs := observer.New(zapcore.WarnLevel)
	c := b.config("app")
	c.WaitForTopics, c.Log = true, zap.New(logged)
	c.Listener.Retry = func(_ string, err error) {
		var missing *streams.MissingTopicError
		if errors.As(err, &missing) && missing.Topic == in {
			waits.Add(1)
		}
	}
	r := b.run(copyTopic(in, out), c)
	other := c
	other.ApplicationID, other.StateDir = b.name("other"), t.TempDir()
	closed := b.run(copyTopic(in, out), other)
	began := time.Now()
	r.until("it says so, for longer than without", func() bool { return waits.Load() > 0 && time.Since(began) > 3500*time.Millisecond })
	require.False(t, r.app.Ready())
	said := logs.FilterMessage("failed, trying again").All()
	require.NotEmpty(t, said)
	require.Contains(t, said[0].ContextMap()["error"], in)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	require.NoError(t, closed.app.Close(ctx), "who waits can be closed")
	require.NoError(t, closed.fails())
	b.topic("in", 1)
	b.values(in, 0, "x")
	r.until("it goes on", func() bool { return len(b.all(out)) == 1 })
	require.NoError(t, r.end())
}
