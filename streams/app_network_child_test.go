package streams_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/understudy-streams/understudy/internal/badnet"
	"github.com/understudy-streams/understudy/streams"
)

// ledgerEnv makes the test binary run the ledger application: a ledgerSpec as JSON.
const ledgerEnv = "UNDERSTUDY_TEST_LEDGER"

// ledgerSpec is what such a process is told.
type ledgerSpec struct {
	Brokers           []string
	App, Dir          string
	In, Copies, Count string
	Routes            string // how brokers are reached; empty: directly
	Session           time.Duration
	Request           time.Duration
	Close             time.Duration
}

// ledgerChild runs it until SIGTERM. What happens, and each line of the log, is a line of its standard output. At the end it says what it has
// left open.
func ledgerChild(raw string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	goroutines, before := goleak.IgnoreCurrent(), sockets()
	err := runLedger(ctx, raw)
	if err != nil {
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", " / "))
	}
	if err := goleak.Find(goroutines); err != nil {
		fmt.Println("left open: goroutines", strings.ReplaceAll(err.Error(), "\n", " / "))
	}
	if n := sockets(); n > before {
		fmt.Println("left open: sockets", n-before)
	}
	fmt.Println("ended")
	return 0
}

func runLedger(ctx context.Context, raw string) error {
	var spec ledgerSpec
	if err := json.Unmarshal([]byte(raw), &spec); err != nil {
		return err
	}
	c := streams.Config{
		ApplicationID: spec.App, Brokers: spec.Brokers, StateDir: spec.Dir, CommitInterval: 100 * time.Millisecond, Memory: 64 << 20,
		Session: spec.Session, Heartbeat: 200 * time.Millisecond, RequestTimeout: spec.Request, CloseTimeout: spec.Close, Log: logLines(),
		Listener: streams.Listener{
			State: func(s streams.State) { fmt.Println("state", s) },
			Lost:  func(why string) { fmt.Println("lost", why) },
			Retry: func(what string, err error) { fmt.Println("retry", time.Now().Format("05.000"), what, err) },
		},
	}
	if spec.Routes != "" {
		routes, err := badnet.ParseRoutes(spec.Routes)
		if err != nil {
			return err
		}
		c.Client = func(conf *streams.ClientConfig) {
			conf.Net.Proxy.Enable, conf.Net.Proxy.Dialer = true, routes
			conf.Net.DialTimeout = min(conf.Net.DialTimeout, spec.Request)
		}
	}
	app, err := streams.New(ledgerTopology(spec.In, spec.Copies, spec.Count), c)
	if err != nil {
		return err
	}
	return app.Run(ctx)
}

func logLines() *zap.Logger {
	enc := zap.NewDevelopmentEncoderConfig()
	enc.StacktraceKey = ""
	return zap.New(zapcore.NewCore(zapcore.NewConsoleEncoder(enc), zapcore.Lock(zapcore.AddSync(prefixed{})), zapcore.InfoLevel))
}

type prefixed struct{}

func (prefixed) Write(b []byte) (int, error) {
	_, err := os.Stdout.Write(append([]byte("log "), b...))
	return len(b), err
}

// sockets counts the sockets that this process has open; 0 where the system does not tell.
func sockets() (n int) {
	links, _ := filepath.Glob("/proc/self/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && strings.HasPrefix(to, "socket:") {
			n++
		}
	}
	return n
}

// ledgerProcess is a ledger application in a process of its own.
type ledgerProcess struct {
	t     *testing.T
	cmd   *exec.Cmd
	ended chan struct{}

	mu    sync.Mutex
	lines []string
}

func spawnLedger(t *testing.T, spec ledgerSpec) *ledgerProcess {
	raw, err := json.Marshal(spec)
	require.NoError(t, err)
	p := &ledgerProcess{t: t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), ledgerEnv+"="+string(raw))
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	pipe, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, p.cmd.Start())
	go func() {
		defer close(p.ended)
		s := bufio.NewScanner(pipe)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		p.signal(syscall.SIGKILL)
		<-p.ended
		_ = p.cmd.Wait() // says that it was killed, or has been called
		if t.Failed() {
			t.Logf("process %d said:\n%s", p.cmd.Process.Pid, strings.Join(p.said(""), "\n"))
		}
	})
	return p
}

// said returns the lines that begin so.
func (p *ledgerProcess) said(prefix string) (out []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.HasPrefix(l, prefix) {
			out = append(out, l)
		}
	}
	return out
}

// state is the last one that it told.
func (p *ledgerProcess) state() string {
	all := p.said("state ")
	if len(all) == 0 {
		return ""
	}
	return strings.TrimPrefix(all[len(all)-1], "state ")
}

// lost is how often it lost its membership by force.
func (p *ledgerProcess) lost() int { return len(p.said("lost ")) }

func (p *ledgerProcess) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) } // it may have ended

// closes asks it to end and checks that it does, in time, with nothing left open.
func (p *ledgerProcess) closes(within time.Duration) {
	p.t.Helper()
	began := time.Now()
	p.signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(within):
		p.signal(syscall.SIGQUIT) // its goroutines go to the standard error
		<-p.ended
		require.Failf(p.t, "it does not end", "%v after it was asked to", time.Since(began))
	}
	require.NoError(p.t, p.cmd.Wait())
	require.NotEmpty(p.t, p.said("ended"), "it ended before it was done")
	require.Empty(p.t, p.said("left open"))
}

// cpu is the time of a processor that it has used so far.
func (p *ledgerProcess) cpu() time.Duration {
	p.t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		p.t.Skipf("the system does not tell what a process uses: %v", err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	require.Greater(p.t, len(f), 12)
	var ticks int64
	for _, s := range f[11:13] { // user and system, in hundredths of a second
		n, err := strconv.ParseInt(s, 10, 64)
		require.NoError(p.t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
