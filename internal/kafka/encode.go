package kafka

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/bits"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// encoder makes record batches. It belongs to one ProduceConn.
type encoder struct {
	scratch []byte // records before compression
	codecs  compressors
}

// appendBatch appends one batch, magic 2.
func (e *encoder) appendBatch(dst []byte, b *ProduceBatch) ([]byte, error) {
	start := len(dst)
	first, count, err := survey(b)
	if err != nil {
		return dst, err
	}
	dst = append(dst, make([]byte, batchHeaderLen)...)
	var maxTime int64
	if b.Codec == None {
		dst, maxTime = appendRecords(dst, b.Groups, first)
	} else {
		e.scratch, maxTime = appendRecords(e.scratch[:0], b.Groups, first)
		if dst, err = e.codecs.append(dst, b.Codec, e.scratch); err != nil {
			return dst, fmt.Errorf("kafka: batch for %s: %w", b.TopicPartition, err)
		}
		if cap(e.scratch) > 8<<20 {
			e.scratch = nil
		}
	}
	h := dst[start:]
	if int64(len(h)) > math.MaxInt32 {
		return dst, fmt.Errorf("kafka: batch for %s has %d bytes, the protocol carries %d at most: send fewer records", b.TopicPartition, len(h), math.MaxInt32)
	}
	putInt32(h[8:], int32(len(h)-batchOverhead))
	putInt32(h[12:], -1) // leader epoch, the broker's to set
	h[16] = 2
	putInt16(h[21:], int16(b.Codec))
	putInt32(h[23:], int32(count-1))
	putInt64(h[27:], first)
	putInt64(h[35:], maxTime)
	putInt64(h[43:], b.ProducerID)
	putInt16(h[51:], b.Epoch)
	putInt32(h[53:], b.FirstSequence)
	putInt32(h[57:], int32(count))
	binary.BigEndian.PutUint32(h[17:], crc32.Checksum(h[21:], castagnoli))
	return dst, nil
}

// survey finds the first timestamp and counts the records.
func survey(b *ProduceBatch) (first int64, count int, err error) {
	for _, g := range b.Groups {
		if count == 0 && len(g.Refs) > 0 {
			first = g.Refs[0].Timestamp
		}
		count += len(g.Refs)
	}
	switch {
	case count == 0:
		return 0, 0, fmt.Errorf("kafka: batch for %s has no record", b.TopicPartition)
	case count > math.MaxInt32:
		return 0, 0, errors.New("kafka: too many records in a batch")
	}
	return first, count, nil
}

// appendRecords appends all records and returns the highest timestamp.
func appendRecords(dst []byte, groups []*task.Group, baseTime int64) ([]byte, int64) {
	n, maxTime := int64(0), int64(math.MinInt64)
	for _, g := range groups {
		dst = slices.Grow(dst, g.Bytes) // a bound, so nothing below grows it
		for i := range g.Refs {
			r := &g.Refs[i]
			maxTime = max(maxTime, r.Timestamp)
			key, value := g.Bodies(r)
			dst = appendRecord(dst, key, value, g.Headers(r), r.Timestamp-baseTime, n)
			n++
		}
	}
	return dst, maxTime
}

func appendRecord(dst, key, value []byte, headers []task.Header, time, offset int64) []byte {
	n := 1 + varintLen(time) + varintLen(offset) + bytesFieldLen(key) + bytesFieldLen(value) + varintLen(int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		n += varintLen(int64(len(h.Key))) + len(h.Key) + bytesFieldLen(h.Value)
	}
	dst = appendVarint(dst, int64(n))
	dst = append(dst, 0) // attributes
	dst = appendVarint(dst, time)
	dst = appendVarint(dst, offset)
	dst = appendBytes(dst, key)
	dst = appendBytes(dst, value)
	dst = appendVarint(dst, int64(len(headers)))
	for i := range headers {
		h := &headers[i]
		dst = appendVarint(dst, int64(len(h.Key)))
		dst = append(dst, h.Key...)
		dst = appendBytes(dst, h.Value)
	}
	return dst
}

func bytesFieldLen(b []byte) int {
	if b == nil {
		return 1
	}
	return varintLen(int64(len(b))) + len(b)
}

func appendBytes(dst, b []byte) []byte {
	if b == nil {
		return append(dst, 1) // -1
	}
	return append(appendVarint(dst, int64(len(b))), b...)
}

// varintLen is the length of a zigzag number.
func varintLen(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	return (bits.Len64(u|1) + 6) / 7
}

func appendVarint(dst []byte, v int64) []byte {
	u := uint64(v<<1) ^ uint64(v>>63)
	for u >= 0x80 {
		dst = append(dst, byte(u)|0x80)
		u >>= 7
	}
	return append(dst, byte(u))
}
