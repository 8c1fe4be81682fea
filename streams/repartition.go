package streams

import "fmt"

// Repartition sends the records through an internal topic, <application id>-<name>-repartition, so that records with equal keys are in one
// partition and the steps behind it scale on their own. Null keys pass and go to any partition.
func (s Stream[K, V]) Repartition(name string, opts ...RepartitionOption) Stream[K, V] {
	o := repartitionOptions(opts)
	s.b.name("name of a Repartition", name)
	if o.name != "" {
		s.b.faultf("repartition %q is named %q by As too: it has its name already", name, o.name)
	}
	o.name = ""
	return s.through(name, o, false)
}

func repartitionOptions(opts []RepartitionOption) (o options) {
	for _, opt := range opts {
		opt.applyRepartition(&o)
	}
	return o
}

// through is the stream behind a repartition topic.
func (s Stream[K, V]) through(name string, o options, dropNullKeys bool) Stream[K, V] {
	if o.hasPartitions && o.partitions <= 0 {
		s.b.faultf("repartition topic %q has %d partitions: give it one or more, or leave Partitions away", name, o.partitions)
	}
	topic := topicRef{repartition: &repartition{name: name, partitions: o.partitions}}
	next := s.sink(topic, "to-"+name+"-repartition", o, dropNullKeys)
	keys, values := serdes(s.b, next, options{keys: o.keys, values: o.values}, s.keys, s.values)
	next.resolve = chain(next.resolve, func() {
		s.b.uniqueRepartition(topic.repartition)
	})
	return source(s.b, topic, "", keys, values, options{failure: o.failure, recovery: o.recovery})
}

func chain(first, second func()) func() {
	return func() {
		first()
		second()
	}
}

// uniqueRepartition reports two repartition topics with one name.
func (b *Builder) uniqueRepartition(r *repartition) {
	for _, s := range b.steps {
		other := s.topic.repartition
		if s.kind == sinkStep && other != nil && other.name == r.name {
			if other != r {
				b.missing = append(b.missing, fmt.Errorf("repartition name %q is used twice: name the grouping with As, or group once and aggregate twice", r.name))
			}
			return
		}
	}
}
