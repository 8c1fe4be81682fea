package shell

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/group/carrier"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/task"
)

// ConsumerConfig is what a Consumer needs.
type ConsumerConfig struct {
	Machine       consume.Config
	Planner       engine.PlannerConfig
	Client        *kafka.Client
	ReadCommitted bool
	// Most is how many records a Poll returns at the most.
	Most int
	// Load and Save are the user's store; Tell tells user code all else. They are called on goroutines of the user's only.
	Load func(ctx context.Context, parts []task.TopicPartition) (map[task.TopicPartition]int64, error)
	Save func(ctx context.Context, generation int32, offsets map[task.TopicPartition]int64) error
	Tell func(consume.Tell)
	// Note is told what is for the log, with the machine locked: it must return soon and call nothing of the Consumer.
	Note func(consume.Note)
	// Delete says that the group is deleted when its last member has left.
	Delete bool
	// Slept says for how long the host has been asleep since it started. Nil asks the host.
	Slept func() time.Duration
}

// Consumer runs a consume.Machine. Unlike a Runtime it has no loop of its own: whoever has news, or calls a method, takes the lock and steps the
// machine. User code is run by none of its goroutines.
type Consumer struct {
	cfg   ConsumerConfig
	clock *clock

	mu        sync.Mutex
	machine   *consume.Machine
	timer     *time.Timer
	changed   chan struct{} // closed, and made anew, when there is something to look at
	ids       uint64
	waiting   map[uint64]chan error  // commits that somebody waits for
	callbacks map[uint64]func(error) // of commits that nobody waits for
	due       []func()               // callbacks that can be called, in order
	begun     bool
	closing   bool
	ended     bool  // the machine is at rest
	down      bool  // the goroutines are ending
	crash     error // one of them has panicked

	polling chan struct{} // a token: who has it may run user code that is told of partitions
	calling sync.Mutex    // held by whoever calls callbacks
	storing sync.Mutex    // held by whoever calls the user's store: commits come from any goroutine, loads from that of Poll
	scratch []task.Record

	work    context.Context
	stop    context.CancelFunc
	wg      sync.WaitGroup
	member  *carrier.Carrier
	offsets *offsetsConn
	fetch   *fetchers
}

var (
	// ErrConsumerClosed is returned by the methods of a consumer that was closed.
	ErrConsumerClosed = errors.New("the consumer is closed: make a new one")
	// ErrPolling is returned by a Poll while another one is under way.
	ErrPolling = errors.New("another Poll is under way, or this one was called from a listener: one goroutine polls")
)

// NewConsumer returns a Consumer that has connected to nothing. The first Poll begins.
func NewConsumer(cfg ConsumerConfig) *Consumer {
	c := &Consumer{
		cfg: cfg, clock: newClock(cfg.Slept), machine: consume.New(cfg.Machine), changed: make(chan struct{}),
		waiting: map[uint64]chan error{}, callbacks: map[uint64]func(error){}, polling: make(chan struct{}, 1), scratch: make([]task.Record, cfg.Most),
	}
	c.work, c.stop = context.WithCancel(context.Background())
	c.timer = time.AfterFunc(time.Hour, func() { c.step(consume.Tick{}) })
	c.timer.Stop()
	g := cfg.Machine.Group
	guard := func() {
		if v := recover(); v != nil {
			c.breakDown("the group's member", v)
		}
	}
	c.member = carrier.New(carrier.Config{Session: g.Session, Rebalance: g.Rebalance, Guard: guard, Now: c.clock.now}, cfg.Client, func(ev group.Event) {
		if found, is := ev.(group.CoordinatorFound); is {
			found.Err = withAddresses(found.Err)
			ev = found
		}
		c.step(consume.Member{Event: ev})
	})
	c.offsets = newOffsetsConn(cfg.Client, g.Group, c.request)
	c.fetch = newFetchers(fetchHost{
		client: cfg.Client, planner: cfg.Planner, readCommitted: cfg.ReadCommitted, request: c.request, answered: c.answered,
		deliver: func(_ engine.Purpose, d engine.Deliver) { c.step(consume.Arrived{Deliver: d}) },
		lost:    func(a engine.PartLost) { c.step(consume.PartMoved{Lost: a}) },
		failed:  func(a engine.PartFailed) { c.step(consume.PartStopped{Failed: a}) },
	}, 0)
	return c
}

// step tells the machine something and carries out what it says.
func (c *Consumer) step(ev consume.Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.locked(ev)
}

// locked is step for whoever has the lock.
func (c *Consumer) locked(ev consume.Event) {
	if !c.down {
		c.carryAll(c.machine.Step(c.clock.now(), ev))
	}
}

// announce wakes whoever waits.
func (c *Consumer) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// watch is closed when something has changed after this.
func (c *Consumer) watch() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// request runs f on a goroutine of its own, which shutdown waits for; f must end when the work context does.
func (c *Consumer) request(f func(ctx context.Context)) {
	if c.work.Err() != nil {
		return
	}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		defer func() {
			if v := recover(); v != nil {
				c.breakDown("a goroutine of the consumer", v)
			}
		}()
		f(c.work)
	}()
}

func (c *Consumer) breakDown(where string, v any) {
	err := &CrashError{Where: where, Value: v, Stack: debug.Stack()}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.crash == nil {
		c.crash = err
		c.announce()
	}
}

// answered tells of connections that fail, unless they were ended here.
func (c *Consumer) answered(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil && !errors.Is(err, kafka.ErrClosed) {
		c.step(consume.Troubled{What: what, Err: withAddresses(err)})
	}
}

// withAddresses makes the error of a list of brokers that is exhausted one that the machine knows.
func withAddresses(err error) error {
	var none *kafka.NoBrokerError
	if errors.As(err, &none) {
		return &consume.BrokersError{Addresses: none.Addresses, Err: none.Err}
	}
	return err
}

// Look lets f look at the machine.
func (c *Consumer) Look(f func(*consume.Machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(c.machine)
}

// Do tells the machine what the user wants, if check has nothing against it. The consumer has begun then.
func (c *Consumer) Do(ev consume.Event, check func(*consume.Machine) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing {
		return ErrConsumerClosed
	}
	if check != nil {
		if err := check(c.machine); err != nil {
			return err
		}
	}
	c.locked(ev)
	return nil
}

// Recovery says how far what was left behind in partitions is.
func (c *Consumer) Recovery() (out []engine.RecoveryStatus) {
	c.Look(func(m *consume.Machine) { out = m.Recoveries(c.clock.now()) })
	return out
}

// Lags says how far partitions are behind, with the ends that fetches have told.
func (c *Consumer) Lags() (out []consume.Lag) {
	c.Look(func(m *consume.Machine) { out = m.Lags() })
	known, _ := c.fetch.ends.fresh(time.Now())
	for i := range out {
		l := &out[i]
		if end, told := known[l.TopicPartition]; told {
			l.End = max(l.End, end)
		}
		if l.End >= 0 { // where the position is beyond it, it is the end that is old
			l.End = max(l.End, l.Position)
		}
	}
	return out
}
