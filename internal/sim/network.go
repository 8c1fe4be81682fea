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
	dead    bool // given up by the process
	gone    bool // nothing arrives on it any more
	sure    bool // no fault touches it but a broker's
	late    bool // its request was sent long ago, by a process that is no more
	out, in lane
	waiting []*call
}

// call is a request that is on the way, or its answer.
type call struct {
	id      uint64
	link    *link
	req     modelbroker.Request
	sent    time.Time
	lose    bool                       // its answer
	gaveUp  bool                       // nobody waits for it any more
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

// travel is how long a message travels on a link; one that meets a partition waits for it to heal.
func (l *link) travel(heals time.Time, k Kind) time.Duration {
	d := l.w.netDelay()
	if wait := heals.Sub(l.w.now); wait > 0 {
		l.w.saw(k)
		d += wait
	}
	return d
}

func (l *link) outbound() time.Duration {
	if l.p == nil || l.sure {
		return l.w.netDelay()
	}
	return l.travel(l.p.host.cutOut, CutOut)
}

func (l *link) inbound() time.Duration {
	if l.p == nil || l.sure {
		return l.w.netDelay()
	}
	return l.travel(l.p.host.cutIn, CutIn)
}

// call sends a request. done gets the answer or an error, once, unless the process dies before.
func (l *link) call(req modelbroker.Request, done func(modelbroker.Response, error)) {
	w := l.w
	w.lastID++
	c := &call{id: w.lastID, link: l, req: req, sent: w.now, done: done}
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
	w.traceMessage(l, sends, req)
	w.send(&l.out, l.outbound(), nil, func() {
		if lost && !l.dead {
			w.saw(LostRequest)
			w.traceMessage(l, loses, req)
			l.cut(w.netDelay())
			return
		}
		l.arrive(c, req)
	})
}

// limit gives a call that stays without an answer up, as a read timeout does. What has been sent may still arrive.
func (l *link) limit(d time.Duration) {
	c := l.waiting
	if len(c) == 0 {
		return
	}
	last := c[len(c)-1]
	l.w.after(d, l.p, func() {
		for _, o := range l.waiting {
			if o == last {
				l.close()
				return
			}
		}
	})
}

func (l *link) arrive(c *call, req modelbroker.Request) {
	w := l.w
	if l.conn == 0 && !l.gone {
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
	if c.gaveUp || l.p != nil && l.p.dead {
		w.saw(LateRequest)
	}
	w.calls[c.id] = c
	w.oracle.request(c, req)
	w.late = c.gaveUp
	w.broker.Receive(w.now, l.conn, c.id, req)
	w.late = false
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
		if c.lose && !l.dead {
			w.saw(LostAnswer)
			w.traceMessage(l, loses, a.Body)
			l.cut(w.netDelay())
			continue
		}
		w.send(&l.in, l.inbound(), l.p, func() { c.answered(a.Body) })
	}
}

func (c *call) answered(r modelbroker.Response) {
	w := c.link.w
	if !c.take() {
		w.saw(LateAnswer)
		return
	}
	w.traceMessage(c.link, gets, r)
	if p := c.link.p; p != nil && prompt(c.req) {
		if c.id < p.answered {
			w.saw(Reordered)
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
	l.dead = true
	l.hangUp()
	l.tell(notice)
}

// close ends a connection from the client's side: what has been sent still arrives, its answers do not.
func (l *link) close() {
	if l == nil || l.dead {
		return
	}
	l.dead = true
	l.w.send(&l.out, 0, nil, l.hangUp)
	l.tell(0)
}

func (l *link) hangUp() {
	l.gone = true
	if l.conn != 0 {
		l.w.broker.Hangup(l.conn)
		delete(l.w.links, l.conn)
		l.conn = 0
	}
}

func (l *link) tell(notice time.Duration) {
	for _, c := range l.waiting {
		l.w.after(notice, l.p, func() {
			if c.take() {
				c.gaveUp = true
				c.done(nil, errCut)
			}
		})
	}
}

const askTimeout = 10 * time.Second

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
	l.limit(askTimeout)
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
