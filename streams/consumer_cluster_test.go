package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

// The coordinator of a group is killed, which leads partitions too: reading goes on while its session lasts, without a rebalance that takes
// partitions away, and commits arrive at the next one.
func TestConsumersOutliveTheDeathOfTheirCoordinator(t *testing.T) {
	notShort(t)
	t.Parallel()
	cluster := threeBrokers(t)
	b := newBed(t, cluster.Addrs(), nil)
	topic := b.topic("in", 6)
	var ps []*poller
	values := func() (n int) {
		for _, p := range ps {
			n += len(p.values())
		}
		return n
	}
	lost := make(chan string, 10)
	for range 2 {
		cfg := b.consumerConfig("g", topic)
		cfg.Session = 20 * time.Second // longer than it takes to find the next coordinator
		cfg.Listener.Lost = func(_ []streams.TopicPartition, reason string) { lost <- reason }
		ps = append(ps, inBackground(t, b.consumer(cfg), true))
	}
	comesTrue(t, "they share", func() bool { return len(ps[0].c.Assignment()) == 3 && len(ps[1].c.Assignment()) == 3 })
	put := func(n int) {
		for p := range int32(6) {
			b.values(topic, p, fmt.Sprintf("%d-%d", n, p))
		}
	}
	put(0)
	comesTrue(t, "all is read", func() bool { return values() == 6 })
	dead := b.coordinator("g")
	require.NoError(t, cluster.Kill(dead))
	put(1)
	comesTrue(t, "all is read without that broker", func() bool { return values() == 12 })
	comesTrue(t, "and committed", func() bool {
		total := int64(0)
		for _, at := range b.committed(b.name("g")) {
			total += at
		}
		return total == 12
	})
	require.NoError(t, cluster.Restart(dead))
	for _, p := range ps {
		p.end()
		require.NoError(t, p.c.Close(b.ctx()))
		require.Empty(t, p.errors())
	}
	require.Empty(t, lost)
}
