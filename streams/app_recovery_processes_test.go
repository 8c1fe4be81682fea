package streams_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

var recoveryLag = flag.Int("recovery.lag", 0, "records of one more case of the processes that are killed while they recover, such as 1000000")

// recoveryEnv makes the test binary an application that recovers in parallel: brokers, application id, state directory, input and output topic,
// and what a record takes in microseconds.
const recoveryEnv = "UNDERSTUDY_TEST_RECOVERY"

func recoveryChild(spec string) int {
	f := strings.Split(spec, "|")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	micros, err := strconv.Atoi(f[5])
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	b := streams.NewBuilder()
	b.Stream(f[3], serde.String, serde.String).
		TryMapValues("work", func(_ context.Context, r streams.Record[string, string]) (string, error) {
			time.Sleep(time.Duration(micros) * time.Microsecond)
			return r.Value, nil
		}).
		To(f[4])
	log := zap.NewNop()
	if os.Getenv("UNDERSTUDY_TEST_LOG") != "" {
		log = zap.Must(zap.NewDevelopment())
	}
	app, err := streams.New(b, streams.Config{
		ApplicationID: f[1], Brokers: strings.Split(f[0], ","), StateDir: f[2], Recovery: streams.RecoverParallel, RecoverAbove: 50,
		OnFailure: retry.Parallel(retry.Workers(4)), CommitInterval: 100 * time.Millisecond, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond, Log: log,
		Listener: streams.Listener{
			State:        func(s streams.State) { fmt.Println("state", s) },
			Recovery:     func(r streams.Recovery) { fmt.Println(r.State, r) },
			RecoveryLost: func(_ string, _ int32, r streams.OffsetRange) { fmt.Println("lost", r.From, r.To) },
		},
	})
	if err == nil {
		err = app.Run(ctx)
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

func (b *bed) spawnRecovering(dir, in, out string, perRecord time.Duration, env ...string) *process {
	b.t.Helper()
	p := &process{t: b.t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), recoveryEnv+"="+strings.Join([]string{
		strings.Join(b.addrs, ","), b.name("app"), dir, in, out, strconv.FormatInt(perRecord.Microseconds(), 10),
	}, "|"))
	p.cmd.Env = append(p.cmd.Env, env...)
	p.begin()
	return p
}

// A process is killed, the log grows, and the one that takes over is killed in the middle of the replay: what is new comes first each time, and in
// the end every record has been processed.
func TestAppRecoveryProcessesKilledAtAnyLagLoseNothing(t *testing.T) {
	notShort(t)
	lags := []int{100, 10_000}
	if *recoveryLag > 0 {
		lags = []int{*recoveryLag}
	}
	for _, lag := range lags {
		t.Run(strconv.Itoa(lag), func(t *testing.T) {
			t.Parallel()
			realBed(t).killAtLag(lag)
		})
	}
}

func (b *bed) killAtLag(lag int) {
	t := b.t
	in, out, dir := b.topic("in", 1), b.topic("out", 1), t.TempDir()
	perRecord := max(20*time.Microsecond, min(8*time.Second/time.Duration(lag), 50*time.Millisecond))
	results := b.follow(out)
	b.numbered(in, 0, 0, 10)
	first := b.spawnRecovering(dir, in, out, perRecord).running()
	require.Eventually(t, func() bool { return b.offset("app", in, 0) == 10 }, 20*time.Second, 20*time.Millisecond)
	_ = first.end(syscall.SIGKILL) // it has no way to exit well
	b.numbered(in, 0, 10, 10+lag)

	fresh := 10 + lag
	for range 2 {
		began := b.offset("app", in, 0)
		p := b.spawnRecovering(dir, in, out, perRecord)
		require.Eventually(t, func() bool { return p.said("replaying") > 0 }, 40*time.Second, 10*time.Millisecond, "no replay begins")
		b.numbered(in, 0, fresh, fresh+20)
		require.Eventually(t, func() bool { return results.has(fresh, fresh+20) }, time.Minute, 5*time.Millisecond, "what is new is not processed")
		require.False(t, results.has(10, 10+lag), "what is new has waited for the gap")
		fresh += 20
		// Whoever is killed without having got on leaves a record suspected of it, and then nothing is begun beside another.
		require.Eventually(t, func() bool { return b.offset("app", in, 0) > began }, 20*time.Second, 5*time.Millisecond, "the replay does not get on")
		_ = p.end(syscall.SIGKILL)
		require.Zero(t, p.said("done"), "the replay was over already")
	}
	last := b.spawnRecovering(dir, in, out, perRecord)
	require.Eventually(t, func() bool { return b.offset("app", in, 0) == int64(fresh) }, 2*time.Minute, 100*time.Millisecond, "the gap is not closed")
	require.Zero(t, last.said("lost"))
	require.NoError(t, last.end(syscall.SIGTERM))
	require.True(t, results.has(0, fresh), "a record was lost")
	t.Logf("%d results of %d records", results.count(), fresh)
}

// results are the numbers that a topic has by now.
type results struct {
	mu   sync.Mutex
	seen map[int]bool
	n    int
}

// follow reads a topic of numbers until the end of the test.
func (b *bed) follow(topic string) *results {
	b.t.Helper()
	k, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...), kgo.ConsumeTopics(topic), kgo.FetchMaxWait(50*time.Millisecond))
	require.NoError(b.t, err)
	r := &results{seen: map[int]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			k.PollFetches(ctx).EachRecord(r.take)
		}
	}()
	b.t.Cleanup(func() { stop(); <-done; k.Close() })
	return r
}

func (r *results) take(one *kgo.Record) {
	n, err := strconv.Atoi(string(one.Value))
	if err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[n] = true
	r.n++
}

func (r *results) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.n
}

// has reports whether all the numbers from from to below to are there.
func (r *results) has(from, to int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for ; from < to; from++ {
		if !r.seen[from] {
			return false
		}
	}
	return true
}
