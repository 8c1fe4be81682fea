package streams_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/streams"
)

// memberEnv makes the test binary a process of an application that counts keys: its value is a memberSpec.
const memberEnv = "UNDERSTUDY_TEST_MEMBER"

// memberSpec says what such a process is.
type memberSpec struct {
	Name, App, Dir, In, Out string
	Brokers                 []string
	Standbys                int
	Gated                   bool // it learns nothing until it is told to
}

// memberChild runs the application until SIGTERM. It says what it does on its standard output, a word and JSON a line, and takes commands from its
// standard input: tasks, open, drain.
func memberChild(spec string) int {
	var s memberSpec
	if err := json.Unmarshal([]byte(spec), &s); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := streams.Config{
		ApplicationID: s.App, ClientID: s.Name, Brokers: s.Brokers, StateDir: s.Dir, Standbys: s.Standbys, AcceptableLag: 1,
		CommitInterval: 100 * time.Millisecond, Session: 6 * time.Second, Heartbeat: 100 * time.Millisecond, Log: zap.NewNop(),
	}
	if os.Getenv("UNDERSTUDY_TEST_LOG") != "" {
		c.Log = zap.Must(zap.NewDevelopment()).Named(s.Name)
	}
	c.Listener = streams.Listener{
		State:      func(s streams.State) { say("state", s.String()) },
		Rebalanced: func(i streams.RebalanceInfo) { say("rebalanced", i) },
		Learned:    func(id streams.TaskID, _ int64, _ time.Duration) { say("learned", id) },
		Promoted: func(id streams.TaskID, lacked int64, took time.Duration) {
			say("promoted", promotion{id, lacked, took})
		},
		Restore: func(p streams.RestoreProgress) {
			if p.Done {
				say("restored", p)
			}
		},
	}
	app, err := streams.New(countKeys(s.In, s.Out), c)
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	g := newLearnGate()
	if s.Gated {
		app.Tune(g.hold)
	}
	go obey(app, g)
	if err := app.Run(ctx); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	return 0
}

// promotion is what Listener.Promoted is told.
type promotion struct {
	Task   streams.TaskID
	Lacked int64
	Took   time.Duration
}

func say(what string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		b = []byte(err.Error())
	}
	fmt.Println(what, string(b))
}

func obey(app *streams.App, g *learnGate) {
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		switch in.Text() {
		case "tasks":
			say("tasks", app.Tasks())
		case "open":
			g.open()
		case "drain":
			go func() { say("drained", fmt.Sprint(app.Drain(context.Background()))) }()
		}
	}
}

// memberProcess is such a process, as its parent sees it.
type memberProcess struct {
	*process
	name  string
	stdin io.Writer
	asked int
}

// start starts a process of an application.
func (b *bed) start(s memberSpec) *memberProcess {
	b.t.Helper()
	s.Brokers, s.App = b.addrs, b.name(s.App)
	spec, err := json.Marshal(s)
	require.NoError(b.t, err)
	m := &memberProcess{process: &process{t: b.t, cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan struct{})}, name: s.Name}
	m.cmd.Env = append(os.Environ(), memberEnv+"="+string(spec))
	m.stdin, err = m.cmd.StdinPipe()
	require.NoError(b.t, err)
	m.begin()
	return m
}

func (m *memberProcess) tell(command string) {
	m.t.Helper()
	_, err := io.WriteString(m.stdin, command+"\n")
	require.NoError(m.t, err, "%s has ended", m.name)
}

// tasks asks it for its tasks.
func (m *memberProcess) tasks() []streams.TaskInfo {
	m.t.Helper()
	m.asked++
	m.tell("tasks")
	require.Eventually(m.t, func() bool { return m.said("tasks ") >= m.asked }, 20*time.Second, 5*time.Millisecond, "%s does not answer", m.name)
	all := heardOf[[]streams.TaskInfo](m, "tasks")
	return all[len(all)-1]
}

// as are its tasks in a role.
func (m *memberProcess) as(role streams.Role) (ids []streams.TaskID) {
	m.t.Helper()
	for _, i := range m.tasks() {
		if i.Role == role {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// runsOn are its tasks that process.
func (m *memberProcess) runsOn() (ids []streams.TaskID) {
	m.t.Helper()
	for _, i := range m.tasks() {
		if i.Role == streams.RoleActive && i.State == "running" {
			ids = append(ids, i.ID)
		}
	}
	return ids
}

// heardOf returns everything that a process has said of one thing.
func heardOf[T any](m *memberProcess, what string) (out []T) {
	m.t.Helper()
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, l := range m.lines {
		if text, ok := strings.CutPrefix(l, what+" "); ok {
			var v T
			require.NoError(m.t, json.Unmarshal([]byte(text), &v), l)
			out = append(out, v)
		}
	}
	return out
}

// rebalances are those that it has told of from a number on.
func (m *memberProcess) rebalances(from int) []streams.RebalanceInfo {
	m.t.Helper()
	return heardOf[streams.RebalanceInfo](m, "rebalanced")[from:]
}

// restored is how many records its stores were restored with in a role, from the nth restore on.
func (m *memberProcess) restored(role streams.Role, from int) (n int64) {
	m.t.Helper()
	for _, p := range heardOf[streams.RestoreProgress](m, "restored")[from:] {
		if p.Role == role {
			n += p.Records
		}
	}
	return n
}

func memberNames(n int) (names []string) {
	for i := range n {
		names = append(names, "S"+strconv.Itoa(i+1))
	}
	return names
}
