package streams

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/retry"
)

// policies finds out what each subtopology does with records that fail: what its sources say, or else what those do from whose records its
// own are made, or else the fallback.
func (t *Topology) policies(fallback retry.Policy) (faults []error) {
	for _, sub := range t.subs {
		voices := sub.named()
		if len(voices) == 0 {
			voices = t.upstream(sub, fallback)
		}
		if len(voices) == 0 {
			voices = []voice{{policy: fallback}}
		}
		sub.failure = voices[0].policy
		for _, v := range voices[1:] {
			if !v.policy.Equal(sub.failure) {
				faults = append(faults, sub.disagree(voices[0], v))
				break
			}
		}
	}
	return faults
}

// voice is a policy with who names it.
type voice struct {
	policy retry.Policy
	source *step        // the source with the option, nil where it is the fallback
	from   *subtopology // upstream, nil where it is the subtopology itself
}

// named are the policies that sources of the subtopology name.
func (sub *subtopology) named() (voices []voice) {
	for _, s := range sub.steps {
		if s.failure != nil {
			voices = append(voices, voice{policy: *s.failure, source: s})
		}
	}
	return voices
}

// upstream are the policies that reach a subtopology through repartition topics: on each way upstream the first that is named, and the
// fallback where a way ends without one. Loops have no say of their own.
func (t *Topology) upstream(sub *subtopology, fallback retry.Policy) (voices []voice) {
	seen := map[*subtopology]bool{sub: true}
	for ask := t.feeders(sub); len(ask) > 0; ask = ask[1:] {
		from := ask[0]
		if seen[from] {
			continue
		}
		seen[from] = true
		named, more := from.named(), t.feeders(from)
		switch {
		case len(named) > 0:
			voices = append(voices, voice{policy: named[0].policy, source: named[0].source, from: from})
		case len(more) > 0:
			ask = append(ask, more...)
		default:
			voices = append(voices, voice{policy: fallback, from: from})
		}
	}
	return voices
}

// feeders are the subtopologies that write the repartition topics which a subtopology reads.
func (t *Topology) feeders(sub *subtopology) (from []*subtopology) {
	for _, source := range sub.steps {
		if source.kind != sourceStep || source.topic.repartition == nil {
			continue
		}
		for _, other := range t.subs {
			writes := func(s *step) bool { return s.kind == sinkStep && s.topic.repartition == source.topic.repartition }
			if slices.ContainsFunc(other.steps, writes) {
				from = append(from, other)
			}
		}
	}
	return from
}

func (sub *subtopology) disagree(a, b voice) error {
	topics := strings.Join(sub.topics(), ", ")
	if a.from == nil {
		return fmt.Errorf("sources %q and %q name different policies, and one task reads both (topics %s): give both the same OnFailure, or name it at one of them",
			a.source.name, b.source.name, topics)
	}
	return fmt.Errorf("the records of %s come from subtopologies with different policies (those of %s and of %s): name one with OnFailure where the repartition topic is made",
		topics, strings.Join(a.from.topics(), ", "), strings.Join(b.from.topics(), ", "))
}
