package kafka

import (
	"encoding/binary"
	"fmt"

	"github.com/understudy-streams/understudy/task"
)

// maxNames bounds the header names that are remembered, so that names which never repeat do not pile up.
const maxNames = 1024

// records decodes the records of one batch in place: keys, values and header values refer to b.
func (d *decoder) records(b []byte, h batchHeader, from int64, out *task.Batch) error {
	w := walker{b: b}
	prev := h.base - 1
	for i := range h.count {
		size := w.varint()
		start := w.at
		if w.bad || size < minRecordLen-1 || size > int64(len(b)-start) {
			return fmt.Errorf("record %d of %d: length %d in %d bytes", i, h.count, size, len(b)-start)
		}
		end := start + int(size)
		w.at++ // attributes, of which none is defined
		ts := h.baseTime + w.varint()
		offset := h.base + w.varint()
		key := w.bytes()
		value := w.bytes()
		headers := w.varint()
		if w.bad || headers < 0 || offset <= prev || offset > h.last {
			return fmt.Errorf("record %d of %d: offset %d after %d, %d headers", i, h.count, offset, prev, headers)
		}
		prev = offset
		if offset < from && headers != 0 {
			w.at, headers = end, 0
		}
		var hs []task.Header
		if headers > 0 {
			if hs = d.readHeaders(&w, headers, end); w.bad {
				return fmt.Errorf("record %d of %d: %d headers do not fit", i, h.count, headers)
			}
		}
		if w.at != end {
			return fmt.Errorf("record %d of %d: %d bytes, %d of them used", i, h.count, size, w.at-start)
		}
		if offset < from {
			continue
		}
		if h.logAppendTime {
			ts = h.maxTime
		}
		out.Records = append(out.Records, task.Record{Offset: offset, Timestamp: ts, Key: key, Value: value, Headers: hs})
	}
	if w.at != len(b) {
		return fmt.Errorf("%d bytes after the last record", len(b)-w.at)
	}
	return nil
}

// readHeaders cuts n headers from the slab.
func (d *decoder) readHeaders(w *walker, n int64, end int) []task.Header {
	if n > int64(end-w.at)/2 {
		w.bad = true
		return nil
	}
	count := int(n)
	if count > cap(d.headers)-len(d.headers) {
		d.headers = make([]task.Header, 0, max(count, min(2*cap(d.headers), 4096), 16))
		d.slabs += cap(d.headers)
	}
	at := len(d.headers)
	d.headers = d.headers[:at+count]
	hs := d.headers[at : at+count : at+count]
	for i := range hs {
		name := w.bytes()
		if name == nil {
			w.bad = true // a name cannot be null
		}
		hs[i] = task.Header{Key: d.name(name), Value: w.bytes()}
		if w.bad {
			return nil
		}
	}
	return hs
}

// name is the string of a header's name, shared by all records that have it.
func (d *decoder) name(b []byte) string {
	if s, ok := d.names[string(b)]; ok {
		return s
	}
	if d.names == nil {
		d.names = map[string]string{}
	}
	if len(d.names) >= maxNames {
		clear(d.names)
	}
	s := string(b)
	d.names[s] = s
	return s
}

// walker reads the fields of records. The first fault sticks.
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

// bytes reads nullable bytes. Empty ones are not nil.
func (w *walker) bytes() []byte {
	n := w.varint()
	if n < 0 {
		w.bad = w.bad || n != -1
		return nil
	}
	if w.bad || n > int64(len(w.b)-w.at) {
		w.bad = true
		return nil
	}
	at := w.at
	w.at += int(n)
	return w.b[at:w.at:w.at]
}

func (w *walker) skip(n int) { w.at += n }
