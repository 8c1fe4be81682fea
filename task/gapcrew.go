package task

import "github.com/understudy-streams/understudy/retry"

// takesReplay bounds the share of a gap.
func (c *crew) takesReplay(fresh bool) bool {
	return c.leavesRoom() && c.replays < c.share(fresh) && c.taken < c.ahead && c.bytes < mostItemBytes
}

// gapForCrew is the gap whose next record is to be taken for a worker now.
func (t *Task) gapForCrew(fresh bool) *gap {
	if t.gaps == nil || !t.crew.takesReplay(fresh) {
		return nil
	}
	return t.replayable()
}

// takeReplay takes the record at the head of a gap and makes it an item, which is run beside those of the main path.
func (t *Task) takeReplay(g *gap) (on bool) {
	c := t.crew
	t.gaps.last = g.input
	r := g.peek()
	g.window.Pass(r.Offset)
	if t.full(g.window) && g.widens() && !t.eject(g.input, g.window) {
		g.stalled = true
		return true
	}
	if taken, on := t.admitReplay(g, r); !taken {
		return on
	}
	at := max(g.time, r.Timestamp)
	if r.Timestamp < 0 {
		now := t.streamTime
		t.begin(g.input, r.Offset)
		t.unit.kind, t.unit.gap = replayUnit, g
		if at >= 0 {
			t.streamTime = at
		}
		reached := t.allowNegative(g.input, r)
		if !t.end() {
			return false
		}
		t.streamTime = now
		if !reached {
			t.passReplayed(g, r)
			return true
		}
		at = max(at, r.Timestamp)
	}
	it := c.item()
	it.fill(g.input, r, at)
	it.Path, it.gap = GapPath, g
	if tr := g.tries; tr.offset == r.Offset && tr.attempt > 0 {
		it.tries = *tr
	}
	it.Attempt = it.tries.attempt
	g.window.Taken(r.Offset)
	c.taken++
	c.replays++
	c.bytes += len(it.bytes)
	t.passReplayed(g, r)
	c.ready = append(c.ready, it)
	return true
}

// widens says that what was taken of the gap and is not done makes its window what it is, and not what the last runner has left open.
func (g *gap) widens() bool {
	return g.window.Kept() >= mostKept || g.window.MapBitsRead() >= fewMapBits
}

// windowOf is the window that an item of the main path, or of a gap, was taken from.
func (t *Task) windowOf(it *Item) *retry.Window {
	if it.gap != nil {
		return it.gap.window
	}
	return t.in.all[it.Input].window
}

// unstall lets what could not be taken be looked at again: an item is done.
func (t *Task) unstall() {
	t.crew.stalled = false
	if t.gaps == nil {
		return
	}
	for _, g := range t.gaps.all {
		if g != nil {
			g.stalled = false
		}
	}
}
