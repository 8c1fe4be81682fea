package streams_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// consumerConfig is a configuration for tests: short times.
func (b *bed) consumerConfig(group string, topics ...string) streams.ConsumerConfig {
	return streams.ConsumerConfig{
		Group: b.name(group), Brokers: b.addrs, Topics: topics, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond,
		MetadataInterval: 200 * time.Millisecond, RequestTimeout: 5 * time.Second, Log: testLog(b.t),
	}
}

func (b *bed) consumer(c streams.ConsumerConfig) *streams.Consumer {
	b.t.Helper()
	cons, err := streams.NewConsumer(c)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = cons.Close(ctx)
	})
	return cons
}

func pollFor(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	time.AfterFunc(d+time.Second, cancel)
	return ctx
}

// ended is a context that has ended.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// polls polls until there are n records.
func polls(t *testing.T, c *streams.Consumer, n int) (out []streams.ConsumerRecord) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for len(out) < n {
		recs, err := c.Poll(pollFor(100 * time.Millisecond))
		require.NoError(t, err)
		out = append(out, recs...)
		require.True(t, time.Now().Before(deadline), "only %d of %d records in time: %v, state %v", len(out), n, valuesOf(out), c.State())
	}
	return out
}

// quietFor polls for a time in which nothing may come.
func quietFor(t *testing.T, c *streams.Consumer, d time.Duration) {
	t.Helper()
	recs, err := c.Poll(pollFor(d))
	require.NoError(t, err)
	require.Empty(t, valuesOf(recs))
}

func valuesOf(recs []streams.ConsumerRecord) (out []string) {
	for _, r := range recs {
		out = append(out, string(r.Value))
	}
	return out
}

func numbered(prefix string, from, to int) (out []string) {
	for i := from; i < to; i++ {
		out = append(out, fmt.Sprintf("%s%d", prefix, i))
	}
	return out
}

// poller polls on a goroutine of its own, as a program does, and keeps what it was given.
type poller struct {
	t    *testing.T
	c    *streams.Consumer
	stop context.CancelFunc
	done chan struct{}

	mu   sync.Mutex
	recs []streams.ConsumerRecord
	errs []error
}

// inBackground polls, and commits after each Poll if it is told to.
func inBackground(t *testing.T, c *streams.Consumer, commit bool) *poller {
	ctx, stop := context.WithCancel(context.Background())
	p := &poller{t: t, c: c, stop: stop, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		for ctx.Err() == nil {
			recs, err := c.Poll(ctx)
			p.mu.Lock()
			p.recs = append(p.recs, recs...)
			if err != nil {
				p.errs = append(p.errs, err)
			}
			p.mu.Unlock()
			if commit && len(recs) > 0 {
				if err := c.Commit(ctx); err != nil && ctx.Err() == nil {
					p.mu.Lock()
					p.errs = append(p.errs, err)
					p.mu.Unlock()
				}
			}
		}
	}()
	t.Cleanup(p.end)
	return p
}

func (p *poller) end() {
	p.stop()
	<-p.done
}

func (p *poller) values() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return valuesOf(p.recs)
}

func (p *poller) errors() []error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]error(nil), p.errs...)
}

func tpOf(topic string, n int32) streams.TopicPartition {
	return task.TopicPartition{Topic: topic, Partition: n}
}
