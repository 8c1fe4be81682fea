package carrier

import (
	"context"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
)

// line is one connection and the goroutine that uses it, one call after the other. The goroutine ends when there is nothing to do.
type line struct {
	c       *Carrier
	timeout time.Duration // of one call
	wg      sync.WaitGroup

	mu    sync.Mutex
	queue []func()
	busy  bool
	shut  bool
	conn  *kafka.GroupConn
	calls uint64             // counts up with every drop: a dial that began before it is not kept
	abort context.CancelFunc // of the dial that is under way
}

func newLine(c *Carrier, timeout time.Duration) *line { return &line{c: c, timeout: timeout} }

// do queues a call. After close it is dropped: nobody waits for its answer.
func (l *line) do(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut {
		return
	}
	l.queue = append(l.queue, f)
	if !l.busy {
		l.busy = true
		l.wg.Add(1)
		go l.run()
	}
}

func (l *line) run() {
	defer l.wg.Done()
	defer l.c.guard()
	for {
		l.mu.Lock()
		if len(l.queue) == 0 || l.shut {
			l.busy, l.queue = false, nil
			l.mu.Unlock()
			return
		}
		f := l.queue[0]
		l.queue = l.queue[1:]
		l.mu.Unlock()
		f()
	}
}

// call makes one call on a connection to addr, dialing if need be. After a transport error the connection is given up.
func (l *line) call(addr string, f func(*kafka.GroupConn) error) error {
	conn, err := l.to(addr)
	if err != nil {
		return err
	}
	if err := f(conn); err != nil {
		l.forget(conn)
		return err
	}
	return nil
}

func (l *line) to(addr string) (*kafka.GroupConn, error) {
	l.mu.Lock()
	conn := l.conn
	if conn != nil && conn.Addr() == addr {
		l.mu.Unlock()
		return conn, nil
	}
	ctx, cancel := context.WithTimeout(l.c.ctx, l.timeout)
	defer cancel()
	l.abort = cancel
	before := l.calls
	l.mu.Unlock()
	if conn != nil {
		l.forget(conn)
	}
	conn, err := l.c.client.DialGroup(ctx, addr, l.timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.shut || l.calls != before {
		conn.Close()
		return nil, kafka.ErrClosed
	}
	l.conn = conn
	return conn, nil
}

func (l *line) forget(conn *kafka.GroupConn) {
	conn.Close()
	l.mu.Lock()
	if l.conn == conn {
		l.conn = nil
	}
	l.mu.Unlock()
}

// drop closes the connection, or ends the dial, under whatever call is on it; that call returns an error. What is queued behind it goes on
// with a new connection.
func (l *line) drop() {
	l.mu.Lock()
	conn, abort := l.conn, l.abort
	l.conn, l.abort = nil, nil
	l.calls++
	l.mu.Unlock()
	if abort != nil {
		abort()
	}
	if conn != nil {
		conn.Close()
	}
}

// close drops the connection for good and waits for the call on it.
func (l *line) close() {
	l.mu.Lock()
	l.shut = true
	l.mu.Unlock()
	l.drop()
	l.wg.Wait()
}
