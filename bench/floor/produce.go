package main

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

const (
	produceKey, produceVersion = 0, 8
	produceTimeoutMS           = 30_000
	// batchFull is the size at which a batch is sent. Small ones cost the broker half as much again.
	batchFull = 256 << 10
	// onTheWay is the number of requests without an answer, which an idempotent producer may have.
	onTheWay = 5
)

// producer is the connection; its answers are read when there is nothing else to do or too many are missing.
type producer struct {
	*conn
	unanswered int
}

func newProducer(address string) (*producer, error) {
	c, err := dial(address)
	return &producer{conn: c}, err
}

func (p *producer) produce(request []byte) error {
	if p.unanswered == onTheWay {
		if err := p.acknowledge(); err != nil {
			return err
		}
	}
	p.unanswered++
	return p.send(request)
}

func (p *producer) drain() error {
	for p.unanswered > 0 {
		if err := p.acknowledge(); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) acknowledge() error {
	r, err := p.receive()
	if err != nil {
		return err
	}
	p.unanswered--
	r.int32() // one topic
	topic := r.string()
	r.int32() // one partition
	partition, code := r.int32(), r.int16()
	if r.bad || code != 0 {
		return fmt.Errorf("produce to %s, partition %d: error %d", topic, partition, code)
	}
	return nil
}

// topicWriter has an open batch for each partition. A buffer is free again when it is written to the socket, because nothing is sent twice.
type topicWriter struct {
	wire  *producer
	parts []openBatch
	head  int // where the batch begins in the request
}

// openBatch is a produce request that is being filled.
type openBatch struct {
	request  []byte
	head     int
	first    int64 // timestamps
	latest   int64
	count    int32
	sequence int32
}

func newTopicWriter(wire *producer, topic string, partitions int, id int64, epoch int16) *topicWriter {
	t := &topicWriter{wire: wire, parts: make([]openBatch, partitions)}
	for p := range t.parts {
		b := appendHeader(make([]byte, 0, batchFull+4<<10), produceKey, produceVersion)
		b = appendInt16(b, -1) // no transaction
		b = appendInt16(b, -1) // all replicas
		b = appendInt32(b, produceTimeoutMS)
		b = appendInt32(b, 1)
		b = appendString(b, topic)
		b = appendInt32(b, 1)
		b = appendInt32(b, int32(p))
		b = appendInt32(b, 0) // size of the batch
		t.head = len(b)
		b = append(b, make([]byte, batchRecords)...)
		batch := b[t.head:]
		batch[16] = 2 // the format
		binary.BigEndian.PutUint64(batch[batchProducer:], uint64(id))
		binary.BigEndian.PutUint16(batch[batchProducer+8:], uint16(epoch))
		t.parts[p] = openBatch{request: b, head: t.head}
	}
	return t
}

func (t *topicWriter) partitionOf(key []byte) int32 {
	return int32(murmur2(key)&0x7fffffff) % int32(len(t.parts))
}

// write appends a record; change, if any, is done to the value where it lies in the batch.
func (t *topicWriter) write(partition int32, timestamp int64, key, value []byte, change func([]byte)) error {
	o := &t.parts[partition]
	o.add(timestamp, key, value, change)
	if len(o.request) < batchFull {
		return nil
	}
	return o.send(t.wire)
}

func (t *topicWriter) flush() error {
	for p := range t.parts {
		if o := &t.parts[p]; o.count > 0 {
			if err := o.send(t.wire); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o *openBatch) add(timestamp int64, key, value []byte, change func([]byte)) {
	if o.count == 0 {
		o.first, o.latest = timestamp, timestamp
	}
	o.latest = max(o.latest, timestamp)
	delta, offset := timestamp-o.first, int64(o.count)
	length := 1 + sizeOf(delta) + sizeOf(offset) + sizeOf(int64(len(key))) + len(key) + sizeOf(int64(len(value))) + len(value) + 1
	b := binary.AppendVarint(o.request, int64(length))
	b = append(b, 0) // attributes
	b = binary.AppendVarint(b, delta)
	b = binary.AppendVarint(b, offset)
	b = binary.AppendVarint(b, int64(len(key)))
	b = append(b, key...)
	b = binary.AppendVarint(b, int64(len(value)))
	b = append(b, value...)
	if change != nil {
		change(b[len(b)-len(value):])
	}
	o.request = append(b, 0) // no headers
	o.count++
}

// sizeOf is how long the number is as a varint.
func sizeOf(v int64) int {
	u := uint64(v<<1) ^ uint64(v>>63)
	n := 1
	for ; u >= 0x80; u >>= 7 {
		n++
	}
	return n
}

// send numbers the batch, signs it with its checksum, and begins the next.
func (o *openBatch) send(wire *producer) error {
	batch := o.request[o.head:]
	binary.BigEndian.PutUint32(o.request[o.head-4:], uint32(len(batch)))
	binary.BigEndian.PutUint32(batch[batchLength:], uint32(len(batch)-batchLength-4))
	binary.BigEndian.PutUint32(batch[batchLastDelta:], uint32(o.count-1))
	binary.BigEndian.PutUint64(batch[batchFirstTime:], uint64(o.first))
	binary.BigEndian.PutUint64(batch[batchMaxTime:], uint64(o.latest))
	binary.BigEndian.PutUint32(batch[batchSequence:], uint32(o.sequence))
	binary.BigEndian.PutUint32(batch[batchCount:], uint32(o.count))
	binary.BigEndian.PutUint32(batch[batchCRC:], crc32.Checksum(batch[batchCovered:], castagnoli))
	err := wire.produce(o.request)
	o.sequence = (o.sequence + o.count) & 0x7fffffff
	o.request, o.count = o.request[:o.head+batchRecords], 0
	return err
}
