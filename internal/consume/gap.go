package consume

import (
	"slices"
	"sort"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// gap is what the main path of a part has left behind, from lo to hi, where that path began. It is read in the order of its offsets, so commits
// of it say how far it is done, as those of the main path do. A commit stands at the first offset of it that is not done, and its metadata says
// where both paths are.
type gap struct {
	path
	lo, hi   int64
	runs     []retry.Run // what was open at the beginning, in order
	returned int64       // behind the last record that was returned
	asking   uint64      // the request that is out for the bounds of the log

	main, asked int64       // how far both paths are done, as the last commit that was asked for says
	left        int64       // offsets that are not done, as the last commit that was made says
	sealed      bool        // the gap is committed, so what is new can be returned
	closed      bool        // nothing of it is left, in what is committed
	gone        []retry.Run // what the log did not have any more

	since, heartbeat, paced time.Time
	rate                    float64
}

// found begins a part where it was committed, or has to know where the log ends first. It is false where the commit is to be asked for once more.
func (m *Machine) found(p *part, o engine.CommittedOffset) bool {
	if m.cfg.RecoverAbove > 0 {
		said, err := retry.ParseMetadata(o.Metadata, o.Offset, -1)
		switch former, known := m.ofFormer(p, said); {
		case !known:
			return false
		case former:
			m.do(Note{What: "what is committed of " + p.tp.String() + " is of a topic that was deleted and made anew: it is read from its beginning"})
			p.first = false
			m.aim(p, Start{At: Earliest})
			return true
		}
		if err != nil {
			m.do(Note{What: "what the commit of " + p.tp.String() + " says beside its offset cannot be read: everything from there on is returned", Err: err})
		}
		p.said = said
		if p.first && (said.Running || len(said.Holes) > 0) {
			p.kept, p.first, p.want = o.Offset, false, wantEnd
			return true
		}
	}
	p.kept, p.first = o.Offset, false
	m.place(p, o.Offset)
	return true
}

// split decides whether a part goes on at the end of its log, with what it leaves behind beside it. A gap that somebody has left goes on however
// small it is: what is done behind it is not to be returned again.
func (m *Machine) split(p *part, end int64) {
	p.end = end
	s, ok := p.said.Split(p.kept, end, m.cfg.RecoverAbove)
	if !ok {
		s = retry.Split{Low: p.kept, Gap: slices.Clone(p.said.Holes), Main: p.said.Main}
		ok = len(s.Gap) > 0
	}
	if !ok || s.Main > end { // beyond the end nothing is known: the log is another one
		m.place(p, p.kept)
		return
	}
	g := &gap{
		path: path{purpose: engine.Recover, position: s.Low, next: s.Low, done: -1, broker: -1, bound: -1},
		lo:   s.Low, hi: s.Main, runs: s.Gap, returned: s.Low, main: s.Main, asked: s.Low, left: lengthOf(s.Gap),
		since: m.now, heartbeat: m.now, paced: m.now,
	}
	m.number(&g.path)
	p.gap = g
	m.place(p, s.Main)
	m.share()
	m.commitInside(m.commitReplayed(p, s.Low))
	m.tell(TellRecovery{g.status(p, m.now)})
}

// openGap is the gap of a part, nil if nothing of it is left.
func (p *part) openGap() *gap {
	if p.gap == nil || p.gap.closed {
		return nil
	}
	return p.gap
}

// open is what is open of the gap from an offset on.
func (g *gap) open(from int64) (out []retry.Run) {
	for _, r := range g.runs {
		if r.From = max(r.From, from); r.From < r.To {
			out = append(out, r)
		}
	}
	return out
}

// reads says whether there is more of the gap to be fetched.
func (g *gap) reads() bool { return g.runs[len(g.runs)-1].To > g.next }

// nextOpen is the first open offset from one on, hi if there is none.
func (g *gap) nextOpen(from int64) int64 {
	i := sort.Search(len(g.runs), func(i int) bool { return g.runs[i].To > from })
	if i == len(g.runs) {
		return g.hi
	}
	return max(from, g.runs[i].From)
}

func lengthOf(runs []retry.Run) (n int64) {
	for _, r := range runs {
		n += r.Len()
	}
	return n
}

// describe is what a commit says: where it stands, how far the main path is, and what below that is open.
func (g *gap) describe() (offset, main int64, holes []retry.Run) {
	holes = g.open(g.asked)
	if g.asked < g.lo { // the user goes back
		if r := (retry.Run{From: g.asked, To: g.lo}); len(holes) > 0 && holes[0].From == r.To {
			holes[0].From = r.From
		} else {
			holes = slices.Insert(holes, 0, r)
		}
	}
	if len(holes) == 0 {
		return g.main, g.main, nil
	}
	return holes[0].From, g.main, holes
}

// replayShare is how many of so many records may be of gaps while there is something new: a quarter, or all of every fourth Take that is too
// small for that.
func (m *Machine) replayShare(room int) int {
	if !slices.ContainsFunc(m.order, func(p *part) bool { return p.gap != nil && len(p.gap.batches) > 0 && p.returns() }) {
		return 0
	}
	if room >= 4 {
		return room / 4
	}
	m.polls++
	if m.polls%4 != 0 {
		return 0
	}
	return room
}

// takeGaps takes records of gaps, each in its turn.
func (m *Machine) takeGaps(scratch []task.Record, visit func(Chunk)) (n int) {
	for i := range m.order {
		p := m.order[(m.gapTurn+i)%len(m.order)]
		if p.gap != nil && p.returns() {
			n += m.takeGap(p, scratch[n:], visit)
		}
		if n == len(scratch) {
			m.gapTurn = (m.gapTurn + i + 1) % len(m.order)
			break
		}
	}
	return n
}

func (m *Machine) takeGap(p *part, scratch []task.Record, visit func(Chunk)) (n int) {
	g := p.gap
	for len(g.batches) > 0 && n < len(scratch) {
		b := g.batches[0]
		if !g.reading {
			g.reader.Reset(b, g.position)
			g.reading = true
		}
		room := scratch[n:]
		got := g.reader.Fill(room)
		if got > 0 {
			g.position, g.heartbeat = room[got-1].Offset+1, m.now
			if open := g.onlyOpen(room[:got]); len(open) > 0 {
				g.returned = open[len(open)-1].Offset + 1
				p.processing, p.shown = true, true
				visit(Chunk{TopicPartition: p.tp, Life: p.life, Generation: m.member.generation, Replayed: true, Records: open})
				n += len(open)
			}
		}
		if got < len(room) {
			m.finish(p, &g.path, b)
		}
	}
	m.passDone(p)
	return n
}

// onlyOpen leaves out the records that were done before, or are the main path's.
func (g *gap) onlyOpen(records []task.Record) []task.Record {
	n := 0
	for i := range records {
		if o := records[i].Offset; o < g.hi && g.nextOpen(o) == o {
			if n != i {
				records[n] = records[i]
			}
			n++
		}
	}
	return records[:n]
}

// passDone moves a gap on to what is open of it, and ends its fetching behind the last of that.
func (m *Machine) passDone(p *part) {
	g := p.gap
	to := g.nextOpen(g.position)
	if to < g.hi && (to <= g.position || to < g.next) || to == g.hi && g.broker < 0 && len(g.batches) == 0 && g.position == g.hi {
		return
	}
	g.position = to // nothing that is held is wanted
	m.forgetPath(p, &g.path)
}

// trimmed takes in that the log does not have what a gap was to read next.
func (m *Machine) trimmed(p *part, first, end int64) {
	g := p.gap
	at := g.next
	g.lost = false
	if first <= at && at <= end {
		return // whoever was asked did not know of it yet
	}
	if at > end {
		first = g.hi // others will get its offsets
	}
	m.loseGap(p, at, min(first, g.hi))
	g.position = max(g.position, min(first, g.hi))
	m.forgetPath(p, &g.path)
	m.passDone(p)
}

// loseGap tells what of a gap between two offsets will never be returned.
func (m *Machine) loseGap(p *part, from, to int64) {
	for _, r := range p.gap.open(from) {
		if r.To = min(r.To, to); r.From < r.To {
			p.gap.gone = append(p.gap.gone, r)
			m.tell(TellRangeLost{Part: p.tp, Run: r})
		}
	}
}

// abandonGap ends a gap that lies beyond the end of the log.
func (m *Machine) abandonGap(p *part, at int64) {
	if g := p.openGap(); g != nil && at < g.hi {
		m.loseGap(p, g.position, g.hi)
		m.forgetPath(p, &g.path)
		p.gap = nil
	}
}

// status is how far a gap is.
func (g *gap) status(p *part, now time.Time) engine.RecoveryStatus {
	s := engine.RecoveryStatus{
		Part: p.tp, Rate: g.rate, Since: g.since, Heartbeat: g.heartbeat,
		Replay: task.Replay{Lo: g.lo, Hi: g.hi, Position: min(g.position, g.hi), Left: g.left, Lost: slices.Clone(g.gone), Closed: g.closed},
	}
	switch {
	case !g.closed && now.Sub(g.heartbeat) >= engine.RecoveryStalls:
		s.State = engine.RecoveryStalled
	case len(g.gone) > 0:
		s.State = engine.RecoveryLost
	case g.closed:
		s.State = engine.RecoveryDone
	}
	if g.rate > 0 && !g.closed {
		s.ETA = time.Duration(float64(g.left) / g.rate * float64(time.Second))
	}
	return s
}

// Recoveries says of the partitions that are read here how far what was left behind in them is, in order.
func (m *Machine) Recoveries(now time.Time) (out []engine.RecoveryStatus) {
	for _, p := range m.order {
		if p.gap != nil {
			out = append(out, p.gap.status(p, now))
		}
	}
	return out
}
