package kafka

import (
	"encoding/binary"
	"fmt"
)

// mark is the place of a record in its batch, and how many come before it.
type mark struct{ at, skipped int }

// checkRecords checks the records of one batch, so that whoever reads them later may take every length on trust, and finds the first one at
// or above an offset. It is on the way of every record: places are passed along in registers, and a fault is a place of -1.
func checkRecords(b []byte, h batchHeader, from int64) (mark, error) {
	var first mark
	at, prev := 0, h.base-1
	for i := range h.count {
		if end, delta := checkSmall(b, at); end >= 0 && h.base+delta > prev && h.base+delta <= h.last {
			at, prev = end, h.base+delta
			if prev < from {
				first = mark{at: at, skipped: i + 1}
			}
			continue
		}
		size, start := number(b, at)
		if start < 0 || size < minRecordLen-1 || size > int64(len(b)-start) {
			return first, fmt.Errorf("record %d of %d: length %d in %d bytes", i, h.count, size, len(b)-max(start, at))
		}
		end := start + int(size)
		_, at = number(b, start+1) // attributes, of which none is defined, and timestamp
		delta, at1 := number(b, at)
		headers, at2 := number(b, field(b, field(b, at1)))
		offset := h.base + delta
		if at2 < 0 || headers < 0 || offset <= prev || offset > h.last {
			return first, fmt.Errorf("record %d of %d: offset %d after %d, %d headers", i, h.count, offset, prev, headers)
		}
		at, prev = at2, offset
		if headers > 0 {
			if at = headersEnd(b, headers, at, end); at < 0 {
				return first, fmt.Errorf("record %d of %d: %d headers do not fit", i, h.count, headers)
			}
		}
		if at != end {
			return first, fmt.Errorf("record %d of %d: %d bytes, %d of them used", i, h.count, size, at-start)
		}
		if offset < from {
			first = mark{at: at, skipped: i + 1}
		}
	}
	if at != len(b) {
		return first, fmt.Errorf("%d bytes after the last record", len(b)-at)
	}
	return first, nil
}

// checkSmall checks a record without headers whose numbers have one or two bytes each, as nearly all have, and which another follows: where it
// ends, and its offset delta. Nothing of it is a call. For others, and for what is wrong, it is -1.
func checkSmall(b []byte, at int) (end int, delta int64) {
	if at+2 > len(b) {
		return -1, 0
	}
	size, at := short(b, at)
	end = at + int(size>>1)
	if at < 0 || size&1 != 0 || size>>1 < minRecordLen-1 || end+2 > len(b) {
		return -1, 0
	}
	// The record has six bytes at the least, and two follow it: so many numbers can be read.
	_, at = short(b, at+1) // attributes, and timestamp
	if at < 0 {
		return -1, 0
	}
	offset, at := short(b, at)
	if at < 0 || offset&1 != 0 {
		return -1, 0
	}
	n, at := short(b, at)
	if at += int(n >> 1); at < 0 || n&1 != 0 || at >= end {
		return -1, 0
	}
	n, at = short(b, at)
	if at < 0 || n&1 != 0 || at+int(n>>1)+1 != end || b[end-1] != 0 {
		return -1, 0
	}
	return end, int64(offset >> 1)
}

// short reads a number of one or two bytes as it stands, and where the next field begins: far below 0 if it has more. There must be two bytes.
func short(b []byte, at int) (u uint64, next int) {
	w := uint64(b[at]) | uint64(b[at+1])<<8
	if w&0x80 == 0 {
		return w & 0x7f, at + 1
	}
	return w&0x7f | w>>1&0x3f80, at + 2 - int(w>>15)<<40
}

// number reads a zigzag number and returns where the next field begins.
func number(b []byte, at int) (int64, int) {
	if uint(at) < uint(len(b)) {
		c := b[at]
		if c < 0x80 {
			return int64(c>>1) ^ -int64(c&1), at + 1
		}
		if at+1 < len(b) && b[at+1] < 0x80 { // most lengths of values
			u := uint64(c&0x7f) | uint64(b[at+1])<<7
			return int64(u>>1) ^ -int64(u&1), at + 2
		}
		if v, n := binary.Varint(b[at:]); n > 0 {
			return v, at + n
		}
	}
	return 0, -1
}

// field passes nullable bytes.
func field(b []byte, at int) int {
	n, at := number(b, at)
	switch {
	case at < 0 || n < -1 || n > int64(len(b)-at):
		return -1
	case n > 0:
		return at + int(n)
	}
	return at
}

// headersEnd passes n headers. Names cannot be null.
func headersEnd(b []byte, n int64, at, end int) int {
	if n > int64(end-at)/2 {
		return -1
	}
	for range n {
		size, next := number(b, at)
		if next < 0 || size < 0 || size > int64(len(b)-next) {
			return -1
		}
		if at = field(b, next+int(size)); at < 0 {
			return -1
		}
	}
	return at
}
