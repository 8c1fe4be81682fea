package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"go.uber.org/zap"
	"golang.org/x/net/proxy"
)

// conn is one authenticated connection. It keeps the net.Conn, because sarama's Broker.Close waits for a call in progress: closing the socket
// is the only way to end a parked one.
type conn struct {
	addr   string
	broker *sarama.Broker
	dialer *keepDialer
}

// dial connects and authenticates. readTimeout is sarama's bound for each answer.
func (s *settings) dial(ctx context.Context, addr string, readTimeout time.Duration) (*conn, error) {
	conf := *s.conf
	conf.Net.ReadTimeout = readTimeout
	ctx, cancel := context.WithTimeout(ctx, conf.Net.DialTimeout)
	defer cancel()
	c := &conn{addr: addr, broker: sarama.NewBroker(addr), dialer: &keepDialer{ctx: ctx, settings: s}}
	if s.token != nil {
		provider := &tokenProvider{dial: ctx, timeout: conf.Net.DialTimeout, token: s.token}
		defer provider.up.Store(true)
		conf.Net.SASL.TokenProvider = provider
	}
	conf.Net.Proxy.Enable = true
	conf.Net.Proxy.Dialer = c.dialer
	stop := context.AfterFunc(ctx, c.dialer.close)
	defer stop()
	if err := c.broker.Open(&conf); err != nil {
		return nil, &TransportError{Broker: addr, Request: "connect", Err: err}
	}
	ok, err := c.broker.Connected()
	if err == nil && !ok {
		err = errors.New("connection ended while it was set up")
	}
	if err == nil && !stop() {
		err = context.Cause(ctx)
	}
	if err != nil {
		if conf.Net.SASL.Enable && errors.Is(err, io.EOF) {
			err = fmt.Errorf("the broker hung up during SASL authentication, check the mechanism, the user, the password, and TLS: %w", err)
		}
		if ctx.Err() != nil {
			err = errors.Join(context.Cause(ctx), err)
		}
		c.close()
		return nil, &TransportError{Broker: addr, Request: "connect", Err: err}
	}
	if e := s.log.Check(zap.DebugLevel, "connected"); e != nil {
		e.Write(zap.String("broker", addr))
	}
	return c, nil
}

// close ends the connection at once; a call in progress returns an error.
func (c *conn) close() {
	c.dialer.close()
	_ = c.broker.Close() // says that it is closed already, or repeats the error of the socket: nothing to act on
}

// fail wraps what sarama answered to a request.
func (c *conn) fail(request string, err error) error {
	if err == nil {
		return nil
	}
	if c.dialer.isClosed() {
		err = errors.Join(ErrClosed, err)
	}
	return &TransportError{Broker: c.addr, Request: request, Err: err}
}

// keepDialer dials one connection for sarama, with the TLS handshake, and keeps it.
type keepDialer struct {
	ctx      context.Context // sarama's dialer takes none; it lives as long as the dial
	settings *settings

	mu     sync.Mutex
	raw    net.Conn
	closed bool
}

// Dial is called once, by sarama.
func (d *keepDialer) Dial(network, addr string) (net.Conn, error) {
	raw, err := d.dialRaw(network, addr)
	if err != nil {
		return nil, err
	}
	if d.settings.tls != nil {
		conf := d.settings.tls.Clone()
		if conf.ServerName == "" {
			conf.ServerName, _, _ = net.SplitHostPort(addr)
		}
		t := tls.Client(raw, conf)
		if err := t.HandshakeContext(d.ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		raw = t
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		_ = raw.Close()
		return nil, ErrClosed
	}
	d.raw = raw
	return raw, nil
}

func (d *keepDialer) dialRaw(network, addr string) (net.Conn, error) {
	conf := d.settings.conf
	switch inner := d.settings.inner.(type) {
	case nil:
		n := net.Dialer{KeepAlive: conf.Net.KeepAlive, LocalAddr: conf.Net.LocalAddr}
		return n.DialContext(d.ctx, network, addr)
	case proxy.ContextDialer:
		return inner.DialContext(d.ctx, network, addr)
	default:
		return inner.Dial(network, addr)
	}
}

// close closes the connection, or refuses the one that is still being dialed.
func (d *keepDialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		if d.raw != nil {
			_ = d.raw.Close()
		}
	}
}

func (d *keepDialer) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}
