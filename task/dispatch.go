package task

import (
	"github.com/understudy-streams/understudy/retry"
)

type (
	// Dispatch hands an item to the workers of the task, any of them. It is answered with Done.
	Dispatch struct{ *Item }
	// Cancel ends the contexts of all calls that run: the task is being released. Items that are handed over later are not concerned.
	Cancel struct{}
)

func (Dispatch) ownerAction() {}
func (Cancel) ownerAction()   {}

type (
	// Done brings the result of a Dispatch or a Call.
	Done struct{ *Result }
	// Unmanned says that no worker can be made, and why. The task stops.
	Unmanned struct{ Err error }
)

func (Done) ownerEvent()     {}
func (Unmanned) ownerEvent() {}

// dispatch hands at most so many items out. It takes the place of process where records are run by workers.
func (t *Task) dispatch(left int) (rest int) {
	defer t.recovered()
	for rest = left; rest > 0 && !t.halted() && t.failure.fault == nil; rest-- {
		if !t.dispatchable() || t.failure.troubled && !t.probes() || !t.dispatchOne() {
			break
		}
	}
	return rest
}

// dispatchable says that there is something to be handed out or taken.
func (t *Task) dispatchable() bool {
	c := t.crew
	fresh := t.in.next() >= 0 && !t.idles()
	switch {
	case c.waiting() && c.room(), fresh && c.takes() && t.careful(), t.gapForCrew(fresh) != nil && t.careful():
		return true
	}
	p := t.failure.pool
	return p != nil && p.due(t.now) && !t.names() && c.roomForRetry(fresh || t.replayable() != nil) && t.careful()
}

// careful says that a record may be taken although some are not done: not while crashes are suspected of one.
func (t *Task) careful() bool {
	return !t.failure.suspects.active || t.crew.taken == 0 && t.crew.running == 0
}

// dispatchOne hands an item out or takes a record. It is false where nothing can be done now.
func (t *Task) dispatchOne() bool {
	c := t.crew
	if it := c.next(); it != nil {
		t.handOut(it)
		return true
	}
	fresh := t.in.next() >= 0 && !t.idles()
	if p := t.failure.pool; p != nil && c.roomForRetry(fresh || t.replayable() != nil) && t.careful() && p.turn(t) {
		return t.retryBeside()
	}
	if g := t.gapForCrew(fresh); g != nil && t.careful() {
		return t.takeReplay(g)
	}
	return c.takes() && t.careful() && !t.idles() && t.takeRecord()
}

// handOut lets a worker run an item.
func (t *Task) handOut(it *Item) {
	c := t.crew
	c.id++
	it.ID = c.id
	it.seen.cancelled = false
	c.running++
	if it.entry != nil {
		c.retries++
	} else {
		it.Attempt = it.tries.attempt
	}
	t.watch.begin(it)
	c.out = append(c.out, Dispatch{it})
}

// retryBeside hands out the record put aside that is due.
func (t *Task) retryBeside() bool {
	p := t.failure.pool
	if len(p.spoiled) > 0 {
		return t.quarantine()
	}
	entry, on := t.dueEntry()
	if entry == nil {
		return on
	}
	if !t.onTrial(entry) {
		return t.err == nil
	}
	p.index.Start(entry)
	it := t.crew.item()
	it.fill(p.inputs[entry.Topic], &p.rec, entry.Stream)
	it.entry, it.Attempt, it.Path = entry, entry.Attempt, RetryPath
	t.handOut(it)
	return true
}

// takeRecord takes the record at the head of an input and makes it an item. It is false where it has to wait.
func (t *Task) takeRecord() bool {
	i := t.in.next()
	if i < 0 {
		return false
	}
	c, q := t.crew, &t.in.all[i]
	r := q.peek()
	q.window.Pass(r.Offset) // what was open below is gone
	if r.Offset >= q.window.Next() && t.crowds(i) && !t.eject(i, q.window) || t.entryWouldPass(q, i, r) {
		t.unname()
		c.stalled = true
		return false
	}
	if taken, on := t.admit(i, r); !taken {
		return on
	}
	if r.Timestamp < 0 {
		t.begin(i, r.Offset)
		if !t.allowNegative(i, r) {
			return t.skip()
		}
		t.end()
	}
	q.time = max(q.time, r.Timestamp)
	t.streamTime = max(t.streamTime, r.Timestamp)
	it := c.item()
	it.fill(i, r, t.streamTime)
	if tr := &t.failure.tries[i]; tr.offset == r.Offset && tr.attempt > 0 {
		it.tries, *tr = *tr, tries{}
	}
	it.Attempt = it.tries.attempt
	q.window.Taken(r.Offset)
	t.taken++
	c.taken++
	c.bytes += len(it.bytes)
	t.in.advance()
	if c.join(it) {
		c.ready = append(c.ready, it)
	}
	return true
}

// entryWouldPass says that the record at the head, or one before it that is gone, would become an entry that is due at once beside items of its
// key that are not done.
func (t *Task) entryWouldPass(q *queue, i int, r *Record) bool {
	if q.redrives {
		return t.crew.occupied(r.Key)
	}
	p := t.failure.pool
	if p == nil || p.index.Inert() == 0 {
		return false
	}
	t.overdue(i, r.Offset)
	if item := p.index.Overdue(t.cfg.Spec.Inputs[i].Topic, t.cfg.ID.Partition, r.Offset); item != nil && t.crew.occupied(item.Key) {
		return true // it comes before the record at the head, and may be of its key
	}
	item, inert := p.index.Find(t.origin(i, r.Offset))
	return item != nil && inert && (t.crew.occupied(r.Key) || t.crew.occupied(item.Key))
}

// full says that no more may be taken while the first record of a window is not done.
func (t *Task) full(w *retry.Window) bool { return w.Kept() >= mostKept || w.MapBits() >= mostMapBits }

// crowds says that the window of an input is full, or what is open in its gap and there does not fit into a commit.
func (t *Task) crowds(i int) bool {
	w := t.in.all[i].window
	g := t.gap(i)
	return t.full(w) || g != nil && w.MapBits() >= fewMapBits && g.window.MapBitsWith(w) >= mostMapBits
}

// eject makes the first record of a window that is not done an entry of the retry store, which finishes its offset. The worker goes on with it,
// and its result is that of the entry.
func (t *Task) eject(i int, w *retry.Window) bool {
	p := t.failure.pool
	it := t.runningAt(i, w.Low())
	if it == nil || p == nil || !p.room(&t.failure) {
		return false
	}
	s := t.subjectOf(it)
	e := retry.Entry{
		Origin: t.origin(i, it.Record.Offset), Key: it.Record.Key, NullKey: it.Record.Key == nil, Attempt: it.tries.attempt,
		First: it.tries.first, Due: t.now, Stream: it.StreamTime, Message: "it has run for so long that the window of records that are done above it is full",
	}
	if t.encodeAside(s, &e) != nil {
		return false
	}
	entry := t.putAside(s, &e)
	if entry == nil {
		return false
	}
	p.index.Start(entry)
	it.entry = entry
	t.failure.counts.Ejected++
	t.crew.retries++
	t.passOn(it)
	return true
}

// runningAt returns the record of the main path that is being run, nil if that one is not.
func (t *Task) runningAt(input int, offset int64) *Item {
	for _, it := range t.watch.running {
		if it.Input == input && it.Record.Offset == offset && it.entry == nil && it.call == nil {
			return it
		}
	}
	return nil
}

// passOn finishes the offset of an item's record, and lets those of its key go on: behind it in the retry store, if that is where it is.
func (t *Task) passOn(it *Item) {
	c := t.crew
	t.windowOf(it).Done(it.Record.Offset)
	t.failure.unsaid = true
	if it.gap != nil {
		c.replays--
	}
	c.taken--
	c.bytes -= len(it.bytes)
	next := c.leave(it)
	if next == nil {
		return
	}
	p := t.failure.pool
	if p == nil || !p.index.Closed(next.Record.Key, false) {
		c.ready = append(c.ready, next)
		return
	}
	delete(c.lanes, string(next.Record.Key))
	for next != nil && t.err == nil {
		it := next
		next, it.next = it.next, nil
		t.follow(t.subjectOf(it))
	}
}

func (t *Task) subjectOf(it *Item) subject {
	if it.tries.first == 0 {
		it.tries.first = t.now
	}
	return subject{input: it.Input, r: &it.Record, tries: &it.tries, item: it}
}

// finishItem finishes a record of the main path that was taken for a worker.
func (t *Task) finishItem(it *Item) {
	t.passOn(it)
	t.crew.release(it)
}
