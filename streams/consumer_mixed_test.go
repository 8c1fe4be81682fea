package streams_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Members of a group may read different topics. Each topic is shared by those who read it, whoever of them all leads the group.
func TestConsumersOfAGroupReadDifferentTopics(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		x, y, z := b.topic("x", 2), b.topic("y", 2), b.topic("z", 2)
		for _, topic := range []string{x, y, z} {
			b.values(topic, 0, topic+"-0")
			b.values(topic, 1, topic+"-1")
		}
		first := inBackground(t, b.consumer(b.consumerConfig("g", x)), true) // it leads
		comesTrue(t, "the first one reads its topic", func() bool { return len(first.values()) == 2 })
		second := inBackground(t, b.consumer(b.consumerConfig("g", x, y)), true)
		third := inBackground(t, b.consumer(b.consumerConfig("g", y, z)), true)
		comesTrue(t, "all topics are read", func() bool { return len(first.values())+len(second.values())+len(third.values()) == 6 })
		require.Equal(t, []string{x + "-0", x + "-1"}, first.values())
		require.Subset(t, third.values(), []string{z + "-0", z + "-1"}, "only the third one reads it")
		comesTrue(t, "each partition has one reader", func() bool {
			all := slices.Concat(first.c.Assignment(), second.c.Assignment(), third.c.Assignment())
			return len(all) == 6 && len(third.c.Assignment()) > 1
		})
		for _, tp := range first.c.Assignment() {
			require.Equal(t, x, tp.Topic)
		}

		require.NoError(t, third.c.Close(b.ctx()))
		third.end()
		comesTrue(t, "what the one has read that has left is another's", func() bool {
			return len(first.c.Assignment())+len(second.c.Assignment()) == 4
		})
		for _, p := range second.c.Assignment() {
			require.NotEqual(t, z, p.Topic)
		}
		require.Empty(t, first.errors())
		require.Empty(t, second.errors())
	})
}
