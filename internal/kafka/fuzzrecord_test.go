package kafka

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// FuzzReader holds task.Reader, which takes every length on trust, to what the careful walker reads of the same checked bytes: each field of
// each record, names of headers with them, from any offset on.
func FuzzReader(f *testing.F) {
	for _, records := range [][]task.OutRecord{strange()[:6], numbered(5)} {
		f.Add(encoded(f, 0, None, records...)[batchHeaderLen:], len(records), int64(0), false)
		f.Add(encoded(f, 0, None, records...)[batchHeaderLen:], len(records), int64(12), true)
	}
	f.Fuzz(func(t *testing.T, b []byte, count int, from int64, fixed bool) {
		if count < 0 || count > len(b)/minRecordLen {
			return
		}
		h := batchHeader{base: 10, last: 10 + 1<<20, count: count, baseTime: 1000, maxTime: 2000, logAppendTime: fixed}
		first, err := checkRecords(b, h, from)
		if err != nil {
			return
		}
		var d decoder
		var out task.Batch
		d.add(&out, h, b, false, first)
		require.Equal(t, walked(b, h, from), records(&out))
	})
}

// walked is the records of a checked batch from an offset on, read with nothing taken on trust.
func walked(b []byte, h batchHeader, from int64) (out []task.Record) {
	w := walker{b: b}
	for range h.count {
		w.varint() // length
		w.skip(1)  // attributes
		r := task.Record{Timestamp: h.baseTime + w.varint(), Offset: h.base + w.varint()}
		if h.logAppendTime {
			r.Timestamp = h.maxTime
		}
		r.Key, r.Value = w.bytes(), w.bytes()
		for range w.varint() {
			r.Headers = append(r.Headers, task.Header{Key: string(w.bytes()), Value: w.bytes()})
		}
		if r.Offset >= from {
			out = append(out, r)
		}
	}
	return out
}

// FuzzDecompress feeds the decompressors, which are used again after whatever a stream did to them: the next stream is read right, the same
// one as before, and what was accepted can be written and read again.
func FuzzDecompress(f *testing.F) {
	var c compressors
	plain := bytes.Repeat([]byte("some records "), 9)
	good := map[Codec][]byte{}
	for _, codec := range allCodecs[1:] {
		b, err := c.append(nil, codec, plain)
		require.NoError(f, err)
		good[codec] = b
		f.Add(int8(codec), b)
		f.Add(int8(codec), b[:len(b)/2])
	}
	f.Add(int8(Snappy), good[Snappy][len(xerialHeader)+4:]) // a raw block
	f.Add(int8(7), plain)
	var d decompressors
	f.Fuzz(func(t *testing.T, number int8, b []byte) {
		codec := Codec(number & attrCodec)
		out, err := d.decompress(codec, b)
		for codec, b := range good {
			next, err := d.decompress(codec, b)
			require.NoError(t, err)
			require.Equal(t, plain, next)
		}
		again, errAgain := d.decompress(codec, b)
		require.Equal(t, err, errAgain)
		if err != nil {
			return
		}
		require.True(t, bytes.Equal(out, again))
		require.LessOrEqual(t, len(out), maxDecompressed)
		packed, err := c.append(nil, codec, out)
		require.NoError(t, err)
		back, err := d.decompress(codec, packed)
		require.NoError(t, err)
		require.True(t, bytes.Equal(out, back))
	})
}

// walker reads the fields of records, one bounded step after the other. The first fault sticks.
type walker struct {
	b   []byte
	at  int
	bad bool
}

// varint reads a zigzag number. Small ones, which most are, stay inline.
func (w *walker) varint() int64 {
	if w.at < len(w.b) {
		if c := w.b[w.at]; c < 0x80 {
			w.at++
			return int64(c>>1) ^ -int64(c&1)
		}
	}
	return w.longVarint()
}

func (w *walker) longVarint() int64 {
	if w.at > len(w.b) {
		w.bad = true
		return 0
	}
	v, n := binary.Varint(w.b[w.at:])
	if n <= 0 {
		w.bad = true
		return 0
	}
	w.at += n
	return v
}

// field passes nullable bytes and returns their length, -1 for null.
func (w *walker) field() int64 {
	n := w.varint()
	if n < 0 {
		w.bad = w.bad || n != -1
		return -1
	}
	if w.bad || n > int64(len(w.b)-w.at) {
		w.bad = true
		return -1
	}
	w.at += int(n)
	return n
}

// bytes reads nullable bytes. Empty ones are not nil.
func (w *walker) bytes() []byte {
	n := w.field()
	if n < 0 {
		return nil
	}
	return w.b[w.at-int(n) : w.at : w.at]
}

func (w *walker) skip(n int) { w.at += n }
