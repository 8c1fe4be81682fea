package streamstest

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/task"
)

// EmbeddedBroker is a broker within the test's process, for tests of a whole application: [streams.App] runs against its addresses. It
// speaks Kafka's protocol on loopback sockets but is no Kafka: it has one copy of each partition, and its log is in memory.
type EmbeddedBroker struct {
	t      TB
	broker *broker.Broker
	client *broker.Client
	counts map[string]int32
}

// Broker starts a broker with these topics and numbers of partitions. It ends with the test.
func Broker(t TB, topics map[string]int32) *EmbeddedBroker {
	t.Helper()
	b, err := broker.Start(broker.Options{Topics: topics})
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	t.Cleanup(b.Close)
	c, err := broker.NewClient(b.Addrs())
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	t.Cleanup(c.Close)
	return &EmbeddedBroker{t: t, broker: b, client: c, counts: topics}
}

// Addrs returns the addresses for [streams.Config].
func (b *EmbeddedBroker) Addrs() []string { return b.broker.Addrs() }

// answerWithin bounds each request to the broker.
const answerWithin = 30 * time.Second

// Put writes a record; nil is null. Without [At] its timestamp is now, without [ToPartition] its partition follows from the key.
func (b *EmbeddedBroker) Put(topic string, key, value []byte, opts ...PipeOption) {
	b.t.Helper()
	p := piped{at: time.Now()}
	if n := b.counts[topic]; key != nil && n > 0 {
		p.partition = task.PartitionFor(key, n)
	}
	for _, opt := range opts {
		opt(&p)
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	r := task.OutRecord{Key: key, Value: value, Timestamp: p.at.UnixMilli(), Headers: p.headers}
	if err := b.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: p.partition}, r); err != nil {
		b.t.Fatalf("streamstest: %v", err)
	}
}

// All returns what a topic has now: by partition, in the order of offsets.
func (b *EmbeddedBroker) All(topic string) []RawRecord {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), answerWithin)
	defer cancel()
	partitions, err := b.client.Consume(ctx, topic)
	if err != nil {
		b.t.Fatalf("streamstest: %v", err)
	}
	var all []RawRecord
	for p := range int32(len(partitions)) {
		for _, r := range partitions[p] {
			all = append(all, RawRecord{Partition: p, Key: r.Key, Value: r.Value, Time: time.UnixMilli(r.Timestamp).UTC(), Headers: r.Headers})
		}
	}
	return all
}

// Await returns what a topic has as soon as it has n records. If it has fewer when the time is over, the test fails.
func (b *EmbeddedBroker) Await(topic string, n int, within time.Duration) []RawRecord {
	b.t.Helper()
	const pause = 20 * time.Millisecond
	for end := time.Now().Add(within); ; time.Sleep(pause) {
		all := b.All(topic)
		if len(all) >= n {
			return all
		}
		if time.Now().After(end) {
			b.t.Fatalf("streamstest: topic %q has %d records after %v, not %d", topic, len(all), within, n)
			return all
		}
	}
}
