package engine

import (
	"slices"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// goneAfter is how long a topic of a pattern must be missing before it is left out: a broker that has just started does not know all topics.
const goneAfter = time.Second

// lookedLately is how old what is known of the topics of patterns may be at the beginning of a round.
const lookedLately = 200 * time.Millisecond

// matches says that a topic is read because of a pattern.
func (e *Engine) matches(topic string) bool { return e.cfg.Matches != nil && e.cfg.Matches(topic) }

// exists says that an input has this partition: topics that are read together may have fewer than there are tasks.
func (e *Engine) exists(tp task.TopicPartition) bool { return tp.Partition < e.counts[tp.Topic] }

// reads says that some subtopology reads a topic.
func (e *Engine) reads(topic string) bool {
	return slices.ContainsFunc(e.cfg.Specs, func(s *task.Spec) bool {
		return slices.ContainsFunc(s.Inputs, func(in task.Input) bool { return in.Topic == topic })
	})
}

// vanished says that a topic was read because of a pattern and is not read any more.
func (e *Engine) vanished(topic string) bool { return e.matches(topic) && !e.reads(topic) }

// dispensable says that a commit is good without a topic that the coordinator does not know. At the end nobody looks any more whether one of a
// pattern is gone, or comes back, and what was done of all others must not be done again because of it.
func (e *Engine) dispensable(topic string) bool {
	return e.vanished(topic) || e.state == Closing && e.matches(topic)
}

// appeared says that some topic matches a pattern and is not read yet.
func (e *Engine) appeared(counts map[string]int32) bool {
	for topic, n := range counts {
		if n > 0 && e.vanished(topic) {
			return true
		}
	}
	return false
}

// lookAround has a look at the topics of patterns when a round begins: whoever has asked for it may have seen that they have changed. So all
// members see it at once, and not each at its own time with a round of its own.
func (e *Engine) lookAround() {
	if e.cfg.Matches == nil || e.routes.asked || !e.assigned || e.refreshAt.Sub(e.now) > e.cfg.RefreshEvery-lookedLately {
		return
	}
	e.refreshAt = e.now.Add(e.cfg.RefreshEvery)
	e.refresh(true)
}

// respec takes up the subtopologies as they are now that the topics of a pattern have changed. Their numbers and their stores are the same. A
// topic that is not read any more is a new one when it comes back.
func (e *Engine) respec(specs []*task.Spec) {
	before := e.topics()
	e.cfg.Specs = specs
	for _, s := range specs {
		e.specs[s.Subtopology] = s
	}
	for _, topic := range before {
		if e.vanished(topic) {
			delete(e.first, topic)
			delete(e.routes.missing, topic)
		}
	}
}

// changed says that a life was opened for other inputs than its task has now.
func (e *Engine) changed(l *life) bool {
	spec := e.specs[l.id.Subtopology]
	if l.spec != spec {
		return true
	}
	for i, tp := range l.inputs() {
		if e.exists(tp) == l.absent(i) || e.another(l, i) {
			return true
		}
	}
	return false
}

// absent says that the life was opened without a partition for this input.
func (l *life) absent(input int) bool {
	if l.open != nil {
		return l.open.offsets[input] == offsetAbsent
	}
	return l.done[input] < 0
}

// renewAll lets all tasks whose inputs have changed begin anew: with what they have done committed, their stores open and the task at this
// process. No other process has a part in it.
func (e *Engine) renewAll() {
	if e.stopping() {
		return
	}
	for _, l := range slices.Clone(e.order) {
		if l.state != lifeClosing && e.changed(l) {
			e.revise(l)
		}
	}
}

// revise gives a life the inputs that its task has now, or stops the task for that.
func (e *Engine) revise(l *life) {
	if l.owned {
		e.restartsOf(l)
	}
	switch {
	case l.role != Active && l.state == lifeFollowing: // it reads changelogs only
		l.spec, l.done = e.specs[l.id.Subtopology], make([]int64, len(e.specs[l.id.Subtopology].Inputs))
		l.ids = e.idsOf(l.spec)
		for i := range l.done {
			l.done[i] = -1
		}
	case l.state == lifeOpening:
		e.await(l)
	default:
		e.renewSoon(l)
	}
}

// renewSoon stops a task to open it anew.
func (e *Engine) renewSoon(l *life) {
	switch l.state {
	case lifeRunning:
		l.renews = true
		e.release(l)
	case lifeReleasing, lifeReleased:
		l.renews = true
	}
}

// renewing opens a task anew that was stopped for that, or is to go on. It reports false where that is not so, or has to wait: for the task to
// stop, or for the round for which it was released.
func (e *Engine) renewing(l *life) bool {
	if !l.renews || e.stopping() || l.stuck {
		return false
	}
	if l.state == lifeReleasing {
		return true
	}
	if e.prepare != nil && slices.Contains(e.prepare.ids, l.id) {
		return false
	}
	e.renew(l)
	return true
}
