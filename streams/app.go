package streams

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/shell"
)

// State is the life of an application: StateCreated, StateStarting, StateRebalancing and StateRunning in turns, StateSuspended while the
// disk is full, StateClosing, StateClosed.
type State uint8

// The states of an application.
const (
	StateCreated     = State(engine.Created)     // New has returned, Run has not been called
	StateStarting    = State(engine.Starting)    // the topics are being checked and made
	StateRebalancing = State(engine.Rebalancing) // joining, or opening and restoring tasks
	StateRunning     = State(engine.Running)     // every task assigned here runs
	StateSuspended   = State(engine.Suspended)   // the disk is full: outside of the group, until there is room
	StateClosing     = State(engine.Closing)     // draining, committing, leaving the group
	StateClosed      = State(engine.Closed)      // Run has returned, or is about to
)

func (s State) String() string { return engine.State(s).String() }

// App is an application: this process's share of it. Start as many processes with the same application id as there shall be; they share
// the tasks. An App runs once: after Run has returned, make a new one. All methods may be called from any goroutine.
type App struct {
	cfg      Config
	topology atomic.Pointer[Topology]
	state    atomic.Uint32
	said     map[string]time.Time // repeated failures, when they were logged last
	called   atomic.Bool
	tune     func(*shell.Config) // tests shorten times with it
	again    func() bool         // whether a run that ends now is to begin anew
	rebuild  bool                // the run that has ended is to
	stateFS  vfs.FS              // tests let it fail; nil: the operating system's

	mu      sync.Mutex
	runtime *shell.Runtime
	closed  bool          // Close, or Drain, came before there was a runtime
	closing chan struct{} // closed with it
	drains  bool          // Drain was called
	ended   chan struct{} // closed when Run has returned
	err     error         // what Run returned, once ended is closed
}

// New checks the topology and the configuration and returns an application that waits for Run. All faults of one kind come at once, in a
// [*TopologyError] or a [*ConfigError]. Nothing is connected or written yet.
func New(b *Builder, c Config) (*App, error) {
	c = c.withDefaults()
	if b == nil {
		b = NewBuilder() // which is reported to be empty
	}
	id := c.ApplicationID
	if checkName("", id) != nil {
		id = "application" // the name is a fault of the configuration; it is not to hide or repeat others
	}
	topology, err := b.build(id, c.OnFailure)
	var recovery []error
	if topology != nil {
		recovery = topology.recover(c.Recovery)
	}
	if err := errors.Join(err, c.validate(topology != nil && topology.stateful(), recovery)); err != nil {
		return nil, err
	}
	a := &App{cfg: c, ended: make(chan struct{}), closing: make(chan struct{})}
	a.topology.Store(topology)
	return a, nil
}

// ErrAlreadyRun is returned by Run when it is called again.
var ErrAlreadyRun = errors.New("streams: an App runs once: make a new one with New to run again")

// Topology returns what the application runs. With sources that read patterns it is another one whenever their topics have changed.
func (a *App) Topology() *Topology { return a.topology.Load() }

// State returns the life of the application.
func (a *App) State() State { return State(a.state.Load()) }

// String names the application and its state. It leaves secrets out, as GoString does.
func (a *App) String() string {
	return fmt.Sprintf("application %q, %v", a.cfg.ApplicationID, a.State())
}

// GoString leaves secrets out.
func (a *App) GoString() string { return "streams.App{" + a.String() + "}" }

// Ready reports whether every task that is assigned to this process runs: it is a member of the group and restores nothing.
func (a *App) Ready() bool { return a.State() == StateRunning }

func (a *App) setState(s State) { a.state.Store(uint32(s)) }

// Run runs the application until ctx ends or it fails. When ctx ends it takes no more records, commits what is done and leaves the group,
// within Config.CloseTimeout, and returns nil. The error is typed: a [*RecordError] for a record, *[MissingTopicError], *[OffsetOutOfRangeError],
// *[StuckError] and others; nothing past a failed record has been committed. While no broker answers it goes on trying, and Ready is false.
// While the disk of Config.StateDir is full it waits in StateSuspended: see [Listener].
func (a *App) Run(ctx context.Context) error {
	if a.called.Swap(true) {
		return ErrAlreadyRun
	}
	a.err = a.run(ctx)
	a.setState(StateClosed)
	close(a.ended)
	return a.err
}

func (a *App) run(ctx context.Context) error {
	client, err := kafka.Open(a.cfg.client())
	if err != nil {
		return err
	}
	defer func() { _ = client.Close() }() // only sockets are left
	return a.runs(ctx, client)
}

// begin makes the runtime known to Close. It reports false if Close was called already.
func (a *App) begin(r *shell.Runtime) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.runtime = r
	return !a.closed && !a.drains
}

// Close ends the application cleanly, as the end of Run's context does, and waits until Run has returned or ctx ends. The deadline of ctx,
// if it has one, takes the place of Config.CloseTimeout. The error is a [*CloseError], as Run's is, if that was not time enough. Close may be
// called more than once, and before Run, which then ends at once. A function of the application or of its listener must not call it, as
// Run waits for them: let it end Run's context. See Drain for a process that is to be taken away for good.
func (a *App) Close(ctx context.Context) error {
	a.mu.Lock()
	a.shut()
	r := a.runtime
	a.mu.Unlock()
	if r != nil {
		within := time.Duration(0)
		if deadline, ok := ctx.Deadline(); ok {
			within = max(time.Until(deadline), time.Millisecond)
			within -= min(within/10, closeMargin)
		}
		r.Close(within)
	}
	return a.await(ctx)
}

// shut ends a run that has no runtime yet, or none to come. Hold mu.
func (a *App) shut() {
	if !a.closed {
		a.closed = true
		close(a.closing)
	}
}

// await waits until Run has returned, if it was called, or ctx ends.
func (a *App) await(ctx context.Context) error {
	if !a.called.Load() {
		return nil
	}
	select {
	case <-a.ended:
		return a.unclean()
	case <-ctx.Done():
		return a.overdue(ctx)
	}
}

// overdue waits a little longer for what Run has to say about an end that was not clean in time.
func (a *App) overdue(ctx context.Context) error {
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		select {
		case <-a.ended:
			return a.unclean()
		case <-grace.C:
		}
	}
	return ctx.Err()
}

// unclean is the error of an end that was not clean, nil if it was.
func (a *App) unclean() error {
	var e *CloseError
	if errors.As(a.err, &e) {
		return e
	}
	return nil
}

// closeMargin is kept of the time that Close has, to close stores and connections when the clean end is given up.
const closeMargin = 250 * time.Millisecond

// closeGrace is how long Close waits beyond its deadline for the error that says what was not done.
const closeGrace = 250 * time.Millisecond

// randomID is the process id of an application without a state directory.
func randomID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails: see crypto/rand
	return id
}
