package kafka

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/task"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if err := realkafka.StopShared(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		os.Exit(code)
	}))
}

// cluster is what a test of both kinds of broker gets.
type cluster struct {
	addrs []string
	real  bool
	fake  *broker.Broker // nil for a real one
	tools *broker.Client
}

// onBoth runs a test against the embedded broker and against a real one.
func onBoth(t *testing.T, f func(t *testing.T, k cluster)) {
	t.Run("embedded", func(t *testing.T) { f(t, embedded(t, broker.Options{})) })
	t.Run("real", func(t *testing.T) {
		if testing.Short() {
			t.Skip("starts a real broker")
		}
		k := cluster{addrs: realkafka.Shared(t).Addrs(), real: true}
		k.tools = tools(t, k.addrs)
		f(t, k)
	})
}

func embedded(t *testing.T, o broker.Options) cluster {
	t.Helper()
	b, err := broker.Start(o)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	k := cluster{addrs: b.Addrs(), fake: b}
	if o.TLS == nil && len(o.Users) == 0 {
		k.tools = tools(t, k.addrs)
	}
	return k
}

func tools(t *testing.T, addrs []string) *broker.Client {
	t.Helper()
	c, err := broker.NewClient(addrs)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func (k cluster) client(t *testing.T) *Client {
	t.Helper()
	return open(t, Config{Brokers: k.addrs})
}

func open(t *testing.T, cfg Config) *Client {
	t.Helper()
	c, err := Open(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

var topics atomic.Int64

// topic creates a topic and waits until its leaders are known.
func (k cluster) topic(t *testing.T, c *Client, partitions int32, configs map[string]string) string {
	t.Helper()
	name := fmt.Sprintf("t%d-%d", os.Getpid(), topics.Add(1))
	errs, err := c.CreateTopics(within(t), []NewTopic{{Name: name, Partitions: partitions, Replication: -1, Configs: configs}})
	require.NoError(t, err)
	require.NoError(t, errs[name])
	require.Eventually(t, func() bool {
		m, err := c.Metadata(within(t), []string{name})
		if err != nil || m.Topics[name] == nil || len(m.Topics[name].Partitions) != int(partitions) {
			return false
		}
		for _, p := range m.Topics[name].Partitions {
			if p.Leader < 0 || p.Err != kcode.None {
				return false
			}
		}
		// The leader itself may learn of it a little later.
		var tps []task.TopicPartition
		for p := range partitions {
			tps = append(tps, task.TopicPartition{Topic: name, Partition: p})
		}
		starts, err := c.ListOffsets(within(t), Earliest, tps)
		for _, s := range starts {
			err = errors.Join(err, s.Err)
		}
		return err == nil
	}, 20*time.Second, 10*time.Millisecond)
	return name
}

// leader gives a partition's leader and its epoch.
func leader(t *testing.T, c *Client, tp task.TopicPartition) Partition {
	t.Helper()
	m, err := c.Metadata(within(t), []string{tp.Topic})
	require.NoError(t, err)
	return m.Topics[tp.Topic].Partitions[tp.Partition]
}

func fetcher(t *testing.T, c *Client, tp task.TopicPartition) *FetchConn {
	t.Helper()
	f, err := c.DialFetch(within(t), leader(t, c, tp).Leader)
	require.NoError(t, err)
	t.Cleanup(f.Close)
	return f
}

func producer(t *testing.T, c *Client, tp task.TopicPartition) *ProduceConn {
	t.Helper()
	p, err := c.DialProduce(within(t), leader(t, c, tp).Leader)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return p
}

// send produces one request and waits for its answer.
func send(t *testing.T, p *ProduceConn, batches ...ProduceBatch) []ProducedPart {
	t.Helper()
	type answer struct {
		res ProduceResponse
		err error
	}
	got := make(chan answer, 1)
	req := ProduceRequest{Acks: -1, Timeout: 10 * time.Second, Batches: batches}
	require.NoError(t, p.Produce(req, func(r ProduceResponse, err error) { got <- answer{r, err} }))
	a := <-got
	require.NoError(t, a.err)
	return a.res.Parts
}

func plainBatch(tp task.TopicPartition, records ...task.OutRecord) ProduceBatch {
	return ProduceBatch{TopicPartition: tp, ProducerID: -1, Epoch: -1, FirstSequence: -1, Groups: []*task.Group{task.NewGroup(tp, records...)}}
}

// mustSend produces without a producer id and expects success.
func mustSend(t *testing.T, p *ProduceConn, tp task.TopicPartition, records ...task.OutRecord) int64 {
	t.Helper()
	parts := send(t, p, plainBatch(tp, records...))
	require.Len(t, parts, 1)
	require.Equal(t, kcode.None, parts[0].Code, parts[0].Message)
	return parts[0].BaseOffset
}

func fetchOnce(t *testing.T, f *FetchConn, part FetchPart, committed bool) FetchedPart {
	t.Helper()
	if part.MaxBytes == 0 {
		part.MaxBytes = 1 << 20
	}
	res, err := f.Fetch(FetchRequest{
		MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 64 << 20, ReadCommitted: committed, Parts: []FetchPart{part},
	})
	require.NoError(t, err)
	require.Equal(t, kcode.None, res.Code)
	require.Len(t, res.Parts, 1)
	require.Equal(t, part.TopicPartition, res.Parts[0].TopicPartition)
	return res.Parts[0]
}

// fetchTo reads from one offset until the position is at another.
func fetchTo(t *testing.T, f *FetchConn, tp task.TopicPartition, from, to int64, epoch int32, committed bool) []task.Record {
	t.Helper()
	var out []task.Record
	for deadline := time.Now().Add(30 * time.Second); from < to; {
		require.True(t, time.Now().Before(deadline), "stuck at %d of %d", from, to)
		p := fetchOnce(t, f, FetchPart{TopicPartition: tp, Offset: from, LeaderEpoch: epoch}, committed)
		require.Equal(t, kcode.None, p.Code)
		require.NoError(t, p.Err)
		require.GreaterOrEqual(t, p.Batch.Next, from)
		out = append(out, records(p.Batch)...)
		from = p.Batch.Next
	}
	return out
}

// records decodes a batch. The headers are copied: the reader uses theirs again.
func records(b *task.Batch) (out []task.Record) {
	var in task.Reader
	var r task.Record
	for in.Reset(b, 0); in.Next(&r); {
		r.Headers = slices.Clone(r.Headers)
		out = append(out, r)
	}
	return out
}
