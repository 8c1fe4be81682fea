package streamstest

import (
	"bytes"

	"github.com/understudy-streams/understudy/task"
)

// topic is the log of a topic: its partitions, and the order in which records came over all of them.
type topic struct {
	partitions [][]task.Record
	all        []written
}

// written is one record of a topic.
type written struct {
	partition int32
	index     int
}

// log returns a topic, which is made on the way. One that was looked at before a pattern took in what it follows from has more partitions now.
func (d *Driver) log(name string) *topic {
	l := d.topics[name]
	if l == nil {
		l = &topic{}
		d.topics[name] = l
	}
	for len(l.partitions) < int(max(d.partitions(name), 1)) {
		l.partitions = append(l.partitions, nil)
	}
	return l
}

// append writes a record with memory of its own.
func (l *topic) append(partition int32, r task.OutRecord) {
	at := len(l.partitions[partition])
	l.partitions[partition] = append(l.partitions[partition], task.Record{
		Offset: int64(at), Timestamp: r.Timestamp,
		Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value), Headers: cloneHeaders(r.Headers),
	})
	l.all = append(l.all, written{partition, at})
}

func cloneHeaders(hs []task.Header) []task.Header {
	out := make([]task.Header, 0, len(hs))
	for _, h := range hs {
		out = append(out, task.Header{Key: h.Key, Value: bytes.Clone(h.Value)})
	}
	return out
}

// batch is what a fetch from an offset brings: copies, since a task may overwrite the memory of its batches. It is nil at the end.
func (l *topic) batch(partition int32, from int64) *task.Batch {
	records := l.partitions[partition]
	if from >= int64(len(records)) {
		return nil
	}
	b := &task.Batch{Next: int64(len(records)), HighWatermark: int64(len(records))}
	for _, r := range records[from:] {
		r.Key, r.Value, r.Headers = bytes.Clone(r.Key), bytes.Clone(r.Value), cloneHeaders(r.Headers)
		b.Records = append(b.Records, r)
		b.Bytes += len(r.Key) + len(r.Value) + 64
	}
	return b
}
