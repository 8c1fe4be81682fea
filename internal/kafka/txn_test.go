package kafka

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/task"
)

// openTransaction produces records in a transaction that stays open until the function it gives is called.
func (k cluster) openTransaction(t *testing.T, tp task.TopicPartition, records []task.OutRecord) (end func(kgo.TransactionEndTry)) {
	t.Helper()
	p, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.TransactionalID(tp.Topic+"-open"), kgo.TransactionTimeout(time.Minute), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	require.NoError(t, p.BeginTransaction())
	for _, r := range records {
		require.NoError(t, p.ProduceSync(within(t), &kgo.Record{Topic: tp.Topic, Partition: tp.Partition, Key: r.Key, Value: r.Value}).FirstErr())
	}
	return func(how kgo.TransactionEndTry) { require.NoError(t, p.EndTransaction(within(t), how)) }
}

// pendingOffset puts an offset into a transaction that stays open until the function it gives is called.
func (k cluster) pendingOffset(t *testing.T, c *Client, group string, tp task.TopicPartition, offset int64) (abort func()) {
	t.Helper()
	id := group + "-txn"
	p, err := kgo.NewClient(kgo.SeedBrokers(k.addrs...), kgo.TransactionalID(id), kgo.TransactionTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(p.Close)
	m, err := c.Metadata(within(t), []string{tp.Topic})
	require.NoError(t, err)
	pid, epoch, err := p.ProducerID(within(t))
	require.NoError(t, err)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, pid, epoch, group
	added, err := add.RequestWith(within(t), p)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(added.ErrorCode))
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch, commit.Group, commit.Generation = id, pid, epoch, group, -1
	commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: tp.Topic, TopicID: m.Topics[tp.Topic].ID, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{
		{Partition: tp.Partition, Offset: offset, LeaderEpoch: -1},
	}}}
	committed, err := commit.RequestWith(within(t), p)
	require.NoError(t, err)
	require.NoError(t, kerr.ErrorForCode(committed.Topics[0].Partitions[0].ErrorCode))
	return func() {
		end := kmsg.NewPtrEndTxnRequest()
		end.TransactionalID, end.ProducerID, end.ProducerEpoch = id, pid, epoch
		ended, err := end.RequestWith(within(t), p)
		require.NoError(t, err)
		require.NoError(t, kerr.ErrorForCode(ended.ErrorCode))
	}
}
