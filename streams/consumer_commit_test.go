package streams_test

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/streams"
)

func TestConsumerCommits(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, numbered("v", 0, 10)...)
	cfg := b.consumerConfig("g", topic)
	cfg.MaxPollRecords = 4
	c := b.consumer(cfg)
	at := func() int64 { return b.committed(b.name("g"))[tp] }

	recs := polls(t, c, 4)
	require.NoError(t, c.CommitRecords(b.ctx(), recs[1]), "per record")
	require.EqualValues(t, 2, at())
	require.NoError(t, c.CommitRecords(b.ctx(), recs[2], recs[3], recs[0]), "of several the last one counts")
	require.EqualValues(t, 4, at())
	require.NoError(t, c.CommitOffsets(b.ctx(), map[streams.TopicPartition]int64{tp: 1}), "also backwards")
	require.EqualValues(t, 1, at())
	require.NoError(t, c.CommitOffsets(b.ctx(), nil), "nothing is nothing, not everything")
	require.EqualValues(t, 1, at())

	elsewhere := make(chan error)
	go func() { elsewhere <- c.Commit(context.Background()) }()
	require.NoError(t, <-elsewhere, "from another goroutine, without a Poll")
	require.EqualValues(t, 4, at())
	committed, ok := c.Committed(tp)
	require.True(t, ok)
	require.EqualValues(t, 4, committed)

	foreign := tpOf(topic, 7)
	err := c.CommitOffsets(b.ctx(), map[streams.TopicPartition]int64{foreign: 1, tp: 3})
	var refused *streams.CommitRefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, foreign, refused.Partition)
	require.Equal(t, c.Generation(), refused.Generation)
	require.EqualValues(t, 3, at(), "the others are committed")
}

func TestConsumerCallbacksComeInTheOrderOfTheirCommitsAndInsideItsMethods(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, numbered("v", 0, 30)...)
	c := b.consumer(b.consumerConfig("g", topic))
	recs := polls(t, c, 30)
	var mu sync.Mutex
	inside := 0 // how many of our methods are under way
	var order []int
	for i := range recs {
		c.CommitRecordsAsync(func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err != nil || inside == 0 {
				order = append(order, -1)
			}
			order = append(order, i)
		}, recs[i])
	}
	require.Eventually(t, func() bool { return b.committed(b.name("g"))[tp] == 30 }, 10*time.Second, 20*time.Millisecond)
	mu.Lock()
	require.Empty(t, order, "no goroutine of the consumer calls back")
	inside = 1
	mu.Unlock()
	require.NoError(t, c.Commit(b.ctx()))
	var want []int
	for i := range 30 {
		want = append(want, i)
	}
	require.Equal(t, want, order, "those before a Commit are told before it returns")

	c.CommitAsync(func(err error) { order = append(order, 100) })
	require.NoError(t, c.Close(b.ctx()))
	require.Equal(t, 100, order[len(order)-1], "the last ones by Close")
}

func TestConsumerCommitThatMeetsARebalanceIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, "a", "b")
	c := b.consumer(b.consumerConfig("g", topic))
	polls(t, c, 2)
	refusals := 3
	b.embedded.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.embedded.Cluster().KeepControl()
		if refusals == 0 {
			return nil, nil, false
		}
		code := []*kerr.Error{kerr.IllegalGeneration, kerr.NotCoordinator, kerr.RebalanceInProgress}[refusals-1]
		refusals--
		return refuseCommit(req.(*kmsg.OffsetCommitRequest), code), nil, true
	})
	require.NoError(t, c.Commit(b.ctx()))
	require.Zero(t, refusals)
	require.EqualValues(t, 2, b.committed(b.name("g"))[tp])
}

func refuseCommit(req *kmsg.OffsetCommitRequest, code *kerr.Error) kmsg.Response {
	res := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, topic := range req.Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = topic.Topic
		for _, p := range topic.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code.Code
			rt.Partitions = append(rt.Partitions, rp)
		}
		res.Topics = append(res.Topics, rt)
	}
	return res
}

func TestConsumerCommitThatTheBrokerForbidsSaysSo(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, "a")
	c := b.consumer(b.consumerConfig("g", topic))
	polls(t, c, 1)
	b.embedded.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		return refuseCommit(req.(*kmsg.OffsetCommitRequest), kerr.TopicAuthorizationFailed), nil, true
	})
	err := c.Commit(b.ctx())
	var refused *streams.CommitRefusedError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, tpOf(topic, 0), refused.Partition)
	require.ErrorContains(t, err, "TOPIC_AUTHORIZATION_FAILED")
}

func TestConsumerCommitsByItselfWhatEarlierPollsHaveReturned(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, "a", "b", "c")
	cfg := b.consumerConfig("g", topic)
	cfg.CommitInterval, cfg.MaxPollRecords = time.Millisecond, 2
	c := b.consumer(cfg)
	require.Len(t, polls(t, c, 2), 2)
	require.EqualValues(t, 0, b.committed(b.name("g"))[tp])
	require.Len(t, polls(t, c, 1), 1)
	require.NoError(t, c.Close(b.ctx()))
	require.EqualValues(t, 2, b.committed(b.name("g"))[tp], "what the last Poll has returned may not be done")
}

// memoryStore is an offset store of a program, which fails when it is told to.
type memoryStore struct {
	mu      sync.Mutex
	offsets map[streams.TopicPartition]int64
	loads   int
	saves   int
	fail    error
}

func (s *memoryStore) Load(_ context.Context, _ string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loads++
	out := map[streams.TopicPartition]int64{}
	for _, tp := range parts {
		if at, has := s.offsets[tp]; has {
			out[tp] = at
		}
	}
	return out, s.fail
}

func (s *memoryStore) Save(_ context.Context, _ string, _ int32, offsets map[streams.TopicPartition]int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saves++
	if s.fail == nil {
		maps.Copy(s.offsets, offsets)
	}
	return s.fail
}

func (s *memoryStore) failWith(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = err
}

func TestConsumerWithOffsetsOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, also := range []bool{false, true} {
		b := embeddedBed(t)
		topic := b.topic("in", 1)
		tp := tpOf(topic, 0)
		b.values(topic, 0, numbered("v", 0, 6)...)
		store := &memoryStore{offsets: map[streams.TopicPartition]int64{tp: 2}, fail: errors.New("the database is down")}
		cfg := b.consumerConfig("g", topic)
		cfg.Offsets, cfg.AlsoCommitToKafka = store, also
		c := b.consumer(cfg)
		require.Eventually(t, func() bool {
			_, err := c.Poll(ended())
			return err != nil && errors.Is(err, store.fail)
		}, 10*time.Second, 10*time.Millisecond, "an error of the store is returned by Poll")
		store.failWith(nil)
		require.Equal(t, numbered("v", 2, 6), valuesOf(polls(t, c, 4)))
		require.NoError(t, c.Commit(b.ctx()))
		require.EqualValues(t, 6, store.offsets[tp])

		down := errors.New("the database is down again")
		store.failWith(down)
		require.ErrorIs(t, c.Commit(b.ctx()), down)
		store.failWith(nil)
		told := make(chan error, 1)
		c.CommitOffsetsAsync(func(err error) { told <- err }, map[streams.TopicPartition]int64{tp: 5})
		require.NoError(t, c.Close(b.ctx()))
		require.NoError(t, <-told)
		require.EqualValues(t, 5, store.offsets[tp])
		if also {
			require.Equal(t, map[streams.TopicPartition]int64{tp: 5}, b.committed(b.name("g")))
		} else {
			require.Empty(t, b.committed(b.name("g")), "nothing is committed to Kafka unasked")
		}
	}
}
