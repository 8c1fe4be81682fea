package soak

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// childEnv makes the test binary an application of its own, with the plan in it.
const childEnv = "UNDERSTUDY_SOAK_CHILD"

// plan says what the application does.
type plan struct {
	Brokers  []string
	App, Dir string
	In, Out  string
	Memory   int64
}

// lastOf keeps the last value of each key.
func lastOf(in, out string) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(in, serde.String, serde.Bytes).
		GroupByKey().
		Reduce("rows", func(_, value []byte) []byte { return value }).
		ToStream().
		To(out)
	return b
}

// child runs the application until SIGTERM, and says what memory it has needed at the most.
func child(spec string) int {
	var p plan
	if err := json.Unmarshal([]byte(spec), &p); err != nil {
		fmt.Println("failed", err)
		return 2
	}
	debug.SetMemoryLimit(p.Memory/2 + rest)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := watch()
	app, err := streams.New(lastOf(p.In, p.Out), streams.Config{
		ApplicationID: p.App, Brokers: p.Brokers, StateDir: p.Dir, Memory: p.Memory, CommitInterval: 200 * time.Millisecond, Heartbeat: 300 * time.Millisecond,
		Listener: streams.Listener{
			State: func(s streams.State) { fmt.Println("state", s) },
			Retry: func(what string, err error) { fmt.Fprintln(os.Stderr, "retry", what, err) },
		},
	})
	if err == nil {
		err = app.Run(ctx)
	}
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	fmt.Println("peak", w.end())
	return 0
}

// watcher looks at the memory of the process all the time.
type watcher struct {
	stop chan struct{}
	peak chan int64
}

func watch() *watcher {
	w := &watcher{stop: make(chan struct{}), peak: make(chan int64)}
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		peak := int64(0)
		for {
			peak = max(peak, anonymous())
			select {
			case <-tick.C:
			case <-w.stop:
				w.peak <- peak
				return
			}
		}
	}()
	return w
}

func (w *watcher) end() int64 {
	close(w.stop)
	return <-w.peak
}

// anonymous is the resident memory of this process that is not of files, such as the program itself.
func anonymous() (bytes int64) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kib); n == 1 {
			return kib << 10
		}
	}
	return 0
}

// process is an application in a process of its own.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	mu    sync.Mutex
	lines []string
	ended chan struct{}
}

func spawn(t *testing.T, p plan) *process {
	t.Helper()
	spec, err := json.Marshal(p)
	require.NoError(t, err)
	c := &process{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), childEnv+"="+string(spec))
	c.cmd.Stderr = os.Stderr
	pipe, err := c.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.cmd.Start())
	go func() {
		defer close(c.ended)
		for s := bufio.NewScanner(pipe); s.Scan(); {
			c.mu.Lock()
			c.lines = append(c.lines, s.Text())
			c.mu.Unlock()
		}
	}()
	t.Cleanup(func() { c.end(syscall.SIGKILL) })
	return c
}

// said is what the last line that begins so goes on with.
func (c *process) said(prefix string) (rest string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range c.lines {
		if s, has := strings.CutPrefix(l, prefix); has {
			rest, ok = s, true
		}
	}
	return rest, ok
}

func (c *process) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// end sends a signal and waits for the end.
func (c *process) end(sig syscall.Signal) error {
	_ = c.cmd.Process.Signal(sig) // it may have ended
	<-c.ended
	return c.cmd.Wait()
}
