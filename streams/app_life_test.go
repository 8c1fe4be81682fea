package streams_test

import (
	"context"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

func TestAppRunsOnce(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	r := b.run(copyTopic(in, to), b.config("once"))
	r.ready()
	require.ErrorIs(t, r.app.Run(t.Context()), streams.ErrAlreadyRun)
	require.True(t, r.app.Ready(), "the first Run does not notice")
	require.NoError(t, r.end())
	require.Equal(t, streams.StateClosed, r.app.State())
	require.ErrorIs(t, r.app.Run(t.Context()), streams.ErrAlreadyRun)
	require.NoError(t, r.app.Close(t.Context()))
	require.NoError(t, r.app.Close(t.Context()), "closing a closed one is no fault")
}

func TestAppCloseBeforeRun(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	app, err := streams.New(countWords(in, to), b.config("never"))
	require.NoError(t, err)
	require.Equal(t, streams.StateCreated, app.State())
	require.NoError(t, app.Close(t.Context()))
	require.NoError(t, app.Run(t.Context()))
	require.Equal(t, streams.StateClosed, app.State())
	require.Zero(t, b.partitions(b.name("never-word-counts-changelog")), "nothing was begun")
}

func TestAppRunWithAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	app, err := streams.New(copyTopic(b.topic("in", 1), b.topic("out", 1)), b.config("ended"))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, app.Run(ctx))
}

// deaf is an address that accepts connections and never answers.
func deaf(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

func TestAppCloseWhileItStarts(t *testing.T) {
	soon(t)
	for name, addr := range map[string]string{"deaf": deaf(t), "down": freeAddr(t)} {
		var seen atomic.Int32
		c := streams.Config{ApplicationID: "a", Brokers: []string{addr}, Log: testLog(t)}
		c.Listener.State = func(s streams.State) {
			if s == streams.StateStarting {
				seen.Add(1)
			}
		}
		app, err := streams.New(copyTopic("in", "out"), c)
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- app.Run(context.Background()) }()
		require.Eventually(t, func() bool { return seen.Load() > 0 }, 5*time.Second, time.Millisecond)
		require.False(t, app.Ready())
		began := time.Now()
		require.NoError(t, app.Close(t.Context()), name)
		require.NoError(t, <-done)
		require.Less(t, time.Since(began), 8*time.Second, "it does not wait for brokers")
	}
}

func freeAddr(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

func portOf(t *testing.T, addr string) int {
	_, port, err := net.SplitHostPort(addr)
	require.NoError(t, err)
	n, err := strconv.Atoi(port)
	require.NoError(t, err)
	return n
}

// gate is a function of the user that waits when it sees the value "block", without a look at its context.
type gate struct {
	entered chan struct{}
	open    chan struct{}
}

func newGate(t *testing.T) *gate {
	g := &gate{entered: make(chan struct{}, 100), open: make(chan struct{})}
	t.Cleanup(g.release)
	return g
}

func (g *gate) release() {
	select {
	case <-g.open:
	default:
		close(g.open)
	}
}

func (g *gate) pass(in, out string) *streams.Builder {
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).MapValues(func(v string) string {
		if v == "block" {
			g.entered <- struct{}{}
			<-g.open
		}
		return v
	}).To(out)
	return sb
}

// F19: Close with a deadline, while a function of the user blocks.
func TestAppF19CloseWhileAUserFunctionBlocks(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 2), b.topic("out", 2)
		g := newGate(t)
		c := b.config("f19")
		r := b.run(g.pass(in, to), c)
		b.values(in, 0, "a", "b")
		b.values(in, 1, "c")
		r.until("commits", func() bool { return b.committedAt("f19", in, 0) == 2 && b.committedAt("f19", in, 1) == 1 })
		b.values(in, 1, "block", "d")
		<-g.entered
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := r.app.Close(ctx)
		require.Less(t, time.Since(began), 8*time.Second, "not as long as CloseTimeout")
		var ce *streams.CloseError
		require.ErrorAs(t, err, &ce)
		require.Equal(t, []streams.TaskID{{Partition: 1}}, ce.Tasks, "the other one is committed and closed")
		require.Equal(t, []streams.Call{{Task: streams.TaskID{Partition: 1}, Part: task.TopicPartition{Topic: in, Partition: 1}, Offset: 1}}, ce.Calls)
		require.ErrorContains(t, err, in+"-1 at offset 1")
		require.ErrorAs(t, r.fails(), &ce)
		require.EqualValues(t, 1, b.committedAt("f19", in, 1))
		require.EqualValues(t, 2, b.committedAt("f19", in, 0))

		g.release()
		r = b.run(copyTopic(in, to), c)
		r.until("all of them", func() bool { return b.committedAt("f19", in, 1) == 3 })
		require.NoError(t, r.end())
		require.Len(t, b.all(to), 5, "what was not committed came again, once")
	})
}

// The state directory is free, whatever the user's function does with its store later.
func TestAppF19AStoreOutlivesNobody(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	g := newGate(t)
	c := b.config("stuck")
	store := streams.NewStore("rows", serde.String, serde.String)
	came := make(chan struct{})
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).Process("p", func(i *streams.Init) streams.Processor[string, string, string, string] {
		rows := store.Open(i)
		return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
			if r.Value == "block" {
				defer close(came)
				g.entered <- struct{}{}
				<-g.open
				rows.Get("k")
			}
			rows.Put(r.Value, r.Value)
			c.Forward(r)
			return nil
		})
	}, streams.WithStores(store)).To(to)
	b.values(in, 0, "a", "block")
	r := b.run(sb, c)
	<-g.entered
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	var ce *streams.CloseError
	require.ErrorAs(t, r.app.Close(ctx), &ce)
	err := r.fails()
	require.ErrorAs(t, err, &ce)
	require.NotContains(t, err.Error(), "are open", "the database is closed")
	again := b.run(countWords(in, to), c)
	again.ready()
	g.release()
	<-came
	require.NoError(t, again.end())
}

// F19 b: produce requests that are never answered hold up neither Close nor the truth.
func TestAppF19ProduceRequestsWithoutAnAnswer(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	c := b.config("lost")
	b.values(in, 0, "a")
	r := b.run(copyTopic(in, to), c)
	r.until("a commit", func() bool { return b.committedAt("lost", in, 0) == 1 })
	var drop atomic.Bool
	drop.Store(true)
	swallowed := make(chan struct{}, 100)
	b.embedded.Cluster().ControlKey(int16(kmsg.Produce), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.embedded.Cluster().KeepControl()
		p := req.(*kmsg.ProduceRequest)
		if !drop.Load() || len(p.Topics) == 0 || p.Topics[0].Topic != to && p.Topics[0].TopicID != b.embedded.Cluster().TopicInfo(to).TopicID {
			return nil, nil, false
		}
		swallowed <- struct{}{}
		return nil, nil, true
	})
	b.values(in, 0, "b")
	<-swallowed
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	began := time.Now()
	var ce *streams.CloseError
	require.ErrorAs(t, r.app.Close(ctx), &ce)
	require.Less(t, time.Since(began), 8*time.Second, "not as long as CloseTimeout")
	require.Equal(t, []streams.TaskID{{}}, ce.Tasks)
	require.Empty(t, ce.Calls, "no user function is to blame")
	require.EqualValues(t, 1, b.committedAt("lost", in, 0), "nothing is committed that was not acknowledged")
	require.ErrorAs(t, r.fails(), &ce)

	drop.Store(false)
	r = b.run(copyTopic(in, to), c)
	r.until("the rest", func() bool { return b.committedAt("lost", in, 0) == 2 })
	require.NoError(t, r.end())
	require.Len(t, b.all(to), 2)
}

func TestAppStartsByItselfWhenBrokersCome(t *testing.T) {
	addr := freeAddr(t)
	var states []streams.State
	var retries []string
	c := streams.Config{
		ApplicationID: "late", Brokers: []string{addr}, StateDir: t.TempDir(), CommitInterval: 50 * time.Millisecond, Log: testLog(t),
		Listener: streams.Listener{
			State: func(s streams.State) { states = append(states, s) },
			Retry: func(what string, err error) { retries = append(retries, what+": "+err.Error()) },
		},
	}
	b := &bed{t: t, prefix: ""}
	r := b.run(countWords("in", "out"), c)
	r.until("it to look for them", func() bool { return r.app.State() == streams.StateStarting })
	require.Never(t, func() bool { return r.app.Ready() || len(r.done) > 0 }, 300*time.Millisecond, 20*time.Millisecond)
	require.Equal(t, streams.StateStarting, r.app.State())
	started, err := broker.Start(broker.Options{Port: portOf(t, addr), Topics: map[string]int32{"in": 1, "out": 1}})
	require.NoError(t, err)
	t.Cleanup(started.Close)
	*b = *newBed(t, started.Addrs(), started)
	r.ready()
	b.values("in", 0, "a")
	r.until("the count", func() bool { return b.counts("out")["a"] == 1 })
	require.NoError(t, r.end())
	require.NotEmpty(t, retries)
	require.Contains(t, retries[0], addr, "it says whom it waits for")
	require.Equal(t, streams.StateStarting, states[0])
	require.Equal(t, []streams.State{streams.StateClosing, streams.StateClosed}, states[len(states)-2:])
}

func TestAppBrokerRestartInTheMiddle(t *testing.T) {
	options := broker.Options{DataDir: t.TempDir(), Port: portOf(t, freeAddr(t))}
	started, err := broker.Start(options)
	require.NoError(t, err)
	b := newBed(t, started.Addrs(), started)
	in, to := b.topic("in", 2), b.topic("out", 1)
	r := b.run(countWords(in, to), b.config("restart"))
	b.values(in, 0, "a b")
	r.until("the first counts", func() bool { return b.counts(to)["b"] == 1 })
	r.until("a commit", func() bool { return b.committedAt("restart", in, 0) == 1 })
	started.Close()
	started, err = broker.Start(options)
	require.NoError(t, err)
	t.Cleanup(started.Close)
	b = newBed(t, started.Addrs(), started)
	b.prefix = strings.TrimSuffix(in, "in")
	b.values(in, 0, "a")
	b.values(in, 1, "b c")
	r.until("the counts", func() bool { n := b.counts(to); return n["a"] == 2 && n["b"] == 2 && n["c"] == 1 })
	require.NoError(t, r.end())
	require.EqualValues(t, 2, b.committedAt("restart", in, 0))
	require.EqualValues(t, 1, b.committedAt("restart", in, 1))
}

// A group that refuses the member for good ends the application at once, with the broker's answer.
func TestAppGroupThatRefuses(t *testing.T) {
	soon(t)
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	b.embedded.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.JoinGroup}, Err: kerr.GroupAuthorizationFailed, Count: -1})
	err := b.run(copyTopic(in, to), b.config("refused")).fails()
	require.ErrorIs(t, err, kcode.GroupAuthorizationFailed)
	require.ErrorContains(t, err, b.name("refused"))
	require.ErrorContains(t, err, "READ on the group")
}

func TestAppStartedAndStoppedOftenLeavesNothing(t *testing.T) {
	b := embeddedBed(t)
	in, to := b.topic("in", 2), b.topic("out", 1)
	c := b.config("often")
	cycle := func(n int) {
		r := b.run(countWords(in, to), c)
		b.values(in, 0, "a")
		r.until("the count", func() bool { return b.counts(to)["a"] == int64(n) })
		require.NoError(t, r.end())
	}
	for i := range 20 {
		cycle(i + 1)
	}
	require.Eventually(t, func() bool { return len(ours()) == 0 }, 5*time.Second, 10*time.Millisecond, "%v", ours)
}

// ours are the goroutines of the runtime and of the libraries that it starts, those of tests and of the embedded broker left out.
func ours() (stacks []string) {
	buf := make([]byte, 8<<20)
	for _, stack := range strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		for _, owner := range []string{"understudy/streams.", "understudy/internal/shell", "understudy/internal/kafka", "understudy/internal/group", "understudy/statestore", "IBM/sarama", "cockroachdb/pebble"} {
			if strings.Contains(stack, owner) {
				stacks = append(stacks, stack)
				break
			}
		}
	}
	return stacks
}
