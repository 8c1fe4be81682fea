package virtual

import (
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
)

// Config sets a World up.
type Config struct {
	Begin   time.Time
	Brokers modelbroker.Config // Brokers and Seed are to be set
	Rand    *rand.Rand
	Pace    Pace
	Observe Observer // of the network
}

// Pace is how fast things are done in a world, and how lossy its network is.
type Pace struct {
	Hop       time.Duration // most that a message takes from one goroutine to another
	Net       time.Duration // most that a message takes on the way to a broker, usually
	SlowNet   float64       // probability that it takes up to a hundred times as long
	Loss      float64       // probability that a request or its answer is lost with its connection
	Write     time.Duration // most that a store write takes, usually
	SlowWrite float64       // probability that it takes up to two seconds
	Work      time.Duration // most that a turn of a task takes
	SlowWork  float64       // probability that it takes up to a second
	Turn      int           // most records in a turn
}

// World is the time, the brokers and the network that processes share.
type World struct {
	Now    time.Time // moved by Next and RunTo only
	Broker *modelbroker.Broker
	Rand   *rand.Rand
	Pace   Pace
	Calm   bool           // from now on nothing is left to chance but how long things take
	Down   map[int32]bool // nodes
	Late   bool           // the request that is being served was given up long ago
	Events int            // that have happened

	begin   time.Time
	observe Observer
	queue   queue
	seq     uint64
	calls   map[uint64]*Call
	links   map[modelbroker.Conn]*Link
	lastID  uint64
	brokers int
}

// New returns a world in which nothing happens yet.
func New(c Config) *World {
	if c.Observe == nil {
		c.Observe = Unobserved{}
	}
	return &World{
		Now: c.Begin, begin: c.Begin, Broker: modelbroker.New(c.Brokers), Rand: c.Rand, Pace: c.Pace, observe: c.Observe, brokers: max(c.Brokers.Brokers, 1),
		Down: map[int32]bool{}, calls: map[uint64]*Call{}, links: map[modelbroker.Conn]*Link{},
	}
}

// Next lets the next thing happen, in the queue or at a broker. It reports false if there is none.
func (w *World) Next() bool {
	for {
		at, fromBroker, any := w.next()
		switch {
		case !any:
			return false
		case fromBroker:
			w.Now = later(w.Now, at)
			w.Broker.Advance(w.Now)
			w.Collect()
			continue
		}
		e := w.queue.pop()
		w.Now = w.begin.Add(time.Duration(e.at))
		if e.p != nil && !w.awake(e) {
			continue
		}
		w.Events++
		e.run()
		return true
	}
}

// RunTo lets everything happen that is to happen up to a time, and moves the clock there. It ends early, with false, where stop says so.
func (w *World) RunTo(t time.Time, stop func() bool) bool {
	for {
		at, _, any := w.next()
		if !any || at.After(t) {
			w.Now = later(w.Now, t)
			return true
		}
		w.Next()
		if stop() {
			return false
		}
	}
}

// next is when the next thing happens.
func (w *World) next() (at time.Time, fromBroker, any bool) {
	wake, waits := w.Broker.Wake()
	if len(w.queue) == 0 || waits && int64(wake.Sub(w.begin)) < w.queue[0].at {
		return wake, true, waits
	}
	return w.begin.Add(time.Duration(w.queue[0].at)), false, true
}

// awake says whether an event reaches its process now. One for a paused process is put off, in its place among the others.
func (w *World) awake(e event) bool {
	switch {
	case e.p.Dead:
		return false
	case e.p.Host.Paused.After(w.Now):
		e.at = int64(e.p.Host.Paused.Sub(w.begin))
		w.queue.push(e)
		return false
	}
	return true
}

// UpTo draws a duration between 0 and d.
func (w *World) UpTo(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(w.Rand.Int64N(int64(d) + 1))
}

// Chance draws whether something strikes that does with probability p.
func (w *World) Chance(p float64) bool { return p > 0 && !w.Calm && w.Rand.Float64() < p }

// NextID numbers a request to a broker that is not sent on a link.
func (w *World) NextID() uint64 {
	w.lastID++
	return w.lastID
}

// SomeNode is a node that is up, or any if none is.
func (w *World) SomeNode() int32 {
	n := int32(w.Rand.IntN(w.brokers))
	for i := range int32(w.brokers) {
		if at := (n + i) % int32(w.brokers); !w.Down[at] {
			return at
		}
	}
	return n
}
