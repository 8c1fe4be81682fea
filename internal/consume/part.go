package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
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

	start    Start
	want     want
	asked    uint64 // the request that is out for it
	anchor   bool   // where it begins is committed
	position int64  // of the next record to be returned; -1: not known yet
	done     int64  // what earlier Polls have returned ends here; -1: nothing to commit
	moved    bool   // position is to be committed: records were returned, or there was a seek
	kept     int64  // the last offset that was committed, -1 if not known

	paused bool
	fault  error // it cannot be read on without a decision

	fetch   uint64 // number of the present source
	next    int64  // the offset to fetch after what is held
	bound   int
	broker  int32 // where it is fetched, -1: nowhere
	stale   bool  // fresh metadata is needed first
	lost    bool  // next is out of range
	batches []*task.Batch
	reader  task.Reader
	reading bool // reader is in batches[0]

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
)

// source names what is fetched for the part.
func (p *part) source() engine.FetchSource {
	return engine.FetchSource{TopicPartition: p.tp, Task: p.id, Epoch: p.fetch}
}

// ready says that it is known where to fetch.
func (p *part) ready() bool { return p.want == nothing && p.fault == nil && p.position >= 0 }

// open begins a life.
func (m *Machine) open(tp task.TopicPartition, id task.ID, start Start) *part {
	m.lives++
	p := &part{
		tp: tp, id: id, life: m.lives, start: start, position: -1, done: -1, kept: -1, end: -1, last: -1, broker: -1,
		fresh: m.topics.isFresh(tp), bound: -1,
	}
	m.parts[tp] = p
	m.aim(p, start)
	return p
}

// aim makes a part look for where to read on. What was fetched before is dropped.
func (m *Machine) aim(p *part, start Start) {
	m.forget(p)
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
		m.commitInside(map[task.TopicPartition]int64{p.tp: at})
	}
}

// forget ends the fetching of a part and drops what is held of it.
func (m *Machine) forget(p *part) {
	m.disconnect(p)
	if len(p.batches) > 0 {
		rest := p.batches
		if p.reading {
			rest = rest[1:] // records of it may have been returned
		}
		if len(rest) > 0 {
			m.do(Recycle{Batches: append([]*task.Batch(nil), rest...)})
		}
		clear(p.batches)
		p.batches = p.batches[:0]
	}
	p.reading, p.lost, p.next = false, false, p.position // what was dropped is fetched again
	p.reader.Reset(&emptyBatch, 0)                       // it is not to keep the last one in memory
	m.fetches++
	p.fetch = m.fetches
}

var emptyBatch task.Batch

// weight is how much was fetched and not taken, in bytes.
func (p *part) weight() (n int) {
	for _, b := range p.batches {
		n += b.Bytes
	}
	return n
}

// disconnect ends the fetching of a part; what is held stays.
func (m *Machine) disconnect(p *part) {
	if p.broker >= 0 {
		m.do(Fetch{Broker: p.broker, Event: engine.FetchRemove{Source: p.source()}})
		p.broker = -1
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
	p.moved, p.done = true, -1
	m.aim(p, ev.Start)
}

func (m *Machine) pause(ev Pause) {
	for _, tp := range ev.Parts {
		p := m.parts[tp]
		if p == nil || p.paused == !ev.Off {
			continue
		}
		p.paused = !ev.Off
		if p.paused {
			m.disconnect(p) // a partition that is full makes its broker answer at once
			m.fetches++
			p.fetch = m.fetches // and what is on the way is fetched again
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
