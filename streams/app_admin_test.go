package streams_test

import (
	"errors"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/streams/streamstest"
	"github.com/understudy-streams/understudy/task"
)

// admin is a client for what an operator does.
func (b *bed) admin() *kadm.Client {
	b.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	require.NoError(b.t, err)
	b.t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

func (b *bed) topicWith(name string, partitions int32, configs map[string]string) string {
	b.t.Helper()
	require.NoError(b.t, b.client.CreateTopic(b.ctx(), b.name(name), partitions, configs))
	return b.name(name)
}

// configs reads the configurations of a topic back.
func (b *bed) configs(topic string) map[string]string {
	b.t.Helper()
	res, err := b.admin().DescribeTopicConfigs(b.ctx(), topic)
	require.NoError(b.t, err)
	out := map[string]string{}
	for _, r := range res {
		require.NoError(b.t, r.Err)
		for _, c := range r.Configs {
			out[c.Key] = c.MaybeValue()
		}
	}
	return out
}

func (b *bed) configure(topic, key, value string) {
	b.t.Helper()
	res, err := b.admin().AlterTopicConfigs(b.ctx(), []kadm.AlterConfig{{Op: kadm.SetConfig, Name: key, Value: &value}}, topic)
	require.NoError(b.t, err)
	for _, r := range res {
		require.NoError(b.t, r.Err)
	}
}

// partitions is how many partitions a topic has, 0 if it does not exist.
func (b *bed) partitions(topic string) int {
	b.t.Helper()
	res, err := b.admin().ListTopics(b.ctx(), topic)
	require.NoError(b.t, err)
	return len(res[topic].Partitions)
}

func (b *bed) grow(topic string, partitions int32) {
	b.t.Helper()
	require.NoError(b.t, b.client.AddPartitions(b.ctx(), topic, partitions))
}

// begins is the first offset of each partition.
func (b *bed) begins(topic string) map[int32]int64 {
	b.t.Helper()
	res, err := b.admin().ListStartOffsets(b.ctx(), topic)
	require.NoError(b.t, err)
	out := map[int32]int64{}
	for p, o := range res[topic] {
		require.NoError(b.t, o.Err)
		out[p] = o.Offset
	}
	return out
}

// deleteBelow deletes records. That the topic's policy allows it a broker may hear of late.
func (b *bed) deleteBelow(topic string, partition int32, offset int64) {
	b.t.Helper()
	require.Eventually(b.t, func() bool {
		err := b.client.DeleteRecords(b.ctx(), task.TopicPartition{Topic: topic, Partition: partition}, offset)
		if !errors.Is(err, kerr.PolicyViolation) {
			require.NoError(b.t, err)
		}
		return err == nil
	}, 30*time.Second, 20*time.Millisecond)
}

// committedAt is what the group has committed for a partition, -1 for nothing.
func (b *bed) committedAt(app, topic string, partition int32) int64 {
	b.t.Helper()
	if at, ok := b.committed(b.name(app))[task.TopicPartition{Topic: topic, Partition: partition}]; ok {
		return at
	}
	return -1
}

// allCommitted says that a group has committed everything that topics hold. What is in the output may not be committed yet, and a process that
// ends unclean then does it again.
func (b *bed) allCommitted(app string, topics ...string) bool {
	b.t.Helper()
	for _, topic := range topics {
		ends, err := b.client.Ends(b.ctx(), topic)
		require.NoError(b.t, err)
		for p, end := range ends {
			if end > 0 && b.committedAt(app, topic, p) != end {
				return false
			}
		}
	}
	return true
}

// showRecords prints records as showRaw does.
func showRecords(records []task.Record) []string {
	raw := make([]streamstest.RawRecord, len(records))
	for i, r := range records {
		raw[i] = streamstest.RawRecord{Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp)}
	}
	return showRaw(raw)
}
