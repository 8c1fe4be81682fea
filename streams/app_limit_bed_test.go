package streams_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// limit sets the size of the largest batch that a topic takes, and waits until the leaders of its partitions go by it: they hear of it after the
// change was answered.
func (b *bed) limit(topic string, bytes int) {
	b.t.Helper()
	b.configure(topic, "max.message.bytes", strconv.Itoa(bytes))
	if b.embedded != nil { // which goes by it at once
		return
	}
	topics, err := b.admin().ListTopics(b.ctx(), topic)
	require.NoError(b.t, err)
	k, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	require.NoError(b.t, err)
	defer k.Close()
	for _, p := range topics[topic].Partitions {
		require.Eventually(b.t, func() bool {
			return errors.Is(b.damaged(k, topics[topic].ID, p, bytes+1), kerr.MessageTooLarge) && errors.Is(b.damaged(k, topics[topic].ID, p, bytes), kerr.CorruptMessage)
		}, 30*time.Second, 20*time.Millisecond, "the limit of %s-%d is not gone by", topic, p.Partition)
	}
}

// damaged produces a batch of a size that no broker writes, as its checksum is wrong, and returns what the broker says of it. That it is too large
// comes first.
func (b *bed) damaged(k *kgo.Client, id kadm.TopicID, to kadm.PartitionDetail, size int) error {
	b.t.Helper()
	const head = 61 // what a batch is without its records
	batch := kmsg.RecordBatch{
		Length: int32(size - 12), PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: 1,
		FirstTimestamp: time.Now().UnixMilli(), MaxTimestamp: time.Now().UnixMilli(), Records: make([]byte, size-head),
	}
	bytes := batch.AppendTo(nil)
	require.Len(b.t, bytes, size)
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	req.Topics = []kmsg.ProduceRequestTopic{{Topic: to.Topic, TopicID: id, Partitions: []kmsg.ProduceRequestTopicPartition{{Partition: to.Partition, Records: bytes}}}}
	res, err := k.Broker(int(to.Leader)).Request(b.ctx(), req)
	require.NoError(b.t, err)
	return kerr.ErrorForCode(res.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

func TestLimitIsGoneBy(t *testing.T) {
	b := realBed(t)
	topic := b.topic("t", 2)
	for _, bytes := range []int{2000, 500_000, 3000} {
		b.limit(topic, bytes)
	}
	require.Empty(t, b.all(topic))
}
