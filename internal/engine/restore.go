package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// restorePart rebuilds one store from its changelog. It ends on position ≥ end, never on the last record seen: compaction and
// transaction markers leave gaps.
type restorePart struct {
	store   int
	tp      task.TopicPartition
	first   int64 // the log's start
	begin   int64 // where this restore began
	pos     int64 // the stored position, or NoPosition
	read    int64 // read up to here
	end     int64 // the high watermark after the assignment
	wipe    bool  // to be emptied first
	wiping  bool
	waits   bool      // for its turn to read
	begun   bool      // reading has begun
	tail    bool      // it is read for as long as it grows: a standby's or learner's
	wrote   time.Time // the last write was begun
	goal    int64     // with tail: the end of the changelog when reading began
	caught  bool      // that it was caught up with was told
	room    int       // bytes that it is expected to hold
	share   int       // bytes that it may really hold since it has been caught up with; 0: see bound
	heard   time.Time
	started time.Time
	told    time.Time
	records int64

	changes []statestore.Change
	batches []*task.Batch // that the changes lie in
	bytes   int
	writing int64         // the position of the write on the way, or -1
	written []*task.Batch // that what it writes lies in
	weight  int           // bytes to give back when it is done
	handed  int           // changes in it
	done    bool
}

func (l *life) source(p *restorePart) FetchSource {
	return l.logSource(p.store)
}

func (l *life) logSource(store int) FetchSource {
	return FetchSource{TopicPartition: l.changelog(store), Task: l.id, Epoch: l.key, Index: store}
}

// beginRestore starts what is missing in each store of a task whose bounds are known; a task that lacks nothing runs at once.
func (e *Engine) beginRestore(l *life) {
	e.setLife(l, lifeRestoring)
	for _, p := range l.restore {
		p.tail = false
		if p.begun {
			e.endPart(l, p)
			continue
		}
		p.begun, p.writing = true, -1
		e.fit(l, p)
		e.beginPart(l, p)
	}
	e.settleRestore(l)
}

// endPart lets a part that follows its changelog come to its end there.
func (e *Engine) endPart(l *life, p *restorePart) {
	switch {
	case p.read > p.end: // even after a second look: the log was cut off, and other records have taken, or will take, these offsets
		e.note(Notice{Kind: NoticeWiped, Task: l.id, Part: p.tp, Position: p.read, End: p.end, Text: fmt.Sprintf(
			"the store has read up to offset %d, but the changelog ends at %d: records of it were lost", p.read, p.end)})
		e.anewPart(l, p)
	case p.wiping:
	case p.pos >= p.end && p.writing < 0:
		p.done, p.waits = true, false // one that waits for its turn would be given nothing to read
		e.removeRoute(l.source(p))
	case p.waits:
	default:
		e.endRoute(l.source(p), p.end)
		e.writePart(l, p)
	}
}

// anewPart empties the store and reads its changelog from the beginning, behind a write that is on the way.
func (e *Engine) anewPart(l *life, p *restorePart) {
	e.removeRoute(l.source(p))
	p.pos, p.writing, p.changes, p.bytes, p.weight, p.handed, p.records = p.first, -1, nil, 0, 0, 0, 0
	p.batches, p.written = nil, nil // of a write that is on the way, too: it still reads them
	p.waits, p.wipe, p.caught, p.share = false, true, false, 0
	e.beginPart(l, p)
}

// fit decides whether what is on disk belongs to this changelog. A store that is ahead of the log, or behind its start, is emptied: rows
// may be missing from it or wrong in it, and it would never be known.
func (e *Engine) fit(l *life, p *restorePart) {
	why := ""
	switch {
	case p.pos == statestore.NoPosition:
		p.pos = p.first
		return
	case p.pos > p.end:
		why = fmt.Sprintf("the store has read up to offset %d, but the changelog ends at %d: was the topic made anew?", p.pos, p.end)
	case p.pos < p.first:
		why = fmt.Sprintf("the store has read up to offset %d, but the changelog begins at %d: deletions may be missing", p.pos, p.first)
	default:
		return
	}
	e.note(Notice{Kind: NoticeWiped, Task: l.id, Part: p.tp, Position: p.pos, End: p.end, Text: why})
	p.wipe, p.pos = true, p.first
}

func (e *Engine) beginPart(l *life, p *restorePart) {
	p.begin, p.read = p.pos, p.pos
	if p.wipe {
		p.wipe, p.wiping = false, true
		l.ops = append(l.ops, storeOp{part: p, wipe: true})
		e.do(Wipe{Task: l.id, Epoch: l.key, Store: p.store})
		return
	}
	e.fetchPart(l, p)
}

func (e *Engine) fetchPart(l *life, p *restorePart) {
	if p.pos >= p.end && !p.tail {
		p.done = true
		return
	}
	p.waits, e.restores.waiting = true, true
}

// readPart begins to read what fetchPart has made wait.
func (e *Engine) readPart(l *life, p *restorePart) {
	p.started, p.told = e.now, e.now
	if p.tail && p.pos >= p.goal {
		p.caught = true // there is nothing to tell of
	} else {
		e.note(Notice{Kind: NoticeRestoreBegin, Task: l.id, Role: l.role, Part: p.tp, Position: p.pos, End: p.end})
	}
	e.addRoute(l.source(p), Restore, p.read, e.bound(p))
	if !p.tail {
		e.endRoute(l.source(p), p.end)
	}
	if p.tail && p.caught {
		e.shareTails()
	}
}

func (e *Engine) restored(ev Restored) {
	l := e.holder(ev.Source.Task, ev.Source.Epoch)
	if l == nil || e.readHole(l, ev) || !l.restores() {
		return
	}
	p := l.part(ev.Source)
	if p == nil || p.done || p.waits || p.wiping || ev.Batch.From > p.read {
		return // of a reading that was given up: what lies before it would be missing
	}
	e.heardOf(l, p)
	if ev.Batch.Next <= p.read { // the answer to a reading before this one: older rows must not come over newer ones
		e.consumed(l.source(p), Restore, ev.Batch.Bytes)
		e.do(Recycle{Batches: []*task.Batch{ev.Batch}})
		return
	}
	e.makeRoom(p, ev.Batch)
	var r task.Record
	var in task.Reader
	for in.Reset(ev.Batch, 0); in.Next(&r); {
		if r.Offset >= p.end && !p.tail {
			break // written after the end that we go up to: by nobody, if all is well
		}
		if r.Key == nil || r.Offset < p.read {
			continue
		}
		p.records++
		p.changes = append(p.changes, statestore.Change{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
	}
	p.batches = append(p.batches, ev.Batch)
	p.read = ev.Batch.Next
	if p.tail {
		p.end = max(p.read, ev.Batch.HighWatermark)
	} else if p.read > p.end {
		p.read = p.end
		e.removeRoute(l.source(p)) // whoever goes on from here as a follower begins with what was left out
	}
	p.bytes += ev.Batch.Bytes
	e.writePart(l, p)
}

// makeRoom makes the changes of a bulk write as large as they will be if the records to come are like those of this batch.
func (e *Engine) makeRoom(p *restorePart, b *task.Batch) {
	n := len(b.Records)
	for i := range b.Runs {
		n += b.Runs[i].Count
	}
	if n == 0 || n <= cap(p.changes)-len(p.changes) {
		return
	}
	if len(p.changes) == 0 {
		batches := e.piece(p)/(b.Bytes+n*changeBytes) + 2
		n = min(n*batches, max(n, int(p.end-p.read)))
	}
	p.changes = slices.Grow(p.changes, n)
}

// piece is what a bulk write begins at. A partition that is full is read on when half of its bound is held (see Planner): were a piece more
// than that, either would wait for the other.
func (e *Engine) piece(p *restorePart) int { return min(e.cfg.RestoreBytes, e.bound(p)/2) }

// held is the memory of what has been read and is not written.
func (p *restorePart) held() int { return p.bytes + p.weight + (len(p.changes)+p.handed)*changeBytes }

// restores says that the life takes in what is read of its changelogs.
func (l *life) restores() bool {
	return l.state == lifeRestoring || l.state == lifeFollowing || l.state == lifeOpening
}

func (l *life) partOf(store int) *restorePart {
	for _, p := range l.restore {
		if p.store == store {
			return p
		}
	}
	return nil
}

func (l *life) part(src FetchSource) *restorePart {
	for _, p := range l.restore {
		if p.tp == src.TopicPartition && p.store == src.Index {
			return p
		}
	}
	return nil
}

// writePart writes what has been read, in pieces large enough for the bulk path, one at a time for a task.
func (e *Engine) writePart(l *life, p *restorePart) {
	if p.writing >= 0 || p.wiping || p.read <= p.pos || p.bytes+len(p.changes)*changeBytes < e.piece(p) && p.read < p.end || !e.pace(l, p) {
		return
	}
	p.writing, p.weight, p.handed, p.wrote = p.read, p.bytes, len(p.changes), e.now
	b := &statestore.Batch{Urgent: l.urgent(), Stores: []statestore.StoreBatch{{Store: p.store, Changes: p.changes, Position: p.read}}}
	l.ops = append(l.ops, storeOp{part: p, batch: b})
	bulk := !p.tail || p.pos < p.goal || p.weight >= bulkTail
	e.do(Apply{Task: l.id, Epoch: l.key, Bulk: bulk, Batch: b})
	p.written = p.batches
	p.changes, p.batches, p.bytes = nil, nil, 0
}

func (e *Engine) partWiped(l *life, p *restorePart) {
	p.wiping = false
	e.fetchPart(l, p)
	e.settleRestore(l)
}

// taken lets others have the memory of a write that is on the way.
func (e *Engine) taken(ev Taken) {
	l := e.holder(ev.Task, ev.Epoch)
	if l == nil || len(l.ops) == 0 {
		return
	}
	if p := l.ops[0].part; p != nil && p.writing >= 0 && !p.wiping {
		e.freeWritten(l, p)
	}
}

// freeWritten gives back what a write lies in, once.
func (e *Engine) freeWritten(l *life, p *restorePart) {
	if p.weight > 0 {
		e.consumed(l.source(p), Restore, p.weight)
	}
	if len(p.written) > 0 {
		e.do(Recycle{Batches: p.written})
	}
	p.weight, p.handed, p.written = 0, 0, nil
}

func (e *Engine) partApplied(l *life, p *restorePart) {
	if p.writing < 0 || p.wiping {
		return // it was begun anew meanwhile: the wipe comes behind this write
	}
	p.pos, p.writing, p.heard = p.writing, -1, e.now
	e.freeWritten(l, p)
	e.progress(l, p)
	if p.pos >= p.end && !p.tail {
		p.done = true
		e.removeRoute(l.source(p))
	} else {
		e.writePart(l, p)
	}
	e.settleRestore(l)
}

// progress tells how far a restore has come. Of a changelog that is followed it is told until it has been caught up with once.
func (e *Engine) progress(l *life, p *restorePart) {
	over := p.pos >= p.end || p.tail && p.pos >= p.goal
	if p.caught || !over && e.now.Sub(p.told) < time.Second {
		return
	}
	p.told = e.now
	n := Notice{
		Kind: NoticeRestore, Task: l.id, Role: l.role, Part: p.tp, Start: p.begin, Position: p.pos, End: p.end, Records: p.records, Took: e.now.Sub(p.started),
	}
	if over {
		n.Kind, p.caught = NoticeRestoreEnd, true
	}
	e.note(n)
	if p.tail && p.caught {
		e.shareTails()
	}
}

// settleRestore runs the task once all its stores are there.
func (e *Engine) settleRestore(l *life) {
	if l.state != lifeRestoring || slices.ContainsFunc(l.restore, func(p *restorePart) bool { return !p.done }) {
		return
	}
	if e.changed(l) { // while it was restored
		e.await(l)
		e.setLife(l, lifeOpening)
		return
	}
	l.ends, l.holes = make([]int64, len(l.spec.Stores)), make([]*hole, len(l.spec.Stores))
	for _, p := range l.restore {
		l.ends[p.store] = p.end
		e.do(ToSender{Event: Tenure{TopicPartition: p.tp, Generation: l.grant, End: p.end}})
	}
	start := StartTask{Task: l.id, Epoch: l.epoch, Stores: l.key, Spec: l.spec, Positions: slices.Clone(l.open.start), Committed: l.open.said, StreamTime: l.open.time}
	start.Splits = l.open.splits
	for _, id := range l.ids {
		start.TopicIDs = append(start.TopicIDs, id)
	}
	e.repeat(l, &start)
	l.restore, l.open, l.owned, l.restarts = nil, nil, true, nil
	e.promoted(l)
	e.setLife(l, lifeRunning)
	e.beginRecovery(l, start.Splits)
	e.do(start)
	e.giveLead(l)
	for i, offset := range start.Positions {
		l.done[i] = offset
		if offset < 0 {
			continue
		}
		if l.gap(i) != nil {
			l.done[i] = l.gap(i).replay.Lo
		}
		e.addRoute(l.input(i), Input, offset, e.cfg.QueueBytes)
	}
}

// restoreOutOfRange goes on with a restore whose position is not in the log any more. If rows were read before the log was cut, the store
// is emptied: it may hold keys whose deletion is gone.
func (e *Engine) restoreOutOfRange(l *life, p *restorePart, first, end int64) {
	untouched := p.writing < 0 && p.pos == p.begin && p.records == 0 && p.pos == p.first
	read := p.read
	p.first, p.end = first, max(end, first)
	p.goal = min(p.goal, p.end) // the log may have been cut off before it
	if untouched {
		p.pos = first
		e.beginPart(l, p)
	} else {
		e.note(Notice{Kind: NoticeWiped, Task: l.id, Part: p.tp, Position: read, End: end, Text: "the changelog was cut while it was read"})
		e.anewPart(l, p)
	}
	e.settleRestore(l)
}
