package streams_test

import (
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// bed is what an application runs on in a test: brokers, a client, and names that no other test uses.
type bed struct {
	t        *testing.T
	addrs    []string
	client   *broker.Client
	embedded *broker.Broker // nil on a real broker
	prefix   string
	stateFS  vfs.FS // of the next application; nil is the operating system's
}

var bedNumber atomic.Int64

// late has embedded brokers take their time: what a test waits for must not depend on which of two answers comes first. See `make late`.
var late = broker.Late{}

func init() {
	flag.Var(late, "broker.late", "kinds of requests and how long they are held back, as in OffsetCommit=100ms,Fetch=20ms")
}

// onBrokers runs a test on the embedded broker and on a real one, beside each other and beside other tests.
func onBrokers(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Parallel()
	t.Run("embedded", func(t *testing.T) { t.Parallel(); test(t, embeddedBed(t)) })
	t.Run("real", func(t *testing.T) { t.Parallel(); test(t, realBed(t)) })
}

// onBrokersInTurn is onBrokers for a test that holds something against the clock: nothing else of this package runs meanwhile.
func onBrokersInTurn(t *testing.T, test func(t *testing.T, b *bed)) {
	t.Run("embedded", func(t *testing.T) { test(t, embeddedBed(t)) })
	t.Run("real", func(t *testing.T) { test(t, realBed(t)) })
}

// realBed is on the real broker that the tests of the package share. The short tests, which run under the race detector, do without.
func realBed(t *testing.T) *bed {
	notShort(t)
	return newBed(t, realkafka.Shared(t).Addrs(), nil)
}

// threeBrokers are real brokers for one test, which may kill one of them at a time.
func threeBrokers(t *testing.T) *realkafka.Cluster {
	return realkafka.Start(t, 3, "min.insync.replicas=2", "broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500")
}

func notShort(t *testing.T) {
	if testing.Short() {
		t.Skip("needs a real broker: left out of the short tests")
	}
}

func embeddedBed(t *testing.T) *bed {
	b, err := broker.Start(broker.Options{Late: late})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	return newBed(t, b.Addrs(), b)
}

func newBed(t *testing.T, addrs []string, embedded *broker.Broker, opts ...kgo.Opt) *bed {
	c, err := broker.NewClient(addrs, opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &bed{t: t, addrs: addrs, client: c, embedded: embedded, prefix: fmt.Sprintf("t%d-%d-", os.Getpid(), bedNumber.Add(1))}
}

// in is the same bed for a subtest.
func (b *bed) in(t *testing.T) *bed {
	sub := *b
	sub.t = t
	return &sub
}

func (b *bed) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	b.t.Cleanup(cancel)
	return ctx
}

// name makes a name the test's own.
func (b *bed) name(s string) string { return b.prefix + s }

func (b *bed) topic(name string, partitions int32) string {
	b.t.Helper()
	require.NoError(b.t, b.client.CreateTopic(b.ctx(), b.name(name), partitions, nil))
	return b.name(name)
}

func (b *bed) put(topic string, partition int32, records ...task.OutRecord) {
	b.t.Helper()
	require.NoError(b.t, b.client.Produce(b.ctx(), task.TopicPartition{Topic: topic, Partition: partition}, records...))
}

// values puts values without keys, with the time of now.
func (b *bed) values(topic string, partition int32, values ...string) {
	b.t.Helper()
	var rs []task.OutRecord
	for _, v := range values {
		rs = append(rs, task.OutRecord{Value: []byte(v), Timestamp: time.Now().UnixMilli()})
	}
	b.put(topic, partition, rs...)
}

func (b *bed) all(topic string) []task.Record {
	b.t.Helper()
	var parts map[int32][]task.Record
	require.Eventually(b.t, func() (ok bool) { // a broker may just be down
		var err error
		parts, err = b.client.Consume(b.ctx(), topic)
		return err == nil
	}, 30*time.Second, 100*time.Millisecond, "topic %s cannot be read", topic)
	var out []task.Record
	for p := range int32(len(parts)) {
		out = append(out, parts[p]...)
	}
	return out
}

// counts reads the newest count per key of a topic of int64 values.
func (b *bed) counts(topic string) map[string]int64 {
	b.t.Helper()
	out := map[string]int64{}
	for _, r := range b.all(topic) {
		if r.Value == nil {
			delete(out, string(r.Key))
			continue
		}
		out[string(r.Key)] = int64(binary.BigEndian.Uint64(r.Value))
	}
	return out
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

func (b *bed) committed(group string) map[task.TopicPartition]int64 {
	b.t.Helper()
	offsets, err := b.client.Committed(b.ctx(), group)
	if errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.NotCoordinator) {
		return nil // the group has no home yet
	}
	require.NoError(b.t, err)
	out := map[task.TopicPartition]int64{}
	for tp, o := range offsets {
		out[tp] = o.Offset
	}
	return out
}

// config is a configuration for tests: short times, a state directory of its own.
func (b *bed) config(app string) streams.Config {
	return streams.Config{
		ApplicationID: b.name(app), Brokers: b.addrs, StateDir: b.t.TempDir(),
		CommitInterval: 50 * time.Millisecond, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond, CloseTimeout: 15 * time.Second,
		OnFailure: retry.Stop(), Log: testLog(b.t),
	}
}

func testLog(t *testing.T) *zap.Logger {
	if testing.Verbose() {
		return zaptest.NewLogger(t)
	}
	return zap.NewNop()
}

// running is an application that runs in this process.
type running struct {
	t    *testing.T
	app  *streams.App
	stop context.CancelFunc
	done chan error
	over bool
}

func (b *bed) run(builder *streams.Builder, c streams.Config, tune ...func(*shell.Config)) *running {
	b.t.Helper()
	app, err := streams.New(builder, c)
	require.NoError(b.t, err)
	app.StateOn(b.stateFS)
	for _, f := range tune {
		app.Tune(f)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{t: b.t, app: app, stop: stop, done: make(chan error, 1)}
	go func() { r.done <- app.Run(ctx) }()
	b.t.Cleanup(func() {
		if !r.over {
			stop()
			<-r.done
		}
	})
	return r
}

func (r *running) ready() {
	r.t.Helper()
	r.until("ready", r.app.Ready)
}

// until waits for a condition, and fails at once if the application ends instead.
func (r *running) until(what string, ok func() bool) {
	r.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !ok() {
		select {
		case err := <-r.done:
			r.over = true
			require.Failf(r.t, "the application has ended", "waiting for %s: %v", what, err)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			require.Failf(r.t, "it does not come about", "waiting for %s in state %v", what, r.app.State())
		}
	}
}

// end stops it and returns what Run returned.
func (r *running) end() error {
	r.t.Helper()
	r.stop()
	return r.fails()
}

// fails waits for Run to return.
func (r *running) fails() error {
	r.t.Helper()
	select {
	case err := <-r.done:
		r.over = true
		return err
	case <-time.After(40 * time.Second):
		require.Fail(r.t, "Run does not return")
		return nil
	}
}

type ctxType = context.Context

// countWords counts the words of a topic.
func countWords(in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To(out)
	return b
}

// copyTopic passes values on as they are.
func copyTopic(in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.Bytes, serde.Bytes).MapValues(func(v []byte) []byte { return v }).To(out)
	return b
}
