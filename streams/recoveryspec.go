package streams

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/retry"
)

// RecoveryError says that a step forbids [RecoverParallel]. It is in the [*ConfigError] of [New], and in the [*TopologyError] of
// [Builder.Build].
type RecoveryError struct {
	// Subtopology and Step are where it is.
	Subtopology int32
	Step        string
	// Topics are what the subtopology reads; the name of the source where that is a pattern.
	Topics []string
	// Behind are the topics whose parallel recovery brings records to the subtopology in another order; empty if they are Topics.
	Behind []string
	// Why and Remedy are for people.
	Why, Remedy string
}

func (e *RecoveryError) Error() string {
	if len(e.Behind) == 0 {
		return fmt.Sprintf("topics %s (subtopology %d) cannot be recovered in parallel: step %q %s: %s",
			strings.Join(e.Topics, ", "), e.Subtopology, e.Step, e.Why, e.Remedy)
	}
	return fmt.Sprintf("topics %s cannot be recovered in parallel, because of topics %s (subtopology %d) behind them: step %q %s: %s",
		strings.Join(e.Behind, ", "), strings.Join(e.Topics, ", "), e.Subtopology, e.Step, e.Why, e.Remedy)
}

// order is what the state of a step makes of records that come in another order, or twice at the same time.
type order uint8

const (
	orderUnsaid   order = iota // there is no state; if there is, it depends on the order
	orderOfNone                // the same rows in any order
	orderOfRows                // the later row of a key wins
	orderOfValues              // the first value of a key is the result, and a later one may delete it
	orderOfFold                // a function folds, and nobody has said that it commutes
	orderOfStores              // a processor, whose stores say it
)

// commutes is the order of a step with its options.
func (b *Builder) commutes(s *step, by order, o options) order {
	switch {
	case !o.commutative || by == orderOfNone:
		return by
	case by == orderOfFold:
		return orderOfNone
	}
	b.faultf("step %q: Commutative is about the function of an Aggregate: take it away here", s.name)
	return by
}

// forbids says why a step cannot take the records of two paths at a time, and what else can be done than not to; nothing if it can.
func (s *step) forbids() (why, remedy string) {
	switch {
	case len(s.stores) == 0 || s.order == orderOfNone:
		return "", ""
	case s.order == orderOfRows:
		return "keeps the latest row of a key, and a record that is replayed would put back an older one", ""
	case s.order == orderOfValues:
		return "takes the first value of a key as it is and may delete rows, so it depends on the order of records",
			"use an Aggregate marked Commutative in its place if the order of values does not matter"
	case s.order == orderOfFold:
		return "folds with a function that may depend on the order of records",
			"mark it Commutative if its result does not"
	case s.order == orderOfStores:
		return s.forbiddenStores()
	default:
		return "keeps state that depends on the order of records", ""
	}
}

func (s *step) forbiddenStores() (why, remedy string) {
	for _, d := range s.stores {
		if !d.unordered {
			return fmt.Sprintf("is a processor with the store %q, whose rows may depend on the order of records", d.name),
				"mark the store Unordered if they do not"
		}
	}
	return "", ""
}

// recoveries finds out how each subtopology is recovered: as its sources say, or else in parallel if some subtopology is from whose records
// its own are made, or else as the fallback says where there is none.
func (t *Topology) recoveries(fallback RecoveryMode) (faults []error) {
	for _, sub := range t.subs {
		mode, named, agreed := sub.namedRecovery()
		if !agreed {
			faults = append(faults, fmt.Errorf("the sources of topics %s say different things about recovery, and one task reads them: give them the same",
				strings.Join(sub.sources(), ", ")))
		}
		if !named {
			mode = t.inheritedRecovery(sub, fallback)
		}
		sub.recovery = mode
	}
	return faults
}

// namedRecovery is what the sources of a subtopology say.
func (sub *subtopology) namedRecovery() (mode RecoveryMode, named, agreed bool) {
	agreed = true
	for _, s := range sub.steps {
		if s.recovery == nil {
			continue
		}
		agreed = agreed && (!named || *s.recovery == mode)
		mode, named = *s.recovery, true
	}
	return mode, named, agreed
}

// inheritedRecovery looks upstream: on each way at the first that says something.
func (t *Topology) inheritedRecovery(sub *subtopology, fallback RecoveryMode) RecoveryMode {
	seen := map[*subtopology]bool{sub: true}
	ask := t.feeders(sub)
	if len(ask) == 0 {
		return fallback
	}
	for ; len(ask) > 0; ask = ask[1:] {
		from := ask[0]
		if seen[from] {
			continue
		}
		seen[from] = true
		mode, named, _ := from.namedRecovery()
		more := t.feeders(from)
		if !named && len(more) > 0 {
			ask = append(ask, more...)
			continue
		}
		if !named {
			mode = fallback
		}
		if mode == RecoverParallel {
			return RecoverParallel
		}
	}
	return RecoverSerial
}

// recover makes the fallback the mode of the sources that say nothing, and reports what cannot be recovered so.
func (t *Topology) recover(fallback RecoveryMode) []error {
	t.recovery = fallback
	faults := t.recoveries(fallback)
	var reach [][]*subtopology // what is recovered in parallel, and all that is behind it
	for _, sub := range t.subs {
		if sub.spec.Recovers = sub.recovery == RecoverParallel; sub.spec.Recovers {
			reach = append(reach, t.downstream(sub))
		}
	}
	// A step is reported once, for what is furthest upstream of it: serial recovery nearer by would be no remedy.
	slices.SortStableFunc(reach, func(a, b []*subtopology) int { return len(b) - len(a) })
	said := map[*step]bool{}
	for _, below := range reach {
		for _, sub := range below {
			faults = append(faults, sub.forbidden(below[0], said)...)
		}
	}
	return faults
}

// forbidden are the faults of a subtopology for which of is recovered in parallel.
func (sub *subtopology) forbidden(of *subtopology, said map[*step]bool) (faults []error) {
	fault := func(s *step, why, remedy string) {
		if why == "" || said[s] {
			return
		}
		said[s] = true
		if remedy != "" {
			remedy += ", or "
		}
		remedy += "give the source of " + strings.Join(of.sources(), ", ") + " RecoverSerial"
		e := &RecoveryError{Subtopology: sub.number, Step: s.name, Topics: sub.sources(), Why: why, Remedy: remedy}
		if sub != of {
			e.Behind = of.sources()
		}
		faults = append(faults, e)
	}
	if mode := sub.failure.Settings().Mode; mode != retry.ModeParallel {
		i := slices.IndexFunc(sub.steps, func(s *step) bool { return s.kind == sourceStep })
		fault(sub.steps[i], fmt.Sprintf("has the failure policy %v, which keeps the order of records", mode),
			"give it OnFailure(retry.Parallel(...)), or Config.OnFailure that policy")
	}
	for _, s := range sub.steps {
		why, remedy := s.forbids()
		fault(s, why, remedy)
	}
	return faults
}

// downstream is a subtopology and all that read what it or one of them writes.
func (t *Topology) downstream(sub *subtopology) []*subtopology {
	out := []*subtopology{sub}
	for i := 0; i < len(out); i++ {
		for _, other := range t.subs {
			if !slices.Contains(out, other) && out[i].feeds(other) {
				out = append(out, other)
			}
		}
	}
	return out
}

// feeds reports whether a subtopology writes a topic that another reads: one between the two, or one of the user's.
func (sub *subtopology) feeds(other *subtopology) bool {
	topics := other.topics()
	return slices.ContainsFunc(sub.steps, func(s *step) bool {
		return s.kind == sinkStep && s.choose == "" && slices.Contains(topics, s.topic.full(sub.topology.applicationID))
	})
}
