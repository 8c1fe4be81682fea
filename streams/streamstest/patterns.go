package streamstest

import (
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// patterned says that a source of a topology reads topics by a pattern: then topics that nobody names may be read all the same.
func patterned(t *streams.Topology) bool {
	return slices.ContainsFunc(t.Subtopologies, func(s *task.Spec) bool { return s.Source != "" })
}

// given are the topics of the user that Partitions says exist.
func (s *settings) given() []string {
	var topics []string
	for _, topic := range slices.Sorted(maps.Keys(s.partitions)) {
		if s.partitions[topic] > 0 {
			topics = append(topics, topic)
		}
	}
	return topics
}

// meet lets the patterns of the topology take in a topic that is written to, if it is new. The error is what an application would end with.
func (d *Driver) meet(topic string) error {
	d.t.Helper()
	if _, known := d.counts[topic]; known || d.err != nil || !patterned(d.topology) {
		return nil
	}
	next, err := d.topology.Match(append(slices.Clone(d.topology.Sources), topic))
	if err == nil && next == d.topology && !d.named(topic) {
		d.t.Fatalf("streamstest: topic %q is none of the topology's, and none of its patterns matches it", topic)
	}
	if err == nil {
		err = d.become(next)
	}
	if d.err == nil {
		d.err = err
	}
	return d.err
}

// named says that the topology writes or owns a topic.
func (d *Driver) named(topic string) bool {
	return slices.Contains(d.topology.Sinks, topic) ||
		slices.ContainsFunc(d.topology.Internal, func(in streams.InternalTopic) bool { return in.Name == topic })
}

// CreateTopic makes a topic with that many partitions, which a pattern may take in. The error is what an application would end with. A topic that is
// not there is made with one partition when a record is piped to it, so this is for those that shall have more, or stay empty.
func (d *Driver) CreateTopic(topic string, partitions int32) error {
	d.t.Helper()
	if _, read := d.counts[topic]; read || partitions <= 0 {
		d.t.Fatalf("streamstest: make topic %q with %d partitions: it must be one that is not read yet, and have some", topic, partitions)
	}
	d.o.partitions[topic] = partitions
	if err := d.meet(topic); err != nil {
		return err
	}
	d.settle()
	return d.err
}

// DeleteTopic deletes a topic that a pattern has taken in, with its records and what was committed of it. The tasks concerned go on without
// it: they run those of its records that wait to be tried again. When it is written to again, it is a new topic. With any other topic, without
// which the application could not go on, it fails the test.
func (d *Driver) DeleteTopic(topic string) {
	d.t.Helper()
	rest := slices.DeleteFunc(slices.Clone(d.topology.Sources), func(source string) bool { return source == topic })
	next, err := d.topology.Match(rest)
	if err == nil && (next == d.topology || slices.Contains(next.Sources, topic)) {
		err = fmt.Errorf("no pattern has taken it in")
	}
	if err == nil {
		err = d.become(next)
	}
	if err != nil {
		d.t.Fatalf("streamstest: delete topic %q: %v", topic, err)
	}
	maps.DeleteFunc(d.commits, func(tp task.TopicPartition, _ task.InputOffset) bool { return tp.Topic == topic })
	delete(d.topics, topic)
	d.deleted[topic]++
	d.settle()
	d.check()
}

// become goes on with other topics: the tasks that read them commit what they have done and begin anew, as in an application.
func (d *Driver) become(next *streams.Topology) error {
	counts, err := next.PartitionsWith(d.external, func(topic string) int32 { return d.counts[topic] })
	if err != nil {
		return err
	}
	if next == d.topology {
		return nil
	}
	d.commit()
	if d.err != nil {
		return d.err
	}
	d.topology, d.counts = next, counts
	return d.renew()
}

// renew starts the tasks anew whose inputs have changed, those that there were not, and leaves out those that have no input any more.
func (d *Driver) renew() error {
	before := d.runners
	d.runners = nil
	for _, spec := range d.topology.Subtopologies {
		for p := range spec.Tasks(d.partitions) {
			id := task.ID{Subtopology: spec.Subtopology, Partition: p}
			i := slices.IndexFunc(before, func(r *runner) bool { return r.id == id })
			if i >= 0 && before[i].spec == spec && slices.Equal(before[i].there, d.inputsOf(spec, p)) {
				d.runners, before = append(d.runners, before[i]), slices.Delete(before, i, i+1)
				continue
			}
			if i >= 0 {
				d.end(before[i])
				before = slices.Delete(before, i, i+1)
			}
			r, err := newRunner(d, spec, p)
			if err != nil {
				return err
			}
			d.runners = append(d.runners, r)
		}
	}
	for _, r := range before {
		d.end(r)
	}
	return nil
}

// inputsOf says which inputs have a partition for a task.
func (d *Driver) inputsOf(spec *task.Spec, partition int32) []bool {
	there := make([]bool, len(spec.Inputs))
	for i, in := range spec.Inputs {
		there[i] = partition < d.partitions(in.Topic)
	}
	return there
}
