package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// part is one life of a partition: from its assignment to its end here.
type part struct {
	tp    task.TopicPartition
	id    task.ID
	life  uint64
	phase phase
	shown bool // user code was told of it, or records were returned
	fresh bool // it appeared while the consumer ran: read from its beginning
	owed  bool // TellAssigned is queued and not taken yet

	path         // the main one
	gap     *gap // what the main one has left behind; nil: nothing
	start   Start
	want    want
	asked   uint64         // the request that is out for it
	anchor  bool           // where it begins is committed
	moved   bool           // position is to be committed: records were returned, or there was a seek
	kept    int64          // the last offset that was committed, -1 if not known
	said    retry.Metadata // what the commit of kept says, where there is recovery
	first   bool           // nothing was found out yet about where it begins
	looks   uint64         // answers of metadata that are awaited, as what is committed seems to be of another topic; 0: none
	marking bool           // a commit that only changes what is said of the member was made

	paused bool
	fault  error // it cannot be read on without a decision

	end  int64 // of the log, from the last answer; -1: not known
	last int64 // timestamp of the last record that was returned, in milliseconds

	processing bool   // records of it were returned by the last Poll, and may be looked at still
	flushed    bool   // the commit of a handover was made
	offered    int32  // the generation in which it was offered to others, 0: not
	revocation uint64 // that user code is to be told of, 0: none
	parted     bool   // it was told that the part goes
}

// phase is where a part is in its life.
type phase uint8

const (
	held     phase = iota
	revoking       // nothing of it is returned any more; user code is to be told, commits are to be done
	released       // it can be given to others
)

// want is what is needed to know where a part begins.
type want uint8

const (
	nothing want = iota
	wantCommitted
	wantListed
	wantBounds // out of range: both ends
	wantEnd    // a commit tells of an end that was none, or of a gap: where the log ends
)

// hasUser says that user code was told that the part is there, and not yet that it goes.
func (p *part) hasUser() bool { return p.shown && !p.owed && !p.parted && p.phase != released }

// ready says that it is known where to fetch.
func (p *part) ready() bool { return p.want == nothing && p.fault == nil && p.position >= 0 }

// open begins a life.
func (m *Machine) open(tp task.TopicPartition, id task.ID, start Start) *part {
	m.lives++
	p := &part{
		tp: tp, id: id, life: m.lives, start: start, kept: -1, end: -1, last: -1, fresh: m.topics.isFresh(tp), first: true,
		path: path{purpose: engine.Input, position: -1, done: -1, broker: -1, bound: -1},
	}
	m.parts[tp] = p
	m.aim(p, start)
	return p
}

// aim makes a part look for where to read on. What was fetched before is dropped.
func (m *Machine) aim(p *part, start Start) {
	m.forget(p)
	p.gap = nil // whoever seeks says where to go on
	p.start, p.want, p.asked, p.fault, p.anchor, p.position = start, nothing, 0, nil, false, -1
	switch start.At {
	case Exact:
		m.place(p, start.Value)
	case Committed:
		p.want = wantCommitted
	case Earliest, Latest, Timestamp:
		p.want = wantListed
	}
}

// place sets the position.
func (m *Machine) place(p *part, at int64) {
	p.position, p.next, p.want, p.asked = at, at, nothing, 0
	if p.moved { // by a seek: what lies before it is done, the user says
		p.done = at
	}
	if p.anchor {
		p.anchor = false
		m.commitInside(m.commitAt(p, at))
	}
}

// end ends the life of a part.
func (m *Machine) end(p *part, reason string) {
	m.forget(p)
	delete(m.parts, p.tp)
	m.sort()
	m.refuse(p, reason)
}

func (m *Machine) seek(ev Seek) {
	p := m.parts[ev.Part]
	if p == nil || p.phase != held {
		return
	}
	p.moved, p.done, p.first = true, -1, false
	m.aim(p, ev.Start)
	m.share()
}

func (m *Machine) pause(ev Pause) {
	for _, tp := range ev.Parts {
		p := m.parts[tp]
		if p == nil || p.paused == !ev.Off {
			continue
		}
		p.paused = !ev.Off
		for _, w := range p.paths() { // what is on the way comes still: short pauses, one after the other, must not keep everything away
			if w != nil && w.broker >= 0 {
				m.do(Fetch{Purpose: w.purpose, Broker: w.broker, Event: engine.FetchPause{Source: p.source(w), Off: ev.Off}})
			}
		}
	}
	m.do(Ready{})
}

// assign adds partitions in manual mode.
func (m *Machine) assign(ev Assign) {
	for tp, start := range ev.Starts {
		if p := m.parts[tp]; p != nil {
			m.end(p, "the partition was assigned anew")
		}
		p := m.open(tp, task.ID{}, start)
		p.shown = true
	}
	m.sort()
	m.routing.notBefore = time.Time{}
}

func (m *Machine) unassign(tps []task.TopicPartition) {
	for _, tp := range tps {
		if p := m.parts[tp]; p != nil {
			m.end(p, "the partition was taken away by Unassign")
		}
	}
}
