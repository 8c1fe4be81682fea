package kafka

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
)

// A broker that takes connections and says nothing holds up one call, and not each.
func TestABrokerThatHangsIsNotAskedFirstAgain(t *testing.T) {
	b, err := broker.Start(broker.Options{Brokers: 1})
	require.NoError(t, err)
	defer b.Close()
	hung, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var asked atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var conns []net.Conn
		for {
			c, err := hung.Accept()
			if err != nil {
				break
			}
			asked.Add(1)
			conns = append(conns, c)
		}
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	defer func() { require.NoError(t, hung.Close()); <-ended }()

	c, err := Open(Config{Brokers: []string{hung.Addr().String(), b.Addrs()[0]}, DialTimeout: 300 * time.Millisecond, RequestTimeout: 300 * time.Millisecond})
	require.NoError(t, err)
	defer func() { require.NoError(t, c.Close()) }()
	c.spread = 0
	for range 5 {
		_, _, err := c.Coordinator(within(t), "g") // which teaches the client no addresses
		require.NoError(t, err)
	}
	require.Equal(t, int64(1), asked.Load())
}

func TestConnectionsToBrokersThatAreGoneAreClosed(t *testing.T) {
	c, err := Open(Config{Brokers: []string{"seed:1"}})
	require.NoError(t, err)
	dialers := map[string]*keepDialer{}
	for _, addr := range []string{"seed:1", "stays:1", "goes:1", "busy:1"} {
		dialers[addr] = &keepDialer{}
		c.sharedTo(addr).conn = &conn{addr: addr, broker: sarama.NewBroker(addr), dialer: dialers[addr]}
	}
	busy := c.sharedTo("busy:1")
	busy.token <- struct{}{}
	c.learn([]Broker{{ID: 1, Addr: "stays:1"}})
	<-busy.token
	for addr, d := range dialers {
		require.Equal(t, addr == "goes:1", d.isClosed(), addr)
	}
	require.NoError(t, c.Close())
}
