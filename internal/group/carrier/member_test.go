package carrier

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

// member is a machine and its carrier with the simplest runtime around them: one goroutine owns the machine, tasks start and stop at once,
// and what is to be learned is known at once.
type member struct {
	c      *Carrier
	box    chan group.Event
	quit   chan struct{}
	done   chan struct{}
	client *kafka.Client

	learned map[task.ID]bool

	mu    sync.Mutex
	view  view
	trace strings.Builder
}

// view is what tests look at.
type view struct {
	state      group.State
	addr       string
	id         string
	generation int32
	running    []task.ID
	marked     []assignor.Mark
	rounds     int
	lost       int
	left       bool
	fatal      error
}

func topology(partitions int32) group.Topology {
	return group.Topology{
		Subtopologies: []group.Subtopology{
			{ID: 0, Topics: []string{"in"}, Stateful: true, Hash: 7},
			{ID: 1, Topics: []string{"side"}, Hash: 8},
		},
		Partitions: map[string]int32{"in": partitions, "side": 2},
	}
}

func newMember(t *testing.T, addrs []string, name string, change ...func(*group.Config)) *member {
	cfg := group.Config{Group: name, Session: 6 * time.Second, Rebalance: 8 * time.Second, Heartbeat: 50 * time.Millisecond, TopologyVersion: 1}
	for _, f := range change {
		f(&cfg)
	}
	client, err := kafka.Open(kafka.Config{Brokers: addrs})
	require.NoError(t, err)
	m := &member{box: make(chan group.Event, 64), quit: make(chan struct{}), done: make(chan struct{}), client: client}
	m.c = New(Config{Session: cfg.Session, Rebalance: cfg.Rebalance}, client, func(ev group.Event) {
		select {
		case m.box <- ev:
		case <-m.done:
		}
	})
	go m.loop(group.New(cfg))
	t.Cleanup(m.kill)
	t.Cleanup(func() {
		if t.Failed() {
			m.mu.Lock()
			defer m.mu.Unlock()
			t.Logf("%s\n%s", m.view.id, m.trace.String())
		}
	})
	m.box <- group.Start{Topology: topology(6)}
	return m
}

func (m *member) loop(machine *group.Machine) {
	defer close(m.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var ev group.Event
	for {
		select {
		case <-m.quit:
			return
		case ev = <-m.box:
		case <-timer.C:
			ev = group.Tick{}
		}
		for ev != nil {
			next := group.Event(nil)
			for _, a := range machine.Step(time.Now(), ev) {
				if w, ok := a.(group.Wake); ok {
					timer.Reset(time.Until(w.At))
				} else if p := m.take(a); p != nil {
					next = p
				}
			}
			m.look(machine)
			ev = next
		}
	}
}

// take does what an action says; Prepare is answered at once.
func (m *member) take(a group.Action) group.Event {
	m.mu.Lock()
	defer m.mu.Unlock()
	line := fmt.Sprintf("%s %T %v", time.Now().Format("05.000"), a, a)
	m.trace.WriteString(line[:min(len(line), 160)] + "\n")
	switch a := a.(type) {
	case group.Prepare:
		p := group.Prepared{Join: a.Join}
		for _, id := range m.view.running {
			if contains(a.Marks, id) {
				p.Released = append(p.Released, id)
			} else {
				p.Claims = append(p.Claims, id)
			}
		}
		for id := range m.learned {
			p.Replicas = append(p.Replicas, assignor.Replica{Task: id, Kind: assignor.Learner, Ready: true})
		}
		return p
	case group.Assigned:
		m.view.rounds++
		m.view.running = append([]task.ID(nil), a.Tasks...)
		m.view.marked = append([]assignor.Mark(nil), a.Marks...)
		if m.learn(a.Learners) {
			return group.Rejoin{Reason: "everything is learned"}
		}
	case group.Lost:
		m.view.lost++
		m.view.running = nil
	case group.Left:
		m.view.left = true
	case group.Fatal:
		m.view.fatal = a.Err
	default:
		m.c.Carry(a)
	}
	return nil
}

// learn says whether there is anything new among the tasks to come.
func (m *member) learn(tasks []assignor.Incoming) (news bool) {
	before := m.learned
	m.learned = map[task.ID]bool{}
	for _, in := range tasks {
		if !in.Instant || before[in.Task] {
			m.learned[in.Task] = true
			news = news || !before[in.Task]
		}
	}
	return news
}

func contains(marks []assignor.Mark, id task.ID) bool {
	return slices.ContainsFunc(marks, func(k assignor.Mark) bool { return k.Ready && k.Task == id })
}

func (m *member) look(machine *group.Machine) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.view.state = machine.State()
	m.view.id, m.view.generation, m.view.addr = machine.Membership()
}

func (m *member) now() view {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

// kill ends the member without a word to the group.
func (m *member) kill() {
	select {
	case <-m.quit:
	default:
		close(m.quit)
	}
	<-m.done
	m.c.Close()
	_ = m.client.Close()
}

// settled: all are joined in one generation, nothing is marked, and every task runs once, dealt evenly.
func settled(tasks int, members ...*member) error {
	runs := map[task.ID]int{}
	low, high := 1<<30, 0
	for _, m := range members {
		v := m.now()
		switch {
		case v.state != group.Joined:
			return fmt.Errorf("%s is %s", v.id, v.state)
		case v.generation != members[0].now().generation:
			return fmt.Errorf("generations %d and %d", v.generation, members[0].now().generation)
		case len(v.marked) > 0:
			return fmt.Errorf("%s has marked tasks %v", v.id, v.marked)
		}
		low, high = min(low, len(v.running)), max(high, len(v.running))
		for _, id := range v.running {
			runs[id]++
			if runs[id] > 1 {
				return fmt.Errorf("task %s runs twice", id)
			}
		}
	}
	if len(runs) != tasks || high-low > 1 {
		return fmt.Errorf("%d of %d tasks run, %d to %d a member", len(runs), tasks, low, high)
	}
	return nil
}

func requireSettled(t *testing.T, within time.Duration, tasks int, members ...*member) {
	t.Helper()
	var err error
	if !eventually(within, func() bool { err = settled(tasks, members...); return err == nil }) {
		require.NoError(t, err)
	}
}

func eventually(within time.Duration, ok func() bool) bool {
	for end := time.Now().Add(within); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return true
		}
	}
	return false
}
