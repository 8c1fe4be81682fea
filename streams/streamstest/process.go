package streamstest

import (
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// process is a member between a start and an end.
type process struct {
	*virtual.Process
	virtual.Unwatched
	m      *Member
	name   string
	notice func(engine.Notice)
	runs   map[*virtual.Task]*run
}

// run is what a test wants to know of one life of a task.
type run struct {
	began  int                   // which start of a task in the cluster it was
	stores statestore.TaskStores // nil if it has none
	sealed *task.Sealed          // the commit that is under way
}

func (m *Member) start() {
	m.c.t.Helper()
	m.started++
	m.err = nil
	p := &process{m: m, name: m.String(), runs: map[*virtual.Task]*run{}}
	cfg := m.c.config(m.n)
	m.listen(&cfg)
	app, err := streams.New(m.c.b, cfg)
	if err != nil {
		m.c.t.Fatalf("streamstest: member %v: %v", m, err)
	}
	bp := app.Blueprint()
	topology, err := app.Topology().Match(m.c.o.given())
	if err != nil {
		m.c.t.Fatalf("streamstest: member %v: %v", m, err)
	}
	bp.Engine.Specs, bp.Engine.Matches = topology.Subtopologies, nil // no topic comes or goes
	bp.Engine.Group.ProcessID = [16]byte{byte(m.n + 1), byte((m.n + 1) >> 8)}
	bp.Engine.Group.Seed = m.c.world.Rand.Uint64()
	p.notice = bp.Notice
	p.Process = m.c.world.NewProcess(virtual.ProcessConfig{
		Host: &m.host, Watch: p, Engine: bp.Engine, Sender: bp.Sender, Planner: bp.Planner, Topics: m.c.known(),
		NewTask: func(tc task.Config) task.Config {
			tc = bp.Task(tc)
			tc.Partitions = func(topic string) int32 { return m.c.counts[topic] }
			return tc
		},
	})
	m.p = p
	m.c.trace.Text(m.scene(), "is started", "", 0)
	p.Tell(engine.Start{})
	p.flushLater()
}

// known are the topics that the application looks at.
func (c *Cluster) known() []string {
	all := slices.Concat(c.topology.Sources, c.topology.Sinks)
	for _, in := range c.topology.Internal {
		all = append(all, in.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// listen lets the cluster hear of rebalances, beside the listener of the user.
func (m *Member) listen(cfg *streams.Config) {
	users := cfg.Listener.Rebalanced
	cfg.Listener.Rebalanced = func(r streams.RebalanceInfo) {
		m.c.rounds = append(m.c.rounds, Rebalance{RebalanceInfo: r, Member: m, At: m.c.world.Now})
		if users != nil {
			users(r)
		}
	}
}

// flushEvery is how often a disk keeps what was written.
const flushEvery = 5 * time.Second

func (p *process) flushLater() {
	wait := max(flushEvery, p.Host.Stuck.Sub(p.m.c.world.Now))
	p.World.After(wait, p.Process, func() {
		if !p.Host.Stuck.After(p.World.Now) {
			if err := p.Host.Disk.Flush(); err != nil {
				p.m.c.err = fmt.Errorf("member %s: flush: %w", p.name, err)
			}
		}
		p.flushLater()
	})
}

// crash ends the process with what its disk has flushed.
func (m *Member) crash() {
	m.p.End()
	m.p = nil
	m.host.Disk.Crash()
}

// Exited is called when the application has ended by itself.
func (p *process) Exited(err error) {
	m := p.m
	m.p.End()
	m.p = nil
	if err == nil {
		err = m.host.Disk.Close()
		m.host.Disk.Crash() // closed and flushed: opens again as it was
	} else {
		m.host.Disk.Crash()
		if e := streams.NewRecordError(err); e != nil {
			err = e
		}
	}
	if err == nil {
		return
	}
	m.err = err
	if m.c.err == nil {
		m.c.err = fmt.Errorf("member %s has ended: %w", p.name, err)
	}
}

func (p *process) Event(ev engine.Event) { p.m.c.trace.Event(p.m.c.scene(p), ev) }

func (p *process) Action(a engine.Action) bool {
	p.m.c.trace.Action(p.m.c.scene(p), a)
	if n, ok := a.(engine.Note); ok {
		p.m.c.trace.Notice(p.m.c.scene(p), n.Note)
		p.notice(n.Note)
	}
	return false
}

func (p *process) TaskStarts(t *virtual.Task, _ engine.StartTask, s statestore.TaskStores) {
	p.m.c.starts++
	p.runs[t] = &run{began: p.m.c.starts, stores: s}
}

func (p *process) TaskEvent(t *virtual.Task, ev task.Event) {
	p.m.c.trace.TaskEvent(p.m.c.scene(p), t.Key, ev)
	if _, ok := ev.(task.Committed); ok {
		p.runs[t].sealed = nil
	}
}

func (p *process) TaskAction(t *virtual.Task, a task.Action) {
	p.m.c.trace.TaskAction(p.m.c.scene(p), t.Key, a)
	switch a := a.(type) {
	case task.Seal:
		p.runs[t].sealed = a.Sealed
	case task.Closed:
		delete(p.runs, t)
	}
}
