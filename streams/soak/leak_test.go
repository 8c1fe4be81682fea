package soak

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// lives starts and ends applications, one after the other.
type lives struct {
	t      *testing.T
	addrs  []string
	client *broker.Client
	rng    *rand.Rand
	prefix string
	dir    string
	ran    map[string]int // how often each kind of life was led
}

// kinds are the lives there are. Each has stores.
var kinds = []struct {
	name string
	live func(*lives)
}{
	{"clean", func(l *lives) { l.untilReady() }},
	{"cancelled", func(l *lives) { l.cancelled() }},
	{"closed", func(l *lives) { l.closed() }},
	{"missing topic", func(l *lives) { l.missingTopic() }},
	{"no broker", func(l *lives) { l.noBroker() }},
	{"locked", func(l *lives) { l.locked() }},
	{"poison", func(l *lives) { l.poison() }},
}

var errPoison = errors.New("poison")

// topology counts the words of a topic and fails at one of them.
func (l *lives) topology(in string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.String).
		TryMapValues("refuse", func(_ context.Context, r streams.Record[string, string]) (string, error) {
			if r.Value == "poison" {
				return "", errPoison
			}
			return r.Value, nil
		}).
		GroupBy(func(_, word string) string { return word }).
		Count("words").
		ToStream().
		To(l.prefix + "out")
	return b
}

func newLives(t *testing.T, addrs []string, seed uint64) *lives {
	l := &lives{t: t, addrs: addrs, rng: rand.New(rand.NewPCG(seed, 0)), prefix: fmt.Sprintf("lives-%d-", os.Getpid()), dir: t.TempDir(), ran: map[string]int{}}
	t.Logf("seed %d", seed)
	var err error
	l.client, err = broker.NewClient(addrs)
	require.NoError(t, err)
	t.Cleanup(l.client.Close)
	for _, topic := range []string{"in", "bad", "out"} {
		require.NoError(t, l.client.CreateTopic(l.ctx(), l.prefix+topic, 3, nil))
	}
	l.put("in", "a", "b", "c")
	l.put("bad", "a", "poison")
	return l
}

func (l *lives) ctx() context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	l.t.Cleanup(cancel)
	return ctx
}

func (l *lives) put(topic string, words ...string) {
	for _, w := range words {
		r := task.OutRecord{Value: []byte(w), Timestamp: time.Now().UnixMilli()}
		require.NoError(l.t, l.client.Produce(l.ctx(), task.TopicPartition{Topic: l.prefix + topic}, r))
	}
}

// app makes an application with an input topic of its own.
func (l *lives) app(id, in string, change func(*streams.Config)) *streams.App {
	c := streams.Config{
		ApplicationID: l.prefix + id, Brokers: l.addrs, StateDir: l.dir, Memory: 32 << 20,
		CommitInterval: 20 * time.Millisecond, Heartbeat: 50 * time.Millisecond, CloseTimeout: 10 * time.Second,
	}
	if change != nil {
		change(&c)
	}
	a, err := streams.New(l.topology(l.prefix+in), c)
	require.NoError(l.t, err)
	return a
}

// untilReady waits until an application is ready, or for its end, and ends it.
func (l *lives) untilReady() {
	ready := make(chan struct{}, 10)
	a := l.app("good", "in", func(c *streams.Config) {
		c.Listener.State = func(s streams.State) {
			if s == streams.StateRunning {
				ready <- struct{}{}
			}
		}
	})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	select {
	case <-ready:
		cancel()
		require.NoError(l.t, <-done)
	case err := <-done:
		require.NoError(l.t, err, "it has ended")
	case <-time.After(30 * time.Second):
		require.Fail(l.t, "it does not become ready")
	}
}

// cancelled ends Run at a moment that is no particular one.
func (l *lives) cancelled() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(l.rng.IntN(100))*time.Millisecond)
	defer cancel()
	require.NoError(l.t, l.app("good", "in", nil).Run(ctx))
}

// closed calls Close with little time, so that the end may be given up.
func (l *lives) closed() {
	a := l.app("good", "in", nil)
	done := make(chan error, 1)
	go func() { done <- a.Run(context.Background()) }()
	for a.State() == streams.StateCreated {
		runtime.Gosched()
	}
	time.Sleep(time.Duration(l.rng.IntN(60)) * time.Millisecond) // the moment at which it is closed is what differs
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+l.rng.IntN(300))*time.Millisecond)
	defer cancel()
	_ = a.Close(ctx) // clean or not
	<-done
}

func (l *lives) missingTopic() {
	a := l.app("missing", "nothing", nil)
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_ = a.Run(ctx) // it says so after a few seconds only
}

func (l *lives) noBroker() {
	a := l.app("good", "in", func(c *streams.Config) { c.Brokers = []string{"127.0.0.1:1"} })
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	require.NoError(l.t, a.Run(ctx))
}

func (l *lives) locked() {
	first := l.app("good", "in", nil)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- first.Run(ctx) }()
	for first.State() == streams.StateCreated {
		time.Sleep(time.Millisecond)
	}
	require.ErrorContains(l.t, l.app("good", "in", nil).Run(context.Background()), "is in use")
	cancel()
	require.NoError(l.t, <-done)
}

func (l *lives) poison() {
	err := l.app("bad", "bad", nil).Run(context.Background())
	require.ErrorIs(l.t, err, errPoison)
}

// holdings is what a process holds on to.
type holdings struct {
	goroutines, files int
	heap              int64
}

// now waits until what ends by itself has ended: the broker's side of connections, and what it does after an answer.
func now(atMost holdings) (h holdings) {
	for range 100 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		files, _ := os.ReadDir("/proc/self/fd")
		h = holdings{runtime.NumGoroutine(), len(files), int64(m.HeapAlloc)}
		if h.goroutines <= atMost.goroutines && h.files <= atMost.files {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	return h
}

// many leads n lives and compares what is held after the warmth of a quarter of them with what is held at the end.
func (l *lives) many(n int) {
	temporary := l.t.TempDir()
	l.t.Setenv("TMPDIR", temporary)
	var base holdings
	for i := range n {
		k := kinds[i%len(kinds)]
		if i >= len(kinds) { // each at least once, then at random
			k = kinds[l.rng.IntN(len(kinds))]
		}
		l.ran[k.name]++
		k.live(l)
		if i == n/4 {
			base = now(holdings{})
		}
	}
	end := now(base)
	l.t.Logf("%v; after %d: %+v, after %d: %+v", l.ran, n/4+1, base, n, end)
	require.LessOrEqual(l.t, end.goroutines, base.goroutines)
	require.LessOrEqual(l.t, end.files, base.files, "file descriptors, connections among them")
	require.Less(l.t, end.heap-base.heap, int64(4<<20), "of the heap")
	left, err := filepath.Glob(filepath.Join(l.dir, "*", "*"))
	require.NoError(l.t, err)
	for _, path := range left {
		require.Contains(l.t, []string{"db", "lock", "process-id"}, filepath.Base(path), "left in the state directory")
	}
	left, err = filepath.Glob(filepath.Join(temporary, "*"))
	require.NoError(l.t, err)
	require.Empty(l.t, left, "temporary files")
}

func TestLivesLeaveNothingBehind(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a while")
	}
	seed := uint64(time.Now().UnixNano())
	t.Run("embedded", func(t *testing.T) {
		b, err := broker.Start(broker.Options{})
		require.NoError(t, err)
		t.Cleanup(b.Close)
		newLives(t, b.Addrs(), seed).many(200)
	})
	t.Run("real", func(t *testing.T) { newLives(t, realkafka.Shared(t).Addrs(), seed).many(20) })
}
