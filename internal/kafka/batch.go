package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"unsafe"

	"github.com/understudy-streams/understudy/task"
)

// Layout of a record batch, magic 2.
const (
	batchOverhead   = 12 // base offset and length, which the length does not count
	batchHeaderLen  = 61
	minRecordLen    = 7
	attrCodec       = 0x07
	attrAppendTime  = 0x08
	attrTransaction = 0x10
	attrControl     = 0x20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const runSize = int(unsafe.Sizeof(task.Run{}))

// batchHeader is the part of a batch before its records.
type batchHeader struct {
	base, last    int64
	attributes    int16
	baseTime      int64
	maxTime       int64
	pid           int64
	count         int
	crc           uint32
	transactional bool
	control       bool
	logAppendTime bool
}

// decoder turns record sets into task batches. It belongs to one FetchConn; what it keeps between calls is scratch.
type decoder struct {
	pool     *batchPool
	active   []int64 // producers inside an aborted transaction
	codecs   decompressors
	borrowed bool // runs of the set being decoded lie in it
}

// maxSetBytes is how much decompressed records of one set may take before the rest of the set is left to be fetched again: compression hides
// what a set holds from the bound of the fetch.
const maxSetBytes = 16 << 20

// decode turns a record set into a batch with the records from the offset on, or from there up to where maxSetBytes are exceeded. The set
// belongs to the batch afterwards. There is always a batch; with an error (a *CorruptBatchError) it has what precedes the damage.
func (d *decoder) decode(tp task.TopicPartition, set []byte, from int64, committed bool, aborted []abortedTxn) (*task.Batch, error) {
	out := d.pool.batch()
	out.Next, out.From = from, from
	d.borrowed, d.active = false, d.active[:0]
	if !committed {
		aborted = nil
	}
	// The broker lists transactions in the order of their ends.
	slices.SortFunc(aborted, func(a, b abortedTxn) int { return cmp.Compare(a.first, b.first) })
	rest := set
	for len(rest) > 0 && out.Bytes <= maxSetBytes {
		n, whole := batchLen(rest)
		if !whole {
			break // the broker cuts the last batch where the bytes run out
		}
		// From where the batch before ended: a broker's batches follow each other, and what does not is not delivered twice.
		if err := d.batch(rest[:n], out.Next, &aborted, out); err != nil {
			err = corrupt(tp, rest[:n], out.Next, err) // before finish: the set may be somebody else's then
			return d.finish(out, set), err
		}
		rest = rest[n:]
	}
	if len(rest) == len(set) && len(set) > 0 {
		err := corrupt(tp, rest, out.Next, fmt.Errorf("incomplete: %d bytes were sent", len(set)))
		return d.finish(out, set), err
	}
	return d.finish(out, set), nil
}

// finish says what the batch lies in and what it weighs: all of the memory that it holds. A set in which nothing of it lies is used again at
// once.
func (d *decoder) finish(out *task.Batch, set []byte) *task.Batch {
	out.Bytes += len(out.Runs) * runSize
	if d.borrowed {
		out.Bytes += cap(set)
		out.Memory = append(out.Memory, set)
	} else {
		d.pool.put(set)
	}
	return out
}

// batchLen is the length of the first batch of a set, and whether the set has all of it. A length that cannot be is left to parseHeader.
func batchLen(b []byte) (int, bool) {
	if len(b) < batchOverhead {
		return len(b), false
	}
	n := int(getInt32(b[8:]))
	if n < 0 {
		return min(len(b), batchHeaderLen), true
	}
	if n > len(b)-batchOverhead {
		return len(b), false
	}
	return n + batchOverhead, true
}

// batch adds the records of one batch to out, in one run.
func (d *decoder) batch(b []byte, from int64, aborted *[]abortedTxn, out *task.Batch) error {
	h, err := parseHeader(b)
	if err != nil {
		return err
	}
	if h.last < from {
		return nil
	}
	if crc32.Checksum(b[21:], castagnoli) != h.crc {
		return errors.New("checksum does not match")
	}
	if d.drop(h, b, aborted) {
		out.Next = max(out.Next, h.last+1)
		return nil
	}
	records := b[batchHeaderLen:]
	codec := Codec(h.attributes & attrCodec)
	if codec != None {
		if records, err = d.codecs.decompress(codec, records); err != nil {
			return err
		}
	}
	if h.count > len(records)/minRecordLen {
		return fmt.Errorf("%d records in %d bytes", h.count, len(records))
	}
	first, err := checkRecords(records, h, from)
	if err != nil {
		return err
	}
	if h.count > 0 {
		d.add(out, h, records, codec != None, first)
	}
	out.Next = max(out.Next, h.last+1)
	return nil
}

// add adds a run to out. Where batches overlap, its first records are not delivered: those before the record that begins at first.
func (d *decoder) add(out *task.Batch, h batchHeader, records []byte, decompressed bool, first mark) {
	if decompressed {
		out.Bytes += cap(records)
		out.Memory = append(out.Memory, records)
	} else {
		d.borrowed = true
	}
	run := task.Run{Bytes: records[first.at:], Count: h.count - first.skipped, Base: h.base, Time: h.baseTime}
	if h.logAppendTime {
		run.Time, run.Fixed = h.maxTime, true
	}
	if run.Count > 0 {
		out.Runs = append(out.Runs, run)
	}
}

func parseHeader(b []byte) (batchHeader, error) {
	if len(b) >= 17 && b[16] != 2 {
		return batchHeader{}, fmt.Errorf("message format %d is not supported: let the broker rewrite the topic in format 2", b[16])
	}
	if len(b) < batchHeaderLen {
		return batchHeader{}, fmt.Errorf("%d bytes are too short for a batch", len(b))
	}
	h := batchHeader{
		base: getInt64(b), attributes: getInt16(b[21:]), baseTime: getInt64(b[27:]), maxTime: getInt64(b[35:]),
		pid: getInt64(b[43:]), count: int(getInt32(b[57:])), crc: uint32(getInt32(b[17:])),
	}
	delta := getInt32(b[23:])
	if h.base < 0 || delta < 0 || h.base > math.MaxInt64-1-int64(delta) {
		return h, fmt.Errorf("base offset %d, last offset delta %d", h.base, delta)
	}
	if h.count < 0 {
		return h, fmt.Errorf("%d records", h.count)
	}
	h.last = h.base + int64(delta)
	h.transactional = h.attributes&attrTransaction != 0
	h.control = h.attributes&attrControl != 0
	h.logAppendTime = h.attributes&attrAppendTime != 0
	return h, nil
}

// drop says whether a batch has nothing to deliver: it is a marker, or part of an aborted transaction.
func (d *decoder) drop(h batchHeader, b []byte, aborted *[]abortedTxn) bool {
	for len(*aborted) > 0 && (*aborted)[0].first <= h.last {
		// Once is enough: compaction may have taken the marker between two aborted transactions of one producer.
		if pid := (*aborted)[0].pid; !slices.Contains(d.active, pid) {
			d.active = append(d.active, pid)
		}
		*aborted = (*aborted)[1:]
	}
	i := slices.Index(d.active, h.pid)
	if h.control {
		if i >= 0 && isAbortMarker(b[batchHeaderLen:]) {
			d.active = slices.Delete(d.active, i, i+1)
		}
		return true
	}
	return h.transactional && i >= 0
}

// isAbortMarker reads the key of a control record: version, then type 0 for abort.
func isAbortMarker(b []byte) bool {
	_, at := number(b, 0) // length
	if at < 0 {
		return false
	}
	_, at = number(b, at+1) // attributes, and timestamp
	_, at = number(b, at)   // offset
	n, at := number(b, at)
	return at >= 0 && n >= 4 && n <= int64(len(b)-at) && getInt16(b[at+2:]) == 0
}

// corrupt describes a batch that cannot be read; next is the offset that was to come.
func corrupt(tp task.TopicPartition, b []byte, next int64, err error) error {
	e := &CorruptBatchError{TopicPartition: tp, BaseOffset: next, LastOffset: next, Err: err}
	if len(b) >= 8 {
		if base := getInt64(b); base >= 0 && base < math.MaxInt64-math.MaxInt32 {
			e.BaseOffset = base
		}
	}
	e.LastOffset = max(next, e.BaseOffset)
	if len(b) >= 27 {
		if delta := getInt32(b[23:]); delta >= 0 {
			e.LastOffset = max(next, e.BaseOffset+int64(delta))
		}
	}
	return e
}
