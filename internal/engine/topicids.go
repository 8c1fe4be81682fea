package engine

import (
	"maps"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// topicID tells a topic from another of the same name, before it or after it. Zero is unknown: brokers before Kafka 2.8 tell none.
type topicID = [16]byte

// A topic may be deleted and made anew before anybody has noticed that it was gone. What is known of the one before, its positions above all, says
// nothing of the one after: that is read from its beginning. Brokers delete what a group has committed of a topic with it, but who runs at that moment
// commits once more: so commits say of which topic they are.

// recognized takes in the ids of all topics, and returns them. Whoever is behind may still tell an id of before: that is not believed.
func (e *Engine) recognized(ids map[string]topicID) map[string]topicID {
	next := maps.Clone(ids)
	for topic, id := range ids {
		if e.replaced(topic, id) || e.past[id] {
			next[topic] = e.ids[topic]
		}
	}
	return next
}

// replaced takes in the id of a topic that exists, and reports whether it is another one than before.
func (e *Engine) replaced(topic string, id topicID) bool {
	was := e.ids[topic]
	if !e.reads(topic) || !retry.TopicID(id).Other(was) || e.past[id] {
		return false
	}
	if e.past == nil {
		e.past = map[topicID]bool{}
	}
	e.past[was] = true
	e.ids[topic] = id
	delete(e.first, topic)
	e.purge.forget(topic)
	for _, r := range e.routes.sorted() {
		if r.src.Topic == topic { // where it was in the one before
			e.removeRoute(r.src)
		}
	}
	return true
}

// another says that a life was opened for another topic than the one that has the name of its input now.
func (e *Engine) another(l *life, input int) bool {
	return retry.TopicID(l.ids[input]).Other(e.ids[l.spec.Inputs[input].Topic])
}

// outlived says that a partition which a life commits is not there any more: its topic is another one by now.
func (e *Engine) outlived(l *life, tp task.TopicPartition) bool {
	for i, in := range l.spec.Inputs {
		if in.Topic == tp.Topic {
			return e.another(l, i)
		}
	}
	return false
}

// restartsOf notes of which topics a life, which ends now, knows nothing that is good for the next.
func (e *Engine) restartsOf(l *life) {
	for i, in := range l.spec.Inputs {
		if _, known := l.restarts[in.Topic]; e.another(l, i) && !known {
			l.restart(in.Topic, fromItsBeginning)
			e.note(Notice{Kind: NoticeAnew, Task: l.id, Part: l.inputs()[i], Position: l.done[i]})
		}
	}
}

// restarts are topics that were made anew, or cut off, and the offset at which each is read on.
type restarts map[string]int64

const fromItsBeginning = -1

func (l *life) restart(topic string, at int64) {
	if l.restarts == nil {
		l.restarts = restarts{}
	}
	l.restarts[topic] = at
}

// forget drops what was to be deleted of a topic: its offsets are not those of the one that has its name now.
func (p *purge) forget(topic string) {
	for _, offsets := range []map[task.TopicPartition]int64{p.due, p.told} {
		maps.DeleteFunc(offsets, func(tp task.TopicPartition, _ int64) bool { return tp.Topic == topic })
	}
}

// committedOfFormer decides about an offset that says it is of another topic than that which is known. What is known may be old: another member
// may have seen the topic that was made anew before this one. So topics are looked at once more.
func (e *Engine) committedOfFormer(l *life, input int, offset int64) {
	if l.open.looks == 0 {
		l.open.looks = e.routes.answers + 1
		if e.routes.asked {
			l.open.looks++ // that answer may be from before the commit
		}
	}
	if e.routes.answers < l.open.looks {
		if !e.routes.asked {
			e.refresh(false)
		}
		e.opens.retryAt = e.now.Add(e.cfg.Backoff)
		e.wakeAt(e.opens.retryAt)
		return
	}
	l.open.offsets[input], l.open.former[input] = offsetNone, offset
	e.note(Notice{Kind: NoticeAnew, Task: l.id, Part: l.inputs()[input], Position: offset})
}

// idsOf are those of the topics that a life is opened for.
func (e *Engine) idsOf(s *task.Spec) []topicID {
	ids := make([]topicID, len(s.Inputs))
	for i, in := range s.Inputs {
		ids[i] = e.ids[in.Topic]
	}
	return ids
}
