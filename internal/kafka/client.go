package kafka

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Client knows the cluster: the addresses given, and those that metadata told. It is safe for concurrent use. Its calls on the control plane
// share one connection per broker, one call at a time on each.
type Client struct {
	brokers  []string
	timeout  time.Duration // of a request
	settings *settings     // by reference, and no Config here: what prints a Client prints no password

	life context.Context // ends with Close, and with it every call in progress
	end  context.CancelCauseFunc

	pool batchPool

	mu     sync.Mutex
	spread int                // where among the brokers this client begins: not all with the same, and not with one that did not answer last
	addrs  map[int32]string   // by broker id, from the last metadata
	ctrl   map[string]*shared // by address
}

// shared is a connection of the control plane. Who holds the token may use it.
type shared struct {
	token chan struct{}
	conn  *conn
}

// Open validates the configuration. It does not connect: the first call does.
func Open(cfg Config) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	s, err := newSettings(cfg)
	if err != nil {
		return nil, err
	}
	c := &Client{brokers: slices.Clone(cfg.Brokers), timeout: cfg.RequestTimeout, spread: rand.IntN(1 << 16), settings: s, addrs: map[int32]string{}, ctrl: map[string]*shared{}}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c, nil
}

// Timeout is how long an answer is waited for.
func (c *Client) Timeout() time.Duration { return c.timeout }

// Close ends the connections of the control plane; calls in progress return errors. Connections that were given out live on: whoever dialed
// them closes them.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.mu.Lock()
	all := c.ctrl
	c.ctrl = map[string]*shared{}
	c.mu.Unlock()
	for _, s := range all {
		s.token <- struct{}{}
		s.drop()
		<-s.token
	}
	return nil
}

func (s *shared) drop() {
	if s.conn != nil {
		s.conn.close()
		s.conn = nil
	}
}

// call runs f on the shared connection to addr and drops the connection if f fails on it. The end of ctx closes the connection, as there is
// no other way to leave a call.
func (c *Client) call(ctx context.Context, addr, request string, f func(*conn) error) error {
	ctx, cancel := c.within(ctx)
	defer cancel(nil)
	s := c.sharedTo(addr)
	if s == nil {
		return &TransportError{Broker: addr, Request: request, Err: ErrClosed}
	}
	select {
	case s.token <- struct{}{}:
	case <-ctx.Done():
		return &TransportError{Broker: addr, Request: request, Err: context.Cause(ctx)}
	}
	defer func() { <-s.token }()
	if ctx.Err() != nil {
		return &TransportError{Broker: addr, Request: request, Err: context.Cause(ctx)}
	}
	if s.conn == nil {
		var err error
		if s.conn, err = c.settings.dial(ctx, addr, c.timeout); err != nil {
			return err
		}
	}
	stop := context.AfterFunc(ctx, s.conn.dialer.close)
	err := f(s.conn)
	if !stop() && err != nil {
		err = errors.Join(context.Cause(ctx), err)
	}
	if err != nil {
		err = &TransportError{Broker: addr, Request: request, Err: err}
	}
	if err != nil || s.conn.dialer.isClosed() {
		s.drop()
	}
	return err
}

// within is ctx that ends with the client too.
func (c *Client) within(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	if c.life.Err() != nil {
		cancel(ErrClosed)
	}
	stop := context.AfterFunc(c.life, func() { cancel(ErrClosed) })
	return ctx, func(cause error) { stop(); cancel(cause) }
}

// sharedTo is the shared connection to addr, nil once the client is closed: nobody would close it any more.
func (c *Client) sharedTo(addr string) *shared {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return nil
	}
	s := c.ctrl[addr]
	if s == nil {
		s = &shared{token: make(chan struct{}, 1)}
		c.ctrl[addr] = s
	}
	return s
}

// candidates are the addresses to try in turn: brokers that metadata named, then the ones that were given. The first one stays the first as
// long as the brokers do, so that one connection serves.
func (c *Client) candidates() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var out []string
	for _, a := range c.addrs {
		out = append(out, a)
	}
	slices.Sort(out)
	out = c.turned(out)
	for _, a := range c.turned(c.brokers) {
		if !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func (c *Client) turned(addrs []string) []string {
	if len(addrs) == 0 {
		return nil
	}
	at := c.spread % len(addrs)
	return slices.Concat(addrs[at:], addrs[:at])
}

// anyBroker runs f on the first broker that answers.
func (c *Client) anyBroker(ctx context.Context, request string, f func(*conn) error) error {
	var errs []error
	var tried []string
	for i, addr := range c.candidates() {
		err := c.call(ctx, addr, request, f)
		if err == nil {
			c.prefer(i)
		}
		if err == nil || errors.Is(err, ErrClosed) {
			return err
		}
		errs, tried = append(errs, err), append(tried, addr)
		if ctx.Err() != nil {
			break
		}
	}
	return &NoBrokerError{Request: request, Addresses: tried, Err: errors.Join(errs...)}
}

// prefer makes the candidate that answered the first one: a broker that hangs costs one call its time, not each.
func (c *Client) prefer(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.spread += i
}

// addrOf is the address of a broker by id; it asks for metadata once if the id is not known.
func (c *Client) addrOf(ctx context.Context, id int32) (string, error) {
	for attempt := range 2 {
		c.mu.Lock()
		addr, ok := c.addrs[id]
		c.mu.Unlock()
		if ok {
			return addr, nil
		}
		if attempt == 0 {
			if _, err := c.Metadata(ctx, []string{}); err != nil {
				return "", err
			}
		}
	}
	return "", fmt.Errorf("kafka: broker %d is not in the cluster's metadata: refresh the metadata and use a current leader", id)
}
