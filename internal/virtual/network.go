package virtual

import (
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
)

// ErrCut is what a request fails with whose connection was cut.
var ErrCut = errors.New("the connection was cut")

// Link is a connection of a process to a node. Requests and answers keep their order on it. It is dialled by its first request.
type Link struct {
	World   *World
	Process *Process // nil: of somebody who is no process
	Node    int32
	Sure    bool // no fault touches it but a broker's
	Late    bool // its request was sent long ago, by a process that is no more

	conn    modelbroker.Conn
	dead    bool // given up by the process
	gone    bool // nothing arrives on it any more
	out, in lane
	waiting []*Call
	alarm   time.Time // when it is looked whether an answer is overdue; zero: never
}

// Call is a request that is on the way, or its answer.
type Call struct {
	Link *Link
	Req  modelbroker.Request
	Sent time.Time

	id     uint64
	limit  time.Time // when it is given up; zero: never
	lose   bool      // its answer
	gaveUp bool      // nobody waits for it any more
	done   func(modelbroker.Response, error)
}

func (p *Process) dial(node int32) *Link { return &Link{World: p.World, Process: p, Node: node} }

// NetDelay is how long a message travels.
func (w *World) NetDelay() time.Duration {
	if w.Chance(w.Pace.SlowNet) {
		return w.UpTo(100 * w.Pace.Net)
	}
	return w.UpTo(w.Pace.Net)
}

// travel is how long a message travels on a link; one that meets a partition waits for it to heal.
func (l *Link) travel(heals time.Time, t Trouble) time.Duration {
	d := l.World.NetDelay()
	if wait := heals.Sub(l.World.Now); wait > 0 {
		l.World.observe.Saw(t)
		d += wait
	}
	return d
}

func (l *Link) outbound() time.Duration {
	if l.Process == nil || l.Sure {
		return l.World.NetDelay()
	}
	return l.travel(l.Process.Host.CutOut, CutOut)
}

func (l *Link) inbound() time.Duration {
	if l.Process == nil || l.Sure {
		return l.World.NetDelay()
	}
	return l.travel(l.Process.Host.CutIn, CutIn)
}

// Call sends a request. done gets the answer or an error, once, unless the process ends before.
func (l *Link) Call(req modelbroker.Request, done func(modelbroker.Response, error)) {
	w := l.World
	c := &Call{id: w.NextID(), Link: l, Req: req, Sent: w.Now, done: done}
	if l.dead {
		w.After(w.NetDelay(), l.Process, func() { done(nil, ErrCut) })
		return
	}
	if l.Process != nil && !l.Late && l.Process.watch.Sends(l, req) {
		return
	}
	l.waiting = append(l.waiting, c)
	lost := !l.Sure && w.Chance(w.Pace.Loss)
	c.lose = !l.Sure && w.Chance(w.Pace.Loss)
	w.observe.Message(l, Sent, req)
	w.send(&l.out, l.outbound(), nil, func() {
		if lost && !l.dead {
			w.observe.Saw(LostRequest)
			w.observe.Message(l, Lost, req)
			l.Cut(w.NetDelay())
			return
		}
		l.arrive(c, req)
	})
}

// limit gives a call that stays without an answer up, as a read timeout does. What has been sent may still arrive.
func (l *Link) limit(d time.Duration) {
	c := l.waiting
	if len(c) == 0 {
		return
	}
	at := l.World.Now.Add(d)
	c[len(c)-1].limit = at
	if l.alarm.IsZero() || at.Before(l.alarm) {
		l.watch(at)
	}
}

// watch looks at a time whether an answer is overdue. One look ahead is enough, as most answers come in time.
func (l *Link) watch(at time.Time) {
	l.alarm = at
	l.World.At(at, l.Process, func() {
		if l.dead || !l.alarm.Equal(at) {
			return
		}
		l.alarm = time.Time{}
		next := time.Time{}
		for _, c := range l.waiting {
			switch {
			case c.limit.IsZero():
			case !c.limit.After(l.World.Now):
				l.Close()
				return
			case next.IsZero() || c.limit.Before(next):
				next = c.limit
			}
		}
		if !next.IsZero() {
			l.watch(next)
		}
	})
}

func (l *Link) arrive(c *Call, req modelbroker.Request) {
	w := l.World
	if l.conn == 0 && !l.gone {
		conn, err := w.Broker.Dial(l.Node)
		if err != nil {
			l.Cut(w.NetDelay())
			return
		}
		l.conn = conn
		w.links[conn] = l
	}
	if l.conn == 0 {
		return
	}
	if c.gaveUp || l.Process != nil && l.Process.Dead {
		w.observe.Saw(LateRequest)
	}
	w.calls[c.id] = c
	w.observe.Request(c)
	w.Late = c.gaveUp
	w.Broker.Receive(w.Now, l.conn, c.id, req)
	w.Late = false
	w.Collect()
}

// Collect sends the answers of the brokers on their way. Whoever calls a broker himself calls it afterwards.
func (w *World) Collect() {
	for _, a := range w.Broker.Answers() {
		l := w.links[a.Conn]
		if l == nil {
			continue
		}
		if a.Closed {
			l.Cut(w.NetDelay())
			continue
		}
		c := w.calls[a.ID]
		delete(w.calls, a.ID)
		w.observe.Answer(c, a.Body)
		if c.lose && !l.dead {
			w.observe.Saw(LostAnswer)
			w.observe.Message(l, Lost, a.Body)
			l.Cut(w.NetDelay())
			continue
		}
		w.send(&l.in, l.inbound(), l.Process, func() { c.answered(a.Body) })
	}
}

func (c *Call) answered(r modelbroker.Response) {
	w := c.Link.World
	if !c.take() {
		w.observe.Saw(LateAnswer)
		return
	}
	w.observe.Message(c.Link, Got, r)
	if p := c.Link.Process; p != nil && prompt(c.Req) {
		if c.id < p.answered {
			w.observe.Saw(Reordered)
		}
		p.answered = max(p.answered, c.id)
	}
	c.done(r, nil)
}

// prompt says that a broker answers a request at once.
func prompt(r modelbroker.Request) bool {
	switch r.(type) {
	case modelbroker.FetchRequest, modelbroker.JoinGroupRequest, modelbroker.SyncGroupRequest:
		return false
	}
	return true
}

// take takes the call out of those that wait; false if it has been answered or given up.
func (c *Call) take() bool {
	for i, o := range c.Link.waiting {
		if o == c {
			c.Link.waiting = slices.Delete(c.Link.waiting, i, i+1)
			return true
		}
	}
	return false
}

// Cut ends a connection. What is on the way to the node is lost; who waits is told after a while.
func (l *Link) Cut(notice time.Duration) {
	if l.dead {
		return
	}
	l.dead = true
	l.hangUp()
	l.tell(notice)
}

// Close ends a connection from the client's side: what has been sent still arrives, its answers do not.
func (l *Link) Close() {
	if l == nil || l.dead {
		return
	}
	l.dead = true
	l.World.send(&l.out, 0, nil, l.hangUp)
	l.tell(0)
}

func (l *Link) hangUp() {
	l.gone = true
	if l.conn != 0 {
		l.World.Broker.Hangup(l.conn)
		delete(l.World.links, l.conn)
		l.conn = 0
	}
}

func (l *Link) tell(notice time.Duration) {
	for _, c := range l.waiting {
		l.World.After(notice, l.Process, func() {
			if c.take() {
				c.gaveUp = true
				c.done(nil, ErrCut)
			}
		})
	}
}

// LinksOf returns the open connections of a process in the order in which they were dialled.
func (w *World) LinksOf(p *Process) []*Link {
	var ls []*Link
	for _, c := range slices.Sorted(maps.Keys(w.links)) {
		if l := w.links[c]; l.Process == p {
			ls = append(ls, l)
		}
	}
	return ls
}

const askTimeout = 10 * time.Second

// ask sends one request on a connection of its own, to a node that is up if there is one.
func (p *Process) ask(req modelbroker.Request, done func(modelbroker.Response, error)) {
	p.askNode(p.World.SomeNode(), req, done)
}

func (p *Process) askNode(node int32, req modelbroker.Request, done func(modelbroker.Response, error)) {
	l := p.dial(node)
	l.Call(req, func(r modelbroker.Response, err error) {
		l.Close()
		done(r, err)
	})
	l.limit(askTimeout)
}
