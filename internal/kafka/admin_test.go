package kafka

import (
	"context"
	"math"
	"net"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestMetadata(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		a, b := k.topic(t, c, 3, nil), k.topic(t, c, 1, nil)

		m, err := c.Metadata(within(t), []string{a, "no-such-topic"})
		require.NoError(t, err)
		require.Len(t, m.Topics, 2)
		require.Len(t, m.Topics[a].Partitions, 3)
		require.NotZero(t, m.Topics[a].ID)
		require.Equal(t, kcode.UnknownTopicOrPartition, m.Topics["no-such-topic"].Err)
		require.Len(t, m.Brokers, 1)
		require.Equal(t, k.addrs[0], m.Brokers[0].Addr)
		require.Equal(t, m.Brokers[0].ID, m.Topics[a].Partitions[2].Leader)

		all, err := c.Metadata(within(t), nil)
		require.NoError(t, err)
		require.Contains(t, all.Topics, a)
		require.Contains(t, all.Topics, b)
		require.NotContains(t, all.Topics, "no-such-topic", "asking creates nothing")

		none, err := c.Metadata(within(t), []string{})
		require.NoError(t, err)
		require.Empty(t, none.Topics)
		require.Len(t, none.Brokers, 1)
	})
}

// The id of a topic is there as soon as the topic is, and belongs to it alone, not to its name.
func TestTopicIDs(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		name := k.topic(t, c, 1, nil) + "-id"
		id := func() (id [16]byte) {
			require.Eventually(t, func() bool {
				m, err := c.Metadata(within(t), []string{name})
				require.NoError(t, err)
				id = m.Topics[name].ID
				if m.Topics[name].Err == kcode.None {
					require.NotZero(t, id)
				}
				return m.Topics[name].Err == kcode.None
			}, 10*time.Second, 10*time.Millisecond)
			return id
		}
		create := func() {
			errs, err := c.CreateTopics(within(t), []NewTopic{{Name: name, Partitions: 1, Replication: -1}})
			require.NoError(t, err)
			require.NoError(t, errs[name])
		}
		create()
		first := id()
		require.Equal(t, first, id())
		m, err := k.client(t).Metadata(within(t), nil)
		require.NoError(t, err)
		require.Equal(t, first, m.Topics[name].ID, "others are told the same")
		require.NoError(t, k.tools.DeleteTopic(within(t), name))
		require.Eventually(t, func() bool {
			m, err := c.Metadata(within(t), []string{name})
			require.NoError(t, err)
			return m.Topics[name].Err == kcode.UnknownTopicOrPartition
		}, 10*time.Second, 10*time.Millisecond)
		create()
		require.NotEqual(t, first, id())
	})
}

func TestCreateTopics(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		old := k.topic(t, c, 1, map[string]string{"cleanup.policy": "compact"})
		errs, err := c.CreateTopics(within(t), []NewTopic{
			{Name: old, Partitions: 1, Replication: -1},
			{Name: old + "-new", Partitions: -1, Replication: -1},
		})
		require.NoError(t, err)
		require.ErrorIs(t, errs[old], kcode.TopicAlreadyExists)
		require.ErrorContains(t, errs[old], old)
		require.NoError(t, errs[old+"-new"])

		none, err := c.CreateTopics(within(t), nil)
		require.NoError(t, err)
		require.Empty(t, none)
		if k.real {
			errs, err = c.CreateTopics(within(t), []NewTopic{{Name: old + "-bad", Partitions: 1, Replication: -1, Configs: map[string]string{"segment.bytes": "1"}}})
			require.NoError(t, err)
			require.ErrorIs(t, errs[old+"-bad"], kcode.InvalidConfig)
			require.ErrorContains(t, errs[old+"-bad"], "segment.bytes", "the broker's words are passed on")
		}

		configs, err := c.TopicConfigs(within(t), []string{old})
		require.NoError(t, err)
		require.Equal(t, "compact", configs[old]["cleanup.policy"])
		require.NotEmpty(t, configs[old]["retention.ms"], "defaults are there too")
		configs, err = c.TopicConfigs(within(t), []string{old, "no-such-topic"})
		require.ErrorIs(t, err, kcode.UnknownTopicOrPartition)
		require.ErrorContains(t, err, "no-such-topic")
		require.Contains(t, configs, old)
		configs, err = c.TopicConfigs(within(t), nil)
		require.NoError(t, err)
		require.Empty(t, configs)
	})
}

func TestDeleteRecordsAndListOffsets(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		topic := k.topic(t, c, 2, nil)
		zero, one := task.TopicPartition{Topic: topic}, task.TopicPartition{Topic: topic, Partition: 1}
		missing := task.TopicPartition{Topic: topic, Partition: 7}
		mustSend(t, producer(t, c, zero), zero, numbered(10)...)

		errs, err := c.DeleteRecords(within(t), map[task.TopicPartition]int64{zero: 4, one: 0, missing: 1})
		require.NoError(t, err)
		require.NoError(t, errs[zero])
		require.NoError(t, errs[one])
		require.ErrorIs(t, errs[missing], kcode.UnknownTopicOrPartition)

		errs, err = c.DeleteRecords(within(t), map[task.TopicPartition]int64{zero: 2})
		require.NoError(t, err)
		require.NoError(t, errs[zero], "below the start is done already")
		errs, err = c.DeleteRecords(within(t), map[task.TopicPartition]int64{zero: 99})
		require.NoError(t, err)
		require.ErrorIs(t, errs[zero], kcode.OffsetOutOfRange)

		for at, want := range map[At]int64{Earliest: 4, Latest: 10, Stable: 10} {
			got, err := c.ListOffsets(within(t), at, []task.TopicPartition{zero, missing, {Topic: "no-such-topic"}})
			require.NoError(t, err)
			require.Equal(t, ListedOffset{Offset: want}, got[zero])
			require.ErrorIs(t, got[missing].Err, kcode.UnknownTopicOrPartition)
			require.ErrorIs(t, got[task.TopicPartition{Topic: "no-such-topic"}].Err, kcode.UnknownTopicOrPartition)
		}
		none, err := c.ListOffsets(within(t), Latest, nil)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestProducerIDsAreDistinct(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		a, _ := producerID(t, c)
		b, epoch := producerID(t, c)
		require.NotEqual(t, a, b)
		require.Zero(t, epoch)
	})
}

func TestThreeBrokers(t *testing.T) {
	k := embedded(t, broker.Options{Brokers: 3})
	c := k.client(t)
	topic := k.topic(t, c, 6, nil)
	var tps []task.TopicPartition
	leaders := map[int32]bool{}
	for p := range int32(6) {
		tp := task.TopicPartition{Topic: topic, Partition: p}
		tps = append(tps, tp)
		leaders[leader(t, c, tp).Leader] = true
		mustSend(t, producer(t, c, tp), tp, numbered(int(p)+1)...)
	}
	require.Greater(t, len(leaders), 1)
	ends, err := c.ListOffsets(within(t), Latest, tps)
	require.NoError(t, err)
	for p, tp := range tps {
		require.Equal(t, ListedOffset{Offset: int64(p) + 1}, ends[tp])
	}
	// The old leader of a moved partition refuses; the new one is found by metadata.
	old := leader(t, c, tps[0]).Leader
	p, f := producer(t, c, tps[0]), fetcher(t, c, tps[0])
	to := (old + 1) % 3
	require.NoError(t, k.fake.Cluster().MoveTopicPartition(topic, 0, to))
	require.Equal(t, kcode.NotLeaderOrFollower, send(t, p, plainBatch(tps[0], numbered(1)...))[0].Code)
	require.Equal(t, kcode.NotLeaderOrFollower, fetchOnce(t, f, FetchPart{TopicPartition: tps[0], LeaderEpoch: -1}, false).Code)
	require.Equal(t, to, leader(t, c, tps[0]).Leader)
	mustSend(t, producer(t, c, tps[0]), tps[0], numbered(1)...)

	_, err = c.DialFetch(within(t), 77)
	require.ErrorContains(t, err, "broker 77")
}

func TestNobodyAnswers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	dead := l.Addr().String()
	require.NoError(t, l.Close())
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })

	c := open(t, Config{Brokers: []string{dead, silent.Addr().String()}, DialTimeout: 300 * time.Millisecond})
	began := time.Now()
	_, err = c.Metadata(t.Context(), nil)
	require.ErrorIs(t, err, ErrNoBroker)
	require.ErrorContains(t, err, dead)
	require.ErrorContains(t, err, silent.Addr().String())
	require.ErrorContains(t, err, "Metadata")
	require.Less(t, time.Since(began), 5*time.Second)

	_, _, err = c.InitProducerID(t.Context())
	require.ErrorIs(t, err, ErrNoBroker)
	_, _, err = c.Coordinator(t.Context(), "g")
	require.ErrorIs(t, err, ErrNoBroker)
	_, err = c.DialFetch(t.Context(), 1)
	require.ErrorIs(t, err, ErrNoBroker)
	_, err = c.DialGroup(t.Context(), dead, time.Second)
	require.ErrorContains(t, err, "connect to broker "+dead)
	_, err = c.ListOffsets(t.Context(), Latest, []task.TopicPartition{{Topic: "t"}})
	require.ErrorIs(t, err, ErrNoBroker)
	_, err = c.CreateTopics(t.Context(), []NewTopic{{Name: "t"}})
	require.ErrorIs(t, err, ErrNoBroker)
}

func TestClientsSpreadOverTheBrokers(t *testing.T) {
	c := open(t, Config{Brokers: []string{"a:1", "b:1", "c:1"}})
	c.spread = 4
	require.Equal(t, []string{"b:1", "c:1", "a:1"}, c.candidates())
	c.learn([]Broker{{ID: 1, Addr: "x:1"}, {ID: 2, Addr: "b:1"}})
	require.Equal(t, []string{"b:1", "x:1", "c:1", "a:1"}, c.candidates())
	c.learn(nil)
	require.Len(t, c.candidates(), 4, "an empty answer is not believed")
}

func TestContextAndCloseEndACall(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, silent.Close()) })
	c := open(t, Config{Brokers: []string{silent.Addr().String()}})

	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = c.Metadata(ctx, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)

	done := make(chan error, 2)
	for range 2 { // the second waits for the connection that the first has
		go func() {
			_, err := c.Metadata(context.Background(), nil)
			done <- err
		}()
	}
	time.AfterFunc(50*time.Millisecond, func() { _ = c.Close() })
	for range 2 {
		require.ErrorIs(t, <-done, ErrClosed)
	}
	_, err = c.Metadata(t.Context(), nil)
	require.ErrorIs(t, err, ErrClosed)
}

func TestTheNextBrokerIsTriedAndADeadConnectionReplaced(t *testing.T) {
	k := embedded(t, broker.Options{Brokers: 2})
	dead := "127.0.0.1:1"
	c := open(t, Config{Brokers: []string{dead, k.addrs[0]}})
	m, err := c.Metadata(within(t), nil)
	require.NoError(t, err)
	require.Len(t, m.Brokers, 2)
	k.fake.Cluster().ControlKey(3, cutOnce)
	_, err = c.Metadata(within(t), nil)
	require.NoError(t, err, "the other broker answers")
	for range 3 {
		_, err = c.Metadata(within(t), nil)
		require.NoError(t, err)
	}
}

func TestPartitionNumbersAreNotBelieved(t *testing.T) {
	told := &sarama.TopicMetadata{}
	for _, id := range []int32{3, -1, 0, math.MaxInt32, 3} {
		told.Partitions = append(told.Partitions, &sarama.PartitionMetadata{ID: id, Leader: 10 + id%10})
	}
	var leaders []int32
	for _, p := range topicOf(told).Partitions {
		leaders = append(leaders, p.Leader)
	}
	require.Equal(t, []int32{10, -1, -1, 13}, leaders)
}
