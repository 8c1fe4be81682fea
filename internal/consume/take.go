package consume

import (
	"time"

	"github.com/understudy-streams/understudy/task"
)

// Chunk is some records of one path of a partition, in order. The records and their headers are lent; what their bytes lie in is not used again.
type Chunk struct {
	task.TopicPartition
	Life       uint64
	Generation int32
	Replayed   bool // they were left behind
	Records    []task.Record
}

// Take gives records to visit, up to as many as the scratch has room for, and moves the positions past them. Partitions take turns. It returns
// how many there were, and what is to be done. It allocates nothing in steady state. What was left behind is at most a quarter of them while
// there is something new.
func (m *Machine) Take(now time.Time, scratch []task.Record, visit func(Chunk)) (int, []Action) {
	m.now, m.out = now, m.out[:0]
	m.checkLease()
	share := m.replayShare(len(scratch))
	n := m.takeFresh(scratch[:len(scratch)-share], visit)
	if n == 0 {
		share = len(scratch)
	}
	if share > 0 {
		n += m.takeGaps(scratch[n:n+share], visit)
	}
	if len(m.out) > 0 {
		m.settle()
	}
	return n, m.out
}

func (m *Machine) takeFresh(scratch []task.Record, visit func(Chunk)) (n int) {
	for i := range m.order {
		p := m.order[(m.turn+i)%len(m.order)]
		if p.returns() && (p.gap == nil || p.gap.sealed) {
			n += m.takeOf(p, scratch[n:], visit)
		}
		if n == len(scratch) {
			m.turn = (m.turn + i + 1) % len(m.order)
			break
		}
	}
	return n
}

// returns says whether records of the part may be returned.
func (p *part) returns() bool { return p.phase == held && !p.paused && !p.owed && p.fault == nil }

// takeOf takes records of the main path of a part.
func (m *Machine) takeOf(p *part, scratch []task.Record, visit func(Chunk)) (n int) {
	for len(p.batches) > 0 && n < len(scratch) {
		b := p.batches[0]
		if !p.reading {
			p.reader.Reset(b, p.position)
			p.reading = true
		}
		got := p.reader.Fill(scratch[n:])
		if got > 0 {
			last := &scratch[n+got-1]
			p.position, p.last = last.Offset+1, last.Timestamp
			p.moved, p.processing, p.shown = true, true, true
			visit(Chunk{TopicPartition: p.tp, Life: p.life, Generation: m.member.generation, Records: scratch[n : n+got]})
		}
		if n += got; n == len(scratch) {
			return n
		}
		m.finish(p, &p.path, b)
	}
	m.lookForBounds(p)
	return n
}

// Lag is how far a partition is behind the end of its log.
type Lag struct {
	task.TopicPartition
	Position, End int64 // -1: not known
	Last          int64 // timestamp of the last record that was returned, -1: none
	Behind        int64 // offsets that were left behind and are not returned yet
}

// Lags are those of the partitions that are read here, sorted.
func (m *Machine) Lags() []Lag {
	out := make([]Lag, 0, len(m.order))
	for _, p := range m.order {
		l := Lag{TopicPartition: p.tp, Position: p.position, End: p.end, Last: p.last}
		if p.gap != nil {
			l.Behind = lengthOf(p.gap.open(p.gap.position))
		}
		out = append(out, l)
	}
	return out
}

// Standing is what is known of one partition.
type Standing struct {
	Position  int64 // of the next record to be returned, -1: not known yet
	Committed int64 // -1: nothing that is known
	Paused    bool
}

// Standing says how a partition stands; false where it is not read here.
func (m *Machine) Standing(tp task.TopicPartition) (Standing, bool) {
	p := m.parts[tp]
	if p == nil || p.phase == released {
		return Standing{}, false
	}
	return Standing{Position: p.position, Committed: p.kept, Paused: p.paused}, true
}

// Assignment are the partitions that are read here, sorted.
func (m *Machine) Assignment() []task.TopicPartition {
	out := make([]task.TopicPartition, 0, len(m.order))
	for _, p := range m.order {
		if p.phase != released {
			out = append(out, p.tp)
		}
	}
	return out
}
