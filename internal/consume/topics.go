package consume

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// topics are those that are subscribed to.
type topics struct {
	known   bool             // metadata was had once
	ids     map[string]int32 // subtopologies: a topic keeps its number for as long as the consumer lives
	names   map[int32]string
	counts  map[string]int32 // partitions of those that are read
	first   map[string]int32 // the same when metadata came first
	missing map[string]absence
	said    map[string]time.Time // when the fault of a topic was told last
	fault   error

	others map[string]int32 // those that other members read, and this one, as the leader, only plans: partitions, 0 if not known yet
}

// absence is a topic that is not there. A broker that has just started may not know of it yet.
type absence struct {
	since time.Time
	seen  int
}

// lookAgain is how soon a topic that is missing is looked for.
const lookAgain = 250 * time.Millisecond

// isFresh says that a partition appeared while the consumer ran.
func (t *topics) isFresh(tp task.TopicPartition) bool {
	return t.known && t.counts[tp.Topic] > 0 && tp.Partition >= t.first[tp.Topic]
}

// wanted are the topics to ask for, nil for all.
func (m *Machine) wanted() []string {
	if m.cfg.Match != nil {
		return nil
	}
	out := append([]string{}, m.cfg.Topics...)
	out = slices.AppendSeq(out, maps.Keys(m.topics.others))
	for tp := range m.parts {
		out = append(out, tp.Topic)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (m *Machine) onMetadata(ev Metadata) {
	r := &m.routing
	r.asked = false
	r.notBefore = m.now.Add(m.backoff(r.tries))
	r.tries++
	if ev.Err != nil {
		r.dueAt = r.notBefore
		m.trouble("metadata", ev.Err)
		return
	}
	m.trouble("metadata", nil)
	r.dueAt = m.now.Add(m.cfg.Refresh)
	m.learn(ev)
	m.identify(ev)
	if m.cfg.Manual {
		m.lookForParts(ev)
		return
	}
	changed := m.compare(ev)
	switch {
	case !m.topics.known:
		m.topics.known, m.topics.first = true, maps.Clone(m.topics.counts)
		m.member.reason = "the consumer has started"
		m.stepMember(group.Start{Topology: m.topology()})
	case changed:
		m.endGone()
		m.stepMember(group.TopologyChanged{Topology: m.topology()})
	}
}

// learn takes the leaders in.
func (m *Machine) learn(ev Metadata) {
	r := &m.routing
	clear(r.leaders)
	for name, t := range ev.Topics {
		if m.cfg.Match != nil && m.topics.counts[name] == 0 && !m.reads(name) {
			continue
		}
		for i, l := range t.Leaders {
			r.leaders[task.TopicPartition{Topic: name, Partition: int32(i)}] = l
		}
	}
	led := true
	for _, p := range m.order {
		p.stale = false
		if p.gap != nil {
			p.gap.stale = false
		}
		l, known := r.leaders[p.tp]
		led = led && known && l.Broker >= 0
	}
	if led {
		r.tries = 0
	}
}

// reads says whether the subscription has a topic.
func (m *Machine) reads(name string) bool {
	return slices.Contains(m.cfg.Topics, name) || m.cfg.Match != nil && m.cfg.Match(name)
}

// compare brings the subscription in line with the topics that are there, and says whether it has changed.
func (m *Machine) compare(ev Metadata) (changed bool) {
	t := &m.topics
	t.fault = nil
	for _, name := range slices.Sorted(maps.Keys(ev.Topics)) {
		topic := ev.Topics[name]
		switch n := int32(len(topic.Leaders)); {
		case !m.reads(name):
			if had, is := t.others[name]; is && n > had {
				t.number(name)
				t.others[name], changed = n, true
			}
		case topic.Refused != nil:
			if slices.Contains(m.cfg.Topics, name) {
				m.topicFault(name, topic.Refused)
			}
		case n > t.counts[name]:
			t.isThere(name)
			t.number(name)
			t.counts[name], changed = n, true
		default:
			t.isThere(name)
		}
	}
	for _, name := range m.absent(ev) {
		changed = m.misses(name) || changed
	}
	return changed
}

// isThere forgets that a topic was missing.
func (t *topics) isThere(name string) {
	delete(t.missing, name)
	delete(t.said, name)
}

func (t *topics) number(name string) {
	if _, has := t.ids[name]; !has {
		id := int32(len(t.ids))
		t.ids[name], t.names[id] = id, name
	}
}

// absent are the topics that were there or are named, and are not there.
func (m *Machine) absent(ev Metadata) (out []string) {
	for _, name := range slices.Concat(slices.Collect(maps.Keys(m.topics.counts)), m.cfg.Topics) {
		if _, has := ev.Topics[name]; !has {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// misses deals with a topic that is not there, and says whether it is given up.
func (m *Machine) misses(name string) bool {
	t := &m.topics
	a, known := t.missing[name]
	if !known {
		a.since = m.now
	}
	a.seen++
	t.missing[name] = a
	named := slices.Contains(m.cfg.Topics, name)
	_, had := t.counts[name]
	if named && !m.cfg.Wait {
		m.lookSoon()
		if m.now.Sub(a.since) >= m.cfg.MissingFor {
			m.topicFault(name, missing(name, had))
		}
		return false
	}
	if !had {
		return false // it is waited for
	}
	if a.seen < 2 || m.now.Sub(a.since) < m.cfg.GoneFor {
		m.lookSoon()
		return false
	}
	delete(t.counts, name)
	t.first[name] = 0 // if it comes again, it is another one
	return true
}

func missing(name string, had bool) error {
	e := &engine.MissingTopicError{Topic: name}
	what := "does not exist: create it"
	if had {
		what = "was deleted: create it again"
	}
	return &missingError{text: fmt.Sprintf("topic %q of ConsumerConfig.Topics %s, or set WaitForTopics to wait for it", name, what), err: e}
}

func (m *Machine) lookSoon() {
	if soon := m.now.Add(min(lookAgain, m.cfg.Refresh)); soon.Before(m.routing.dueAt) {
		m.routing.dueAt = soon
	}
}

// topicFault is returned by each Poll that finds nothing else, and now and then by one that waits for records.
func (m *Machine) topicFault(name string, err error) {
	t := &m.topics
	t.fault = err
	if last, said := t.said[name]; said && (m.now.Sub(last) < m.cfg.MissingFor || len(m.faults) > 0) {
		return
	}
	t.said[name] = m.now
	m.fault(err)
}

// lookForParts says which of the partitions that were given by hand are not there.
func (m *Machine) lookForParts(ev Metadata) {
	for _, p := range m.order {
		t, has := ev.Topics[p.tp.Topic]
		switch a := m.topics.missing[p.tp.Topic]; {
		case has && t.Refused != nil:
			if p.fault == nil {
				m.stop(p, t.Refused)
			}
		case has && int(p.tp.Partition) < len(t.Leaders):
			delete(m.topics.missing, p.tp.Topic)
		case m.cfg.Wait:
		default:
			if a.seen == 0 {
				a.since = m.now
			}
			a.seen++
			m.topics.missing[p.tp.Topic] = a
			m.lookSoon()
			if p.fault == nil && m.now.Sub(a.since) >= m.cfg.MissingFor {
				m.stop(p, &missingError{
					text: fmt.Sprintf("partition %s of ConsumerConfig.Assign does not exist: create it, or set WaitForTopics to wait for it", p.tp),
					err:  &engine.MissingTopicError{Topic: p.tp.Topic},
				})
			}
		}
	}
}

// endGone ends the partitions of topics that are no more.
func (m *Machine) endGone() {
	var told []task.TopicPartition
	for _, p := range slices.Clone(m.order) {
		if m.topics.counts[p.tp.Topic] > 0 {
			continue
		}
		if p.hasUser() {
			told = append(told, p.tp)
		}
		m.end(p, "its topic was deleted")
	}
	if len(told) > 0 {
		m.tell(TellLost{Parts: told, Reason: "the topic was deleted"})
	}
}

// topology is what the member can run: each topic is a part of its own.
func (m *Machine) topology() group.Topology {
	t := group.Topology{Partitions: maps.Clone(m.topics.counts)}
	for name, n := range m.topics.others {
		if n > 0 {
			t.Partitions[name] = n
		}
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.Partitions), func(a, b string) int { return int(m.topics.ids[a] - m.topics.ids[b]) }) {
		_, others := m.topics.others[name]
		t.Subtopologies = append(t.Subtopologies, group.Subtopology{ID: m.topics.ids[name], Topics: []string{name}, Hash: formOf(name), Others: others})
	}
	return t
}

// planFor takes note of the topics that members read and this one does not, if it leads: it finds out how many partitions they have, and plans
// them in another round. One of its own that it has not seen yet it looks for.
func (m *Machine) planFor(topics []string) {
	t := &m.topics
	before := t.others
	t.others = map[string]int32{}
	for _, name := range topics {
		n, known := before[name]
		if !known {
			m.routing.dueAt = m.now
		}
		if !m.reads(name) {
			t.others[name] = n
		}
	}
}

// formOf tells consumers from applications that read the same topic in a group of the same name.
func formOf(topic string) uint64 {
	h := fnv.New64a()
	h.Write([]byte("consumer of "))
	h.Write([]byte(topic))
	return h.Sum64()
}
