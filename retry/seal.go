package retry

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
)

// The value of a row is
//
//	version ‖ fields ‖ checksum
//
// in every version that there will ever be: so a row of a newer one is told from a damaged one. The checksum (CRC-32C, 4 bytes, big endian)
// also covers the key, which is not repeated in the value: a value under the key of another row is damaged.

var (
	// ErrCorrupt is the error of a row that is damaged.
	ErrCorrupt = errors.New("retry: corrupt row")
	// ErrNewer is the error of a row that a newer version of this package has written. It is not damaged, and must be kept.
	ErrNewer = errors.New("retry: row of a newer version")
)

const checksumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealer appends fields to b, of which the row begins at start.
type sealer struct {
	b     []byte
	start int
}

func (w *sealer) byte(v byte)      { w.b = append(w.b, v) }
func (w *sealer) uvarint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }
func (w *sealer) varint(v int64)   { w.b = binary.AppendVarint(w.b, v) }

func (w *sealer) bytes(v []byte) {
	w.uvarint(uint64(len(v)))
	w.b = append(w.b, v...)
}

func (w *sealer) string(v string) {
	w.uvarint(uint64(len(v)))
	w.b = append(w.b, v...)
}

// seal appends the checksum. The key is written behind the fields for as long as that takes.
func (w *sealer) seal(kind byte, o Origin) []byte {
	end := len(w.b)
	w.b = appendKey(w.b, kind, o)
	sum := crc32.Checksum(w.b[w.start:], castagnoli)
	return binary.BigEndian.AppendUint32(w.b[:end], sum)
}

// unseal returns the fields of a row.
func unseal(b []byte, kind byte, o Origin, version byte) ([]byte, error) {
	end := len(b) - checksumBytes
	if end < 1 {
		return nil, ErrCorrupt
	}
	key := appendKey(make([]byte, 0, 96), kind, o)
	sum := crc32.Update(crc32.Checksum(b[:end], castagnoli), castagnoli, key)
	switch {
	case sum != binary.BigEndian.Uint32(b[end:]), b[0] == 0:
		return nil, ErrCorrupt
	case b[0] > version:
		return nil, ErrNewer
	}
	return b[1:end:end], nil
}

// reader reads fields. Once one is not there it is bad, and all others are empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) byte() byte {
	v := r.take(1)
	if r.bad {
		return 0
	}
	return v[0]
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	return accept(r, v, n)
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	return accept(r, v, n)
}

func accept[T int64 | uint64](r *reader, v T, n int) T {
	if n <= 0 {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

// int reads a number that is not negative and fits in 4 bytes: all that are counted here do.
func (r *reader) int() int {
	v := r.uvarint()
	if v > math.MaxInt32 {
		r.bad, r.b = true, nil
		return 0
	}
	return int(v)
}

// take returns the next n bytes, borrowed.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.b)) {
		r.bad, r.b = true, nil
		return nil
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte  { return r.take(r.uvarint()) }
func (r *reader) string() string { return string(r.bytes()) }
