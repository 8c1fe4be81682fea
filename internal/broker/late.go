package broker

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Late is how long requests of some kinds are held back on their way to the broker, by their key in Kafka's protocol. What is sent on the same
// connection after one of them waits with it.
type Late map[int16]time.Duration

// String is what Set takes.
func (l Late) String() string {
	var all []string
	for key, d := range l {
		all = append(all, kmsg.NameForKey(key)+"="+d.String())
	}
	return strings.Join(all, ",")
}

// Set parses kinds and durations, as in OffsetCommit=100ms,Fetch=20ms. With String it is a flag.Value.
func (l Late) Set(s string) error {
	for _, one := range strings.Split(s, ",") {
		name, wait, _ := strings.Cut(one, "=")
		d, err := time.ParseDuration(wait)
		if err != nil {
			return fmt.Errorf("%q: want a kind of request and a duration, as in OffsetCommit=100ms: %w", one, err)
		}
		key, known := keyOf(name)
		if !known {
			return fmt.Errorf("%q is no kind of request of Kafka's protocol, such as OffsetCommit", name)
		}
		l[key] = d
	}
	return nil
}

func keyOf(name string) (int16, bool) {
	for key := range int16(kmsg.MaxKey + 1) {
		if kmsg.NameForKey(key) == name {
			return key, true
		}
	}
	return 0, false
}

func (l Late) listen(network, address string) (net.Listener, error) {
	inner, err := net.Listen(network, address)
	if err != nil {
		return nil, err
	}
	return lateListener{inner, l}, nil
}

type lateListener struct {
	net.Listener
	late Late
}

func (l lateListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: c, late: l.late}, nil
}

// lateConn is the broker's end of a connection. A request is its size in 4 bytes, and as many bytes, of which the first two are its key.
type lateConn struct {
	net.Conn
	late Late
	head [6]byte
	kept []byte // of head, not handed on yet
	rest int    // bytes of the request after head
}

func (c *lateConn) Read(p []byte) (int, error) {
	if len(c.kept) == 0 && c.rest == 0 {
		if _, err := io.ReadFull(c.Conn, c.head[:]); err != nil {
			return 0, err
		}
		time.Sleep(c.late[int16(binary.BigEndian.Uint16(c.head[4:]))])
		c.kept, c.rest = c.head[:], int(binary.BigEndian.Uint32(c.head[:]))-2
	}
	if len(c.kept) > 0 {
		n := copy(p, c.kept)
		c.kept = c.kept[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p[:min(len(p), c.rest)])
	c.rest -= n
	return n, err
}
