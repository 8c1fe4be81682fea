package kafka

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/IBM/sarama"
)

// Requests that are framed here, with the one version of each that is spoken: the newest without tagged fields.
const (
	keyProduce     int16 = 0
	keyFetch       int16 = 1
	versionProduce int16 = 8
	versionFetch   int16 = 11
)

// maxAnswer bounds an answer: what was asked for at most, one batch beyond it, and room for the envelope.
const maxAnswer = 256 << 20

// dataConn is a connection that sarama dialed and authenticated and that is ours from then on: sarama reads from it only while a request of
// its own is out.
type dataConn struct {
	conn    *conn
	nc      net.Conn
	client  string
	timeout time.Duration
	frame   frame
	buf     []byte // the request being written, reused
	corr    int32
}

// dialData connects to a broker by id and checks that it speaks the version of the request.
func (c *Client) dialData(ctx context.Context, broker int32, key, version int16, name string) (*dataConn, error) {
	ctx, cancel := c.within(ctx)
	defer cancel(nil)
	addr, err := c.addrOf(ctx, broker)
	if err != nil {
		return nil, err
	}
	k, err := c.settings.dial(ctx, addr, c.timeout)
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, k.dialer.close)
	err = checkVersion(k, key, version, name)
	if !stop() && err == nil {
		err = &TransportError{Broker: addr, Request: "connect", Err: context.Cause(ctx)}
	}
	if err != nil {
		k.close()
		return nil, err
	}
	d := &dataConn{conn: k, nc: k.dialer.raw, client: c.settings.conf.ClientID, timeout: c.timeout}
	d.frame.r = bufio.NewReaderSize(paced{d.nc, c.timeout}, 64<<10)
	return d, nil
}

func checkVersion(k *conn, key, version int16, name string) error {
	res, err := k.broker.ApiVersions(&sarama.ApiVersionsRequest{})
	if err != nil {
		return k.fail("ApiVersions", err)
	}
	for _, a := range res.ApiKeys {
		if a.ApiKey != key {
			continue
		}
		if version < a.MinVersion || version > a.MaxVersion {
			return fmt.Errorf("kafka: broker %s speaks %s versions %d to %d, needed is %d: use Kafka 2.4 or later", k.addr, name, a.MinVersion, a.MaxVersion, version)
		}
		return nil
	}
	return fmt.Errorf("kafka: broker %s does not offer %s", k.addr, name)
}

// begin starts a request in the buffer.
func (d *dataConn) begin(key, version int16) {
	d.corr++
	b := append(d.buf[:0], 0, 0, 0, 0) // size, set by send
	b = appendInt16(b, key)
	b = appendInt16(b, version)
	b = appendInt32(b, d.corr)
	d.buf = appendString(b, d.client)
}

// writePiece is how much of a request may be written in the time that a request has.
const writePiece = 128 << 10

// send writes the request that is in the buffer. Somebody may be waiting for answers on the connection already, for as long as told: as long
// as the request is being written, they wait anew.
func (d *dataConn) send(now time.Time, waiting time.Duration) error {
	putInt32(d.buf, int32(len(d.buf)-4))
	for rest := d.buf; len(rest) > 0; now = time.Now() {
		if err := d.nc.SetWriteDeadline(now.Add(d.timeout)); err != nil {
			return err
		}
		n, err := d.nc.Write(rest[:min(writePiece, len(rest))])
		if err != nil {
			return err
		}
		if rest = rest[n:]; len(d.buf) > writePiece && waiting > 0 {
			if err := d.nc.SetReadDeadline(time.Now().Add(waiting)); err != nil {
				return err
			}
		}
	}
	if cap(d.buf) > 8<<20 {
		d.buf = nil // one huge request does not pin its buffer
	}
	return nil
}

// paced is the connection as answers are read from it. A slow line is no silent one: what has brought something may take as long again. Else an
// answer that is larger than what the line carries in that time would be asked for without an end.
type paced struct {
	nc      net.Conn
	timeout time.Duration
}

func (p paced) Read(b []byte) (int, error) {
	n, err := p.nc.Read(b)
	if n > 0 && err == nil {
		err = p.nc.SetReadDeadline(time.Now().Add(p.timeout))
	}
	return n, err
}

// fail closes the connection, whose stream has no known position any more.
func (d *dataConn) fail(request string, err error) error {
	if d.conn.dialer.isClosed() && !errors.Is(err, ErrClosed) {
		err = errors.Join(ErrClosed, err)
	}
	d.conn.dialer.close()
	return &TransportError{Broker: d.conn.addr, Request: request, Err: err}
}
