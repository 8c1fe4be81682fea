package kit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// Record is a record as Put takes and Follow gives it. A nil Key or Value is a null.
type Record struct {
	Key, Value []byte
	Headers    []streams.Header
}

// Put writes a record, with the present time as its timestamp.
func (e *Env) Put(ctx context.Context, topic string, partition int32, r Record) error {
	return e.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: partition},
		task.OutRecord{Key: r.Key, Value: r.Value, Headers: r.Headers, Timestamp: time.Now().UnixMilli()})
}

// perRequest is how many lines of text are well below what a broker takes at once, 1 MiB.
const perRequest = 5000

// Load fills a topic with values without keys, in turns to its partitions. Of several processes the one that has made the topic loads it,
// the others wait for that.
func (e *Env) Load(ctx context.Context, topic string, partitions int32, values []string) error {
	if !e.made[topic] {
		return e.awaitLoaded(ctx, topic, len(values))
	}
	parts := make([][]task.OutRecord, partitions)
	now := time.Now().UnixMilli()
	for i, v := range values {
		p := i % int(partitions)
		parts[p] = append(parts[p], task.OutRecord{Value: []byte(v), Timestamp: now})
	}
	for p, records := range parts {
		for some := range slices.Chunk(records, perRequest) {
			if err := e.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: int32(p)}, some...); err != nil {
				return err
			}
		}
	}
	return nil
}

// awaitLoaded waits until the topic has as many records as were to be loaded.
func (e *Env) awaitLoaded(ctx context.Context, topic string, want int) error {
	late := time.NewTimer(patience)
	defer late.Stop()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		have, err := e.count(ctx, topic)
		if err != nil {
			return err
		}
		if have == want {
			return nil
		}
		if have > want {
			return fmt.Errorf("the topic %q has %d records where the example needs its own %d: delete the topic and start again", topic, have, want)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		case <-late.C:
			return fmt.Errorf("the topic %q has %d of %d records: it was not loaded to its end, delete the topic and start again", topic, have, want)
		}
	}
}

func (e *Env) count(ctx context.Context, topic string) (n int, err error) {
	have, err := e.client.Consume(ctx, topic)
	for _, records := range have {
		n += len(records)
	}
	return n, err
}

// Follow calls f with each record of a topic, from its beginning, until ctx ends.
func (e *Env) Follow(ctx context.Context, topic string, f func(Record)) error {
	k, err := kgo.NewClient(kgo.SeedBrokers(e.Brokers...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(100*time.Millisecond))
	if err != nil {
		return err
	}
	defer k.Close()
	for {
		fetches := k.PollFetches(ctx)
		if ctx.Err() != nil {
			return nil
		}
		for _, failed := range fetches.Errors() {
			return fmt.Errorf("read topic %q: %w", failed.Topic, failed.Err)
		}
		fetches.EachRecord(func(r *kgo.Record) { f(recordOf(r)) })
	}
}

func recordOf(r *kgo.Record) Record {
	out := Record{Key: r.Key, Value: r.Value}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, streams.Header{Key: h.Key, Value: h.Value})
	}
	return out
}
