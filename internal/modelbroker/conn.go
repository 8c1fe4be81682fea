package modelbroker

import (
	"fmt"
	"slices"
)

// Conn names a connection of a client to one node. The zero Conn is none.
type Conn int64

// Answer is what comes back on a connection: the answer to the request with the id, or, with Closed, the news that the node closed it.
type Answer struct {
	Conn   Conn
	ID     uint64
	Body   Response
	Closed bool
}

type conn struct {
	id    Conn
	node  int32
	open  bool
	queue []*ticket
	busy  *ticket // the one that is parked
}

// ticket is a request on its way to its answer. Its holder answers it once or never.
type ticket struct {
	conn *conn
	id   uint64
	req  Request
}

// Dial opens a connection to a node. It fails where the node is down or does not exist.
func (b *Broker) Dial(node int32) (Conn, error) {
	if !b.up(node) {
		return 0, fmt.Errorf("modelbroker: broker %d refuses the connection", node)
	}
	b.lastConn++
	b.conns[b.lastConn] = &conn{id: b.lastConn, node: node, open: true}
	return b.lastConn, nil
}

// Hangup closes a connection from the client's side or in the network. What waits behind a parked request is lost; a parked JoinGroup or
// SyncGroup counts on, but its answer goes nowhere.
func (b *Broker) Hangup(c Conn) {
	if cn := b.conns[c]; cn != nil {
		cn.open = false
		delete(b.conns, c)
	}
}

// hangUpOn closes a connection from the node's side and says so.
func (b *Broker) hangUpOn(cn *conn) {
	if cn.open {
		b.Hangup(cn.id)
		b.answers = append(b.answers, Answer{Conn: cn.id, Closed: true})
	}
}

// answer sends the answer of a parked request and lets its connection go on once the present event is dealt with.
func (b *Broker) answer(t *ticket, r Response) {
	if t.conn.open && t.conn.busy == t {
		t.conn.busy = nil
		b.answers = append(b.answers, Answer{Conn: t.conn.id, ID: t.id, Body: r})
		b.ready = append(b.ready, t.conn)
	}
}

// pump serves connections until none can go on. Requests are handled from here only, so that no handler runs within another.
func (b *Broker) pump() {
	for len(b.ready) > 0 {
		cn := b.ready[0]
		b.ready = slices.Delete(b.ready, 0, 1)
		for cn.open && cn.busy == nil && len(cn.queue) > 0 {
			t := cn.queue[0]
			cn.queue = slices.Delete(cn.queue, 0, 1)
			cn.busy = t
			if r := b.handle(cn.node, t); r != nil {
				b.answer(t, r)
			}
		}
	}
}
