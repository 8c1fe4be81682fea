package streams_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// expel removes every member from a group, as an operator can.
func (b *bed) expel(group string) {
	b.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	require.NoError(b.t, err)
	defer c.Close()
	described, err := b.admin().DescribeGroups(b.ctx(), group)
	require.NoError(b.t, err)
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group = group
	for _, m := range described[group].Members {
		left := kmsg.NewLeaveGroupRequestMember()
		left.MemberID = m.MemberID
		req.Members = append(req.Members, left)
	}
	require.NotEmpty(b.t, req.Members)
	res, err := req.RequestWith(b.ctx(), c)
	require.NoError(b.t, err)
	require.Zero(b.t, res.ErrorCode)
}

// A member that is thrown out stops everything, says so, joins again and goes on where it had committed.
func TestAppMemberThatIsExpelledJoinsAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 2), b.topic("out", 1)
		c := b.config("expelled")
		var lost atomic.Int32
		c.Listener.Lost = func(string) { lost.Add(1) }
		r := b.run(countWords(in, to), c)
		b.values(in, 0, "a b")
		r.until("the counts", func() bool { return b.counts(to)["b"] == 1 })
		words := b.name("expelled-word-counts-repartition")
		r.until("the commits of both subtopologies", func() bool { return b.allCommitted("expelled", in, words) })
		b.expel(b.name("expelled"))
		r.until("the news", func() bool { return lost.Load() == 1 })
		b.values(in, 1, "a c")
		r.until("what comes later", func() bool { n := b.counts(to); return n["a"] == 2 && n["c"] == 1 })
		r.until("ready again", r.app.Ready)
		require.NoError(t, r.end())
		require.EqualValues(t, 1, lost.Load())
		require.Equal(t, map[string]int64{"a": 2, "b": 1, "c": 1}, b.counts(to))
	})
}

// Heartbeats that nobody answers end the lease: everything stops before anybody else could have the tasks, and comes back with the answers.
func TestAppLeaseThatEnds(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	c := b.config("lease")
	c.Session, c.RequestTimeout = 2500*time.Millisecond, 500*time.Millisecond
	var lost, silent atomic.Bool
	c.Listener.Lost = func(string) { lost.Store(true) }
	b.embedded.Cluster().Control(func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.embedded.Cluster().KeepControl()
		switch kmsg.Key(req.Key()) {
		case kmsg.Heartbeat, kmsg.JoinGroup, kmsg.SyncGroup, kmsg.FindCoordinator, kmsg.OffsetCommit:
			return nil, nil, silent.Load()
		}
		return nil, nil, false
	})
	r := b.run(countWords(in, to), c)
	b.values(in, 0, "a")
	r.until("a commit", func() bool { return b.committedAt("lease", in, 0) == 1 })
	silent.Store(true)
	b.values(in, 0, "a b")
	r.until("the end of the lease", lost.Load)
	r.until("not ready", func() bool { return !r.app.Ready() })
	silent.Store(false)
	r.until("the counts", func() bool { n := b.counts(to); return n["a"] >= 2 && n["b"] >= 1 })
	r.until("its commit", func() bool { return b.committedAt("lease", in, 0) == 2 })
	require.NoError(t, r.end())
}

// Two programs under one name and version: the second one is told, the first one goes on.
func TestAppAnotherTopologyUnderTheSameVersion(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		in, to := b.topic("in", 2), b.topic("out", 1)
		first := b.run(countWords(in, to), b.config("two"))
		first.ready()
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.String).GroupByKey().Count("others").ToStream().To(to)
		err := b.run(sb, b.config("two")).fails()
		require.ErrorContains(t, err, "TopologyVersion")
		b.values(in, 0, "a")
		b.values(in, 1, "b")
		first.until("the counts", func() bool { n := b.counts(to); return n["a"] == 1 && n["b"] == 1 })
		require.NoError(t, first.end())
	})
}

// Records that are larger than every bound of memory pass one at a time.
func TestAppRecordsLargerThanTheBounds(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	roomy := map[string]string{"max.message.bytes": "8000000"}
	in, to := b.topicWith("in", 1, roomy), b.topicWith("out", 1, roomy)
	const n = 8
	for i := range n {
		b.put(in, 0, task.OutRecord{Key: fmt.Append(nil, "k", i), Value: bytes.Repeat([]byte{byte(i)}, 6_000_000), Timestamp: 1})
	}
	c := b.config("bounds")
	c.Memory, c.MaxRecordBytes, c.CommitBytes = 32<<20, 7_000_000, 1
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.Bytes).GroupBy(func(k string, _ []byte) string { return k + "!" }).
		Reduce("last", func(_, v []byte) []byte { return v }).ToStream().To(to)
	r := b.run(sb, c)
	r.until("all of them", func() bool { return b.committedAt("bounds", in, 0) == n && len(b.all(to)) == n })
	require.NoError(t, r.end())
}
