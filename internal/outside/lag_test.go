package outside_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLagOf(t *testing.T) {
	said := func(committed, main int64, holes ...retry.Run) string {
		s, ok := (&retry.Metadata{StreamTime: 5, Main: main, Holes: holes, Running: true, Suspect: -1}).Encode(committed)
		require.True(t, ok)
		return s
	}
	for _, c := range []struct {
		name           string
		committed, end int64
		metadata       string
		want           outside.Lag
	}{
		{"nothing said", 100, 130, "", outside.Lag{Open: 30}},
		{"at the end", 100, 100, said(100, 100), outside.Lag{}},
		{"nothing committed", -1, 7, "", outside.Lag{Open: -1}},
		{"the end is not known", 7, -1, "", outside.Lag{Open: -1}},
		{"committed beyond the end", 9, 7, "", outside.Lag{}},
		{"done above", 70, 124, said(70, 120, retry.Run{From: 70, To: 71}, retry.Run{From: 80, To: 90}), outside.Lag{Open: 11 + 4, Done: 39}},
		{"a gap that is replayed", 70, 130, said(70, 120, retry.Run{From: 70, To: 120}), outside.Lag{Open: 60}},
		{"of a topic that was longer", 70, 100, said(70, 120, retry.Run{From: 70, To: 71}), outside.Lag{Open: 30}},
		{"somebody else's", 70, 100, "x", outside.Lag{Open: 30}},
		{"of a reset that is half done", 70, 100, retry.HalfReset, outside.Lag{Open: 30}},
	} {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, c.want, outside.LagOf(c.committed, c.metadata, c.end)) })
	}
}

// The first record is the first that is there to be read: not what a transaction took back, and not its markers.
func TestFirst(t *testing.T) {
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 2}, Brokers: 2})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	tools, err := broker.NewClient(b.Addrs())
	require.NoError(t, err)
	t.Cleanup(tools.Close)
	client, err := kafka.Open(kafka.Config{Brokers: b.Addrs()})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, client.Close()) })
	zero, one := task.TopicPartition{Topic: "in"}, task.TopicPartition{Topic: "in", Partition: 1}
	at := func(ms int64) task.OutRecord { return task.OutRecord{Value: []byte("v"), Timestamp: ms} }
	require.NoError(t, tools.Produce(t.Context(), zero, at(1_000), at(2_000)))
	require.NoError(t, tools.Transact(t.Context(), "t", false, zero, at(3_000))) // 2, its marker 3
	require.NoError(t, tools.Produce(t.Context(), zero, at(4_000)))              // 4
	require.NoError(t, tools.Transact(t.Context(), "t", false, zero, at(5_000))) // 5, 6
	require.NoError(t, tools.Produce(t.Context(), one, at(7_000)))

	r := outside.Reader{Client: client}
	defer r.Close()
	first := func(tp task.TopicPartition, from, to int64) []int64 {
		t.Helper()
		offset, ms, found, err := r.First(t.Context(), outside.Span{TopicPartition: tp, From: from, To: to})
		require.NoError(t, err)
		if !found {
			return nil
		}
		return []int64{offset, ms}
	}
	require.Equal(t, []int64{0, 1_000}, first(zero, 0, 7))
	require.Equal(t, []int64{1, 2_000}, first(zero, 1, 7))
	require.Equal(t, []int64{0, 7_000}, first(one, 0, 1))
	require.Equal(t, []int64{4, 4_000}, first(zero, 2, 7))
	require.Nil(t, first(zero, 2, 4), "what comes later is not asked for")
	require.Nil(t, first(zero, 5, 7), "nothing but what was taken back")
	require.Nil(t, first(zero, 7, 7))
	require.Nil(t, first(zero, 7, 9), "not written yet")
	require.NoError(t, tools.DeleteRecords(t.Context(), zero, 1))
	require.Equal(t, []int64{1, 2_000}, first(zero, 0, 7), "retention has passed the position")

	_, _, _, err = r.First(t.Context(), outside.Span{TopicPartition: task.TopicPartition{Topic: "missing"}, To: 1})
	require.ErrorContains(t, err, "missing")
}
