package shell

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// fetchHost is whom fetch loops work for: the Runtime of an application, or a Consumer.
type fetchHost struct {
	client        *kafka.Client
	planner       engine.PlannerConfig
	readCommitted bool
	// request runs a loop on a goroutine of its own, which has ended before the host has.
	request func(func(ctx context.Context))
	// answered is told how each fetch has ended.
	answered func(ctx context.Context, what string, err error)
	deliver  func(engine.Purpose, engine.Deliver)
	lost     func(engine.PartLost)
	failed   func(engine.PartFailed)
}

// fetchers are the fetch loops: one per broker and purpose, each with a connection of its own.
type fetchers struct {
	host  fetchHost
	idle  time.Duration
	loops map[loopKey]*fetchLoop // the core loop's

	mu  sync.Mutex
	src map[engine.FetchSource]*fetchLoop // who fetches what, for tasks that give room back

	ends ends
}

type loopKey struct {
	purpose engine.Purpose
	broker  int32
}

func newFetchers(host fetchHost, idle time.Duration) *fetchers {
	return &fetchers{host: host, idle: cmp.Or(idle, idleFor), loops: map[loopKey]*fetchLoop{}, src: map[engine.FetchSource]*fetchLoop{}}
}

func (f *fetchers) event(p engine.Purpose, broker int32, ev engine.PlannerEvent) {
	key := loopKey{p, broker}
	if l := f.loops[key]; l != nil {
		f.note(l, ev)
		if l.box.put(ev) {
			return
		}
	}
	if _, ok := ev.(engine.FetchAdd); !ok {
		return // a loop that has ended had nothing to fetch
	}
	// Those of brokers that are gone must not pile up.
	maps.DeleteFunc(f.loops, func(_ loopKey, l *fetchLoop) bool { return l.box.closed() })
	l := newFetchLoop(f, key)
	f.loops[key] = l
	f.note(l, ev)
	l.box.put(ev)
	f.host.request(l.run)
}

func (f *fetchers) note(l *fetchLoop, ev engine.PlannerEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch ev := ev.(type) {
	case engine.FetchAdd:
		f.src[ev.Source] = l
	case engine.FetchRemove:
		if f.src[ev.Source] == l {
			delete(f.src, ev.Source)
		}
	}
}

// forget is called when a loop has given a partition back, before the engine hears of it.
func (f *fetchers) forget(l *fetchLoop, src engine.FetchSource) {
	f.note(l, engine.FetchRemove{Source: src})
}

// consumed gives room back, and memory; a task calls it from its own goroutine.
func (f *fetchers) consumed(src engine.FetchSource, bytes int, done []*task.Batch) {
	f.host.client.Recycle(done)
	f.mu.Lock()
	l := f.src[src]
	f.mu.Unlock()
	if l != nil {
		l.box.put(engine.FetchConsumed{Source: src, Bytes: bytes})
	}
}

// close interrupts what is parked. The loops end with the work context.
func (f *fetchers) close() {
	for _, l := range f.loops {
		l.interrupt()
	}
}

// fetchLoop runs one engine.Planner. It reads and checks one answer ahead of the tasks that process the one before.
type fetchLoop struct {
	f       *fetchers
	key     loopKey
	box     *mailbox[engine.PlannerEvent]
	wake    *wakeup
	planner *engine.Planner
	evs     []engine.PlannerEvent
	asks    kafka.FetchRequest
	ends    map[task.TopicPartition]*end // of the partitions that are fetched here as input

	mu   sync.Mutex
	conn *kafka.FetchConn
	shut bool
}

func newFetchLoop(f *fetchers, key loopKey) *fetchLoop {
	return &fetchLoop{f: f, key: key, box: newMailbox[engine.PlannerEvent](), wake: newWakeup(time.Now), planner: engine.NewPlanner(f.host.planner.For(key.purpose)),
		ends: map[task.TopicPartition]*end{}}
}

// idleFor is how long a connection is kept that nothing goes over: less than the ten minutes after which brokers close it, and more than any
// request waits for its answer.
const idleFor = 2 * time.Minute

func (l *fetchLoop) run(ctx context.Context) {
	defer l.wake.stop()
	defer l.interrupt()
	defer l.forgetEnds()
	idle := time.NewTimer(l.f.idle)
	defer idle.Stop()
	var ask *engine.SendFetch
	for ctx.Err() == nil {
		if ask != nil {
			a := *ask
			ask = nil
			ev := l.fetch(ctx, a)
			l.f.host.answered(ctx, fmt.Sprintf("fetch from broker %d", l.key.broker), ev.Err)
			ask = l.answered(ev)
			idle.Reset(l.f.idle)
		} else {
			select {
			case <-ctx.Done():
				return
			case <-l.box.signal:
			case <-l.wake.timer.C:
				l.wake.fired()
			case <-idle.C:
				if l.planner.Empty() && l.box.retire() {
					return
				}
				if l.conn != nil { // what is there is full, or paused
					l.drop(l.conn)
				}
				idle.Reset(l.f.idle)
			}
		}
		ask = l.takeIn(ask)
		if l.wake.due(time.Now()) {
			ask = l.step(engine.PlannerTick{}, ask)
		}
	}
}

// answered tells the planner what has come meanwhile, and then the answer: else the next fetch is for what nobody wants any more, and may wait for
// more of that while others wait for the fetch.
func (l *fetchLoop) answered(ev engine.FetchAnswered) *engine.SendFetch {
	return l.step(ev, l.takeIn(nil))
}

// takeIn tells the planner what has come.
func (l *fetchLoop) takeIn(ask *engine.SendFetch) *engine.SendFetch {
	l.evs = l.box.take(l.evs)
	for _, ev := range l.evs {
		ask = l.step(ev, ask)
	}
	return ask
}

// step tells the planner something; a fetch that it asks for is carried out by the loop, as it blocks.
func (l *fetchLoop) step(ev engine.PlannerEvent, ask *engine.SendFetch) *engine.SendFetch {
	l.noteEnds(ev)
	for _, a := range l.planner.Step(time.Now(), ev) {
		switch a := a.(type) {
		case engine.SendFetch:
			ask = &a
		case engine.Deliver:
			l.f.host.deliver(l.key.purpose, a)
		case engine.PartLost:
			l.f.forget(l, a.Source)
			l.forgetEnd(a.Source)
			l.f.host.lost(a)
		case engine.PartFailed:
			l.f.forget(l, a.Source)
			l.forgetEnd(a.Source)
			l.f.host.failed(a)
		case engine.PlannerWake:
			l.wake.set(a.At)
		}
	}
	return ask
}

func (l *fetchLoop) fetch(ctx context.Context, a engine.SendFetch) engine.FetchAnswered {
	conn, err := l.dial(ctx)
	if err != nil {
		return engine.FetchAnswered{Err: err}
	}
	l.asks.MaxWait, l.asks.MinBytes, l.asks.MaxBytes, l.asks.ReadCommitted = a.MaxWait, 1, a.MaxBytes, l.f.host.readCommitted
	l.asks.Parts = l.asks.Parts[:0]
	for _, p := range a.Parts {
		l.asks.Parts = append(l.asks.Parts, kafka.FetchPart{TopicPartition: p.TopicPartition, Offset: p.Offset, LeaderEpoch: p.LeaderEpoch, MaxBytes: p.MaxBytes})
	}
	res, err := conn.Fetch(l.asks)
	if err == nil && res.Code != kcode.None {
		err = res.Code
	}
	if err != nil {
		l.drop(conn)
		return engine.FetchAnswered{Err: err}
	}
	fail.Point("fetch.answered")
	ev := engine.FetchAnswered{Parts: make([]engine.FetchedPart, len(res.Parts))}
	for i, p := range res.Parts {
		ev.Parts[i] = engine.FetchedPart{TopicPartition: p.TopicPartition, Code: p.Code, Batch: p.Batch, Err: p.Err}
		if e := l.ends[p.TopicPartition]; e != nil && p.Code == kcode.None && p.Err == nil {
			e.told(p.HighWatermark)
		}
	}
	return ev
}

func (l *fetchLoop) dial(ctx context.Context) (*kafka.FetchConn, error) {
	if l.conn != nil {
		return l.conn, nil
	}
	conn, err := l.f.host.client.DialFetch(ctx, l.key.broker)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		conn.Close()
		return nil, context.Canceled
	}
	l.conn = conn
	return conn, nil
}

func (l *fetchLoop) drop(conn *kafka.FetchConn) {
	conn.Close()
	l.mu.Lock()
	l.conn = nil
	l.mu.Unlock()
}

// interrupt closes the connection, so that a parked fetch returns, and lets no other be opened.
func (l *fetchLoop) interrupt() {
	l.mu.Lock()
	l.shut = true
	conn := l.conn
	l.mu.Unlock()
	if conn != nil {
		conn.Close()
	}
}
