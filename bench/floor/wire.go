package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
)

// conn is a connection on which requests and answers are frames of their own.
type conn struct {
	net    net.Conn
	last   int32 // correlation id of the last request
	answer int32 // that of the last answer
	buf    []byte
	size   [4]byte
}

const clientID = "floor"

func dial(address string) (*conn, error) {
	c, err := net.Dial("tcp", address)
	return &conn{net: c}, err
}

// appendHeader begins a request; its size is filled in by send.
func appendHeader(b []byte, api, version int16) []byte {
	b = append(b, 0, 0, 0, 0)
	b = appendInt16(b, api)
	b = appendInt16(b, version)
	b = appendInt32(b, 0) // correlation id, by send
	return appendString(b, clientID)
}

// send writes a whole request with one call.
func (c *conn) send(request []byte) error {
	c.last++
	binary.BigEndian.PutUint32(request, uint32(len(request)-4))
	binary.BigEndian.PutUint32(request[8:], uint32(c.last))
	_, err := c.net.Write(request)
	return err
}

// receive reads the next answer; it is good until the next call.
func (c *conn) receive() (*reader, error) {
	if _, err := io.ReadFull(c.net, c.size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint32(c.size[:]))
	if n < 4 || n > 1<<28 {
		return nil, fmt.Errorf("an answer of %d bytes", n)
	}
	if cap(c.buf) < n {
		c.buf = make([]byte, n)
	}
	c.buf = c.buf[:n]
	if _, err := io.ReadFull(c.net, c.buf); err != nil {
		return nil, err
	}
	c.answer++
	r := &reader{b: c.buf}
	if id := r.int32(); id != c.answer {
		return nil, fmt.Errorf("answer to request %d, want %d", id, c.answer)
	}
	return r, nil
}

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }
func appendString(b []byte, s string) []byte {
	return append(appendInt16(b, int16(len(s))), s...)
}

// reader takes an answer apart. What does not fit sets bad, and everything after is zero.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad, r.b = true, nil
		return nil
	}
	taken := r.b[:n:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) int16() int16 {
	if b := r.take(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (r *reader) int32() int32 {
	if b := r.take(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (r *reader) int64() int64 {
	if b := r.take(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

// string is empty where there is none.
func (r *reader) string() string { return string(r.take(max(0, int(r.int16())))) }

// bytes are nil where there are none.
func (r *reader) bytes() []byte { return r.take(max(0, int(r.int32()))) }
