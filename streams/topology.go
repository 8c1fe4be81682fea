package streams

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// Topology is a checked topology of one application: what its tasks run, and the topics around them. It is not changed after it was made
// and is safe for concurrent use.
type Topology struct {
	// Subtopologies are the parts that are connected without a topic between them, in the order of their smallest source topic. The index
	// is the number of the subtopology.
	Subtopologies []*task.Spec
	// Sources are the topics of the user that are read, sorted: of patterns those that are known to match, none before [Topology.Match]. Internal
	// topics are not among them.
	Sources []string
	// Sinks are the topics of the user that are written, sorted, without those that are computed for each record.
	Sinks []string
	// Internal are the topics that belong to the application, sorted by name.
	Internal []InternalTopic
	// Copartitioned are groups of topics that must have the same number of partitions, internal ones included. Each group is sorted.
	Copartitioned [][]string

	applicationID string
	stepCount     int
	subs          []*subtopology
	matched       matches
	recovery      RecoveryMode // of sources that say nothing
	remake        func(matches) (*Topology, error)
}

// subtopology is one connected part of the topology.
type subtopology struct {
	topology *Topology
	number   int32
	steps    []*step // in the order of the builder
	spec     *task.Spec
	defs     []*storeDef // as spec.Stores, where the retry store comes last
	dests    map[string]int
	silent   map[*step]bool // tables that nobody listens to
	forced   map[*step]bool // tables that emit per update, whatever they say
	failure  retry.Policy
	recovery RecoveryMode
}

// ApplicationID returns the application id that the topology was built for.
func (t *Topology) ApplicationID() string { return t.applicationID }

// newTopology cuts the steps into subtopologies and describes each.
func newTopology(steps []*step, app string, fallback retry.Policy, matched matches) (*Topology, error) {
	t := &Topology{applicationID: app, stepCount: len(steps), matched: matched}
	t.remake = func(m matches) (*Topology, error) { return newTopology(steps, app, fallback, m) }
	t.subs = cut(t, steps)
	faults := t.policies(fallback)
	for i, sub := range t.subs {
		sub.number = int32(i)
		sub.describeSpec()
		t.Subtopologies = append(t.Subtopologies, sub.spec)
	}
	t.listTopics()
	t.copartition()
	if faults = slices.Concat(faults, t.checkNames(), t.checkPatterns(), t.checkTimestamps(), t.checkPartitions(), t.checkFailures()); len(faults) > 0 {
		return nil, newTopologyError(faults)
	}
	return t, nil
}

// cut groups steps that are connected by an edge, a store or a source topic, and orders the groups by their smallest source.
func cut(t *Topology, steps []*step) []*subtopology {
	groups := newUnion(len(steps))
	byTopic, byStore := make(map[string]int), make(map[*storeDef]int)
	for _, s := range steps {
		for _, p := range s.parents {
			groups.join(s.id, p.id)
		}
		if s.kind == sourceStep {
			joinBy(groups, byTopic, t.sourceKey(s), s.id)
		}
		for _, d := range s.stores {
			joinBy(groups, byStore, d, s.id)
		}
	}
	byRoot := make(map[int]*subtopology)
	var subs []*subtopology
	for _, s := range steps {
		root := groups.find(s.id)
		if byRoot[root] == nil {
			byRoot[root] = &subtopology{topology: t}
			subs = append(subs, byRoot[root])
		}
		byRoot[root].steps = append(byRoot[root].steps, s)
	}
	slices.SortFunc(subs, func(a, b *subtopology) int { return strings.Compare(a.sources()[0], b.sources()[0]) })
	return subs
}

func joinBy[K comparable](groups union, first map[K]int, key K, id int) {
	if other, ok := first[key]; ok {
		groups.join(other, id)
		return
	}
	first[key] = id
}

// topics are the source topics, sorted, each once.
func (sub *subtopology) topics() []string {
	var topics []string
	for _, s := range sub.steps {
		if s.kind == sourceStep {
			topics = append(topics, sub.topology.read(s)...)
		}
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}

// describeSpec makes the plain data of a subtopology.
func (sub *subtopology) describeSpec() {
	sub.silent, sub.forced = sub.silentTables(), sub.forcedTables()
	sub.spec = &task.Spec{Subtopology: sub.number, Nodes: make([]string, sub.topology.stepCount), Build: sub.build}
	for _, s := range sub.steps {
		sub.spec.Nodes[s.id] = s.name
	}
	if sub.patterned() {
		sub.spec.Source, sub.spec.StandsIn = sub.sources()[0], sub.standsIn
	}
	for _, topic := range sub.topics() {
		sub.spec.Inputs = append(sub.spec.Inputs, sub.input(topic))
	}
	sub.addStores()
	sub.dests = make(map[string]int)
	for _, s := range sub.steps {
		if s.kind != sinkStep || s.choose != "" {
			continue
		}
		sub.dest(s.topic.full(sub.topology.applicationID))
	}
	sub.addFailure()
}

// dest is the index of a topic among the destinations, to which it is added if it is not there.
func (sub *subtopology) dest(topic string) int {
	i, ok := sub.dests[topic]
	if !ok {
		i = len(sub.spec.Dests)
		sub.dests[topic] = i
		sub.spec.Dests = append(sub.spec.Dests, task.Dest{Topic: topic})
	}
	return i
}

// input is one source topic. Of several sources of a topic the one that says something about negative timestamps is heard.
func (sub *subtopology) input(topic string) task.Input {
	in := task.Input{Topic: topic}
	for _, s := range sub.steps {
		if s.kind == sourceStep && slices.Contains(sub.topology.read(s), topic) {
			in.Repartition = s.topic.repartition != nil
			in.NegativeTimestamp = max(in.NegativeTimestamp, s.negative) // two that say different things are a fault
		}
	}
	return in
}

// addStores lists the stores by name, so that their order does not depend on that of the steps.
func (sub *subtopology) addStores() {
	for _, s := range sub.steps {
		for _, d := range s.stores {
			if !slices.Contains(sub.defs, d) {
				sub.defs = append(sub.defs, d)
			}
		}
	}
	slices.SortFunc(sub.defs, func(a, b *storeDef) int { return strings.Compare(a.name, b.name) })
	for _, d := range sub.defs {
		sub.spec.Stores = append(sub.spec.Stores, task.Store{
			Spec:       statestore.Spec{Name: d.name, Ordered: d.ordered},
			Changelog:  sub.changelog(d),
			KeepBefore: slices.ContainsFunc(sub.steps, func(s *step) bool { return s.table != nil && s.table.store == d && sub.emitsAtCommit(s) }),
		})
	}
}

// silentTables are the tables whose changes no step receives.
func (sub *subtopology) silentTables() map[*step]bool {
	silent := make(map[*step]bool)
	for _, s := range sub.steps {
		if s.table != nil {
			silent[s] = true
		}
		for _, p := range s.parents {
			delete(silent, p)
		}
	}
	return silent
}

func (sub *subtopology) emitsAtCommit(s *step) bool {
	return sub.emission(s) == EmitAtCommit && !sub.silent[s]
}

func (sub *subtopology) changelog(d *storeDef) string { return d.changelog(sub.topology.applicationID) }

func (sub *subtopology) storeIndex(d *storeDef) int { return slices.Index(sub.defs, d) }

// listTopics collects the topics of all subtopologies.
func (t *Topology) listTopics() {
	for _, sub := range t.subs {
		for _, s := range sub.steps {
			switch {
			case s.topic.repartition != nil && s.kind == sourceStep:
				t.Internal = append(t.Internal, newRepartition(s.topic.full(t.applicationID), s.topic.repartition))
			case s.topic.repartition != nil, s.topic.name == "" && s.topic.pattern == nil:
			case s.kind == sourceStep:
				t.Sources = append(t.Sources, t.read(s)...)
			default:
				t.Sinks = append(t.Sinks, s.topic.name)
			}
		}
		for _, d := range sub.defs {
			if !d.noChangelog {
				t.Internal = append(t.Internal, newChangelog(sub.changelog(d), sub))
			}
		}
		t.listFailures(sub)
	}
	slices.SortFunc(t.Internal, func(a, b InternalTopic) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(t.Sources)
	slices.Sort(t.Sinks)
	t.Sources, t.Sinks = slices.Compact(t.Sources), slices.Compact(t.Sinks)
}

// checkNames reports an internal topic that the user reads or writes by its full name.
func (t *Topology) checkNames() (faults []error) {
	for i, topic := range t.Internal {
		if i > 0 && topic.Name == t.Internal[i-1].Name {
			faults = append(faults, fmt.Errorf("topic %q would be both a %s and a %s topic of the application: rename a step, a store or the topic of a source",
				topic.Name, t.Internal[i-1].Kind, topic.Kind))
		}
		if len(topic.Name) > mostTopic {
			faults = append(faults, fmt.Errorf("the name of topic %q is longer than %d bytes: shorten the application id or the name of the step or store",
				topic.Name, mostTopic))
		}
		if slices.Contains(t.Sources, topic.Name) || slices.Contains(t.Sinks, topic.Name) {
			faults = append(faults, fmt.Errorf("topic %q belongs to the application itself: use the step that makes it, or another name", topic.Name))
		}
	}
	return faults
}

// owns reports whether a topic belongs to the application itself.
func (t *Topology) owns(topic string) bool {
	return slices.ContainsFunc(t.Internal, func(i InternalTopic) bool { return i.Name == topic })
}

// checkTimestamps reports a topic whose sources do not agree on negative timestamps. One that says nothing agrees with all.
func (t *Topology) checkTimestamps() (faults []error) {
	said := make(map[string]task.NegativeTimestamp)
	for _, sub := range t.subs {
		for _, s := range sub.steps {
			if s.kind != sourceStep || s.negative == task.Fail {
				continue
			}
			for _, topic := range t.read(s) {
				if before, ok := said[topic]; ok && before != s.negative {
					faults = append(faults, fmt.Errorf("topic %q is read twice, with different options OnNegativeTimestamp: give both the same", topic))
				}
				said[topic] = s.negative
			}
		}
	}
	return faults
}

// union is a set of disjoint groups of numbers.
type union []int

func newUnion(n int) union {
	u := make(union, n)
	for i := range u {
		u[i] = i
	}
	return u
}

func (u union) find(i int) int {
	for u[i] != i {
		u[i] = u[u[i]]
		i = u[i]
	}
	return i
}

func (u union) join(a, b int) { u[u.find(a)] = u.find(b) }

// stateful reports whether the topology has stores.
func (t *Topology) stateful() bool {
	return slices.ContainsFunc(t.Subtopologies, func(s *task.Spec) bool { return len(s.Stores) > 0 })
}
