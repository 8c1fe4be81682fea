package badnet

import (
	"bufio"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// server is a broker that says each line back, and tells the test what lines have come.
func server(t *testing.T) (addr string, lines chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	lines = make(chan string, 100)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for r := bufio.NewReader(c); ; {
					s, err := r.ReadString('\n')
					if err != nil {
						return
					}
					lines <- s
					if _, err := io.WriteString(c, s); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String(), lines
}

type client struct {
	t *testing.T
	c net.Conn
	r *bufio.Reader
}

func start(t *testing.T) (*Net, string, chan string) {
	addr, lines := server(t)
	n, err := New([]string{addr})
	require.NoError(t, err)
	t.Cleanup(n.Close)
	return n, addr, lines
}

func dial(t *testing.T, n *Net, addr string) *client {
	routes, err := ParseRoutes(n.Routes().String())
	require.NoError(t, err)
	c, err := routes.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return &client{t: t, c: c, r: bufio.NewReader(c)}
}

func (c *client) says(s string) {
	_, err := io.WriteString(c.c, s+"\n")
	require.NoError(c.t, err)
}

// hears waits for an answer, for as long as told.
func (c *client) hears(within time.Duration) (string, error) {
	require.NoError(c.t, c.c.SetReadDeadline(time.Now().Add(within)))
	s, err := c.r.ReadString('\n')
	return s, err
}

func (c *client) isAnswered(s string) {
	c.t.Helper()
	c.says(s)
	got, err := c.hears(5 * time.Second)
	require.NoError(c.t, err)
	require.Equal(c.t, s+"\n", got)
}

const blink = 100 * time.Millisecond

func TestThereIsNoWayButTheRoutes(t *testing.T) {
	n, addr, _ := start(t)
	dial(t, n, addr).isAnswered("a")
	_, err := n.Routes().Dial("tcp", "127.0.0.1:1")
	require.ErrorContains(t, err, "no route")
	_, err = ParseRoutes("x")
	require.ErrorContains(t, err, "no route")
	require.ErrorContains(t, n.Cut("127.0.0.1:1"), "no broker")
	require.Error(t, n.Spoil(Fault{Kind: "no such toxic"}))
}

func TestWhatAFaultDoesEndsWithIt(t *testing.T) {
	for name, f := range map[string]Fault{
		"requests vanish": {Kind: "timeout", Way: Up, Values: map[string]int{"timeout": 0}},
		"answers vanish":  {Kind: "timeout", Way: Down, Values: map[string]int{"timeout": 0}},
		"both":            {Kind: "timeout", Values: map[string]int{"timeout": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n, addr, lines := start(t)
			c := dial(t, n, addr)
			c.isAnswered("a")
			<-lines
			require.NoError(t, n.Spoil(f))
			c.says("b")
			_, err := c.hears(blink)
			require.Error(t, err)
			require.Len(t, lines, map[Way]int{Down: 1}[f.Way], "requests arrive unless they are spoilt")
			require.NoError(t, n.Heal())
			_, err = c.hears(5 * time.Second)
			require.Error(t, err, "bytes are gone: the connection is over")
			require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
			dial(t, n, addr).isAnswered("c")
		})
	}
}

// What is held back arrives in the end, also from a sender that has gone.
func TestHeldBytesArriveLate(t *testing.T) {
	n, addr, lines := start(t)
	stays, goes := dial(t, n, addr), dial(t, n, addr)
	stays.isAnswered("a")
	goes.isAnswered("b")
	require.Equal(t, []string{"a\n", "b\n"}, []string{<-lines, <-lines})
	require.NoError(t, n.Spoil(Fault{Kind: Held, Way: Up}))
	stays.says("c")
	goes.says("d")
	require.NoError(t, goes.c.Close())
	time.Sleep(blink) // whatever would come wrongly
	require.Empty(t, lines)
	require.NoError(t, n.Heal())
	require.ElementsMatch(t, []string{"c\n", "d\n"}, []string{<-lines, <-lines})
	got, err := stays.hears(5 * time.Second)
	require.NoError(t, err)
	require.Equal(t, "c\n", got)
	stays.isAnswered("e")
}

func TestCutAndRefuse(t *testing.T) {
	n, addr, _ := start(t)
	c := dial(t, n, addr)
	c.isAnswered("a")
	require.NoError(t, n.Cut())
	_, err := c.hears(5 * time.Second)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Error(t, err)
	dial(t, n, addr).isAnswered("b")
	require.NoError(t, n.Refuse(addr))
	_, err = n.Routes().Dial("tcp", addr)
	require.Error(t, err)
	require.NoError(t, n.Accept(addr))
	dial(t, n, addr).isAnswered("c")
}

// limit_data ends a connection in the middle of what it carries.
func TestConnectionsEndAfterSomeBytes(t *testing.T) {
	n, addr, lines := start(t)
	require.NoError(t, n.Spoil(Fault{Kind: "limit_data", Way: Up, Values: map[string]int{"bytes": 5}}))
	c := dial(t, n, addr)
	c.isAnswered("a")
	<-lines
	c.says("bcdefgh")
	_, err := c.hears(5 * time.Second)
	require.NotErrorIs(t, err, os.ErrDeadlineExceeded)
	require.Error(t, err)
	require.Empty(t, lines)
}
