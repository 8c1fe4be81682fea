package streams

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// copartition finds the topics that must have equal numbers of partitions: those from which records reach one step that relies on equal
// keys being in one partition.
func (t *Topology) copartition() {
	for i := range t.Internal {
		if topic := &t.Internal[i]; topic.Kind == RepartitionTopic {
			topic.Subtopology = t.reader(topic.Name)
		}
	}
	for _, sub := range t.subs {
		t.Copartitioned = append(t.Copartitioned, sub.copartitioned()...)
	}
}

// reader is the number of the subtopology that reads a topic, -1 if none does.
func (t *Topology) reader(topic string) int32 {
	for _, sub := range t.subs {
		if slices.Contains(sub.topics(), topic) {
			return sub.number
		}
	}
	return -1
}

func (sub *subtopology) copartitioned() [][]string {
	topics := sub.topics()
	groups := newUnion(len(topics))
	reach := make(map[*step][]int) // source topics that reach a step
	stores := make(map[*storeDef]int)
	for _, s := range sub.steps {
		if s.kind == sourceStep {
			for _, topic := range sub.topology.read(s) {
				reach[s] = append(reach[s], slices.Index(topics, topic))
			}
		}
		for _, p := range s.parents {
			reach[s] = append(reach[s], reach[p]...)
		}
		if !s.keyed && len(s.stores) == 0 {
			continue
		}
		for _, topic := range reach[s] {
			groups.join(reach[s][0], topic)
		}
		for _, d := range s.stores { // processors that share a store
			if len(reach[s]) > 0 {
				joinBy(groups, stores, d, reach[s][0])
			}
		}
	}
	return groups.of(topics)
}

// of returns the groups of more than one name.
func (u union) of(names []string) [][]string {
	byRoot := make(map[int][]string)
	var roots []int
	for i, name := range names {
		root := u.find(i)
		if byRoot[root] == nil {
			roots = append(roots, root)
		}
		byRoot[root] = append(byRoot[root], name)
	}
	var groups [][]string
	for _, root := range roots {
		if len(byRoot[root]) > 1 {
			groups = append(groups, byRoot[root])
		}
	}
	return groups
}

// Partitions computes the number of partitions of every topic that is read or owned, from those of the topics of the user, which external
// answers (false: no such topic). A repartition topic has as many as the user asked for, or as many as the topics it must match, or else
// as many as the widest topic upstream. A changelog or retry topic has as many as there are tasks, one for dead letters or redriven records as many
// as its source.
//
// All faults come in one [*TopologyError]: a topic that does not exist, topics that must be equal and are not.
func (t *Topology) Partitions(external func(topic string) (int32, bool)) (map[string]int32, error) {
	return t.PartitionsWith(external, func(string) int32 { return 0 })
}

// PartitionsWith is Partitions where some internal topics may be there already, with so many partitions; there answers 0 for one that is not.
// Those of dead letters and redriven records may have any number. Where topics come and go, as with [Builder.StreamPattern], so does the number
// of tasks: then what there is stays as it is. Where there is no state for some task, the error is a [*PartitionsChangedError].
func (t *Topology) PartitionsWith(external func(topic string) (int32, bool), there func(topic string) int32) (map[string]int32, error) {
	p := newPartitioning(t)
	p.there = there
	for _, topic := range t.Sources {
		n, ok := external(topic)
		if !ok || n <= 0 {
			p.faultf("topic %q is read and does not exist: create it", topic)
			continue
		}
		p.counts[topic] = n
	}
	p.enforced()
	for _, topic := range t.Internal {
		if topic.Kind == RepartitionTopic {
			p.count(topic.Name)
		}
	}
	p.check()
	for _, topic := range t.Internal {
		switch topic.Kind {
		case ChangelogTopic, RetryTopic:
			p.state(topic)
		case DeadLetterTopic, RedriveTopic:
			p.counts[topic.Name] = cmp.Or(there(topic.Name), p.widestOf(t.topicsOf(topic.Source)))
		}
	}
	if len(p.faults) > 0 {
		return nil, newTopologyError(p.faults)
	}
	if p.changed != nil {
		return nil, p.changed
	}
	return p.counts, nil
}

// state counts the partitions of a changelog or retry topic. More tasks than there were would split the rows of their keys.
func (p *partitioning) state(topic InternalTopic) {
	sub := p.t.subs[topic.Subtopology]
	want, has := p.widest(sub), p.there(topic.Name)
	p.counts[topic.Name] = want
	switch {
	case has == 0:
	case want > has:
		if p.changed == nil {
			p.changed = &PartitionsChangedError{Partitions: want, Internal: topic.Name, Kind: topic.Kind, Tasks: has}
			p.changed.Topic, p.changed.Pattern = p.widestSource(sub, want)
		}
	case sub.patterned():
		p.counts[topic.Name] = has
	}
}

// widestSource is the topic because of which a subtopology has so many tasks: one of the user, where that does not come from a number that
// was asked for. It may match a pattern.
func (p *partitioning) widestSource(sub *subtopology, n int32) (topic string, pattern bool) {
	for _, read := range sub.topics() {
		if p.counts[read] != n {
			continue
		}
		for _, writer := range p.t.writers(read) {
			if p.busy[read] || !p.t.owns(read) || p.widest(writer) != n {
				continue
			}
			p.busy[read] = true
			defer delete(p.busy, read)
			return p.widestSource(writer, n)
		}
		return read, sub.patternOf(read) != nil
	}
	return "", false
}

// topicsOf are the topics of a source, by its key.
func (t *Topology) topicsOf(source string) []string {
	if topics, ok := t.matched[source]; ok {
		return topics
	}
	return []string{source}
}

// Check reports what [Topology.Partitions] reports.
func (t *Topology) Check(partitions func(topic string) (int32, bool)) error {
	_, err := t.Partitions(partitions)
	return err
}

// partitioning computes numbers of partitions.
type partitioning struct {
	t       *Topology
	counts  map[string]int32
	busy    map[string]bool // being computed: a loop through topics adds nothing
	faults  []error
	changed *PartitionsChangedError  // the first
	there   func(topic string) int32 // partitions of an internal topic, 0 if it is to be made
}

func newPartitioning(t *Topology) *partitioning {
	return &partitioning{t: t, counts: make(map[string]int32), busy: make(map[string]bool), there: func(string) int32 { return 0 }}
}

// checkPartitions reports repartition topics that must be equal and were given different numbers. Topics of the user are not known yet.
func (t *Topology) checkPartitions() []error {
	p := newPartitioning(t)
	p.enforced()
	p.check()
	return p.faults
}

func (p *partitioning) faultf(format string, args ...any) {
	p.faults = append(p.faults, fmt.Errorf(format, args...))
}

// enforced takes the numbers that the user asked for, and gives them, or those of the topics of the user, to the free topics of their
// groups.
func (p *partitioning) enforced() {
	for _, topic := range p.t.Internal {
		if topic.Partitions > 0 {
			p.counts[topic.Name] = topic.Partitions
		}
	}
	for _, group := range p.t.Copartitioned {
		if n := p.widestOf(group); n > 0 {
			for _, topic := range group {
				if p.counts[topic] == 0 && !slices.Contains(p.t.Sources, topic) {
					p.counts[topic] = n
				}
			}
		}
	}
	for _, topic := range p.t.Internal {
		if topic.Kind == RepartitionTopic && p.counts[topic.Name] == 0 && p.t.patterned() {
			p.counts[topic.Name] = p.there(topic.Name)
		}
	}
}

func (p *partitioning) widestOf(topics []string) int32 {
	var n int32
	for _, topic := range topics {
		n = max(n, p.counts[topic])
	}
	return n
}

// count is the number of partitions of a topic: known, or that of the widest topic upstream of its group.
func (p *partitioning) count(topic string) int32 {
	if n := p.counts[topic]; n > 0 || p.busy[topic] {
		return n
	}
	group := p.group(topic)
	var n int32
	for _, member := range group {
		p.busy[member] = true
	}
	for _, member := range group {
		for _, sub := range p.t.writers(member) {
			n = max(n, p.widest(sub))
		}
	}
	for _, member := range group {
		delete(p.busy, member)
		if n > 0 {
			p.counts[member] = n
		}
	}
	return n
}

// group is the co-partitioned group of a topic.
func (p *partitioning) group(topic string) []string {
	for _, group := range p.t.Copartitioned {
		if slices.Contains(group, topic) {
			return group
		}
	}
	return []string{topic}
}

// widest is the largest number of partitions of a subtopology's inputs: the number of its tasks.
func (p *partitioning) widest(sub *subtopology) int32 {
	var n int32
	for _, topic := range sub.topics() {
		n = max(n, p.count(topic))
	}
	return n
}

// writers are the subtopologies that write a topic.
func (t *Topology) writers(topic string) []*subtopology {
	var subs []*subtopology
	for _, sub := range t.subs {
		if _, ok := sub.dests[topic]; ok {
			subs = append(subs, sub)
		}
	}
	return subs
}

// check reports co-partitioned topics with different numbers.
func (p *partitioning) check() {
	for _, group := range p.t.Copartitioned {
		var said []string
		equal := true
		for _, topic := range group {
			n := p.counts[topic]
			if n == 0 {
				continue // missing, and said so
			}
			equal = equal && n == p.widestOf(group)
			said = append(said, fmt.Sprintf("%s has %d", topic, n))
		}
		if !equal {
			p.faultf("topics are not co-partitioned, but records of equal keys meet: %s; give them equal numbers, or put a Repartition in front of one",
				strings.Join(said, ", "))
		}
	}
}
