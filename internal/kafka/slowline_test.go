package kafka

import (
	"bytes"
	"context"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/badnet"
	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/task"
)

// smallBuffer dials connections whose send buffer is small, so that writing takes as long as the line does.
type smallBuffer struct{ badnet.Routes }

func (d smallBuffer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	c, err := d.Routes.DialContext(ctx, network, addr)
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(16 << 10)
	}
	return c, err
}

// A request or an answer that takes the line longer than a request has gets through all the same, as long as something moves.
func TestALineThatIsSlowIsNotSilent(t *testing.T) {
	k := embedded(t, broker.Options{Brokers: 1})
	n, err := badnet.New(k.addrs)
	require.NoError(t, err)
	t.Cleanup(n.Close)
	c := open(t, Config{Brokers: k.addrs, RequestTimeout: 700 * time.Millisecond, Sarama: func(conf *SaramaConfig) {
		conf.Net.Proxy.Enable, conf.Net.Proxy.Dialer = true, smallBuffer{n.Routes()}
	}})
	tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
	value := make([]byte, 950_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(value) // never fails
	p, err := c.DialProduce(within(t), 0)
	require.NoError(t, err)
	defer p.Close()
	f, err := c.DialFetch(within(t), 0)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, n.Spoil(badnet.Fault{Kind: "bandwidth", Values: map[string]int{"rate": 500}}))

	began := time.Now()
	got := make(chan error, 1)
	req := ProduceRequest{Acks: -1, Timeout: 500 * time.Millisecond, Batches: []ProduceBatch{plainBatch(tp, task.OutRecord{Value: value})}}
	require.NoError(t, p.Produce(req, func(_ ProduceResponse, err error) { got <- err }))
	require.NoError(t, <-got)
	require.Greater(t, time.Since(began), 1300*time.Millisecond, "the request takes longer than a request has")

	began = time.Now()
	res, err := f.Fetch(FetchRequest{MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, Parts: []FetchPart{{TopicPartition: tp, MaxBytes: 1 << 20, LeaderEpoch: -1}}})
	require.NoError(t, err)
	require.Greater(t, time.Since(began), 1500*time.Millisecond, "the answer takes longer than a request has")
	require.True(t, bytes.Equal(value, records(res.Parts[0].Batch)[0].Value))

	require.NoError(t, n.Heal())
	require.NoError(t, n.Spoil(badnet.Fault{Kind: badnet.Held, Way: badnet.Down}))
	began = time.Now()
	_, err = f.Fetch(FetchRequest{MaxWait: 100 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20, Parts: []FetchPart{{TopicPartition: tp, MaxBytes: 1 << 20, LeaderEpoch: -1}}})
	require.Error(t, err)
	require.Less(t, time.Since(began), 5*time.Second, "a silent line is given up")
}
