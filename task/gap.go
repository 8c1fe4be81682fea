package task

import "github.com/understudy-streams/understudy/retry"

// gap is the second path of an input: what the main path has left behind it after an end that was none, from lo to hi, where the main path began.
// Its queue, its window, its stream time and the tries of the record at its head are its own; the nodes and the policy are the task's. A commit
// stands at its first open offset for as long as it has one, and says of both paths what is open.
type gap struct {
	queue
	input   int
	lo, hi  int64
	tries   *tries
	lost    []retry.Run
	closed  bool
	stalled bool  // the record at the head cannot be taken before some item is done
	sealed  int64 // its position as of the last seal

	told   Replay // the last that was told
	toldAt int64  // ms
}

// gaps are those of a task.
type gaps struct {
	all   []*gap // by input; nil where there is none
	open  int
	last  int // whose turn it was
	fresh int // records of the main path since the last of a gap
	news  []Replay
}

const (
	// freshPerReplay is how many records of the main path are taken for each of a gap while there are both, where the task runs them itself.
	freshPerReplay = 3
	tellEvery      = 500 // ms
)

// loadGaps makes the second paths that the task begins with.
func (t *Task) loadGaps() {
	n := len(t.in.all)
	for i, s := range t.cfg.Splits {
		if len(s.Gap) == 0 {
			continue
		}
		if t.gaps == nil {
			t.gaps = &gaps{all: make([]*gap, n)}
		}
		g := &gap{input: i, lo: s.Low, hi: s.Main, tries: &t.failure.tries[n+i], sealed: s.Low}
		g.position, g.end, g.known, g.time = s.Low, s.Low, -1, -1
		g.window = retry.Restore(s.Low, s.Main, s.Gap)
		if i >= len(t.cfg.Committed) || len(t.cfg.Committed[i].Holes) == 0 {
			g.time = t.streamTime // what the last commit says is of the record before the gap
		}
		g.told = g.report()
		t.gaps.all[i] = g
		t.gaps.open++
		t.commit.low[i] = s.Low
	}
}

// gap is the second path of an input, nil where it has none that is open.
func (t *Task) gap(input int) *gap {
	if t.gaps == nil || t.gaps.open == 0 {
		return nil
	}
	if g := t.gaps.all[input]; g != nil && !g.closed {
		return g
	}
	return nil
}

// queueOf is the queue of an input, or with a higher number of the gap beside one; nil where there is none.
func (t *Task) queueOf(input int) *queue {
	n := len(t.in.all)
	if input < n {
		return &t.in.all[input]
	}
	if g := t.gaps.all[input-n]; g != nil {
		return &g.queue
	}
	return nil
}

// inputs is how many queues there are, with those of gaps.
func (t *Task) inputs() int {
	if t.gaps == nil {
		return len(t.in.all)
	}
	return 2 * len(t.in.all)
}

// next is a gap whose next record can be taken, each in its turn; nil if there is none.
func (s *gaps) next() *gap {
	if s.open == 0 {
		return nil
	}
	for k := range s.all {
		i := (s.last + 1 + k) % len(s.all)
		if g := s.all[i]; g != nil && !g.closed && !g.stalled && !g.empty() {
			return g
		}
	}
	return nil
}

// replayable is the gap whose record may be taken next, as far as the main path and its failures are not concerned.
func (t *Task) replayable() *gap {
	if t.gaps == nil || t.failure.pool != nil && t.failure.pool.ahead() {
		return nil
	}
	return t.gaps.next()
}

// replayTurn runs the next record of a gap if it is its turn, and not that of the main path. It says whether it was.
func (t *Task) replayTurn() bool {
	g := t.replayable()
	if g == nil {
		return false
	}
	s := t.gaps
	if s.fresh < freshPerReplay && t.in.next() >= 0 && !t.idles() {
		s.fresh++
		return false
	}
	s.fresh, s.last = 0, g.input
	t.replay(g)
	return true
}

// addReplayed puts a batch into the queue of a gap. What lies in it from hi on is the main path's.
func (g *gap) addReplayed(b *Batch) {
	if g.closed || g.end >= g.hi {
		g.consumed += b.Bytes
		return
	}
	g.add(b)
	g.clip()
}

// clip ends the queue at hi.
func (g *gap) clip() {
	if !g.empty() && g.peek().Offset >= g.hi {
		g.drop()
		g.position = g.hi
	}
}

func (g *gap) next() {
	g.advance()
	g.clip()
}

// low is the offset below which everything is done.
func (g *gap) low() int64 {
	at := g.position
	if g.tries.waits() {
		at = max(at, g.tries.offset)
	}
	g.window.Pass(min(at, g.hi))
	return g.window.Low()
}

// replay runs the next record of a gap, unless it was done before.
func (t *Task) replay(g *gap) {
	if g.fresh {
		t.warm(g.input, &g.queue)
	}
	r := g.peek()
	if taken, _ := t.admitReplay(g, r); !taken {
		return
	}
	now := t.streamTime
	t.begin(g.input, r.Offset)
	t.unit.kind, t.unit.gap = replayUnit, g
	if at := max(g.time, r.Timestamp); at >= 0 {
		t.streamTime = at
	}
	reached := r.Timestamp >= 0 || t.allowNegative(g.input, r)
	if reached {
		t.graph.Inputs[g.input](r)
	}
	if !t.end() {
		return
	}
	t.streamTime = now
	t.passReplayed(g, r)
	if !reached {
		return
	}
	t.stats.Processed++
	if t.failure.troubled {
		t.succeeded()
	}
}

// passReplayed finishes the record at the head of a gap.
func (t *Task) passReplayed(g *gap, r *Record) {
	g.time = max(g.time, r.Timestamp)
	*g.tries = tries{}
	t.taken++
	g.next()
}

// admitReplay looks at the record at the head of a gap before it is taken, as admit does for the main path.
func (t *Task) admitReplay(g *gap, r *Record) (taken, on bool) {
	if !g.window.IsOpen(r.Offset) {
		t.passReplayed(g, r) // it was done before the end
		return false, true
	}
	if t.findNewer(g.input, r) {
		t.passReplayed(g, r)
		t.guard()
		return false, t.err == nil
	}
	p := t.failure.pool
	if p == nil || p.index.Inert() == 0 {
		return true, true
	}
	t.overdue(g.input, r.Offset)
	if t.meet(g.input, r) {
		t.passReplayed(g, r)
		t.guard()
		return false, t.err == nil
	}
	return t.err == nil, t.err == nil
}

// mendReplay decides what becomes of the record at the head of a gap, which has failed.
func (t *Task) mendReplay(g *gap, err *Error) {
	r := g.peek()
	if g.tries.offset != r.Offset || g.tries.first == 0 {
		*g.tries = tries{offset: r.Offset, first: t.now}
	}
	t.mendRecord(subject{input: g.input, r: r, tries: g.tries, gap: g}, err)
}

// trimmed takes in that the partition does not have what lies below an offset and was not given to the task. What of it is open is lost.
func (t *Task) trimmed(input int, first int64) {
	g := t.gap(input)
	if g == nil || t.dead || first <= g.end {
		return
	}
	from := len(g.lost)
	g.lost = g.window.Unread(g.lost, g.end, min(first, g.hi))
	for _, r := range g.lost[from:] {
		t.stats.Lost += r.Len()
	}
	g.addReplayed(&Batch{From: g.end, Next: first})
}

// closeGaps closes the gaps in which nothing is open any more, and notes what is to be told of them.
func (t *Task) closeGaps() {
	if t.gaps == nil || t.gaps.open == 0 || t.dead {
		return
	}
	for _, g := range t.gaps.all {
		if g == nil || g.closed {
			continue
		}
		g.low()
		if g.window.Open() == 0 { // what has not been read again was done before
			g.drop()
			g.position, g.closed = g.hi, true
			t.gaps.open--
			t.failure.unsaid = true
		}
		t.tellOf(g)
	}
}

// tellOf tells how far a gap has come: at once that it was read, has lost something or is closed, else now and then.
func (t *Task) tellOf(g *gap) {
	now := g.report()
	news := now.Closed || len(now.Lost) != len(g.told.Lost) || now.Position >= g.hi && g.told.Position < g.hi
	moved := now.Position != g.told.Position || now.Left != g.told.Left
	if news || moved && (t.now-g.toldAt >= tellEvery || t.now < g.toldAt) {
		g.told, g.toldAt = now, t.now
		t.gaps.news = append(t.gaps.news, now)
	}
}

func (g *gap) report() Replay {
	return Replay{
		Input: g.input, Lo: g.lo, Hi: g.hi, Position: min(g.position, g.hi), Left: int64(g.window.Open()), Lost: g.lost[:len(g.lost):len(g.lost)], Closed: g.closed,
	}
}

// TakeReplays returns what is to be told of gaps since the last call. The slice is valid until the task goes on.
func (t *Task) TakeReplays() []Replay {
	if t.gaps == nil {
		return nil
	}
	n := t.gaps.news
	t.gaps.news = t.gaps.news[:0]
	return n
}

// gapsSealed notes how far gaps are as of a seal.
func (t *Task) gapsSealed() {
	if t.gaps == nil {
		return
	}
	for _, g := range t.gaps.all {
		if g != nil {
			g.sealed = g.position
		}
	}
}

// gapsMoved says that a commit would say more of a gap than the last one.
func (t *Task) gapsMoved() bool {
	if t.gaps == nil {
		return false
	}
	for _, g := range t.gaps.all {
		if g != nil && g.position != g.sealed {
			return true
		}
	}
	return false
}

// replays are the reports of all gaps.
func (t *Task) replays() []Replay {
	if t.gaps == nil {
		return nil
	}
	var all []Replay
	for _, g := range t.gaps.all {
		if g != nil {
			all = append(all, g.report())
		}
	}
	return all
}

// stateOf says where a record of the gap is.
func (g *gap) stateOf(offset int64) RecordState {
	switch {
	case !g.window.IsOpen(offset):
		return RecordDone
	case offset < g.window.Read():
		return RecordRunning
	case offset < g.position:
		return RecordDone // taken since the window was looked at
	}
	return RecordGap
}
