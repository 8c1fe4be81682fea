package task

import "encoding/binary"

// Run is the records of one record batch (format 2) as they lie on the wire: decompressed, and checked by whoever made it, because a Reader
// takes every length on trust.
type Run struct {
	Bytes []byte // Count records and nothing else
	Count int
	Base  int64 // the records' offset deltas are relative to it
	Time  int64 // base of the timestamp deltas, or the timestamp of all records if Fixed
	Fixed bool  // the records have the time at which the broker appended them
}

// Reader walks the records of a batch in offset order and decodes them in place. It allocates nothing in steady state.
type Reader struct {
	b       *Batch
	from    int64
	decoded int // of Batch.Records
	run     int // the next of Batch.Runs
	left    int // records of the current run
	buf     []byte
	at      int
	base    int64
	time    int64
	fixed   bool
	headers []Header
	names   map[string]string // header names seen, which mostly repeat
}

// Header names that are remembered are few and short, so that names which never repeat do not pile up.
const (
	maxReaderNames = 1024
	maxReaderName  = 128 // bytes
)

// Reset makes the reader begin a batch, at its first record with at least this offset.
func (r *Reader) Reset(b *Batch, from int64) {
	r.b, r.from = b, max(from, b.From)
	r.decoded, r.run, r.left, r.buf, r.at = 0, 0, 0, nil, 0
}

// Next decodes the next record, or reports false at the end of the batch. Key, value and header values are views of the batch; headers, which
// are the reader's, are valid until the next call.
func (r *Reader) Next(rec *Record) bool {
	r.headers = r.headers[:0]
	return r.next(rec)
}

// Fill decodes as many records as there are, up to len(dst), as Next does, and returns how many: none at the end of the batch.
func (r *Reader) Fill(dst []Record) int {
	r.headers = r.headers[:0]
	n := 0
	for n < len(dst) && r.next(&dst[n]) {
		n++
	}
	return n
}

func (r *Reader) next(rec *Record) bool {
	for {
		if r.left == 0 && !r.nextRun() {
			return r.nextDecoded(rec)
		}
		r.left--
		r.read(rec)
		if rec.Offset >= r.from {
			return true
		}
	}
}

func (r *Reader) nextRun() bool {
	if r.b == nil {
		return false
	}
	for r.run < len(r.b.Runs) {
		n := &r.b.Runs[r.run]
		r.run++
		if n.Count > 0 {
			r.left, r.buf, r.at, r.base, r.time, r.fixed = n.Count, n.Bytes, 0, n.Base, n.Time, n.Fixed
			return true
		}
	}
	return false
}

func (r *Reader) nextDecoded(rec *Record) bool {
	for r.b != nil && r.decoded < len(r.b.Records) {
		*rec = r.b.Records[r.decoded]
		r.decoded++
		if rec.Offset >= r.from {
			return true
		}
	}
	return false
}

// read decodes the record at the reader's place.
func (r *Reader) read(rec *Record) {
	if r.readSmall(rec) {
		return
	}
	b := r.buf
	_, at := varint(b, r.at) // its length
	at++                     // attributes, of which none is defined
	ts, at := varint(b, at)
	if r.fixed {
		ts = 0
	}
	rec.Timestamp = r.time + ts
	offset, at := varint(b, at)
	rec.Offset = r.base + offset
	n, at := varint(b, at)
	if n >= 0 {
		end := at + int(n)
		rec.Key = b[at:end:end]
		at = end
	} else {
		rec.Key = nil
	}
	n, at = varint(b, at)
	if n >= 0 {
		end := at + int(n)
		rec.Value = b[at:end:end]
		at = end
	} else {
		rec.Value = nil
	}
	n, at = varint(b, at)
	if n > 0 {
		at = r.readHeaders(rec, int(n), at)
	} else if rec.Headers != nil { // a pointer that is not written costs the garbage collector nothing
		rec.Headers = nil
	}
	r.at = at
}

// readSmall is read for a record without headers whose numbers have one or two bytes each, as nearly all have, and which another follows. It is
// false for others. Nothing of it is a call.
func (r *Reader) readSmall(rec *Record) bool {
	b, at := r.buf, r.at
	if at+2 > len(b) {
		return false
	}
	size, at := short(b, at)
	end := at + int(size>>1)
	if at < 0 || end+2 > len(b) {
		return false
	}
	ts, at := short(b, at+1)
	if at < 0 {
		return false
	}
	offset, at := short(b, at)
	if at < 0 {
		return false
	}
	n, at := short(b, at)
	if at < 0 || n&1 != 0 {
		return false
	}
	key := b[at : at+int(n>>1) : at+int(n>>1)]
	n, at = short(b, at+int(n>>1))
	if at < 0 || n&1 != 0 || at+int(n>>1)+1 != end || b[end-1] != 0 {
		return false
	}
	if r.fixed {
		ts = 0
	}
	rec.Timestamp = r.time + (int64(ts>>1) ^ -int64(ts&1))
	rec.Offset = r.base + int64(offset>>1)
	rec.Key, rec.Value = key, b[at:end-1:end-1]
	if rec.Headers != nil { // a pointer that is not written costs the garbage collector nothing
		rec.Headers = nil
	}
	r.at = end
	return true
}

// short reads a number of one or two bytes as it stands, and where the next field begins: far below 0 if it has more. There must be two bytes.
func short(b []byte, at int) (u uint64, next int) {
	w := uint64(b[at]) | uint64(b[at+1])<<8
	if w&0x80 == 0 {
		return w & 0x7f, at + 1
	}
	return w&0x7f | w>>1&0x3f80, at + 2 - int(w>>15)<<40
}

func (r *Reader) readHeaders(rec *Record, n, at int) int {
	first := len(r.headers)
	b := r.buf
	for range n {
		var size int64
		var h Header
		size, at = varint(b, at)
		h.Key = r.name(b[at : at+int(size)])
		at += int(size)
		if size, at = varint(b, at); size >= 0 {
			end := at + int(size)
			h.Value = b[at:end:end]
			at = end
		}
		r.headers = append(r.headers, h)
	}
	rec.Headers = r.headers[first : first+n : first+n]
	return at
}

// name is the string of a header's name, shared by all records that have it.
func (r *Reader) name(b []byte) string {
	if len(b) > maxReaderName {
		return string(b)
	}
	if s, ok := r.names[string(b)]; ok {
		return s
	}
	if r.names == nil {
		r.names = make(map[string]string)
	}
	if len(r.names) >= maxReaderNames {
		clear(r.names)
	}
	s := string(b)
	r.names[s] = s
	return s
}

// varint reads a zigzag number and returns where the next field begins.
func varint(b []byte, at int) (int64, int) {
	c := b[at]
	if c < 0x80 {
		return int64(c>>1) ^ -int64(c&1), at + 1
	}
	return longVarint(b, at)
}

func longVarint(b []byte, at int) (int64, int) {
	if d := b[at+1]; d < 0x80 { // two bytes: most lengths of values
		u := uint64(b[at]&0x7f) | uint64(d)<<7
		return int64(u>>1) ^ -int64(u&1), at + 2
	}
	v, n := binary.Varint(b[at:])
	return v, at + n
}
