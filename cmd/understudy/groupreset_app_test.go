package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// counter is an application that counts its records by value: it has a repartition topic, a changelog, a retry topic and state on disk.
type counter struct {
	t          *testing.T
	addrs      []string
	app        string
	in, counts string
	state      string
	client     *broker.Client
	kafka      *kafka.Client
}

const counterParts = 2

func newCounter(t *testing.T, addrs []string) *counter {
	c := &counter{t: t, addrs: addrs, app: uniqueName(), state: t.TempDir(), kafka: openClient(t, addrs)}
	c.in, c.counts = topicOf(t, addrs, c.app+"-words", counterParts), topicOf(t, addrs, c.app+"-totals", 1)
	var err error
	c.client, err = broker.NewClient(addrs)
	require.NoError(t, err)
	t.Cleanup(c.client.Close)
	return c
}

func (c *counter) write(ago time.Duration, words ...string) {
	c.t.Helper()
	for i, w := range words {
		require.NoError(c.t, c.client.Produce(c.t.Context(), partOf(c.in, int32(i%counterParts)), since(ago, w)...))
	}
}

// start runs the application until the test says so. Errors come out of the channel.
func (c *counter) start(ctx context.Context) chan error {
	b := streams.NewBuilder()
	b.Stream(c.in, serde.String, serde.String).
		GroupBy(func(_, word string) string { return word }).
		Count("totals", streams.EmitPerUpdate).
		ToStream().To(c.counts)
	app, err := streams.New(b, streams.Config{
		ApplicationID: c.app, Brokers: c.addrs, StateDir: c.state, CommitInterval: 50 * time.Millisecond,
		Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond, OnFailure: retry.Parallel(),
	})
	require.NoError(c.t, err)
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	return done
}

// runs lets the application run until all input is in the counts, and gives the last count of each word that this run has written.
func (c *counter) runs(processed int) map[string]int64 {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	defer stop()
	before, err := c.client.Ends(c.t.Context(), c.counts)
	require.NoError(c.t, err)
	done := c.start(ctx)
	require.Eventually(c.t, func() bool {
		select {
		case err := <-done:
			require.NoError(c.t, err)
			c.t.Fatal("it has ended")
		default:
		}
		ends, err := c.client.Ends(c.t.Context(), c.counts)
		return err == nil && ends[0] >= before[0]+int64(processed)
	}, 40*time.Second, 50*time.Millisecond)
	stop()
	require.NoError(c.t, <-done)
	out, got := map[string]int64{}, 0
	records, err := c.client.Consume(c.t.Context(), c.counts)
	require.NoError(c.t, err)
	for _, r := range records[0] {
		if r.Offset >= before[0] {
			out[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
			got++
		}
	}
	require.Equal(c.t, processed, got, "each record that was processed gives one count")
	return out
}

func (c *counter) reset(args ...string) {
	c.t.Helper()
	out, diagnostics, err := command(c.t, append([]string{"group", "reset", "-brokers", c.addrs[0], "-app", c.app, "-execute"}, args...)...)
	require.NoError(c.t, err, diagnostics)
	require.NotContains(c.t, out, "Nothing was changed")
}

// TestApplicationAfterAReset: what runs after a reset counts what was written from there on, each record once.
func TestApplicationAfterAReset(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		c := newCounter(t, addrs)
		c.write(3*time.Hour, "a", "b", "a", "c")
		c.write(time.Hour, "a", "b")
		require.Equal(t, map[string]int64{"a": 3, "b": 2, "c": 1}, c.runs(6))

		c.reset("-to", "earliest", "-state-dir", c.state)
		requireNoState(t, c)
		require.Equal(t, map[string]int64{"a": 3, "b": 2, "c": 1}, c.runs(6))

		// The state on disk is that of another changelog, which the application finds out by itself.
		c.reset("-by", "2h")
		require.DirExists(t, filepath.Join(c.state, c.app, "db"))
		require.Equal(t, map[string]int64{"a": 1, "b": 1}, c.runs(2))

		c.reset("-to", "latest")
		c.write(0, "b", "d")
		require.Equal(t, map[string]int64{"b": 1, "d": 1}, c.runs(2))

		// Offsets alone: what is processed again counts twice, as the command has said.
		c.reset("-to", "0", "-offsets-only")
		require.Equal(t, map[string]int64{"a": 3, "b": 4, "c": 1, "d": 2}, c.runs(8))
	})
}

func requireNoState(t *testing.T, c *counter) {
	seen, err := pebblestore.Look(c.state, c.app)
	require.NoError(t, err)
	require.Empty(t, seen.State)
	_, err = outside.Spans(t.Context(), c.kafka, c.app+"-totals-changelog")
	require.ErrorContains(t, err, "there is no topic")
}

// A reset that ends in the middle, wherever that is, leaves an application that refuses to run, and is done by running it again.
func TestResetThatFailsHalfWay(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 1}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	c := newCounter(t, b.Addrs())
	c.write(time.Hour, "a", "b", "a", "c")
	require.Equal(t, map[string]int64{"a": 2, "b": 1, "c": 1}, c.runs(4))

	for name, fails := range map[string]func(*broker.Broker){"the topics": refuseTopics, "the offsets of topics": refuseOffsetDelete, "the last commit": refuseSecondCommit} {
		fails(b)
		_, diagnostics, err := command(t, "group", "reset", "-brokers", c.addrs[0], "-app", c.app, "-by", "2h", "-state-dir", c.state, "-execute")
		require.ErrorContains(t, err, "AUTHORIZATION_FAILED", name)
		require.ErrorContains(t, err, "needs the operation", name)
		require.ErrorContains(t, err, "the reset is half done", name)
		require.Contains(t, diagnostics, "deleting 2 offsets of internal topics", name)

		err = <-c.start(t.Context())
		var half *streams.HalfResetError
		require.ErrorAs(t, err, &half, name)
		require.Equal(t, c.in, half.Part.Topic)
		out, _, err := command(t, "group", "lag", "-brokers", c.addrs[0], "-app", c.app)
		require.ErrorContains(t, err, "a reset was begun and is not finished")
		require.Contains(t, out, "kind   understudy")

		c.reset("-by", "2h", "-state-dir", c.state)
		requireNoState(t, c)
		require.Equal(t, map[string]int64{"a": 2, "b": 1, "c": 1}, c.runs(4), name)
	}
}

// The state of a process that runs is not taken from under it, whatever the group looks like.
func TestResetWaitsForTheStateDirectory(t *testing.T) {
	t.Parallel()
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 1}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	state := t.TempDir()
	d, err := pebblestore.OpenDir(state, "g", pebblestore.Options{})
	require.NoError(t, err)
	commits(t, b.Addrs(), "g", task.InputOffset{TopicPartition: in(0)})
	_, _, err = command(t, "group", "reset", "-brokers", b.Addrs()[0], "-app", "g", "-to", "earliest", "-state-dir", state, "-execute")
	require.ErrorAs(t, err, new(*pebblestore.LockedError))
	require.NoError(t, d.Close())
	_, _, err = command(t, "group", "reset", "-brokers", b.Addrs()[0], "-app", "g", "-to", "earliest", "-state-dir", state, "-execute")
	require.NoError(t, err)
	seen, err := pebblestore.Look(state, "g")
	require.False(t, errors.Is(err, fs.ErrNotExist), fmt.Sprint(err))
	require.Empty(t, seen.State)
}

// refuseTopics lets the broker refuse the next deletion of topics.
func refuseTopics(b *broker.Broker) {
	b.Cluster().ControlKey(int16(kmsg.DeleteTopics), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.DeleteTopicsRequest)
		res := asked.ResponseKind().(*kmsg.DeleteTopicsResponse)
		for _, t := range asked.Topics {
			told := kmsg.NewDeleteTopicsResponseTopic()
			told.Topic, told.ErrorCode = t.Topic, int16(kcode.TopicAuthorizationFailed)
			res.Topics = append(res.Topics, told)
		}
		return res, nil, true
	})
}

func refuseOffsetDelete(b *broker.Broker) {
	b.Cluster().ControlKey(int16(kmsg.OffsetDelete), func(req kmsg.Request) (kmsg.Response, error, bool) {
		res := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
		res.ErrorCode = int16(kcode.GroupAuthorizationFailed)
		return res, nil, true
	})
}

// refuseSecondCommit lets one commit of offsets through, and not the next.
func refuseSecondCommit(b *broker.Broker) {
	n := 0
	b.Cluster().ControlKey(int16(kmsg.OffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		if n++; n != 2 {
			b.Cluster().KeepControl()
			return nil, nil, false
		}
		asked, res := req.(*kmsg.OffsetCommitRequest), req.ResponseKind().(*kmsg.OffsetCommitResponse)
		for _, t := range asked.Topics {
			topic := kmsg.NewOffsetCommitResponseTopic()
			topic.Topic = t.Topic
			for _, p := range t.Partitions {
				part := kmsg.NewOffsetCommitResponseTopicPartition()
				part.Partition, part.ErrorCode = p.Partition, int16(kcode.GroupAuthorizationFailed)
				topic.Partitions = append(topic.Partitions, part)
			}
			res.Topics = append(res.Topics, topic)
		}
		return res, nil, true
	})
}
