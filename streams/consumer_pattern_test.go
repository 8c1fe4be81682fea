package streams_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

// One topic of a pattern is deleted, another appears.
func TestF15ConsumerPattern(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		a, other := b.topic("t.a", 2), b.topic("t.b", 1)
		hidden := b.topic("t.app-x-changelog", 1)
		skipped := b.topic("t.skipped", 1)
		b.values(a, 0, "before the start")
		cfg := b.consumerConfig("g")
		cfg.Include, cfg.Exclude = []string{b.prefix + `t\..*`}, []string{`.*skipped`}
		cfg.NoOffset = streams.ResetLatest
		c := b.consumer(cfg)
		p := inBackground(t, c, true)
		placed := func() bool {
			for _, tp := range c.Assignment() {
				if _, known := c.Position(tp); !known {
					return false
				}
			}
			return len(c.Assignment()) == 3
		}
		comesTrue(t, "its partitions are known", placed)
		b.values(a, 0, numbered("a", 0, 3)...)
		b.values(a, 1, numbered("a", 3, 5)...)
		b.values(other, 0, numbered("b", 0, 5)...)
		b.values(hidden, 0, "internal")
		b.values(skipped, 0, "skipped")
		comesTrue(t, "both topics are read", func() bool { return len(p.values()) == 10 })

		comesTrue(t, "nothing of it is left to commit", func() bool { return b.committed(b.name("g"))[tpOf(other, 0)] == 5 })
		require.NoError(t, b.client.DeleteTopic(b.ctx(), other))
		comesTrue(t, "the deleted one is let go of", func() bool { return len(c.Assignment()) == 2 })
		b.values(a, 1, numbered("a", 5, 10)...)
		comesTrue(t, "the other one is read on", func() bool { return len(p.values()) == 15 })
		appeared := b.topic("t.c", 1)
		b.values(appeared, 0, numbered("c", 0, 5)...) // before it can be discovered
		comesTrue(t, "a topic that appears is read from its beginning", func() bool { return len(p.values()) == 20 })

		got := p.values()
		slices.Sort(got)
		require.Equal(t, slices.Concat(numbered("a", 0, 10), numbered("b", 0, 5), numbered("c", 0, 5)), got)
		require.Equal(t, streams.MemberJoined, c.State())
		require.LessOrEqual(t, c.Generation(), int32(5), "no storm of rebalances")
		require.Empty(t, p.errors())
	})
}

func TestConsumerWaitsForTopics(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	cfg := b.consumerConfig("g", b.name("later"))
	cfg.WaitForTopics, cfg.NoOffset = true, streams.ResetLatest
	c := b.consumer(cfg)
	p := inBackground(t, c, true)
	comesTrue(t, "it is a member without partitions", func() bool { return c.State() == streams.MemberJoined })
	topic := b.topic("later", 1)
	b.values(topic, 0, "first")
	comesTrue(t, "the first record is not missed", func() bool { return slices.Equal(p.values(), []string{"first"}) })
	require.Empty(t, p.errors())
}

func TestConsumerGrownTopic(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	cfg := b.consumerConfig("g", topic)
	cfg.NoOffset = streams.ResetLatest
	c := b.consumer(cfg)
	p := inBackground(t, c, true)
	comesTrue(t, "it has the partition", func() bool { _, known := c.Position(tpOf(topic, 0)); return known })
	require.EqualValues(t, 0, b.committed(b.name("g"))[tpOf(topic, 0)], "a beginning at the end is committed at once")
	b.grow(topic, 3)
	b.values(topic, 2, "first of the new one")
	comesTrue(t, "the new partition is read from its beginning", func() bool { return len(p.values()) == 1 })
}
