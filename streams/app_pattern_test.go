package streams_test

import (
	"fmt"
	"regexp"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// copyPattern passes on the values of all topics of a bed that begin with "t.".
func (b *bed) copyPattern(out string, except ...string) *streams.Builder {
	builder := streams.NewBuilder()
	builder.StreamPattern("t", streams.Matching(regexp.QuoteMeta(b.name("t."))+".*").Except(except...), serde.String, serde.String).
		MapValues(func(v string) string { return v }).To(out)
	return builder
}

// some puts five records in each partition.
func (b *bed) some(topic string, partitions int32) {
	for p := range partitions {
		for i := range 5 {
			b.values(topic, p, fmt.Sprintf("%s-%d-%d-%d", topic, p, i, time.Now().UnixNano()))
		}
	}
}

// distinct are the values of a topic, which must not repeat.
func (b *bed) distinct(topic string) int {
	b.t.Helper()
	var values []string
	for _, r := range b.all(topic) {
		values = append(values, string(r.Value))
	}
	slices.Sort(values)
	n := len(values)
	require.Len(b.t, slices.Compact(values), n, "something was counted twice")
	return n
}

func TestF15TopicsOfAPatternComeAndGo(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		a, gone, out := b.topic("t.a", 2), b.topic("t.b", 1), b.topic("out", 1)
		b.topic("t.x-changelog", 1) // somebody's internal topic
		var rounds atomic.Int32
		var failures atomic.Int32
		c := b.config("app")
		c.MetadataInterval, c.NoOffset = 200*time.Millisecond, streams.ResetLatest
		c.Listener.Rebalanced = func(streams.RebalanceInfo) { rounds.Add(1) }
		c.Listener.Retry = func(string, error) { failures.Add(1) }
		r := b.run(b.copyPattern(out), c)
		r.ready()
		settled := func(n int) {
			t.Helper()
			began := time.Now()
			r.until(fmt.Sprintf("%d records", n), func() bool { return b.distinct(out) >= n })
			t.Logf("%d records after %v", n, time.Since(began))
			require.Equal(t, n, b.distinct(out))
		}
		b.some(a, 2)
		b.some(gone, 1)
		settled(15)
		r.until("the commit", func() bool { return total2(b, "app") == 15 })

		before := rounds.Load()
		require.NoError(t, b.client.DeleteTopic(b.ctx(), gone))
		b.some(a, 2)
		settled(25)
		r.until("the topic is left out", func() bool { return !slices.Contains(r.app.Topology().Sources, gone) && r.app.Ready() })
		require.LessOrEqual(t, rounds.Load()-before, int32(2), "generations of a deletion")

		before = rounds.Load()
		fresh := b.topic("t.c", 3) // more partitions than there are tasks
		b.some(fresh, 3)
		settled(40)
		b.some(a, 2)
		b.some(fresh, 3)
		settled(65)
		require.LessOrEqual(t, rounds.Load()-before, int32(2), "generations of a new topic")
		require.Less(t, failures.Load(), int32(20), "what was tried again")
		require.NoError(t, r.end())
		require.Equal(t, []string{a, fresh}, r.app.Topology().Sources)
	})
}

// total2 is what is committed of all topics.
func total2(b *bed, app string) (n int64) {
	for _, offset := range b.committed(b.name(app)) {
		n += offset
	}
	return n
}
