package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// routing knows who leads which partition.
type routing struct {
	leaders   map[task.TopicPartition]engine.Leader
	topics    map[string]retry.TopicID // of those that are read, where they are known
	answers   uint64                   // of metadata
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
		if p.paused || p.phase == released || !p.ready() {
			continue
		}
		for _, w := range p.paths() {
			if w != nil && w.broker < 0 && !w.lost && (w == &p.path || p.gap.reads()) {
				ask = !m.connectPath(p, w) || ask
			}
		}
	}
	if ask && !m.routing.asked && m.after(m.routing.notBefore) {
		m.refresh()
	}
}

// connectPath fetches where the part has a leader, and says whether it has.
func (m *Machine) connectPath(p *part, w *path) bool {
	leader, known := m.routing.leaders[p.tp]
	if !known || leader.Broker < 0 || w.stale {
		return false
	}
	w.broker = leader.Broker
	add := engine.FetchAdd{Source: p.source(w), Offset: w.next, LeaderEpoch: leader.Epoch, Bound: w.bound, Held: w.weight()}
	m.do(Fetch{Purpose: w.purpose, Broker: w.broker, Event: add})
	return true
}

func (m *Machine) onMoved(lost engine.PartLost) {
	if _, w := m.of(lost.Source); w != nil {
		w.broker, w.next, w.stale = -1, lost.Offset, true
	}
}

func (m *Machine) onStopped(f engine.PartFailed) {
	p, w := m.of(f.Source)
	if w == nil {
		return
	}
	w.broker, w.next = -1, f.Offset
	if f.Code == kcode.OffsetOutOfRange {
		w.lost = true // what is held comes first
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

// of is the part that a source is fetched for, and on which of its paths; nil if that is over.
func (m *Machine) of(src engine.FetchSource) (*part, *path) {
	p := m.parts[src.TopicPartition]
	if p == nil {
		return nil, nil
	}
	for _, w := range p.paths() {
		if w != nil && p.source(w) == src {
			return p, w
		}
	}
	return nil, nil
}

func (m *Machine) onArrived(d engine.Deliver) {
	p, w := m.of(d.Source)
	if w == nil || p.phase == released {
		m.do(Recycle{Batches: []*task.Batch{d.Batch}})
		return
	}
	w.batches = append(w.batches, d.Batch)
	w.next, p.end = d.Batch.Next, max(d.Batch.HighWatermark, d.Batch.Next)
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
