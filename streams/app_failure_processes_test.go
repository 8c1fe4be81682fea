package streams_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// failureEnv makes the test binary an application of which half of the records fail; its value is a failureSpec.
const failureEnv = "UNDERSTUDY_FAILURE_CHILD"

func init() { children[failureEnv] = failureChild }

type failureSpec struct {
	Brokers  []string
	App, Dir string
	In, Out  string
	Mode     string
	Workers  int
}

func (s failureSpec) policy() retry.Policy {
	opts := []retry.Option{retry.Backoff(2*time.Millisecond, 50*time.Millisecond), retry.Attempts(50), retry.ThenDeadLetter()}
	if s.Workers > 1 {
		opts = append(opts, retry.Workers(s.Workers))
	}
	switch s.Mode {
	case "stop":
		return retry.Stop(retry.Inline(2))
	case "ordered":
		return retry.Ordered(opts...)
	case "keys":
		return retry.KeyOrdered(opts...)
	default:
		return retry.Parallel(opts...)
	}
}

// fate is what becomes of a record.
type fate int

const (
	isGood   fate = iota
	onceBad       // once in each process
	isDead        // is dead-lettered
	isLong        // is put aside for an hour
	isDeadly      // kills its process
)

// fateOf follows from the value: half of the records fail once, some for ever.
func fateOf(mode, value string) fate {
	h := fnv.New32a()
	_, _ = h.Write([]byte(value))
	n := int(h.Sum32() % 1000)
	switch {
	case strings.HasPrefix(value, "deadly"):
		return isDeadly
	case mode != "stop" && n < 20:
		return isDead
	case strings.HasPrefix(value[1:], "kz") && (mode == "keys" || mode == "parallel") && numberOf(value)%10 == 3:
		return isLong
	case n < 500:
		return onceBad
	}
	return isGood
}

var errHazard = errors.New("hazard")

// hazards are what records meet with in one process.
type hazards struct {
	mode string
	met  sync.Map
}

func (h *hazards) meet(value string) error {
	switch fateOf(h.mode, value) {
	case isDeadly:
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case isDead:
		return retry.Permanent(errHazard)
	case isLong:
		return retry.After(errHazard, time.Hour)
	case onceBad:
		if _, before := h.met.LoadOrStore(value, true); !before {
			return errHazard
		}
	}
	return nil
}

func failureChild(text string) int {
	var spec failureSpec
	if err := json.Unmarshal([]byte(text), &spec); err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := zap.NewNop()
	if os.Getenv("UNDERSTUDY_TEST_LOG") != "" {
		log = zap.Must(zap.NewDevelopment())
	}
	h := &hazards{mode: spec.Mode}
	b := streams.NewBuilder()
	b.Stream(spec.In, serde.String, serde.String, streams.OnFailure(spec.policy())).
		TryMapValues("hazard", func(_ ctxType, r streams.Record[string, string]) (string, error) { return r.Value, h.meet(r.Value) }).
		To(spec.Out)
	app, err := streams.New(b, streams.Config{
		ApplicationID: spec.App, Brokers: spec.Brokers, StateDir: spec.Dir, Log: log,
		CommitInterval: 100 * time.Millisecond, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond,
		Listener: streams.Listener{State: func(s streams.State) { fmt.Println("state", s) }},
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

func (b *bed) spawnFailing(spec failureSpec) *process {
	b.t.Helper()
	text, err := json.Marshal(spec)
	require.NoError(b.t, err)
	p := &process{t: b.t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), failureEnv+"="+string(text))
	p.begin()
	return p
}

const failurePartitions = 4

// feed is a load of values, numbered by key: about 800 a second, until it is ended.
type feed struct {
	stop, done chan struct{}
	once       sync.Once
	mu         sync.Mutex
	values     []string
}

func (b *bed) feed(topic string) *feed {
	l := &feed{stop: make(chan struct{}), done: make(chan struct{})}
	b.t.Cleanup(func() { l.end() })
	go func() {
		defer close(l.done)
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for round := 0; ; round++ {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				for p := range failurePartitions {
					l.write(b, topic, p, round)
				}
			}
		}
	}()
	return l
}

// write writes a record to each of ten of the keys of a partition.
func (l *feed) write(b *bed, topic string, partition, round int) {
	var rs []task.OutRecord
	var values []string
	for i := range 10 {
		key := strconv.Itoa(partition) + "k" + string(rune('a'+(round*10+i)%26))
		v := key + strconv.Itoa((round*10+i)/26+1)
		values = append(values, v)
		rs = append(rs, task.OutRecord{Key: []byte(key), Value: []byte(v), Timestamp: time.Now().UnixMilli()})
	}
	if err := b.client.Produce(context.Background(), task.TopicPartition{Topic: topic, Partition: int32(partition)}, rs...); err != nil {
		b.t.Errorf("feed: %v", err)
	}
	l.mu.Lock()
	l.values = append(l.values, values...)
	l.mu.Unlock()
}

func (l *feed) end() []string {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return l.values
}

// account is where the records of an application are.
type account struct {
	out    []string
	seen   map[string]bool
	dead   map[string]letter
	parked map[string]retry.Entry
}

func (b *bed) account(spec failureSpec) account {
	b.t.Helper()
	a := account{seen: map[string]bool{}}
	if spec.Mode == "keys" || spec.Mode == "parallel" { // what is looked at first is there longest
		a.parked = b.tolerantlyParked(spec.App + "-" + spec.In + "-retry")
	}
	if spec.Mode != "stop" {
		a.dead = b.letters(spec.App + "-" + spec.In + "-dlq")
	}
	a.out = b.texts(spec.Out)
	for _, v := range a.out {
		a.seen[v] = true
	}
	return a
}

func (a account) missing(values []string) (out []string) {
	for _, v := range values {
		_, dead := a.dead[v]
		_, parked := a.parked[v]
		if !a.seen[v] && !dead && !parked {
			out = append(out, v)
		}
	}
	return out
}

// settles waits until every record is where it belongs for good.
func (b *bed) settles(spec failureSpec, values []string) account {
	b.t.Helper()
	var a account
	deadline := time.Now().Add(90 * time.Second)
	for {
		a = b.account(spec)
		left := a.missing(values)
		for v := range a.parked {
			if !a.waitsForGood(spec.Mode, v) {
				left = append(left, v+" (parked)")
			}
		}
		if len(left) == 0 {
			return a
		}
		if time.Now().After(deadline) {
			require.Failf(b.t, "not everything is accounted for", "%d of %d, such as %q", len(left), len(values), left[:min(len(left), 10)])
		}
		time.Sleep(300 * time.Millisecond)
	}
}

// waitsForGood says whether a parked value is one that waits for an hour, or one behind such a one.
func (a account) waitsForGood(mode, value string) bool {
	return fateOf(mode, value) == isLong || mode == "keys" && a.parked[value].Due == retry.Follows && strings.HasPrefix(value[1:], "kz")
}

func (b *bed) failing(name, mode string, workers int) failureSpec {
	app := b.name(name)
	return failureSpec{Brokers: b.addrs, App: app, In: b.topic("in-"+name, failurePartitions), Out: b.topic("out-"+name, 1), Mode: mode, Workers: workers}
}

// kills lets two processes run under load and kills them four times in turns, each time after some work.
func (b *bed) kills(spec failureSpec) []string {
	b.t.Helper()
	specs := []failureSpec{spec, spec}
	var ps []*process
	for i := range specs {
		specs[i].Dir = b.t.TempDir()
		ps = append(ps, b.spawnFailing(specs[i]).running())
	}
	l := b.feed(spec.In)
	for n := range 4 {
		before := len(b.all(spec.Out))
		require.Eventually(b.t, func() bool { return len(b.all(spec.Out)) > before+200 }, 60*time.Second, 50*time.Millisecond, "it does not get on after %d kills", n)
		i := n % 2
		_ = ps[i].end(syscall.SIGKILL) // it has no way to exit well
		ps[i] = b.spawnFailing(specs[i]).running()
	}
	values := l.end()
	b.settles(spec, values)
	for _, p := range ps {
		require.NoError(b.t, p.end(syscall.SIGTERM), "%v", p.lines)
	}
	return values
}

func TestAppProcessesKilledWhileHalfOfTheRecordsFailLoseNothing(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	for _, c := range []struct {
		name, mode string
		workers    int
	}{
		{"stop", "stop", 1}, {"ordered", "ordered", 1}, {"keys", "keys", 1}, {"parallel", "parallel", 1},
		{"keysbyworkers", "keys", 4}, {"parallelbyworkers", "parallel", 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := b.in(t)
			spec := b.failing(c.name, c.mode, c.workers)
			values := b.kills(spec)
			a := b.account(spec)
			require.Empty(t, a.missing(values))
			stay := 0
			for _, v := range values {
				_, dead := a.dead[v]
				_, parked := a.parked[v]
				f := fateOf(c.mode, v)
				require.Equal(t, f == isDead && !parked, dead, "%q: only what fails for ever is dead-lettered", v)
				require.False(t, a.seen[v] && (f == isDead || f == isLong), "%q has come through", v)
				if parked {
					require.True(t, a.waitsForGood(c.mode, v), "%q is parked, and nothing holds it up", v)
					stay++
				}
			}
			for v, l := range a.dead {
				require.Equal(t, "*errors.errorString", l.says.Exception, v)
				require.Equal(t, keyOf(v), string(l.Key))
			}
			if c.mode != "parallel" {
				requireInOrder(t, a.out)
			}
			t.Logf("%d records: %d processed (%d again), %d dead letters, %d parked", len(values), len(a.seen), len(a.out)-len(a.seen), len(a.dead), stay)
		})
	}
}

// A record that kills its process is found and dead-lettered, and all others are processed.
func TestRegressionARecordThatKillsItsProcessIsIsolated(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	for _, c := range []struct {
		name, mode string
		workers    int
	}{{"ordered", "ordered", 1}, {"keys", "keys", 1}, {"parallelbyworkers", "parallel", 4}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := b.in(t)
			spec := b.failing("deadly"+c.name, c.mode, c.workers)
			spec.Dir = t.TempDir()
			values := many(20, 10)
			for i := range values {
				values[i] = "0" + values[i]
			}
			values = slices.DeleteFunc(values, func(v string) bool { return fateOf(c.mode, v) == isLong })
			b.keyed(spec.In, 0, values[:100]...)
			b.keyed(spec.In, 0, "deadly1")
			b.keyed(spec.In, 0, values[100:]...)
			b.keyed(spec.In, 1, "1ka1", "1kb1")
			deaths := 0
			p := b.spawnFailing(spec)
			dead := spec.App + "-" + spec.In + "-dlq"
			deadline := time.Now().Add(120 * time.Second)
			for ; ; time.Sleep(100 * time.Millisecond) {
				select {
				case <-p.ended:
					require.LessOrEqual(t, deaths, 8, "it does not become better: %v", p.lines)
					deaths++
					p = b.spawnFailing(spec)
				default:
				}
				if p.said("state running") > 0 {
					if _, ok := b.letters(dead)["deadly1"]; ok {
						break
					}
				}
				require.True(t, time.Now().Before(deadline), "no dead letter after %d deaths", deaths)
			}
			a := b.settles(spec, append(values, "1ka1", "1kb1"))
			require.NoError(t, p.end(syscall.SIGTERM))
			require.Equal(t, "crash", a.dead["deadly1"].says.Class)
			require.Equal(t, int64(100), a.dead["deadly1"].says.Offset)
			for v := range a.dead {
				require.True(t, v == "deadly1" || fateOf(c.mode, v) == isDead, "%q is dead-lettered with it: %+v", v, a.dead[v].says)
			}
			if c.mode != "parallel" {
				requireInOrder(t, a.out)
			}
			t.Logf("found after %d deaths; %d records, %d of them processed again", deaths, len(values)+3, len(a.out)-len(a.seen))
		})
	}
}
