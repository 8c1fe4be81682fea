package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// routing knows who leads which partition.
type routing struct {
	leaders   map[task.TopicPartition]engine.Leader
	asked     bool
	notBefore time.Time // the next metadata that somebody waits for
	dueAt     time.Time // the next one anyway
	tries     int
	outage    int // tries in a row that found no broker
	said      bool
}

// connect fetches what has a leader, and asks for metadata where one is missing.
func (m *Machine) connect() {
	ask := false
	for _, p := range m.order {
		if p.broker >= 0 || p.paused || p.phase == released || p.lost || !p.ready() {
			continue
		}
		leader, known := m.routing.leaders[p.tp]
		if !known || leader.Broker < 0 || p.stale {
			ask = true
			continue
		}
		p.broker = leader.Broker
		m.do(Fetch{Broker: p.broker, Event: engine.FetchAdd{Source: p.source(), Offset: p.next, LeaderEpoch: leader.Epoch, Bound: p.bound, Held: p.weight()}})
	}
	if ask && !m.routing.asked && m.after(m.routing.notBefore) {
		m.refresh()
	}
}

func (m *Machine) onMoved(lost engine.PartLost) {
	if p := m.of(lost.Source); p != nil {
		p.broker, p.next, p.stale = -1, lost.Offset, true
	}
}

func (m *Machine) onStopped(f engine.PartFailed) {
	p := m.of(f.Source)
	if p == nil {
		return
	}
	p.broker, p.next = -1, f.Offset
	if f.Code == kcode.OffsetOutOfRange {
		p.lost = true // what is held comes first
		m.lookForBounds(p)
		return
	}
	m.stop(p, &engine.FetchError{Part: f.Source.TopicPartition, Offset: f.Offset, Code: f.Code, Err: f.Err})
}

// lookForBounds asks for the bounds of the log of a part that is out of range, once all that is held of it was taken.
func (m *Machine) lookForBounds(p *part) {
	if p.lost && len(p.batches) == 0 {
		p.lost, p.want, p.position = false, wantBounds, p.next
	}
}

// of is the part that a source is fetched for, nil if that is over.
func (m *Machine) of(src engine.FetchSource) *part {
	if p := m.parts[src.TopicPartition]; p != nil && p.fetch == src.Epoch && p.id == src.Task {
		return p
	}
	return nil
}

func (m *Machine) onArrived(d engine.Deliver) {
	p := m.of(d.Source)
	if p == nil || p.phase == released {
		m.do(Recycle{Batches: []*task.Batch{d.Batch}})
		return
	}
	p.batches = append(p.batches, d.Batch)
	p.next, p.end = d.Batch.Next, max(d.Batch.HighWatermark, d.Batch.Next)
	if p.phase == held && !p.paused {
		m.do(Ready{})
	}
}

func (m *Machine) refresh() {
	m.routing.asked = true
	m.do(RefreshMetadata{Topics: m.wanted()})
}

func (m *Machine) refreshWhenDue() {
	if m.routing.asked || m.closing {
		return
	}
	if m.routing.dueAt.IsZero() || !m.after(m.routing.dueAt) {
		return
	}
	m.refresh()
}
