package engine

import (
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// hole is what somebody else has written to the changelog of a store while we run its task: a member that was removed, or one whose request
// arrived when its lease was long over. Whoever reads the changelog takes his rows for the newer ones. So the hole is read, and the task
// writes its own rows of all keys in it again, behind it. Until that is committed the store's position stays before the hole.
type hole struct {
	store   int
	src     FetchSource // under which it is read
	pos     int64       // read up to here
	end     int64       // our first record behind it
	next    int64       // the offset that our next record gets if nobody else writes
	keys    [][]byte
	known   map[string]bool // of keys
	rewrite uint64          // the task's count of the Rewrite that covers it; 0: it is being read
}

// foundHole notes that the offsets before base are not ours, and begins to read them. It returns where the next record is expected.
func (e *Engine) foundHole(l *life, store int, base int64) *int64 {
	h := l.holes[store]
	if h == nil {
		h = &hole{store: store, pos: l.ends[store], known: map[string]bool{}}
		l.holes[store] = h
	}
	if h.pos >= h.end { // nothing of it is being read
		l.reads++
		h.src = l.logSource(store)
		h.src.Hole = l.reads
		e.addRoute(h.src, Restore, h.pos, e.cfg.RestoreBytes*2)
	}
	h.end, h.next, h.rewrite = base, base, 0
	return &h.next
}

// readHole takes a batch of a hole in. It reports false if the batch is for something else.
func (e *Engine) readHole(l *life, ev Restored) bool {
	if ev.Source.Hole == 0 {
		return false
	}
	h := l.holeOf(ev.Source)
	if h == nil || l.state == lifeClosing {
		return true // closed, or read to its end already
	}
	var r task.Record
	var in task.Reader
	for in.Reset(ev.Batch, 0); in.Next(&r); {
		if r.Key != nil && r.Offset < h.end && !h.known[string(r.Key)] {
			h.known[string(r.Key)] = true
			h.keys = append(h.keys, r.Key)
		}
	}
	h.pos = min(ev.Batch.Next, h.end)
	e.consumed(h.src, Restore, ev.Batch.Bytes)
	if h.pos >= h.end {
		e.removeRoute(h.src)
		e.rewrite(l, h)
	}
	return true
}

// holeOutOfRange goes on with a hole whose beginning is not in the log any more: nobody reads it there either.
func (e *Engine) holeOutOfRange(l *life, h *hole, first int64) {
	h.pos = min(max(h.pos, first), h.end)
	if h.pos < h.end {
		e.addRoute(h.src, Restore, h.pos, e.cfg.RestoreBytes*2)
		return
	}
	e.rewrite(l, h)
}

func (l *life) holeOf(src FetchSource) *hole {
	for _, h := range l.holes {
		if h != nil && h.src == src && h.pos < h.end {
			return h
		}
	}
	return nil
}

func (e *Engine) rewrite(l *life, h *hole) {
	if len(h.keys) == 0 { // nothing but gaps: a transaction's marker, or what compaction has taken already
		l.ends[h.store], l.holes[h.store] = h.next, nil
		if l.state == lifeReleasing && l.asked == 0 && !l.holed() {
			e.released(l)
		}
		return
	}
	l.rewrites++
	h.rewrite = l.rewrites
	e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Rewrite{Store: h.store, Keys: h.keys}})
	if l.state == lifeReleasing && l.asked == 0 {
		e.release(l)
	}
}

// holed says that somebody else's rows lie in a changelog and ours not all behind them. Such a task is not given away: the next owner would
// take his rows for ours.
func (l *life) holed() bool {
	return slices.ContainsFunc(l.holes, func(h *hole) bool { return h != nil })
}

// releaseRepaired keeps a task that has been released until its changelog is repaired: it is asked once more when the rows are being written
// again. One whose holes are being read is asked then, by rewrite.
func (e *Engine) releaseRepaired(l *life) {
	if slices.ContainsFunc(l.holes, func(h *hole) bool { return h != nil && h.rewrite != 0 }) {
		e.release(l)
	}
}

func (e *Engine) dropHoles(l *life) {
	for _, h := range l.holes {
		if h != nil {
			e.removeRoute(h.src)
		}
	}
	clear(l.holes)
}

// closeHole lets the position of a store go on if the commit covers the rewrite: our rows are behind everything that is not ours.
func (l *life) closeHole(store int, rewrites uint64) {
	if h := l.holes[store]; h != nil && h.rewrite != 0 && rewrites >= h.rewrite {
		l.ends[store], l.holes[store] = h.next, nil
	}
}
