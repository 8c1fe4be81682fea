package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func partOf(topic string, n int32) task.TopicPartition {
	return task.TopicPartition{Topic: topic, Partition: n}
}

func in(n int32) task.TopicPartition { return partOf("in", n) }

// commits commits offsets to a group from outside.
func commits(t *testing.T, addrs []string, app string, offsets ...task.InputOffset) {
	t.Helper()
	g := outside.GroupOffsets{Client: openClient(t, addrs), Group: app}
	defer g.Close()
	require.NoError(t, g.Commit(t.Context(), offsets))
}

// at is a committed offset with what a commit of the runtime says beside it.
func at(tp task.TopicPartition, offset int64, m *retry.Metadata) task.InputOffset {
	o := task.InputOffset{TopicPartition: tp, Offset: offset}
	if m != nil {
		o.Metadata, _ = m.Encode(offset)
	}
	return o
}

func produce(t *testing.T, addrs []string, tp task.TopicPartition, records ...task.OutRecord) {
	t.Helper()
	c, err := broker.NewClient(addrs)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Produce(t.Context(), tp, records...))
}

// topicOf makes a topic that no other test has, on a real broker too.
func topicOf(t *testing.T, addrs []string, name string, partitions int32) string {
	t.Helper()
	c, err := broker.NewClient(addrs)
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.CreateTopic(t.Context(), name, partitions, nil))
	client := openClient(t, addrs)
	require.Eventually(t, func() bool {
		all, err := outside.Spans(t.Context(), client, name)
		return err == nil && len(all) == int(partitions)
	}, 20*time.Second, 20*time.Millisecond)
	return name
}

func since(ago time.Duration, values ...string) (out []task.OutRecord) {
	for _, v := range values {
		out = append(out, task.OutRecord{Value: []byte(v), Timestamp: time.Now().Add(-ago).UnixMilli()})
	}
	return out
}

func TestGroupLag(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		topic := topicOf(t, addrs, app+"-in", 4)
		part := func(n int32) task.TopicPartition { return partOf(topic, n) }
		produce(t, addrs, part(0), since(3*time.Hour, "0", "1", "2")...)
		produce(t, addrs, part(0), since(time.Hour, "3", "4", "5", "6", "7")...)
		produce(t, addrs, part(1), since(time.Minute, "0", "1")...)
		produce(t, addrs, part(2), since(time.Minute, "0")...)
		// Of partition 0, offsets 1 to 2 and 5 are done beyond the committed one, and what comes from 6 on was never taken.
		commits(t, addrs, app,
			at(part(0), 3, &retry.Metadata{StreamTime: 9, Main: 6, Holes: []retry.Run{{From: 3, To: 5}}, Running: true, Suspect: -1}),
			at(part(1), 2, &retry.Metadata{StreamTime: 9, Main: 2, Suspect: -1}), at(part(2), 0, nil))

		out, _, err := command(t, "group", "lag", "-brokers", addrs[0], "-app", app, "-json")
		require.NoError(t, err)
		var v lagView
		require.NoError(t, json.Unmarshal([]byte(out), &v))
		require.Equal(t, "understudy", v.Kind)
		require.Equal(t, "Empty", v.State)
		require.EqualValues(t, 4+1, v.Lag)
		require.Len(t, v.Partitions, 3)
		require.InDelta(t, time.Hour.Milliseconds(), v.Partitions[0].Behind, 30_000)
		require.InDelta(t, time.Minute.Milliseconds(), v.Partitions[2].Behind, 30_000)
		v.Partitions[0].Behind, v.Partitions[2].Behind = 1, 1
		require.Equal(t, []lagPart{
			{Topic: topic, Partition: 0, Committed: 3, End: 8, Lag: 4, DoneAbove: 1, Behind: 1},
			{Topic: topic, Partition: 1, Committed: 2, End: 2},
			{Topic: topic, Partition: 2, Committed: 0, End: 1, Lag: 1, Behind: 1},
		}, v.Partitions)
	})
}

// What is put aside is done as far as offsets go, so it is named on its own.
func TestGroupLagNamesWhatIsParked(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	b.retries(0, parks(retry.Entry{Origin: origin(0, 4), Key: []byte("a"), Seq: 1}, "a4"), parks(retry.Entry{Origin: origin(0, 5), Key: []byte("b"), Seq: 2}, "b5"))
	commits(t, b.addrs, "shop", at(task.TopicPartition{Topic: "shop-in-redrive"}, 0, &retry.Metadata{StreamTime: 9, Running: true, Suspect: -1}))
	out, err := b.command("group", "lag")
	require.NoError(t, err)
	require.Contains(t, out, "shop-in-retry  2\n")
}

func TestGroupLagWatches(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 1}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	commits(t, b.Addrs(), "g", at(in(0), 0, nil))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	looks := writes(func(p []byte) {
		if out.Write(p); strings.Count(out.String(), "\nlag    ") == 3 {
			cancel()
		}
	})
	require.NoError(t, run(ctx, []string{"group", "lag", "-brokers", b.Addrs()[0], "-group", "g", "-watch", "1ms"}, looks, looks))
	require.Equal(t, 3, strings.Count(out.String(), "\nin "))
}

type writes func([]byte)

func (w writes) Write(p []byte) (int, error) { w(p); return len(p), nil }

func TestGroupLagView(t *testing.T) {
	v := lagView{
		Group: "orders", Kind: "understudy", State: "Stable", At: 1_700_000_000_000, Lag: 34,
		Partitions: []lagPart{
			partLag(kafka.FetchedOffset{TopicPartition: in(0), Offset: 100}, kafka.ListedOffset{Offset: 130}),
			partLag(kafka.FetchedOffset{TopicPartition: in(1), Offset: -1}, kafka.ListedOffset{Offset: 7}),
			partLag(kafka.FetchedOffset{TopicPartition: in(2), Offset: 7}, kafka.ListedOffset{Offset: 7}),
			partLag(kafka.FetchedOffset{TopicPartition: in(3), Offset: 9}, kafka.ListedOffset{Offset: 7}),
			{Topic: "in", Partition: 10, Committed: 70, End: 124, Lag: 4, DoneAbove: 50, Behind: 3_723_000},
		},
		Parked: []parkedCount{{"orders-in-retry", 3}},
	}
	v.Partitions[0].Behind, v.Partitions[2].Behind = 250, 0
	golden(t, "group_lag.txt", v.text())
	require.ErrorContains(t, v.unknown(), "in-3: committed beyond the end")
	require.Equal(t, []string{"-", "0s", "999ms", "1.5s", "2m5s", "3d4h"},
		[]string{age(-1), age(0), age(999), age(1500), age(125_400), age((76 * time.Hour).Milliseconds())})
}
