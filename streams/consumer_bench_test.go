package streams_test

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// BenchmarkConsumerPoll reads records of 100 bytes through Poll, from the embedded broker.
func BenchmarkConsumerPoll(b *testing.B) {
	br, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 1}})
	require.NoError(b, err)
	defer br.Close()
	client, err := broker.NewClient(br.Addrs())
	require.NoError(b, err)
	defer client.Close()
	const held = 100_000
	records := make([]task.OutRecord, 1000)
	for i := range records {
		records[i] = task.OutRecord{Key: []byte("key"), Value: bytes.Repeat([]byte{'v'}, 100), Timestamp: 1}
	}
	tp := streams.TopicPartition{Topic: "in"}
	for range held / len(records) {
		require.NoError(b, client.Produce(context.Background(), tp, records...))
	}
	c, err := streams.NewConsumer(streams.ConsumerConfig{
		Brokers: br.Addrs(), Assign: map[streams.TopicPartition]streams.StartAt{tp: streams.FromEarliest()},
	})
	require.NoError(b, err)
	defer c.Close(context.Background())
	b.ReportAllocs()
	b.ResetTimer()
	for n, inLog := 0, 0; n < b.N; {
		got, err := c.Poll(context.Background())
		require.NoError(b, err)
		n += len(got)
		if inLog += len(got); inLog == held {
			inLog = 0
			require.NoError(b, c.Seek(tp, 0))
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
