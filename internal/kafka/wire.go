package kafka

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// errMalformed is in the chain when an answer does not follow the protocol.
var errMalformed = errors.New("malformed answer")

func appendInt16(b []byte, v int16) []byte { return binary.BigEndian.AppendUint16(b, uint16(v)) }
func appendInt32(b []byte, v int32) []byte { return binary.BigEndian.AppendUint32(b, uint32(v)) }
func appendInt64(b []byte, v int64) []byte { return binary.BigEndian.AppendUint64(b, uint64(v)) }

func appendString(b []byte, s string) []byte { return append(appendInt16(b, int16(len(s))), s...) }

func putInt16(b []byte, v int16) { binary.BigEndian.PutUint16(b, uint16(v)) }
func putInt32(b []byte, v int32) { binary.BigEndian.PutUint32(b, uint32(v)) }
func putInt64(b []byte, v int64) { binary.BigEndian.PutUint64(b, uint64(v)) }

func getInt16(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) }
func getInt32(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) }
func getInt64(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) }

// frame reads one answer from a connection, field by field. The first error sticks; after it every read gives zero. No length in the answer
// is believed beyond the bytes that are left in it.
type frame struct {
	r    *bufio.Reader
	left int
	err  error
}

// open reads the size and the correlation id of the next answer.
func (f *frame) open(correlation int32, limit int) {
	f.err, f.left = nil, 8
	size := f.int32()
	got := f.int32()
	switch {
	case f.err != nil:
	case size < 4 || int(size) > limit:
		f.malformed("size %d, expected at most %d bytes", size, limit)
	case got != correlation:
		f.malformed("correlation id %d, expected %d", got, correlation)
	}
	f.left = int(size) - 4
}

// close checks that all of the answer was read.
func (f *frame) close() error {
	if f.err == nil && f.left != 0 {
		f.malformed("%d bytes left over", f.left)
	}
	return f.err
}

func (f *frame) malformed(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf("%w: %s", errMalformed, fmt.Sprintf(format, args...))
	}
}

// next gives the next n bytes (at most 8), valid until the next read.
func (f *frame) next(n int) []byte {
	if f.err == nil && n > f.left {
		f.malformed("ends early")
	}
	if f.err != nil {
		return zeros[:n]
	}
	b, err := f.r.Peek(n)
	if err != nil {
		f.err = unexpectedEnd(err)
		return zeros[:n]
	}
	_, _ = f.r.Discard(n) // cannot fail: the bytes were peeked
	f.left -= n
	return b
}

var zeros [8]byte

func (f *frame) int16() int16 { return getInt16(f.next(2)) }
func (f *frame) int32() int32 { return getInt32(f.next(4)) }
func (f *frame) int64() int64 { return getInt64(f.next(8)) }

// count reads an array's length, whose elements have at least size bytes each. Null counts as none.
func (f *frame) count(size int) int {
	n := int(f.int32())
	if n < -1 || n > 0 && n > f.left/size {
		f.malformed("array of %d elements in %d bytes", n, f.left)
	}
	if f.err != nil {
		return 0
	}
	return max(n, 0)
}

// str reads a nullable string into scratch; null counts as empty.
func (f *frame) str(scratch []byte) []byte {
	n := int(f.int16())
	if n <= 0 {
		if n < -1 {
			f.malformed("string of %d bytes", n)
		}
		return scratch[:0]
	}
	if n > cap(scratch) {
		if n > f.left {
			f.malformed("string of %d bytes in %d", n, f.left)
			return nil
		}
		scratch = make([]byte, n)
	}
	scratch = scratch[:n]
	f.read(scratch)
	return scratch
}

// bytesLen reads the length of nullable bytes; null counts as none.
func (f *frame) bytesLen() int {
	n := int(f.int32())
	if n < -1 || n > f.left {
		f.malformed("%d bytes in %d", n, f.left)
	}
	if f.err != nil {
		return 0
	}
	return max(n, 0)
}

// read fills b.
func (f *frame) read(b []byte) {
	if f.err == nil && len(b) > f.left {
		f.malformed("ends early")
	}
	if f.err != nil {
		return
	}
	if _, err := io.ReadFull(f.r, b); err != nil {
		f.err = unexpectedEnd(err)
		return
	}
	f.left -= len(b)
}

// unexpectedEnd makes an end of the stream inside an answer what it is.
func unexpectedEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
