package virtual

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// Host is a machine with a disk. At most one process runs on it.
type Host struct {
	Disk       *statestore.Memory
	Paused     time.Time     // its process gets no event before
	CutOut     time.Time     // nothing of it arrives before
	CutIn      time.Time     // nothing arrives at it before
	Stuck      time.Time     // no write to its disk ends before
	Skew       time.Duration // of its wall clock
	WriteDelay time.Duration // of every write to its disk
	Slow       float64       // how many times as long it takes for everything; 0 is 1
}

// slowed is how long something takes here that takes d elsewhere.
func (h *Host) slowed(d time.Duration) time.Duration {
	if h.Slow == 0 {
		return d
	}
	return time.Duration(h.Slow * float64(d))
}

// ProcessConfig describes a process to NewProcess.
type ProcessConfig struct {
	Host    *Host
	Engine  engine.Config
	Sender  engine.SenderConfig
	Planner engine.PlannerConfig
	Topics  []string // that EnsureTopics looks at; they exist
	// NewTask completes the configuration of a task: Spec is given, Stores and Seed are set afterwards. May be nil.
	NewTask func(task.Config) task.Config
	Watch   Watcher
}

// Process is the program between its start and its end.
type Process struct {
	World  *World
	Host   *Host
	Engine *engine.Engine
	Dead   bool // set by End only
	Tasks  map[LifeKey]*Task
	Stores map[LifeKey]statestore.TaskStores // that are open

	cfg      ProcessConfig
	watch    Watcher
	specs    map[int32]*task.Spec
	starting *Task  // whose nodes are being made
	manning  bool   // they are a worker's
	answered uint64 // the last request that was answered
	box      lane
	wake     wakeup
	member   member
	offset   *Link
	fetch    fetchers
	sender   sender
	writes   map[task.ID]*lane
	turn     task.Turn
}

// LifeKey names one life of a task.
type LifeKey struct {
	Task  task.ID
	Epoch uint64
}

// NewProcess makes a process. It begins with Tell(engine.Start{}).
func (w *World) NewProcess(c ProcessConfig) *Process {
	if c.Watch == nil {
		c.Watch = Unwatched{}
	}
	p := &Process{
		World: w, Host: c.Host, cfg: c, watch: c.Watch, Engine: engine.New(c.Engine), specs: map[int32]*task.Spec{},
		Stores: map[LifeKey]statestore.TaskStores{}, writes: map[task.ID]*lane{}, Tasks: map[LifeKey]*Task{},
	}
	for _, s := range c.Engine.Specs {
		p.specs[s.Subtopology] = s
	}
	p.fetch.init(p)
	p.sender.init(p)
	return p
}

// Watch returns who watches the process.
func (p *Process) Watch() Watcher { return p.watch }

// Starting is the task whose nodes are being made, nil if none are, and whether they are a worker's.
func (p *Process) Starting() (t *Task, worker bool) { return p.starting, p.manning }

// End ends the process: nothing of it happens any more, and its connections go a moment after what is on the way on them has arrived.
func (p *Process) End() {
	p.Dead = true
	p.Host.Paused = time.Time{}
	for _, l := range p.World.LinksOf(p) {
		p.World.send(&l.out, p.World.NetDelay(), nil, l.hangUp)
	}
}

// hop is how long a message takes from one goroutine of the process to another.
func (p *Process) hop() time.Duration { return p.Host.slowed(p.World.UpTo(p.World.Pace.Hop)) }
