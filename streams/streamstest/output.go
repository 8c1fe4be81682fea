package streamstest

import (
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// RawRecord is a record of a topic as bytes. A nil Key or Value is null.
type RawRecord struct {
	Partition  int32
	Key, Value []byte
	Time       time.Time
	Headers    []streams.Header
}

// RawOutput reads a topic as bytes, from its beginning, in the order in which records were written.
type RawOutput struct {
	b     Bench
	topic string
	next  int
}

// OutRaw returns the raw output of a topic. Internal topics can be read too.
func OutRaw(b Bench, topic string) *RawOutput { return &RawOutput{b: b, topic: topic} }

// Read returns the next record, false if there is none yet.
func (o *RawOutput) Read() (RawRecord, bool) {
	l := o.b.log(o.topic)
	if o.next >= len(l.all) {
		return RawRecord{}, false
	}
	at := l.all[o.next]
	o.next++
	r := l.partitions[at.partition][at.index]
	return RawRecord{
		Partition: at.partition, Key: r.Key, Value: r.Value,
		Time: time.UnixMilli(r.Timestamp).UTC(), Headers: cloneHeaders(r.Headers),
	}, true
}

// ReadAll returns all records that were not read yet.
func (o *RawOutput) ReadAll() []RawRecord {
	var out []RawRecord
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, r)
	}
	return out
}

// Output reads a topic.
type Output[K, V any] struct {
	raw    *RawOutput
	keys   serde.Serde[K]
	values serde.Serde[V]
}

// Out returns the typed output of a topic. It begins with the first record; each Output reads on its own.
func Out[K, V any](b Bench, topic string, keys serde.Serde[K], values serde.Serde[V]) *Output[K, V] {
	return &Output[K, V]{raw: OutRaw(b, topic), keys: serde.For(keys, topic, true), values: serde.For(values, topic, false)}
}

// Read returns the next record, false if there is none yet. One that cannot be decoded fails the test.
func (o *Output[K, V]) Read() (streams.Record[K, V], bool) {
	o.raw.b.tb().Helper()
	raw, ok := o.raw.Read()
	if !ok {
		return streams.Record[K, V]{}, false
	}
	r := streams.Record[K, V]{NullKey: raw.Key == nil, NullValue: raw.Value == nil, Time: raw.Time, Headers: raw.Headers}
	if !r.NullKey {
		r.Key = decode(o.raw.b.tb(), o.keys, raw.Key)
	}
	if !r.NullValue {
		r.Value = decode(o.raw.b.tb(), o.values, raw.Value)
	}
	return r, true
}

// ReadAll returns all records that were not read yet.
func (o *Output[K, V]) ReadAll() []streams.Record[K, V] {
	o.raw.b.tb().Helper()
	var out []streams.Record[K, V]
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, r)
	}
	return out
}

// ReadKeyValues returns the keys and values of all records that were not read yet, without their times and headers. A null is the zero
// value here.
func (o *Output[K, V]) ReadKeyValues() []streams.KeyValue[K, V] {
	o.raw.b.tb().Helper()
	var out []streams.KeyValue[K, V]
	for r, ok := o.Read(); ok; r, ok = o.Read() {
		out = append(out, streams.KeyValue[K, V]{Key: r.Key, Value: r.Value})
	}
	return out
}

func decode[T any](t TB, s serde.Serde[T], src []byte) T {
	t.Helper()
	v, err := s.Decode(src)
	if err != nil {
		t.Fatalf("streamstest: decode %q: %v", src, err)
	}
	return v
}
