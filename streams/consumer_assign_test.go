package streams_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

func (b *bed) byHand(group string, starts map[streams.TopicPartition]streams.StartAt) streams.ConsumerConfig {
	cfg := b.consumerConfig(group)
	cfg.Assign = starts
	if group == "" {
		cfg.Group = ""
	}
	return cfg
}

func TestConsumerWithPartitionsByHand(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 6)
		for p := range int32(6) {
			for i, v := range numbered("v", 0, 4) {
				b.put(topic, p, task.OutRecord{Value: []byte(v), Timestamp: int64(1000 + i*1000)})
			}
		}
		early := b.byHand("g", map[streams.TopicPartition]streams.StartAt{tpOf(topic, 3): streams.FromOffset(2)})
		first := b.consumer(early)
		polls(t, first, 2)
		require.NoError(t, first.CommitOffsets(b.ctx(), map[streams.TopicPartition]int64{tpOf(topic, 3): 1}))
		require.NoError(t, first.Close(b.ctx()))

		c := b.consumer(b.byHand("g", map[streams.TopicPartition]streams.StartAt{
			tpOf(topic, 0): streams.FromEarliest(), tpOf(topic, 1): streams.FromLatest(), tpOf(topic, 2): streams.FromTime(time.UnixMilli(2500)),
			tpOf(topic, 3): streams.FromCommitted(), tpOf(topic, 4): streams.FromOffset(3),
		}))
		got := map[int32][]string{}
		for _, r := range polls(t, c, 4+2+3+1) {
			got[r.Partition] = append(got[r.Partition], string(r.Value))
			require.EqualValues(t, -1, r.Generation)
		}
		require.Equal(t, map[int32][]string{0: numbered("v", 0, 4), 2: {"v2", "v3"}, 3: {"v1", "v2", "v3"}, 4: {"v3"}}, got)
		at, known := c.Position(tpOf(topic, 1))
		require.True(t, known)
		require.EqualValues(t, 4, at)
		require.Equal(t, streams.MemberJoined, c.State())

		require.NoError(t, c.Assign(map[streams.TopicPartition]streams.StartAt{tpOf(topic, 5): streams.FromOffset(2)}), "added while it runs")
		require.Equal(t, []string{"v2", "v3"}, valuesOf(polls(t, c, 2)))
		require.NoError(t, c.Unassign(tpOf(topic, 0)))
		b.values(topic, 0, "nobody's")
		b.values(topic, 1, "new")
		require.Equal(t, []string{"new"}, valuesOf(polls(t, c, 1)))
		quietFor(t, c, 300*time.Millisecond)
		require.NoError(t, c.Commit(b.ctx()))
		require.EqualValues(t, 5, b.committed(b.name("g"))[tpOf(topic, 1)])
	})
}

func TestConsumerSeeksAndPauses(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 2)
	tp, other := tpOf(topic, 0), tpOf(topic, 1)
	b.values(topic, 0, numbered("a", 0, 10)...)
	b.values(topic, 1, numbered("b", 0, 2)...)
	cfg := b.byHand("", map[streams.TopicPartition]streams.StartAt{tp: streams.FromEarliest()})
	cfg.MaxPollRecords = 2
	c := b.consumer(cfg)
	require.Equal(t, []string{"a0", "a1"}, valuesOf(polls(t, c, 2)))
	require.NoError(t, c.Seek(tp, 7))
	at, _ := c.Position(tp)
	require.EqualValues(t, 7, at)
	require.Equal(t, []string{"a7", "a8"}, valuesOf(polls(t, c, 2)), "what was fetched before a Seek is not returned")
	require.NoError(t, c.Seek(tp, 1))
	require.Equal(t, []string{"a1", "a2"}, valuesOf(polls(t, c, 2)))

	require.NoError(t, c.Pause(tp))
	require.True(t, c.Paused(tp))
	require.NoError(t, c.Assign(map[streams.TopicPartition]streams.StartAt{other: streams.FromEarliest()}))
	require.Equal(t, []string{"b0", "b1"}, valuesOf(polls(t, c, 2)))
	quietFor(t, c, 200*time.Millisecond)
	require.NoError(t, c.Resume(tp))
	require.Equal(t, numbered("a", 3, 10), valuesOf(polls(t, c, 7)), "and nothing is missing after a Pause")

	require.NoError(t, c.SeekTo(tp, streams.FromLatest()))
	quietFor(t, c, 200*time.Millisecond)
	require.NoError(t, c.SeekTo(tp, streams.FromEarliest()))
	require.Equal(t, []string{"a0"}, valuesOf(polls(t, c, 1))[:1])

	var not *streams.NotAssignedError
	require.ErrorAs(t, c.Seek(tpOf(topic, 9), 1), &not)
	require.ErrorAs(t, c.Pause(tpOf(topic, 9)), &not)
	require.Error(t, c.Seek(tp, -1))
	require.ErrorContains(t, c.Commit(b.ctx()), "no group")
}

func TestConsumerOutOfRange(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	tp := tpOf(topic, 0)
	b.values(topic, 0, numbered("v", 0, 3)...)
	start := map[streams.TopicPartition]streams.StartAt{tp: streams.FromOffset(50)}
	c := b.consumer(b.byHand("", start))
	var out *streams.OffsetOutOfRangeError
	require.Eventually(t, func() bool {
		_, err := c.Poll(ended())
		return errors.As(err, &out)
	}, 10*time.Second, 10*time.Millisecond)
	require.Equal(t, streams.OffsetOutOfRangeError{Part: tp, Offset: 50, Earliest: 0, End: 3}, *out)
	_, err := c.Poll(pollFor(50 * time.Millisecond))
	require.ErrorAs(t, err, &out, "it is not forgotten")
	require.NoError(t, c.Seek(tp, 1))
	require.Equal(t, []string{"v1", "v2"}, valuesOf(polls(t, c, 2)))

	cfg := b.byHand("", start)
	cfg.OutOfRange = streams.ResetEarliest
	var moved []int64
	cfg.Listener.Reset = func(_ streams.TopicPartition, from, to int64) { moved = append(moved, from, to) }
	require.Equal(t, numbered("v", 0, 3), valuesOf(polls(t, b.consumer(cfg), 3)))
	require.Equal(t, []int64{50, 0}, moved)
}

func TestConsumerConfigNamesEveryFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		config streams.ConsumerConfig
		want   []string
	}{
		{"empty", streams.ConsumerConfig{}, []string{"nothing to read", "Brokers is empty"}},
		{
			"mixed", streams.ConsumerConfig{Brokers: []string{"h:1"}, Group: "g", Topics: []string{"a"}, Assign: map[streams.TopicPartition]streams.StartAt{}},
			[]string{"Assign stands beside Topics"},
		},
		{"no group", streams.ConsumerConfig{Brokers: []string{"h:1"}, Topics: []string{"a"}, DeleteGroupOnClose: true}, []string{"Group is empty", "without a Group"}},
		{"bad pattern", streams.ConsumerConfig{Brokers: []string{"h:1"}, Group: "g", Include: []string{"("}}, []string{"the include pattern"}},
		{"lonely exclude", streams.ConsumerConfig{Brokers: []string{"h:1"}, Group: "g", Topics: []string{"a"}, Exclude: []string{"b"}}, []string{"Exclude has patterns"}},
		{
			"by hand", streams.ConsumerConfig{Brokers: []string{"h:1"}, Assign: map[streams.TopicPartition]streams.StartAt{{Topic: "", Partition: -1}: streams.FromOffset(-2)}},
			[]string{"is no partition", "offset -2"},
		},
		{
			"committed by nobody", streams.ConsumerConfig{Brokers: []string{"h:1"}, CommitInterval: 1, Assign: map[streams.TopicPartition]streams.StartAt{{Topic: "t"}: {}}},
			[]string{"neither a group nor a store", "neither Group nor Offsets"},
		},
		{
			"numbers", streams.ConsumerConfig{Brokers: []string{"h:1"}, Group: "g", Topics: []string{"a"}, MaxPollRecords: -1, Memory: 5, Session: -1},
			[]string{"MaxPollRecords", "Memory", "Session"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := streams.NewConsumer(test.config)
			var faults *streams.ConfigError
			require.ErrorAs(t, err, &faults)
			for _, want := range test.want {
				require.ErrorContains(t, err, want)
			}
		})
	}
	c, err := streams.NewConsumer(streams.ConsumerConfig{Brokers: []string{"h:1"}, Group: "g", Topics: []string{"a"}})
	require.NoError(t, err)
	require.ErrorIs(t, c.Assign(nil), streams.ErrSubscribed)
	require.ErrorIs(t, c.Unassign(), streams.ErrSubscribed)
	require.NoError(t, c.Close(pollFor(time.Second)))
}
