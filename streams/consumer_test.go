package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

func TestConsumerReadsCommitsAndGoesOn(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 2)
		b.values(topic, 0, "a", "b")
		b.values(topic, 1, "c")
		c := b.consumer(b.consumerConfig("g", topic))
		require.Equal(t, streams.MemberStopped, c.State())
		recs := polls(t, c, 3)
		require.ElementsMatch(t, []string{"a", "b", "c"}, valuesOf(recs))
		require.Equal(t, streams.MemberJoined, c.State())
		require.Equal(t, []streams.TopicPartition{tpOf(topic, 0), tpOf(topic, 1)}, c.Assignment())
		require.NoError(t, c.Commit(b.ctx()))
		require.Equal(t, map[streams.TopicPartition]int64{tpOf(topic, 0): 2, tpOf(topic, 1): 1}, b.committed(b.name("g")))
		b.values(topic, 0, "d")
		require.Equal(t, []string{"d"}, valuesOf(polls(t, c, 1)))
		require.NoError(t, c.Close(b.ctx()))

		_, err := c.Poll(b.ctx())
		require.ErrorIs(t, err, streams.ErrConsumerClosed)
		require.ErrorIs(t, c.Commit(b.ctx()), streams.ErrConsumerClosed)
		require.Equal(t, streams.MemberStopped, c.State())
		require.NoError(t, c.Close(b.ctx()))

		again := b.consumer(b.consumerConfig("g", topic))
		require.Equal(t, []string{"d"}, valuesOf(polls(t, again, 1)), "what was not committed is returned again")
	})
}

func TestConsumerPollWithAnEndedContextNeverWaits(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, "a")
	c := b.consumer(b.consumerConfig("g", topic))
	var got []string
	for len(got) == 0 {
		recs, err := c.Poll(ended())
		require.NoError(t, err)
		got = append(got, valuesOf(recs)...)
	}
	require.Equal(t, []string{"a"}, got)
}
