package shell

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

// A fetch that waits at a broker for records that nobody wants keeps waiting who has come meanwhile.
func TestFetchLoopAsksForWhatIsWantedNow(t *testing.T) {
	source := func(n int32) engine.FetchSource {
		return engine.FetchSource{TopicPartition: task.TopicPartition{Topic: "log", Partition: n}, Epoch: 1}
	}
	f := newFetchers(fetchHost{deliver: func(engine.Purpose, engine.Deliver) { t.Error("of what was removed nothing is delivered") }}, 0)
	l := newFetchLoop(f, loopKey{purpose: engine.Restore})
	defer l.wake.stop()
	require.NotNil(t, l.step(engine.FetchAdd{Source: source(0), Bound: 1 << 20}, nil))
	l.box.put(engine.FetchRemove{Source: source(0)})
	l.box.put(engine.FetchAdd{Source: source(1), Bound: 1 << 20})
	ask := l.answered(engine.FetchAnswered{Parts: []engine.FetchedPart{{TopicPartition: source(0).TopicPartition, Batch: &task.Batch{Next: 7}}}})
	require.NotNil(t, ask)
	require.Len(t, ask.Parts, 1)
	require.Equal(t, source(1).TopicPartition, ask.Parts[0].TopicPartition)
}

// A broker closes a connection that nothing goes over, and the next fetch on it would fail for all partitions: where all that is fetched is paused it
// is closed here before that, and what is resumed is fetched on another one.
func TestFetchLoopWithNothingToAskKeepsNoConnection(t *testing.T) {
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"in": 1}})
	require.NoError(t, err)
	defer b.Close()
	tools, err := broker.NewClient(b.Addrs())
	require.NoError(t, err)
	defer tools.Close()
	client, err := kafka.Open(kafka.Config{Brokers: b.Addrs(), DialTimeout: 5 * time.Second})
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close()) }()
	in := task.TopicPartition{Topic: "in"}
	leaders, err := client.Metadata(t.Context(), []string{"in"})
	require.NoError(t, err)

	came := make(chan engine.Deliver, 10)
	f := newFetchers(fetchHost{
		client: client, answered: func(context.Context, string, error) {},
		deliver: func(_ engine.Purpose, d engine.Deliver) { came <- d },
		lost:    func(l engine.PartLost) { t.Error("lost", l) },
	}, 50*time.Millisecond)
	l := newFetchLoop(f, loopKey{broker: leaders.Topics["in"].Partitions[0].Leader})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); l.run(ctx) }()
	defer func() { stop(); l.interrupt(); <-done }()

	connected := func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.conn != nil
	}
	src := engine.FetchSource{TopicPartition: in}
	for offset := range int64(2) {
		require.NoError(t, tools.Produce(t.Context(), in, task.OutRecord{Value: []byte("v"), Timestamp: 1}))
		if offset == 0 {
			l.box.put(engine.FetchAdd{Source: src, Bound: 1 << 20})
		} else {
			l.box.put(engine.FetchPause{Source: src, Off: true})
		}
		require.Equal(t, offset+1, (<-came).Batch.Next)
		l.box.put(engine.FetchPause{Source: src})
		require.Eventually(t, func() bool { return !connected() }, 10*time.Second, 10*time.Millisecond)
	}
}
