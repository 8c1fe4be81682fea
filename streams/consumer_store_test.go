package streams_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

// Consumers that come and go begin where the store says, whatever is committed to Kafka, and the store is told the generation.
func TestConsumersBeginWhereTheirStoreSays(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 2)
		for p := range int32(2) {
			b.values(topic, p, numbered("v", 0, 20)...)
		}
		plain := b.consumer(b.consumerConfig("g", topic))
		require.Len(t, polls(t, plain, 40), 40)
		require.NoError(t, plain.Commit(b.ctx()))
		require.NoError(t, plain.Close(b.ctx()))
		kafkas := b.committed(b.name("g"))

		cfg := b.consumerConfig("g", topic)
		cfg.Offsets, cfg.MaxPollRecords = offsetstore.NewMemory(), 5
		one := b.consumer(cfg)
		first := inBackground(t, one, true)
		require.Eventually(t, func() bool { return len(first.values()) == 40 }, 20*time.Second, 10*time.Millisecond, "not from what Kafka has")
		two := inBackground(t, b.consumer(cfg), true)
		require.Eventually(t, func() bool { return len(two.c.Assignment()) == 1 && len(one.Assignment()) == 1 }, 20*time.Second, 10*time.Millisecond)
		for p := range int32(2) {
			b.values(topic, p, numbered("v", 20, 30)...)
		}
		require.Eventually(t, func() bool { return len(first.values()) == 50 && len(two.values()) == 10 }, 20*time.Second, 10*time.Millisecond)
		first.end()
		require.NoError(t, one.Close(b.ctx()))
		for p := range int32(2) {
			b.values(topic, p, numbered("v", 30, 40)...)
		}
		require.Eventually(t, func() bool { return len(two.values()) == 30 }, 20*time.Second, 10*time.Millisecond)
		two.end()
		require.Equal(t, 80, len(first.values())+len(two.values()), "each record once: all moves were clean")
		require.Empty(t, append(first.errors(), two.errors()...))
		require.NoError(t, two.c.Close(b.ctx()))
		require.Equal(t, kafkas, b.committed(b.name("g")), "nothing more is committed to Kafka")
	})
}

// crowded fails a test whose store is called twice at a time.
type crowded struct {
	t *testing.T
	*offsetstore.Memory
	inside atomic.Int32
	calls  atomic.Int32
}

func (c *crowded) enter() func() {
	if c.inside.Add(1) > 1 {
		c.t.Error("the store is called by two at a time")
	}
	c.calls.Add(1)
	time.Sleep(time.Millisecond)
	return func() { c.inside.Add(-1) }
}

func (c *crowded) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	defer c.enter()()
	return c.Memory.Load(ctx, group, parts)
}

func (c *crowded) Save(ctx context.Context, group string, generation int32, offsets map[streams.TopicPartition]int64) error {
	defer c.enter()()
	return c.Memory.Save(ctx, group, generation, offsets)
}

// Commits come from other goroutines than loads, and the store sees one call at a time.
func TestConsumerCallsItsStoreOneAtATime(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 2)
	b.values(topic, 0, numbered("v", 0, 2000)...)
	store := &crowded{t: t, Memory: offsetstore.NewMemory()}
	cfg := b.consumerConfig("g")
	cfg.Topics, cfg.Offsets, cfg.MaxPollRecords = nil, store, 10
	cfg.Assign = map[streams.TopicPartition]streams.StartAt{tpOf(topic, 0): streams.FromCommitted()}
	c := b.consumer(cfg)
	ctx, stop := context.WithCancel(context.Background())
	var others sync.WaitGroup
	for range 2 {
		others.Go(func() {
			for ctx.Err() == nil {
				if err := c.Commit(ctx); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	for range 100 {
		_, err := c.Poll(pollFor(20 * time.Millisecond))
		require.NoError(t, err)
		require.NoError(t, c.Assign(map[streams.TopicPartition]streams.StartAt{tpOf(topic, 1): streams.FromCommitted()}))
	}
	stop()
	others.Wait()
	require.Greater(t, store.calls.Load(), int32(100))
}
