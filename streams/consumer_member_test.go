package streams_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
)

func TestConsumerListenerIsToldOfTheMembersLife(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, "a")
	refusals := 5
	b.embedded.Cluster().ControlKey(int16(kmsg.JoinGroup), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.embedded.Cluster().KeepControl()
		if refusals == 0 {
			return nil, nil, false
		}
		refusals--
		res := req.ResponseKind().(*kmsg.JoinGroupResponse)
		res.ErrorCode = kerr.CoordinatorLoadInProgress.Code
		return res, nil, true
	})
	var changes []streams.MemberChange
	cfg := b.consumerConfig("g", topic)
	cfg.Listener.State = func(c streams.MemberChange) { changes = append(changes, c) }
	c := b.consumer(cfg)
	polls(t, c, 1)
	require.NoError(t, c.Close(b.ctx()))
	var states []streams.MemberState
	var failures []int
	for i, s := range changes {
		require.NotEmpty(t, s.Reason, "%v", s)
		require.False(t, s.At.IsZero())
		if s.From == s.To {
			require.ErrorContains(t, errorString(s.Reason), "COORDINATOR_LOAD_IN_PROGRESS")
			failures = append(failures, s.Failures)
			continue
		}
		if i > 0 {
			require.Equal(t, changes[i-1].To, s.From)
		}
		states = append(states, s.To)
	}
	require.Equal(t, []streams.MemberState{
		streams.MemberDiscovering, streams.MemberJoining, streams.MemberSyncing, streams.MemberJoined, streams.MemberStopped,
	}, states)
	require.NotEmpty(t, failures, "from the third failure on each is told")
	require.GreaterOrEqual(t, failures[0], 3)
	require.Equal(t, 5, failures[len(failures)-1], "and no number of them is the end")
}

type errorString string

func (e errorString) Error() string { return string(e) }

func TestConsumerThatIsThrownOut(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, "a", "b")
	cfg := b.consumerConfig("g", topic)
	var lost []streams.TopicPartition
	var reason string
	cfg.Listener.Lost = func(parts []streams.TopicPartition, why string) { lost, reason = parts, why }
	c := b.consumer(cfg)
	old := polls(t, c, 2)
	b.embedded.Cluster().ControlKey(int16(kmsg.Heartbeat), func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.HeartbeatResponse)
		res.ErrorCode = kerr.UnknownMemberID.Code
		return res, nil, true
	})
	require.Equal(t, []string{"a", "b"}, valuesOf(polls(t, c, 2)), "what was not committed comes again")
	require.Equal(t, []streams.TopicPartition{tp}, lost)
	require.Contains(t, reason, "UNKNOWN_MEMBER_ID")
	var refused *streams.CommitRefusedError
	require.ErrorAs(t, c.CommitRecords(b.ctx(), old...), &refused, "a record of an earlier assignment")
	require.Equal(t, tp, refused.Partition)
	require.Positive(t, refused.Generation)
	require.NoError(t, c.Commit(b.ctx()))
}

func TestConsumerOnePollAtATime(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	c := b.consumer(b.consumerConfig("g", topic))
	polled := make(chan error)
	go func() {
		_, err := c.Poll(context.Background())
		polled <- err
	}()
	comesTrue(t, "the first Poll waits", func() bool {
		_, err := c.Poll(ended())
		return err != nil
	})
	_, err := c.Poll(ended())
	require.ErrorIs(t, err, streams.ErrPolling)
	require.NoError(t, c.Close(b.ctx()))
	require.ErrorIs(t, <-polled, streams.ErrConsumerClosed, "a Close ends a Poll that waits")
}

func TestConsumerManyGoroutines(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 4)
	c := b.consumer(b.consumerConfig("g", topic))
	p := inBackground(t, c, false)
	stop := make(chan struct{})
	var all sync.WaitGroup
	busy := func(f func(tp streams.TopicPartition)) {
		all.Go(func() {
			for n := int32(0); ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(time.Millisecond):
					f(tpOf(topic, n%4))
				}
			}
		})
	}
	busy(func(streams.TopicPartition) { c.CommitAsync(nil) })
	busy(func(tp streams.TopicPartition) { _ = c.Pause(tp); c.Lag(); _ = c.Resume(tp) })
	busy(func(tp streams.TopicPartition) { c.Position(tp); c.Committed(tp); c.Assignment(); c.State() })
	want := 0
	for n := range 40 {
		b.values(topic, int32(n%4), numbered("v", 0, 5)...)
		want += 5
	}
	comesTrue(t, "all is read", func() bool { return len(p.values()) == want })
	close(stop)
	all.Wait()
	require.NoError(t, c.Commit(b.ctx()))
	var committed int64
	for _, at := range b.committed(b.name("g")) {
		committed += at
	}
	require.EqualValues(t, want, committed)
	require.Empty(t, p.errors())
	for _, l := range c.Lag() {
		require.True(t, l.Known)
		require.Zero(t, l.Offsets)
		require.EqualValues(t, 50, l.End)
	}
}

func TestConsumerLag(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, numbered("v", 0, 10)...)
	cfg := b.consumerConfig("g", topic)
	cfg.MaxPollRecords = 4
	c := b.consumer(cfg)
	require.Empty(t, c.Lag())
	polls(t, c, 4)
	lag := c.Lag()
	require.Len(t, lag, 1)
	require.Equal(t, streams.PartitionLag{Topic: topic, Position: 4, End: 10, Offsets: 6, Known: true, Time: lag[0].Time}, lag[0])
	polls(t, c, 6)
	require.Equal(t, []streams.PartitionLag{{Topic: topic, Position: 10, End: 10, Known: true}}, c.Lag())
}
