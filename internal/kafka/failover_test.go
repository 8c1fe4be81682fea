package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/task"
)

// Only real brokers have replicas: what a leader that lost its office answers, how long a paused one takes, what is left when it is back.
func TestThreeRealBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three real brokers")
	}
	brokers := realkafka.Start(t, 3)
	k := cluster{addrs: brokers.Addrs(), real: true}
	c := open(t, Config{Brokers: k.addrs, RequestTimeout: 2 * time.Second})
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"min.insync.replicas": "2"})}
	first := leader(t, c, tp)
	p, f := producer(t, c, tp), fetcher(t, c, tp)
	mustSend(t, p, tp, numbered(3)...)

	t.Run("a paused leader", func(t *testing.T) {
		require.NoError(t, brokers.Pause(int(first.Leader)))
		defer func() { require.NoError(t, brokers.Resume(int(first.Leader))) }()
		began := time.Now()
		_, err := f.Fetch(FetchRequest{MinBytes: 1, MaxBytes: 1000, Parts: []FetchPart{{TopicPartition: tp, LeaderEpoch: first.LeaderEpoch, MaxBytes: 1000}}})
		var transport *TransportError
		require.ErrorAs(t, err, &transport)
		require.Equal(t, brokers.Addr(int(first.Leader)), transport.Broker)
		require.Less(t, time.Since(began), 10*time.Second)
	})

	t.Run("the leader leaves", func(t *testing.T) {
		require.NoError(t, brokers.StopNode(int(first.Leader)))
		var second Partition
		require.Eventually(t, func() bool {
			m, err := c.Metadata(within(t), []string{tp.Topic})
			if err != nil || m.Topics[tp.Topic].Err != kcode.None {
				return false
			}
			second = m.Topics[tp.Topic].Partitions[0]
			return second.Leader >= 0 && second.Leader != first.Leader
		}, 40*time.Second, 50*time.Millisecond)
		require.Greater(t, second.LeaderEpoch, first.LeaderEpoch)
		next := fetcher(t, c, tp)
		part := FetchPart{TopicPartition: tp, LeaderEpoch: first.LeaderEpoch}
		require.Equal(t, kcode.FencedLeaderEpoch, fetchOnce(t, next, part, false).Code)
		part.LeaderEpoch = second.LeaderEpoch
		require.Eventually(t, func() bool { return fetchOnce(t, next, part, false).Code == kcode.None }, 20*time.Second, 50*time.Millisecond)
		require.Len(t, fetchTo(t, next, tp, 0, 3, second.LeaderEpoch, false), 3)

		follower := 6 - second.Leader - first.Leader // of nodes 1, 2 and 3
		other, err := c.DialProduce(within(t), follower)
		require.NoError(t, err)
		defer other.Close()
		require.Equal(t, kcode.NotLeaderOrFollower, send(t, other, plainBatch(tp, numbered(1)...))[0].Code)
	})

	t.Run("too few are left", func(t *testing.T) {
		now := leader(t, c, tp)
		follower := 6 - now.Leader - first.Leader
		require.NoError(t, brokers.Kill(int(follower)))
		last := producer(t, c, tp)
		require.Eventually(t, func() bool {
			code := send(t, last, plainBatch(tp, numbered(1)...))[0].Code
			return code == kcode.NotEnoughReplicas || code == kcode.NotEnoughReplicasAppended || code == kcode.RequestTimedOut
		}, 60*time.Second, 200*time.Millisecond)
	})
}
