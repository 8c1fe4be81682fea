package consume

import (
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/retry"
)

// A topic may be deleted and made anew under its name. Its offsets are others then: what was returned of the former one cannot be committed any more,
// and what is committed of it would skip records of the present one. Ids tell the two apart, of which commits say theirs where there is recovery.

// identify takes the ids of topics in.
func (m *Machine) identify(ev Metadata) {
	r := &m.routing
	r.answers++
	for _, name := range slices.Sorted(maps.Keys(ev.Topics)) {
		id := ev.Topics[name].ID
		if id == (retry.TopicID{}) || !m.cfg.Manual && !m.reads(name) {
			continue
		}
		before := r.topics[name]
		r.topics[name] = id
		if before.Other(id) {
			m.beginAnew(name)
		}
	}
}

// beginAnew reads a topic from its beginning that was made anew. A part that has not found out yet where it begins has nothing of the former one. One
// that is handed over commits nothing of it any more.
func (m *Machine) beginAnew(topic string) {
	if m.topics.first != nil {
		m.topics.first[topic] = 0
	}
	m.do(Note{What: fmt.Sprintf("topic %q was deleted and made anew: it is read from its beginning", topic)})
	for _, p := range m.order {
		if p.tp.Topic != topic || p.want == wantCommitted {
			continue
		}
		m.refuse(p, "its topic was deleted and made anew")
		m.lives++
		p.life, p.kept, p.said, p.end = m.lives, -1, retry.Metadata{}, -1
		p.moved, p.done, p.first, p.marking = false, -1, false, false
		m.aim(p, Start{At: Earliest})
	}
	m.share()
}

// ofFormer says that what is committed of a part is of another topic than that which is known. What is known may be old: whoever has committed it may
// have seen the topic that was made anew before this member. So topics are looked at once more; known is false until then.
func (m *Machine) ofFormer(p *part, said retry.Metadata) (former, known bool) {
	r := &m.routing
	if !said.Topic.Other(r.topics[p.tp.Topic]) {
		p.looks = 0
		return false, true
	}
	if p.looks == 0 {
		p.looks = r.answers + 1
		if r.asked {
			p.looks++ // that answer may be from before the commit
		}
	}
	if r.answers < p.looks {
		r.dueAt = m.now
		return true, false
	}
	p.looks = 0
	return true, true
}
