package streams_test

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// childEnv makes the test binary an application of its own: brokers, application id, state directory, input and output topic.
const childEnv = "UNDERSTUDY_TEST_CHILD"

// child runs the word count until SIGTERM and says on its standard output what it does. It is called by TestMain and returns the exit code.
func child(spec string) int {
	f := strings.Split(spec, "|")
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	log := zap.NewNop()
	if os.Getenv("UNDERSTUDY_TEST_LOG") != "" {
		log = zap.Must(zap.NewDevelopment())
	}
	app, err := streams.New(countWords(f[3], f[4]), streams.Config{
		ApplicationID: f[1], Brokers: strings.Split(f[0], ","), StateDir: f[2],
		CommitInterval: 100 * time.Millisecond, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond, Log: log,
		Listener: streams.Listener{
			State:    func(s streams.State) { fmt.Println("state", s) },
			Assigned: func(tasks []streams.TaskID) { fmt.Println("assigned", len(tasks)) },
			Restore: func(p streams.RestoreProgress) {
				if p.Done {
					fmt.Println("restored", p.Records)
				}
			},
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

// process is an application in a process of its own.
type process struct {
	t   *testing.T
	cmd *exec.Cmd

	mu    sync.Mutex
	lines []string
	ended chan struct{}
}

func (b *bed) spawn(app, dir, in, out string) *process {
	b.t.Helper()
	p := &process{t: b.t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), childEnv+"="+strings.Join([]string{strings.Join(b.addrs, ","), b.name(app), dir, in, out}, "|"))
	p.begin()
	return p
}

// begin starts the process, which dies with the test, and listens to what it says.
func (p *process) begin() {
	p.t.Helper()
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	pipe, err := p.cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	}()
	p.t.Cleanup(func() { p.end(syscall.SIGKILL) })
}

// said returns how often a line beginning so was printed.
func (p *process) said(prefix string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.HasPrefix(l, prefix) {
			n++
		}
	}
	return n
}

func (p *process) running() *process {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.said("state running") > 0 }, 40*time.Second, 20*time.Millisecond, "the process does not come up")
	return p
}

// end sends a signal and waits for the end of the process.
func (p *process) end(sig syscall.Signal) error {
	_ = p.cmd.Process.Signal(sig) // it may have ended
	<-p.ended
	return p.cmd.Wait()
}

// load is a stream of words under way.
type load struct {
	once  sync.Once
	stop  chan struct{}
	done  chan struct{}
	truth map[string]int64
	keys  map[string]int64 // the same by key, which is of one partition only
	sent  atomic.Int64
}

// load writes words to all partitions of a topic, about 4,000 a second, until stopped.
func (b *bed) load(topic string, partitions int) *load {
	l := &load{stop: make(chan struct{}), done: make(chan struct{}), truth: map[string]int64{}, keys: map[string]int64{}}
	b.t.Cleanup(func() { l.end() })
	go func() {
		defer close(l.done)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-l.stop:
				return
			case <-tick.C:
				l.write(b, topic, partitions)
			}
		}
	}()
	return l
}

func (l *load) write(b *bed, topic string, partitions int) {
	for p := range partitions {
		var rs []task.OutRecord
		for range 20 {
			w := "w" + strconv.FormatInt(l.sent.Add(1)*7919%503, 10)
			k := strconv.Itoa(p) + w
			l.truth[w]++
			l.keys[k]++
			rs = append(rs, task.OutRecord{Key: []byte(k), Value: []byte(w), Timestamp: time.Now().UnixMilli()})
		}
		if err := b.client.Produce(context.Background(), task.TopicPartition{Topic: topic, Partition: int32(p)}, rs...); err != nil {
			b.t.Errorf("load: %v", err)
		}
	}
}

// end stops the load and returns what was written.
func (l *load) end() map[string]int64 {
	l.once.Do(func() { close(l.stop) })
	<-l.done
	return l.truth
}

// settled waits until the counts no longer change, then returns them.
func (b *bed) settled(out string, enough func(map[string]int64) bool) map[string]int64 {
	b.t.Helper()
	var got map[string]int64
	require.Eventually(b.t, func() bool { got = b.counts(out); return enough(got) }, 60*time.Second, 200*time.Millisecond, "not everything is counted")
	return got
}

func covers(got, truth map[string]int64) bool {
	for w, n := range truth {
		if got[w] < n {
			return false
		}
	}
	return true
}

func TestAppProcessesJoinAndLeaveUnderLoadAndEachRecordCountsOnce(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	in, out := b.topic("in", 4), b.topic("out", 4)
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	first := b.spawn("count", dirs[0], in, out).running()
	l := b.load(in, 4)
	second := b.spawn("count", dirs[1], in, out).running()
	third := b.spawn("count", dirs[2], in, out).running()
	require.Eventually(t, func() bool { return third.said("assigned 2")+third.said("assigned 3") > 0 }, 20*time.Second, 20*time.Millisecond, "the third has its share")
	require.NoError(t, first.end(syscall.SIGTERM))
	first = b.spawn("count", dirs[0], in, out).running()
	require.NoError(t, second.end(syscall.SIGTERM))
	truth := l.end()
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	require.True(t, maps.Equal(truth, got), "a record was counted more than once: %v", diff(truth, got))
	require.NoError(t, first.end(syscall.SIGTERM))
	require.NoError(t, third.end(syscall.SIGTERM))
}

func diff(truth, got map[string]int64) map[string]int64 {
	d := map[string]int64{}
	for w, n := range got {
		if n != truth[w] {
			d[w] = n - truth[w]
		}
	}
	return d
}

// caughtUp waits until the application is less than a quarter of a second behind the load. While it catches up on what came during an outage it
// may process all of it within one commit interval, and a death would repeat all of it.
func (b *bed) caughtUp(l *load, out string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return total(b.counts(out)) > l.sent.Load()-1000 }, 60*time.Second, 10*time.Millisecond, "it stays behind")
}

func TestAppProcessesKilledUnderLoadLoseNothing(t *testing.T) {
	b := realBed(t)
	in, out := b.topic("in", 4), b.topic("out", 4)
	dirs := []string{t.TempDir(), t.TempDir()}
	first := b.spawn("count", dirs[0], in, out).running()
	l := b.load(in, 4)
	second := b.spawn("count", dirs[1], in, out).running()
	for range 2 {
		b.caughtUp(l, out)
		_ = second.end(syscall.SIGKILL) // it has no way to exit well
		second = b.spawn("count", dirs[1], in, out).running()
		b.caughtUp(l, out)
		_ = first.end(syscall.SIGKILL)
		first = b.spawn("count", dirs[0], in, out).running()
	}
	truth := l.end()
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	more := int64(0)
	for _, n := range diff(truth, got) {
		more += n
	}
	t.Logf("%d of %d records counted more than once", more, l.sent.Load())
	require.GreaterOrEqual(t, more, int64(0))
	// Four deaths, each of at most the load of half a second: what was behind, 100 ms of commit interval and as much for the commit itself,
	// and of that twice over, as both subtopologies may repeat it.
	require.LessOrEqual(t, more, int64(4*2000), "duplicates lie within a commit interval")
	require.NoError(t, first.end(syscall.SIGTERM))
	require.NoError(t, second.end(syscall.SIGTERM))
}
