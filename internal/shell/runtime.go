package shell

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group/carrier"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// Writers is the pool on which stores are written; the operations of one key are carried out in their order.
type Writers interface {
	Do(key statestore.TaskID, deadline time.Duration, f func() error, done func(error))
}

// Config is what a Runtime needs.
type Config struct {
	Engine  engine.Config
	Sender  engine.SenderConfig
	Planner engine.PlannerConfig
	Client  *kafka.Client
	Codec   kafka.Codec
	Backend statestore.Backend // nil where the topology has no stores
	Writers Writers
	// Ensure checks the source topics and makes or validates the internal ones; temporary failures are tried again.
	Ensure func(ctx context.Context) engine.TopicsReady
	// NewTask makes a task's configuration complete: what the engine does not decide. ctx ends with the task's epoch; it is the one that user
	// functions get.
	NewTask func(ctx context.Context, c task.Config) task.Config
	// Notice is told what happens, on the core loop's goroutine.
	Notice func(engine.Notice)
	// CallTimeout is how long a single user call may take. Zero: for ever.
	CallTimeout time.Duration
	// Slept says for how long the host has been asleep since it started. Nil asks the host.
	Slept func() time.Duration
	// WriteDeadline bounds one write to the stores.
	WriteDeadline time.Duration
	// Disk is where the stores are. Nil where there are none: a full disk is an error like others then.
	Disk Disk
	// DiskPatience is how long the database may fail to write, for another reason than a full disk, before that ends the application. Zero
	// means 10 seconds.
	DiskPatience time.Duration
	// IdleFor is how long a data connection is kept that nothing goes over. Zero means 2 minutes.
	IdleFor time.Duration
	// WorkerIdleFor is how long a goroutine that runs records beside a task waits for another one before it ends. Zero means 10 seconds.
	WorkerIdleFor time.Duration
}

// Runtime runs one process of an application.
type Runtime struct {
	cfg      Config
	deciding sync.Mutex // guards the engine, for one step and not for what follows from it
	engine   *engine.Engine
	core     *mailbox[engine.Event]
	wake     *wakeup
	clock    *clock

	work context.Context // ends when everything has ended; requests run under it
	stop context.CancelFunc
	wg   sync.WaitGroup
	done bool
	err  error

	broken chan error // a goroutine has panicked
	fault  error      // the listener has

	member  *carrier.Carrier
	offsets *offsetsConn
	sender  *sender
	fetch   *fetchers
	tasks   *tasks
	stores  *stores
	disk    *disk
}

// New returns a Runtime that waits for Run.
func New(cfg Config) *Runtime {
	r := &Runtime{cfg: cfg, engine: engine.New(cfg.Engine), core: newMailbox[engine.Event](), clock: newClock(cfg.Slept), broken: make(chan error, 1)}
	r.wake = newWakeup(r.clock.now)
	r.work, r.stop = context.WithCancel(context.Background())
	r.member = newMember(r)
	r.offsets = newOffsetsConn(r.cfg.Client, r.cfg.Engine.Group.Group, r.request)
	r.sender = newSender(r)
	r.fetch = newRuntimeFetchers(r)
	r.tasks = newTasks(r)
	r.stores = newStores(r)
	r.disk = newDisk(r)
	return r
}

// Run runs until ctx ends or the application fails. After ctx has ended it drains, commits and leaves the group.
func (r *Runtime) Run(ctx context.Context) error {
	over := make(chan struct{})
	go func() { // of its own, as a listener may panic or end its goroutine
		defer close(over)
		r.loop(ctx)
	}()
	<-over
	r.shutdown()
	return r.err
}

// loop is the core loop.
func (r *Runtime) loop(ctx context.Context) {
	defer r.wake.stop()
	defer func() {
		if v := recover(); !r.done {
			r.done, r.err = true, &CrashError{Where: "the core loop", Value: v, Stack: debug.Stack()}
		}
	}()
	r.sender.start()
	r.stores.keepFlushed()
	r.disk.start()
	if r.cfg.CallTimeout > 0 {
		r.tasks.watch(r.cfg.CallTimeout)
	}
	r.step(engine.Start{})
	ended := ctx.Done()
	var evs []engine.Event
	for !r.done {
		select {
		case <-ended:
			ended = nil
			r.step(engine.Close{})
		case r.err = <-r.broken:
			r.done = true
		case <-r.core.signal:
		case <-r.wake.timer.C:
			r.wake.fired()
		}
		evs = r.core.take(evs)
		for _, ev := range evs {
			r.step(ev)
		}
		if r.wake.due(r.clock.now()) {
			r.step(engine.Tick{})
		}
	}
}

// Close asks for a clean end within the time given. It returns at once; Run returns when it is done.
func (r *Runtime) Close(within time.Duration) { r.core.put(engine.Close{Within: within}) }

// Drain asks for an end that waits, within the time given, until others have taken the tasks over. It returns at once.
func (r *Runtime) Drain(within time.Duration) { r.core.put(engine.Drain{Within: within}) }

func (r *Runtime) step(ev engine.Event) {
	if r.done {
		return
	}
	r.deciding.Lock()
	actions := r.engine.Step(r.clock.now(), ev)
	r.deciding.Unlock()
	for _, a := range actions {
		r.carry(a)
	}
}

// Tasks says what is known of the tasks that are here. It may be called from any goroutine, that of a listener as well.
func (r *Runtime) Tasks() []engine.TaskStatus {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	return r.engine.Tasks()
}

// Recovery says how far the gaps are closed that tasks which are here have found. It may be called from any goroutine, as Tasks.
func (r *Runtime) Recovery() []engine.RecoveryStatus {
	r.deciding.Lock()
	defer r.deciding.Unlock()
	return r.engine.Recovery()
}

// post tells the core loop something.
func (r *Runtime) post(ev engine.Event) { r.core.put(ev) }

// request runs f on a goroutine of its own, which shutdown waits for; f must end when the work context does.
func (r *Runtime) request(f func(ctx context.Context)) {
	r.wg.Add(1)
	go func() {
		defer r.wg.Done()
		defer r.guard("a goroutine of the runtime")
		f(r.work)
	}()
}

// shutdown ends every goroutine but those of tasks that are stuck in a user call, and closes the stores of those too.
func (r *Runtime) shutdown() {
	var overdue *engine.CloseError
	if errors.As(r.err, &overdue) {
		overdue.Calls = r.tasks.calls()
	}
	r.disk.stop()
	r.stop()
	r.core.close()
	r.member.Close()
	r.offsets.close()
	r.fetch.close()
	r.tasks.close()
	r.sender.close()
	r.wg.Wait()
	r.err = errors.Join(r.fault, r.err, r.stores.closeAll())
}
