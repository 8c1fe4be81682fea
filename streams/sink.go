package streams

import (
	"fmt"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// To writes the records to a topic, partitioned by key as Kafka's Java producer does it. Timestamps and headers are kept. A null value is
// written as a tombstone.
func (s Stream[K, V]) To(topic string, opts ...StepOption) {
	o := stepOptions(opts)
	s.b.name("topic of a To", topic)
	s.sink(topicRef{name: topic}, "to-"+topic, o, false)
}

// ToTopic writes each record to the topic that choose returns for it. The topics must exist; a record for one that does not fails. It is
// called for null keys and values too, with the zero value.
func (s Stream[K, V]) ToTopic(choose func(K, V) string, opts ...StepOption) {
	o := stepOptions(opts)
	next := s.b.add(&step{kind: sinkStep, parents: []*step{s.step}}, "totopic", o.name, choose)
	next.choose = next.name
	s.b.function(next, choose)
	keys, values := serdes(s.b, next, o, s.keys, s.values)
	next.resolve = func() { keys, values = resolve(s.b, next, "key", keys), resolve(s.b, next, "value", values) }
	next.build = func(in *instance) {
		attach(in, s.step, &routeNode[K, V]{
			in: in, step: next, choose: choose, writers: make(map[string]*writer[K, V]),
			open: func(topic string, dest int) *writer[K, V] {
				w := newWriter(in, next, topic, keys, values, s)
				w.dest = dest
				return w
			},
		})
	}
}

// sink adds a step that writes a topic.
func (s Stream[K, V]) sink(topic topicRef, prefix string, o options, dropNullKeys bool) *step {
	next := s.b.add(&step{kind: sinkStep, parents: []*step{s.step}, topic: topic}, prefix, o.name, nil)
	keys, values := serdes(s.b, next, o, s.keys, s.values)
	next.resolve = func() { keys, values = resolve(s.b, next, "key", keys), resolve(s.b, next, "value", values) }
	next.build = func(in *instance) {
		full := topic.full(in.sub.topology.applicationID)
		w := newWriter(in, next, full, keys, values, s)
		w.dest = in.sub.dests[full]
		attach(in, s.step, &sinkNode[K, V]{in: in, writer: w, dropNullKeys: dropNullKeys})
	}
	return next
}

// writer writes the records of one step to one topic.
type writer[K, V any] struct {
	in     *instance
	step   *step
	dest   int
	keys   encoder[K]
	values encoder[V]
}

func newWriter[K, V any](in *instance, s *step, topic string, keys serde.Serde[K], values serde.Serde[V], from Stream[K, V]) *writer[K, V] {
	return &writer[K, V]{
		in: in, step: s,
		keys:   newEncoder(keys, from.fromKeys.serde(), from.stored, topic, true),
		values: newEncoder(values, from.fromValues.serde(), from.stored, topic, false),
	}
}

func (w *writer[K, V]) needs() need { return w.keys.needs(needKey) | w.values.needs(needValue) }

func (w *writer[K, V]) write(it *item[K, V]) {
	env := w.in.env
	w.in.env.Enter(w.step.id)
	b, klen, err := w.keys.append(env.Tail(), &it.key, it.rawKey, it.nullKey)
	if err != nil {
		env.Fail(w.step.name, task.KindEncode, fmt.Errorf("key: %w", err))
		return
	}
	b, vlen, err := w.values.append(b, &it.value, it.rawValue, it.nullValue)
	if err != nil {
		env.Fail(w.step.name, task.KindEncode, fmt.Errorf("value: %w", err))
		return
	}
	env.Send(w.dest, -1, b, klen, vlen, it.ts, it.headers)
}

type sinkNode[K, V any] struct {
	in           *instance
	writer       *writer[K, V]
	dropNullKeys bool
}

func (n *sinkNode[K, V]) needs() need { return n.writer.needs() }

func (n *sinkNode[K, V]) push(it *item[K, V]) {
	if n.dropNullKeys && it.nullKey {
		n.in.env.Dropped(droppedNullKey, 1)
		return
	}
	n.writer.write(it)
}

// routeNode is a sink that chooses a topic for each record.
type routeNode[K, V any] struct {
	in      *instance
	step    *step
	choose  func(K, V) string
	writers map[string]*writer[K, V]
	open    func(topic string, dest int) *writer[K, V]
}

func (n *routeNode[K, V]) needs() need { return needKey | needValue }

func (n *routeNode[K, V]) push(it *item[K, V]) {
	n.in.env.Enter(n.step.id)
	topic := n.choose(it.key, it.value)
	w := n.writers[topic]
	if w == nil {
		dest, err := n.dest(topic)
		if err != nil {
			n.in.env.Fail(n.step.name, task.KindProduce, err)
			return
		}
		w = n.open(topic, dest)
		n.writers[topic] = w
	}
	w.write(it)
}

func (n *routeNode[K, V]) dest(topic string) (int, error) {
	if n.in.sub.topology.owns(topic) {
		return 0, fmt.Errorf("topic %q belongs to the application itself: choose another", topic)
	}
	return n.in.env.Dest(topic)
}

// Reasons for which a record is dropped and counted.
const (
	droppedNullKey   = "null-key"
	droppedNullValue = "null-value"
)
