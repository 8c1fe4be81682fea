package streamstest

import (
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Input writes records to a topic.
type Input[K, V any] struct {
	b      Bench
	topic  string
	keys   serde.Serde[K]
	values serde.Serde[V]
}

// In returns the typed input of a topic.
func In[K, V any](b Bench, topic string, keys serde.Serde[K], values serde.Serde[V]) *Input[K, V] {
	return &Input[K, V]{b: b, topic: topic, keys: serde.For(keys, topic, true), values: serde.For(values, topic, false)}
}

// PipeOption is an option of one piped record.
type PipeOption func(*piped)

type piped struct {
	at        time.Time
	partition int32
	headers   []streams.Header
}

// At sets the timestamp, which is the wall clock otherwise.
func At(at time.Time) PipeOption { return func(p *piped) { p.at = at } }

// AtMillis sets the timestamp, in milliseconds since the epoch.
func AtMillis(ms int64) PipeOption { return At(time.UnixMilli(ms)) }

// Headers sets the headers.
func Headers(headers ...streams.Header) PipeOption { return func(p *piped) { p.headers = headers } }

// ToPartition sets the partition, which follows from the key otherwise; null keys go to partition 0.
func ToPartition(n int32) PipeOption { return func(p *piped) { p.partition = n } }

// Pipe writes a record. A [Driver] lets its tasks process it, and fails the test if one fails; in a [Cluster] it is processed as time goes on.
func (in *Input[K, V]) Pipe(key K, value V, opts ...PipeOption) {
	in.b.tb().Helper()
	if err := in.TryPipe(key, value, opts...); err != nil {
		in.b.tb().Fatalf("streamstest: pipe to %s: %v", in.topic, err)
	}
}

// TryPipe is Pipe for a record that may fail: it returns the error that an application would end with.
func (in *Input[K, V]) TryPipe(key K, value V, opts ...PipeOption) error {
	in.b.tb().Helper()
	return in.b.pipe(in.topic, encode(in.b.tb(), in.keys, key), encode(in.b.tb(), in.values, value), opts)
}

// PipeTombstone writes a record with a null value.
func (in *Input[K, V]) PipeTombstone(key K, opts ...PipeOption) {
	in.b.tb().Helper()
	if err := in.b.pipe(in.topic, encode(in.b.tb(), in.keys, key), nil, opts); err != nil {
		in.b.tb().Fatalf("streamstest: pipe to %s: %v", in.topic, err)
	}
}

// encode returns the bytes of a key or value, nil for one that means null.
func encode[T any](t TB, s serde.Serde[T], v T) []byte {
	t.Helper()
	if n, ok := s.(serde.Nuller[T]); ok && n.Null(v) {
		return nil
	}
	b, err := s.Append([]byte{}, v)
	if err != nil {
		t.Fatalf("streamstest: encode %v: %v", v, err)
	}
	return b
}

// PipeRaw writes a record as bytes; nil is null. A failure of a task fails the test.
func (d *Driver) PipeRaw(topic string, key, value []byte, opts ...PipeOption) {
	d.t.Helper()
	if err := d.pipe(topic, key, value, opts); err != nil {
		d.t.Fatalf("streamstest: pipe to %s: %v", topic, err)
	}
}

// TryPipeRaw is PipeRaw for a record that may fail.
func (d *Driver) TryPipeRaw(topic string, key, value []byte, opts ...PipeOption) error {
	d.t.Helper()
	return d.pipe(topic, key, value, opts)
}

func (d *Driver) pipe(topic string, key, value []byte, opts []PipeOption) error {
	d.t.Helper()
	if d.partitions(topic) == 0 {
		d.t.Fatalf("streamstest: topic %q does not exist", topic)
	}
	if err := d.meet(topic); err != nil {
		return err
	}
	n := d.partitions(topic)
	p := piped{at: d.now}
	if key != nil {
		p.partition = task.PartitionFor(key, n)
	}
	for _, opt := range opts {
		opt(&p)
	}
	d.log(topic).append(p.partition, task.OutRecord{Key: key, Value: value, Timestamp: p.at.UnixMilli(), Headers: p.headers})
	d.settle()
	return d.err
}
