package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	fetchKey, fetchVersion = 1, 11
	fetchWaitMS            = 100
	fetchBytes             = 4 << 20
	fetchPartitionBytes    = 1 << 20
)

// fetcher reads a topic from its beginning, one request ahead of what is processed.
type fetcher struct {
	*conn
	topic   string
	epochs  []int32
	next    []int64 // what is processed or handed out for it; the position of the commit
	first   int     // the partition that is named first, in turns, or those at the end would starve
	request []byte
	sets    []recordSet
}

func newFetcher(address, topic string, epochs []int32) (*fetcher, error) {
	c, err := dial(address)
	return &fetcher{conn: c, topic: topic, epochs: epochs, next: make([]int64, len(epochs))}, err
}

func (f *fetcher) ask() error {
	b := appendHeader(f.request[:0], fetchKey, fetchVersion)
	b = appendInt32(b, -1) // a consumer
	b = appendInt32(b, fetchWaitMS)
	b = appendInt32(b, 1)
	b = appendInt32(b, fetchBytes)
	b = append(b, 0)       // uncommitted records too
	b = appendInt32(b, 0)  // no session
	b = appendInt32(b, -1) // nor a new one
	b = appendInt32(b, 1)
	b = appendString(b, f.topic)
	b = appendInt32(b, int32(len(f.next)))
	for i := range f.next {
		p := (f.first + i) % len(f.next)
		b = appendInt32(b, int32(p))
		b = appendInt32(b, f.epochs[p])
		b = appendInt64(b, f.next[p])
		b = appendInt64(b, -1) // a follower's
		b = appendInt32(b, fetchPartitionBytes)
	}
	b = appendInt32(b, 0) // nothing forgotten
	f.request = appendString(b, "")
	f.first++
	return f.send(f.request)
}

// recordSet is what was fetched of a partition: whole batches, and part of one perhaps.
type recordSet struct {
	partition int32
	from      int64 // records before it are not wanted
	batches   []byte
}

// answer reads the answer and moves the positions behind it. What it returns is good until the next call.
func (f *fetcher) answer() (sets []recordSet, size int, err error) {
	r, err := f.receive()
	if err != nil {
		return nil, 0, err
	}
	f.sets = f.sets[:0]
	r.int32() // throttling
	if code := r.int16(); code != 0 {
		return nil, 0, fmt.Errorf("fetch: error %d", code)
	}
	r.int32() // session
	for topics := r.int32(); topics > 0; topics-- {
		_ = r.string()
		for partitions := r.int32(); partitions > 0; partitions-- {
			set := recordSet{partition: r.int32()}
			if code := r.int16(); code != 0 {
				return nil, 0, fmt.Errorf("fetch from partition %d: error %d", set.partition, code)
			}
			r.take(3 * 8) // high watermark, last stable offset, log start
			for aborted := r.int32(); aborted > 0; aborted-- {
				r.take(2 * 8)
			}
			r.int32() // preferred replica
			set.batches = r.bytes()
			if r.bad || int(set.partition) >= len(f.next) {
				return nil, 0, fmt.Errorf("fetch: the answer is malformed")
			}
			set.from = f.next[set.partition]
			set.batches, f.next[set.partition] = whole(set.batches, set.from)
			size += len(set.batches)
			if len(set.batches) > 0 {
				f.sets = append(f.sets, set)
			}
		}
	}
	return f.sets, size, nil
}

// Offsets into a batch.
const (
	batchLength    = 8
	batchCRC       = 17
	batchCovered   = 21 // by the checksum, from here on
	batchLastDelta = 23
	batchFirstTime = 27
	batchMaxTime   = 35
	batchProducer  = 43
	batchSequence  = 53
	batchCount     = 57
	batchRecords   = 61
)

// whole cuts off a batch that is not complete; next is the offset after the last record.
func whole(b []byte, from int64) (complete []byte, next int64) {
	next, end := from, 0
	for end+batchRecords <= len(b) {
		batch := b[end:]
		size := batchLength + 4 + int(binary.BigEndian.Uint32(batch[batchLength:]))
		if size > len(batch) {
			break
		}
		next = int64(binary.BigEndian.Uint64(batch)) + int64(binary.BigEndian.Uint32(batch[batchLastDelta:])) + 1
		end += size
	}
	return b[:end], next
}

// record is one of a set; key and value lie in what was fetched.
type record struct {
	key, value []byte
	timestamp  int64
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// each walks the records.
func (s recordSet) each(f func(record) error) error {
	for b := s.batches; len(b) > 0; {
		size := batchLength + 4 + int(binary.BigEndian.Uint32(b[batchLength:]))
		batch := b[:size]
		b = b[size:]
		if crc32.Checksum(batch[batchCovered:], castagnoli) != binary.BigEndian.Uint32(batch[batchCRC:]) {
			return fmt.Errorf("partition %d: a batch has the wrong checksum", s.partition)
		}
		if attributes := batch[batchCovered+1]; attributes&0x27 != 0 {
			return fmt.Errorf("partition %d: a batch that is compressed or of control records", s.partition)
		}
		if err := s.walk(batch, f); err != nil {
			return err
		}
	}
	return nil
}

func (s recordSet) walk(batch []byte, f func(record) error) error {
	base := int64(binary.BigEndian.Uint64(batch))
	first := int64(binary.BigEndian.Uint64(batch[batchFirstTime:]))
	v := varints{b: batch[batchRecords:]}
	for n := binary.BigEndian.Uint32(batch[batchCount:]); n > 0; n-- {
		length := v.next()
		rest := len(v.b) - int(length)
		v.skip(1) // attributes
		r := record{timestamp: first + v.next()}
		offset := base + v.next()
		r.key = v.bytes()
		r.value = v.bytes()
		if v.bad || rest < 0 || rest > len(v.b) {
			return fmt.Errorf("partition %d: a malformed record", s.partition)
		}
		v.b = v.b[len(v.b)-rest:] // past the headers
		if offset < s.from {
			continue
		}
		if err := f(r); err != nil {
			return err
		}
	}
	return nil
}

// varints takes zigzag numbers off the front.
type varints struct {
	b   []byte
	bad bool
}

func (v *varints) next() int64 {
	if len(v.b) > 0 && v.b[0] < 0x80 { // nearly all
		u := uint64(v.b[0])
		v.b = v.b[1:]
		return int64(u>>1) ^ -int64(u&1)
	}
	n, size := binary.Varint(v.b)
	if size <= 0 {
		v.bad, v.b = true, nil
		return 0
	}
	v.b = v.b[size:]
	return n
}

func (v *varints) skip(n int) {
	if n > len(v.b) {
		v.bad, v.b = true, nil
		return
	}
	v.b = v.b[n:]
}

func (v *varints) bytes() []byte {
	n := v.next()
	if n < 0 {
		return nil
	}
	if n > int64(len(v.b)) {
		v.bad, v.b = true, nil
		return nil
	}
	taken := v.b[:n:n]
	v.b = v.b[n:]
	return taken
}
