package sim

import (
	"errors"
	"time"

	"github.com/understudy-streams/understudy/internal/modelbroker"
)

var errCut = errors.New("the connection was cut")

// link is a connection of a process to a node. Requests and answers keep their order on it. It is dialled by its first request.
type link struct {
	w       *world
	p       *process
	node    int32
	conn    modelbroker.Conn
	dead    bool
	sure    bool // no fault touches it but a broker's
	late    bool // its request was sent long ago, by a process that is no more
	out, in lane
	waiting []*call
}

// call is a request that is on the way, or its answer.
type call struct {
	id      uint64
	link    *link
	lose    bool                       // its answer
	produce []modelbroker.ProduceBatch // of a ProduceRequest, for the oracle
	done    func(modelbroker.Response, error)
}

func (p *process) dial(node int32) *link { return &link{w: p.w, p: p, node: node} }

// netDelay is how long a message travels.
func (w *world) netDelay() time.Duration {
	if w.chance(w.mood.slowNet) {
		return w.upTo(100 * w.mood.net)
	}
	return w.upTo(w.mood.net)
}

// call sends a request. done gets the answer or an error, once, unless the process dies before.
func (l *link) call(req modelbroker.Request, done func(modelbroker.Response, error)) {
	w := l.w
	w.lastID++
	c := &call{id: w.lastID, link: l, done: done}
	if l.dead {
		w.after(w.netDelay(), l.p, func() { done(nil, errCut) })
		return
	}
	if r, ok := req.(modelbroker.ProduceRequest); ok && l.p != nil && !l.late {
		if l.p.host.held(l, r) {
			return
		}
		w.oracle.sent(l.p, r)
	}
	l.waiting = append(l.waiting, c)
	lost := !l.sure && w.chance(w.mood.loss)
	c.lose = !l.sure && w.chance(w.mood.loss)
	w.send(&l.out, w.netDelay(), nil, func() {
		if lost {
			l.cut(w.netDelay())
			return
		}
		l.arrive(c, req)
	})
}

// limit gives a call that stays without an answer up, as a read timeout does.
func (l *link) limit(d time.Duration) {
	c := l.waiting
	if len(c) == 0 {
		return
	}
	last := c[len(c)-1]
	l.w.after(d, l.p, func() {
		for _, o := range l.waiting {
			if o == last {
				l.cut(0)
				return
			}
		}
	})
}

func (l *link) arrive(c *call, req modelbroker.Request) {
	w := l.w
	if l.conn == 0 && !l.dead {
		conn, err := w.broker.Dial(l.node)
		if err != nil {
			l.cut(w.netDelay())
			return
		}
		l.conn = conn
		w.links[conn] = l
	}
	if l.conn == 0 {
		return
	}
	w.calls[c.id] = c
	w.oracle.request(c, req)
	w.broker.Receive(w.now, l.conn, c.id, req)
	w.collect()
}

// collect sends the answers of the broker on their way.
func (w *world) collect() {
	for _, a := range w.broker.Answers() {
		l := w.links[a.Conn]
		if l == nil {
			continue
		}
		if a.Closed {
			l.cut(w.netDelay())
			continue
		}
		c := w.calls[a.ID]
		delete(w.calls, a.ID)
		w.oracle.answer(c, a.Body)
		if c.lose {
			l.cut(w.netDelay())
			continue
		}
		w.send(&l.in, w.netDelay(), l.p, func() { c.answered(a.Body) })
	}
}

func (c *call) answered(r modelbroker.Response) {
	if c.take() {
		c.done(r, nil)
	}
}

// take takes the call out of those that wait; false if it has been answered or given up.
func (c *call) take() bool {
	for i, o := range c.link.waiting {
		if o == c {
			c.link.waiting = append(c.link.waiting[:i:i], c.link.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// cut ends a connection. What is on the way to the node is lost; who waits is told after a while.
func (l *link) cut(notice time.Duration) {
	if l.dead {
		return
	}
	l.end()
	l.hangUp()
	l.tell(notice)
}

// close ends a connection from the client's side: what has been sent still arrives, its answers do not.
func (l *link) close() {
	if l == nil || l.dead {
		return
	}
	l.end()
	l.w.send(&l.out, 0, nil, l.hangUp)
	l.tell(0)
}

func (l *link) end() { l.dead = true }

func (l *link) hangUp() {
	if l.conn != 0 {
		l.w.broker.Hangup(l.conn)
		delete(l.w.links, l.conn)
		l.conn = 0
	}
}

func (l *link) tell(notice time.Duration) {
	for _, c := range l.waiting {
		l.w.send(&l.in, notice, l.p, func() {
			if c.take() {
				c.done(nil, errCut)
			}
		})
	}
}

// ask sends one request on a connection of its own, to a node that is up if there is one.
func (p *process) ask(req modelbroker.Request, done func(modelbroker.Response, error)) {
	p.askNode(p.w.someNode(), req, done)
}

func (p *process) askNode(node int32, req modelbroker.Request, done func(modelbroker.Response, error)) {
	l := p.dial(node)
	l.call(req, func(r modelbroker.Response, err error) {
		l.close()
		done(r, err)
	})
}

// someNode is a node that is up, or any if none is.
func (w *world) someNode() int32 {
	n := int32(w.rng.IntN(w.cfg.Brokers))
	for i := range int32(w.cfg.Brokers) {
		if at := (n + i) % int32(w.cfg.Brokers); !w.oracle.down[at] {
			return at
		}
	}
	return n
}
