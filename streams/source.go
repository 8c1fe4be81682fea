package streams

import (
	"fmt"
	"strconv"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Stream reads a topic. A topic read twice is read once and given to both; the two are in one subtopology then.
//
// Keys and values are decoded only if some step looks at them. A record that cannot be decoded fails.
func (b *Builder) Stream[K, V any](topic string, keys serde.Serde[K], values serde.Serde[V], opts ...SourceOption) Stream[K, V] {
	var o options
	for _, opt := range opts {
		opt.applySource(&o)
	}
	b.name("topic of a Stream", topic)
	return source(b, topicRef{name: topic}, o.name, keys, values, o)
}

// source adds a source step for a topic.
func source[K, V any](b *Builder, topic topicRef, named string, keys serde.Serde[K], values serde.Serde[V], o options) Stream[K, V] {
	prefix := "source-" + topic.name
	if topic.repartition != nil {
		prefix = "source-" + topic.repartition.name + "-repartition"
	}
	if topic.pattern != nil {
		prefix += topic.pattern.name
	}
	s := b.add(&step{kind: sourceStep, topic: topic, negative: o.negative, failure: o.failure, recovery: o.recovery}, prefix, named, nil)
	if o.failure != nil {
		if err := checkPolicy("step "+strconv.Quote(s.name), *o.failure); err != nil {
			b.faults = append(b.faults, err)
		}
	}
	if o.recovery != nil && !o.recovery.valid() {
		b.faultf("step %q: recovery mode %d is none: use RecoverSerial or RecoverParallel", s.name, *o.recovery)
	}
	if isNil(keys) {
		keys = nil
	}
	if isNil(values) {
		values = nil
	}
	stream := Stream[K, V]{
		b: b, step: s, keys: keys, values: values,
		fromKeys:   func() serde.Serde[K] { return keys },
		fromValues: func() serde.Serde[V] { return values },
	}
	s.resolve = func() { // a source without serdes has those of its types
		keys, values = resolve(b, s, "key", keys), resolve(b, s, "value", values)
	}
	s.build = func(in *instance) {
		for _, full := range in.sub.topology.read(s) {
			n := &sourceNode[K, V]{
				in: in, step: s, out: in.out[K, V](s),
				keys:   newDecoder(keys, full, true),
				values: newDecoder(values, full, false),
			}
			in.inputs[full] = append(in.inputs[full], n.take)
			in.warms[full] = append(in.warms[full], func() []int { return n.out.warm })
		}
	}
	return stream
}

// sourceNode decodes what its downstream needs.
type sourceNode[K, V any] struct {
	in     *instance
	step   *step
	out    *fan[K, V]
	keys   decoder[K]
	values decoder[V]
	it     item[K, V]
}

func (n *sourceNode[K, V]) take(r *task.Record) {
	n.in.env.Enter(n.step.id) // serdes are the user's code too
	it := &n.it
	it.rawKey, it.nullKey = r.Key, r.Key == nil
	it.rawValue, it.nullValue = r.Value, r.Value == nil
	it.ts = r.Timestamp
	if it.headers != nil || r.Headers != nil { // a pointer that is not written costs the garbage collector nothing
		it.headers = r.Headers
	}
	if !n.decodeKey(it) || !n.decodeValue(it) {
		return
	}
	n.out.push(it)
}

func (n *sourceNode[K, V]) decodeKey(it *item[K, V]) bool {
	if n.out.need&needKey == 0 {
		return true // it is zero, and stays so
	}
	if it.nullKey {
		var zero K
		it.key = zero
		return true
	}
	var err error
	if it.key, it.nullKey, err = n.keys.decode(it.rawKey); err != nil {
		n.in.env.Fail(n.step.name, task.KindDecode, fmt.Errorf("key: %w", err))
		return false
	}
	return true
}

func (n *sourceNode[K, V]) decodeValue(it *item[K, V]) bool {
	if n.out.need&needValue == 0 {
		return true // it is zero, and stays so
	}
	if it.nullValue {
		var zero V
		it.value = zero
		return true
	}
	var err error
	if it.value, it.nullValue, err = n.values.decode(it.rawValue); err != nil {
		n.in.env.Fail(n.step.name, task.KindDecode, fmt.Errorf("value: %w", err))
		return false
	}
	return true
}
