package consume

import (
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// path is one way through a partition: what is fetched on it and not yet returned. There is the main one, and there may be that of a gap.
type path struct {
	purpose  engine.Purpose
	position int64 // of the next record to be returned; -1: not known yet
	done     int64 // what earlier Polls have returned ends here; -1: nothing to commit

	fetch   uint64 // number of the present source
	next    int64  // the offset to fetch after what is held
	bound   int
	broker  int32 // where it is fetched, -1: nowhere
	stale   bool  // fresh metadata is needed first
	lost    bool  // next is out of range
	batches []*task.Batch
	reader  task.Reader
	reading bool // reader is in batches[0]
}

// source names what is fetched on a path of the part.
func (p *part) source(w *path) engine.FetchSource {
	return engine.FetchSource{TopicPartition: p.tp, Task: p.id, Epoch: w.fetch, Index: int(w.purpose)}
}

// paths are those of the part; the second is nil where there is none.
func (p *part) paths() [2]*path {
	if p.gap == nil {
		return [2]*path{&p.path, nil}
	}
	return [2]*path{&p.path, &p.gap.path}
}

// forget ends the fetching of a part and drops what is held of it.
func (m *Machine) forget(p *part) {
	for _, w := range p.paths() {
		if w != nil {
			m.forgetPath(p, w)
		}
	}
}

func (m *Machine) forgetPath(p *part, w *path) {
	m.disconnectPath(p, w)
	if len(w.batches) > 0 {
		rest := w.batches
		if w.reading {
			rest = rest[1:] // records of it may have been returned
		}
		if len(rest) > 0 {
			m.do(Recycle{Batches: append([]*task.Batch(nil), rest...)})
		}
		clear(w.batches)
		w.batches = w.batches[:0]
	}
	w.reading, w.lost, w.next = false, false, w.position // what was dropped is fetched again
	w.reader.Reset(&emptyBatch, 0)                       // it is not to keep the last one in memory
	m.number(w)
}

var emptyBatch task.Batch

// weight is how much was fetched and not taken, in bytes.
func (w *path) weight() (n int) {
	for _, b := range w.batches {
		n += b.Bytes
	}
	return n
}

// number tells what is fetched from now on from what was before.
func (m *Machine) number(w *path) {
	m.fetches++
	w.fetch = m.fetches
}

// disconnect ends the fetching of a part; what is held stays.
func (m *Machine) disconnect(p *part) {
	for _, w := range p.paths() {
		if w != nil {
			m.disconnectPath(p, w)
		}
	}
}

func (m *Machine) disconnectPath(p *part, w *path) {
	if w.broker >= 0 {
		m.do(Fetch{Purpose: w.purpose, Broker: w.broker, Event: engine.FetchRemove{Source: p.source(w)}})
		w.broker = -1
	}
}

// finish is done with the first batch of a path. Its memory is not used again: records lie in it.
func (m *Machine) finish(p *part, w *path, b *task.Batch) {
	w.position = max(w.position, b.Next)
	w.reading = false
	copy(w.batches, w.batches[1:])
	w.batches[len(w.batches)-1] = nil
	w.batches = w.batches[:len(w.batches)-1]
	if w.lost && len(w.batches) == 0 {
		m.do(Ready{}) // Take is to ask for the bounds of the log
	}
	if w.broker >= 0 {
		m.do(Fetch{Purpose: w.purpose, Broker: w.broker, Event: engine.FetchConsumed{Source: p.source(w), Bytes: b.Bytes}})
	}
}
