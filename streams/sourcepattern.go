package streams

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/understudy-streams/understudy/internal/pattern"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// TopicPattern says which topics a source reads by their names. See [Matching].
type TopicPattern struct{ include, exclude []string }

// Matching is the pattern of all topics whose whole name matches one of these Go regular expressions. Internal topics are never among them:
// the brokers' own, which begin with "__", and those of applications, this one or another, by how their names end: -changelog,
// -repartition, -retry, -redrive and -dlq. Neither is a topic that the topology names itself, as a source or a sink.
func Matching(include ...string) TopicPattern { return TopicPattern{include: include} }

// Except leaves out the topics whose whole name matches one of these regular expressions.
func (p TopicPattern) Except(exclude ...string) TopicPattern {
	return TopicPattern{include: p.include, exclude: slices.Concat(p.exclude, exclude)}
}

func (p TopicPattern) String() string {
	s := strings.Join(p.include, "|")
	if len(p.exclude) > 0 {
		s += " except " + strings.Join(p.exclude, "|")
	}
	return s
}

// StreamPattern reads all topics that match a pattern, those as well that are made while the application runs: they are noticed within
// Config.MetadataInterval and read from their beginning. A topic that is deleted is left out. Each time the tasks concerned commit what
// they have done and go on at the same process.
//
// Records of a deleted topic that wait to be tried again are tried all the same, also beside those of a topic that was made anew under its name.
//
// The name is the source's: its dead letters, its redriven records and its records that are to be tried again have topics named after it,
// <application>-<name>-dlq and so on, one for all its topics; and the topology is the same for all processes however many topics they know of.
//
// There are as many tasks as the widest topic has partitions. Where there is state that is the number when the state was made: a topic with
// more partitions is a [*PartitionsChangedError]. A topic that two patterns match, of sources that are not processed together, is an error.
func (b *Builder) StreamPattern[K, V any](name string, topics TopicPattern, keys serde.Serde[K], values serde.Serde[V], opts ...SourceOption) Stream[K, V] {
	var o options
	for _, opt := range opts {
		opt.applySource(&o)
	}
	b.name("name of a StreamPattern", name)
	matcher, err := pattern.Compile(topics.include, topics.exclude)
	if err != nil {
		b.faults = append(b.faults, fmt.Errorf("source %q: %w", name, err))
	}
	for _, s := range b.steps {
		if s.topic.pattern != nil && s.topic.pattern.name == name {
			b.faultf("two sources that read a pattern have the name %q: give each its own", name)
		}
	}
	return source(b, topicRef{pattern: &topicPattern{name: name, topics: topics, matcher: matcher}}, o.name, keys, values, o)
}

// topicPattern is what a source reads that names a pattern.
type topicPattern struct {
	name    string
	topics  TopicPattern
	matcher *pattern.Matcher
}

func (p *topicPattern) String() string { return fmt.Sprintf("%s (%v)", p.name, p.topics) }

// matches are the topics of each pattern, sorted, by its name.
type matches map[string][]string

// patterns are the sources that name a pattern.
func (t *Topology) patterns() (all []*topicPattern) {
	for _, sub := range t.subs {
		all = append(all, sub.patterns()...)
	}
	return all
}

func (sub *subtopology) patterns() (all []*topicPattern) {
	for _, s := range sub.steps {
		if s.topic.pattern != nil {
			all = append(all, s.topic.pattern)
		}
	}
	return all
}

// patternOf is the pattern because of which a topic is read, nil if that is not so.
func (sub *subtopology) patternOf(topic string) *topicPattern {
	for _, p := range sub.patterns() {
		if slices.Contains(sub.topology.matched[p.name], topic) {
			return p
		}
	}
	return nil
}

func (t *Topology) patterned() bool { return len(t.patterns()) > 0 }

func (sub *subtopology) patterned() bool { return len(sub.patterns()) > 0 }

// named says that the topology names a topic itself, or owns it.
func (t *Topology) named(topic string) bool {
	for _, sub := range t.subs {
		for _, s := range sub.steps {
			if s.kind != processorStep && s.topic.pattern == nil && s.choose == "" && s.topic.full(t.applicationID) == topic {
				return true
			}
		}
	}
	return slices.Contains(t.Sinks, topic) || t.owns(topic)
}

// matches says that a source reads a topic because of its pattern.
func (t *Topology) matches(topic string) bool {
	return !t.named(topic) && slices.ContainsFunc(t.patterns(), func(p *topicPattern) bool { return p.matcher.Match(topic) })
}

// Match is the topology with the topics that its patterns take in of these, all others left out. It is the same one where nothing changes. The
// subtopologies keep their numbers. The error is a [*TopologyError] about topics that do not fit.
func (t *Topology) Match(topics []string) (*Topology, error) {
	found := matches{}
	for _, p := range t.patterns() {
		for _, topic := range topics {
			if p.matcher.Match(topic) && !t.named(topic) {
				found[p.name] = append(found[p.name], topic)
			}
		}
		if all := found[p.name]; len(all) > 0 {
			slices.Sort(all)
			found[p.name] = slices.Compact(all)
		}
	}
	if maps.EqualFunc(found, t.matched, slices.Equal[[]string]) {
		return t, nil
	}
	next, err := t.remake(found)
	if err != nil {
		return nil, err
	}
	next.recover(t.recovery) // which has no faults: they do not depend on topics
	for i, spec := range next.Subtopologies {
		if same := t.Subtopologies[i]; slices.Equal(same.Inputs, spec.Inputs) {
			next.Subtopologies[i], next.subs[i].spec = same, same
		}
	}
	return next, nil
}

// read are the topics that a source reads, as far as they are known.
func (t *Topology) read(s *step) []string {
	if p := s.topic.pattern; p != nil {
		return t.matched[p.name]
	}
	return []string{s.topic.full(t.applicationID)}
}

// sourceKey tells a source from others: the name that it was given, or its topic.
func (t *Topology) sourceKey(s *step) string {
	if p := s.topic.pattern; p != nil {
		return p.name
	}
	return s.topic.full(t.applicationID)
}

// sources are the keys of the sources, sorted, each once. Unlike their topics they never change.
func (sub *subtopology) sources() []string {
	var keys []string
	for _, s := range sub.steps {
		if s.kind == sourceStep {
			keys = append(keys, sub.topology.sourceKey(s))
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// sourceOf is the key of the source that reads a topic.
func (sub *subtopology) sourceOf(topic string) string {
	for _, s := range sub.steps {
		if s.kind == sourceStep && slices.Contains(sub.topology.read(s), topic) {
			return sub.topology.sourceKey(s)
		}
	}
	return topic
}

// standsIn is the input at whose entry node the records of a topic are run that a pattern has taken in once and that is gone, -1 if there is
// none at the moment: they were put aside to be tried again. It reports false for a topic that no pattern matches.
func (sub *subtopology) standsIn(topic string) (input int, ours bool) {
	for _, s := range sub.steps {
		p := s.topic.pattern
		if p == nil || !p.matcher.Match(topic) {
			continue
		}
		if left := sub.topology.read(s); len(left) > 0 {
			return slices.IndexFunc(sub.spec.Inputs, func(in task.Input) bool { return in.Topic == left[0] }), true
		}
		ours = true
	}
	return -1, ours
}

// checkPatterns reports topics that two patterns match in different subtopologies.
func (t *Topology) checkPatterns() (faults []error) {
	taken := map[string]*subtopology{}
	by := map[string]string{}
	for _, sub := range t.subs {
		for _, s := range sub.steps {
			p := s.topic.pattern
			if p == nil {
				continue
			}
			for _, topic := range t.read(s) {
				if other := taken[topic]; other != nil && other != sub {
					faults = append(faults, fmt.Errorf("topic %q matches the patterns of both %q and %q, which are not processed together: leave it out of one, with Except(%s)",
						topic, by[topic], p.name, strconv.Quote(topic)))
				}
				taken[topic], by[topic] = sub, p.name
			}
		}
	}
	return faults
}
