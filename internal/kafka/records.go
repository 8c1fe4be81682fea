package kafka

import (
	"encoding/binary"
	"fmt"
)

// mark is the place of a record in its batch, and how many come before it.
type mark struct{ at, skipped int }

// checkRecords checks the records of one batch, so that whoever reads them later may take every length on trust, and finds the first one at
// or above an offset.
func checkRecords(b []byte, h batchHeader, from int64) (mark, error) {
	w := walker{b: b}
	var first mark
	prev := h.base - 1
	for i := range h.count {
		size := w.varint()
		start := w.at
		if w.bad || size < minRecordLen-1 || size > int64(len(b)-start) {
			return first, fmt.Errorf("record %d of %d: length %d in %d bytes", i, h.count, size, len(b)-start)
		}
		end := start + int(size)
		w.at++ // attributes, of which none is defined
		w.varint()
		offset := h.base + w.varint()
		w.field()
		w.field()
		headers := w.varint()
		if w.bad || headers < 0 || offset <= prev || offset > h.last {
			return first, fmt.Errorf("record %d of %d: offset %d after %d, %d headers", i, h.count, offset, prev, headers)
		}
		prev = offset
		if headers > 0 && !w.headers(headers, end) {
			return first, fmt.Errorf("record %d of %d: %d headers do not fit", i, h.count, headers)
		}
		if w.at != end {
			return first, fmt.Errorf("record %d of %d: %d bytes, %d of them used", i, h.count, size, w.at-start)
		}
		if offset < from {
			first = mark{at: w.at, skipped: i + 1}
		}
	}
	if w.at != len(b) {
		return first, fmt.Errorf("%d bytes after the last record", len(b)-w.at)
	}
	return first, nil
}

// walker reads the fields of records. The first fault sticks.
type walker struct {
	b   []byte
	at  int
	bad bool
}

// headers passes n headers. Names cannot be null.
func (w *walker) headers(n int64, end int) bool {
	if n > int64(end-w.at)/2 {
		return false
	}
	for range n {
		if w.field() < 0 {
			w.bad = true
		}
		w.field()
		if w.bad {
			return false
		}
	}
	return true
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
	if w.at+1 < len(w.b) && w.b[w.at+1] < 0x80 { // two bytes: most lengths of values
		u := uint64(w.b[w.at]&0x7f) | uint64(w.b[w.at+1])<<7
		w.at += 2
		return int64(u>>1) ^ -int64(u&1)
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
