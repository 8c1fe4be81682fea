package streams

import (
	"fmt"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// parts are the policies that a policy is made of: itself, and those for records that cannot be decoded and outputs that cannot be written.
func parts(p retry.Policy) []retry.Policy {
	return []retry.Policy{p, p.For(string(task.KindDecode)), p.For(string(task.KindProduce))}
}

// parks reports whether records that fail are put aside, so that there is a store of them.
func (sub *subtopology) parks() bool {
	return slices.ContainsFunc(parts(sub.failure), func(p retry.Policy) bool {
		return p.Settings().Mode.PutsAside()
	})
}

// retries reports whether there is a store of records that were put aside: also where an earlier policy has done so.
func (sub *subtopology) retries() bool { return sub.parks() || sub.failure.Settings().DrainFirst }

// buries reports whether some records may be dead-lettered, and in which topics that are named; those of their sources if none is.
func (sub *subtopology) buries() (topics []string, buries bool) {
	for _, p := range parts(sub.failure) {
		set := p.Settings()
		if set.Then != retry.EndDeadLetter && set.Rows != retry.EndDeadLetter {
			continue
		}
		buries = true
		if set.Topic != "" && !slices.Contains(topics, set.Topic) {
			topics = append(topics, set.Topic)
		}
	}
	return topics, buries
}

// addFailure adds to the spec what the policy needs: the retry store, the topics of dead letters, and the inputs of redriven records behind
// the ordinary ones.
func (sub *subtopology) addFailure() {
	sub.spec.Failure = sub.failure
	if sub.retries() {
		sub.spec.Stores = append(sub.spec.Stores, task.Store{
			Spec: statestore.Spec{Name: sub.retryStore(), Ordered: true}, Changelog: sub.topology.applicationID + "-" + sub.retryStore(),
		})
		sub.spec.Retries = len(sub.spec.Stores)
	}
	topics, buries := sub.buries()
	if !buries {
		return
	}
	redriven := make(map[string]bool)
	for i, in := range sub.spec.Inputs {
		source := sub.sourceOf(in.Topic)
		letters := sub.topology.owned(source, deadLetterSuffix)
		if len(topics) > 0 {
			letters = topics[0] // a second one is a fault
		}
		sub.spec.Inputs[i].DeadLetters = sub.dest(letters) + 1
		if redriven[source] {
			continue // all topics of a pattern have one
		}
		redriven[source] = true
		sub.spec.Inputs = append(sub.spec.Inputs, task.Input{
			Topic: sub.topology.owned(source, redriveSuffix), NegativeTimestamp: in.NegativeTimestamp,
			DeadLetters: sub.spec.Inputs[i].DeadLetters, Redrives: i + 1,
		})
	}
}

const (
	retrySuffix      = "-retry"
	deadLetterSuffix = "-dlq"
	redriveSuffix    = "-redrive"
)

// retryStore is the name of the retry store: that of the smallest source.
func (sub *subtopology) retryStore() string {
	return sub.topology.sourceName(sub.sources()[0]) + retrySuffix
}

// sourceName is the name of a source topic within the application.
func (t *Topology) sourceName(topic string) string {
	if t.repartitions(topic) {
		return strings.TrimPrefix(topic, t.applicationID+"-")
	}
	return topic
}

func (t *Topology) repartitions(topic string) bool {
	for _, sub := range t.subs {
		for _, s := range sub.steps {
			if s.kind == sourceStep && s.topic.repartition != nil && s.topic.full(t.applicationID) == topic {
				return true
			}
		}
	}
	return false
}

// owned is the name of an internal topic that belongs to a source topic.
func (t *Topology) owned(topic, suffix string) string {
	return t.applicationID + "-" + t.sourceName(topic) + suffix
}

// listFailures adds the topics that the policy of a subtopology needs.
func (t *Topology) listFailures(sub *subtopology) {
	if sub.spec.Retries > 0 {
		t.Internal = append(t.Internal, newRetry(sub.spec.Stores[sub.spec.Retries-1].Changelog, sub))
	}
	named, _ := sub.buries()
	t.Sinks = append(t.Sinks, named...)
	for _, in := range sub.spec.Inputs {
		if in.Redrives == 0 {
			continue
		}
		source := sub.sourceOf(sub.spec.Inputs[in.Redrives-1].Topic)
		t.Internal = append(t.Internal, newRedrive(in.Topic, source, sub))
		if len(named) == 0 {
			t.Internal = append(t.Internal, newDeadLetters(sub.spec.Dests[in.DeadLetters-1].Topic, source, sub))
		}
	}
}

// checkFailures reports policies that a subtopology cannot carry out.
func (t *Topology) checkFailures() (faults []error) {
	for _, sub := range t.subs {
		faults = append(faults, sub.checkLetters()...)
		faults = append(faults, sub.checkWorkers()...)
		if slices.ContainsFunc(sub.defs, func(d *storeDef) bool { return sub.spec.Retries > 0 && d.name == sub.retryStore() }) {
			faults = append(faults, fmt.Errorf("store %q has the name of the store for records that are to be tried again: give it another", sub.retryStore()))
		}
	}
	return faults
}

// checkLetters reports two topics for dead letters, and one that is read here.
func (sub *subtopology) checkLetters() (faults []error) {
	named, _ := sub.buries()
	if len(named) > 1 {
		faults = append(faults, fmt.Errorf("the policy of %s names several topics for dead letters, %q: name one", strings.Join(sub.topics(), ", "), named))
	}
	for _, topic := range named {
		if slices.Contains(sub.topics(), topic) {
			faults = append(faults, fmt.Errorf("topic %q is to take the dead letters of the records that are read from it: name another, or none for the default",
				topic))
		}
	}
	return faults
}

// checkWorkers reports processors that do not say they may run for several records at a time.
func (sub *subtopology) checkWorkers() (faults []error) {
	n := sub.failure.Settings().Workers
	for _, s := range sub.steps {
		if n > 1 && s.processor && !s.concurrent {
			faults = append(faults, fmt.Errorf("processor %q would run on %d workers at a time: mark it Concurrent if it may, or leave Workers away", s.name, n))
		}
	}
	return faults
}

// forcedTables are the tables that emit per update whatever they say: behind them is a step that can fail, and a failure at the commit would
// belong to no record that could be put aside.
func (sub *subtopology) forcedTables() map[*step]bool {
	forced := make(map[*step]bool)
	if !sub.parks() {
		return forced
	}
	fallible := make(map[*step]bool) // steps that can fail, or that lead to one
	for _, s := range slices.Backward(sub.steps) {
		if s.table != nil && fallible[s] {
			forced[s] = true
		}
		for _, p := range s.parents {
			fallible[p] = fallible[p] || fallible[s] || s.fallible
		}
	}
	return forced
}

// emission is how the table of a step emits.
func (sub *subtopology) emission(s *step) Emission {
	if sub.forced[s] {
		return EmitPerUpdate
	}
	return s.table.emission
}
