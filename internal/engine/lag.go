package engine

import (
	"time"

	"github.com/understudy-streams/understudy/task"
)

// PartLag is how far an input partition of a task that is here has come.
type PartLag struct {
	Part     task.TopicPartition
	Task     task.ID
	Position int64 // the first offset that is not done; -1 where the task has not begun
	End      int64 // where the partition ends
	Offsets  int64 // between Position and End, that are not done
	Oldest   int64 // as task.Lag's
	Known    bool  // End is: else it is 0, and so is Offsets
	Stuck    bool
	Since    time.Time // with Stuck: nothing has been committed any more
}

// LagKnown answers AskLag.
type LagKnown struct {
	// Told is what tasks say of their inputs. Those that did not answer in time are not in it.
	Told map[FetchSource]task.Lag
	// Ends are those of the partitions whose leader has told, and not too long ago.
	Ends map[task.TopicPartition]int64
	// Calls are the calls of user code that are under way.
	Calls []Call
}

// AskLag asks how far the tasks that run have come, and where their partitions end. Ends that no fetch has told for a while, as the queue of
// the task is full, are to be asked for.
type AskLag struct{}

func (LagKnown) engineEvent() {}
func (AskLag) engineAction()  {}

// lags watches over the partitions that are read here.
type lags struct {
	at    time.Time // when they are looked at next
	asked bool
	parts map[task.TopicPartition]*partProgress
}

// partProgress is what is known of one partition from one look to the next.
type partProgress struct {
	low   int64     // committed
	since time.Time // it has moved, or there was nothing to do
	stuck bool
	said  task.Lag // what the task has said last, for when it is busy
	heard bool
	seen  bool // in the look that is under way
}

// lagEvery is how often the partitions are looked at: often enough for the alarm to come in time, seldom enough to cost nothing.
func (e *Engine) lagEvery() time.Duration {
	if e.cfg.StuckAfter < 0 {
		return 5 * time.Second
	}
	return min(5*time.Second, max(e.cfg.StuckAfter/4, 10*time.Millisecond))
}

func (e *Engine) tickLag() {
	g := &e.lags
	if !e.assigned && e.state != Suspended {
		return
	}
	due := !g.at.IsZero() && !e.now.Before(g.at)
	if due && !g.asked {
		g.asked = true
		e.do(AskLag{})
	}
	if due || g.at.IsZero() {
		g.at = e.now.Add(e.lagEvery())
	}
	if e.state != Suspended { // then the looks for room on the disk are often enough
		e.wakeAt(g.at)
	}
}

// lagKnown looks at every partition that is read here, and raises the alarm for one that has records to be read and does not move.
func (e *Engine) lagKnown(ev LagKnown) {
	g := &e.lags
	g.asked = false
	if g.parts == nil {
		g.parts = map[task.TopicPartition]*partProgress{}
	}
	for _, l := range e.order {
		if l.role != Active || l.state == lifeClosing {
			continue
		}
		for i, tp := range l.inputs() {
			if !e.exists(tp) {
				continue
			}
			e.lookAt(l, i, tp, &ev)
		}
	}
	for tp, p := range g.parts {
		switch {
		case p.seen:
			p.seen = false
		case e.state == Suspended:
			e.alarm(task.ID{}, tp, p, 0, "the disk of the state directory is full, and all tasks of this process are suspended")
		default:
			e.moves(task.ID{}, tp, p)
			delete(g.parts, tp)
		}
	}
}

func (e *Engine) lookAt(l *life, input int, tp task.TopicPartition, ev *LagKnown) {
	p := e.lags.parts[tp]
	if p == nil {
		p = &partProgress{low: l.done[input], since: e.now}
		e.lags.parts[tp] = p
	}
	p.seen = true
	said, told := ev.Told[l.input(input)]
	if told {
		p.said, p.heard = said, true
	}
	end, known := ev.Ends[tp]
	if low := l.done[input]; low != p.low && low >= 0 || known && p.low >= 0 && p.low >= end {
		p.low = max(low, p.low)
		e.moves(l.id, tp, p)
		return
	}
	e.alarm(l.id, tp, p, end, e.whyStuck(l, input, told, ev))
}

// moves notes that all is well with a partition.
func (e *Engine) moves(id task.ID, tp task.TopicPartition, p *partProgress) {
	if p.stuck {
		p.stuck = false
		e.note(Notice{Kind: NoticePartMoves, Task: id, Part: tp, Position: max(p.low, 0), Took: e.now.Sub(p.since)})
	}
	p.since = e.now
}

// alarm raises the alarm when the time is up, once.
func (e *Engine) alarm(id task.ID, tp task.TopicPartition, p *partProgress, end int64, why string) {
	if p.stuck || e.cfg.StuckAfter < 0 || e.now.Sub(p.since) < e.cfg.StuckAfter {
		return
	}
	p.stuck = true
	e.note(Notice{Kind: NoticePartStuck, Task: id, Part: tp, Position: p.low, End: end, Took: e.now.Sub(p.since), Text: why})
}

// whyStuck says what keeps a partition from moving, as far as anybody here knows.
func (e *Engine) whyStuck(l *life, input int, told bool, ev *LagKnown) string {
	switch l.state {
	case lifeOpening:
		return "the task is being opened: its committed offsets, the ends of its logs or its stores are not there yet"
	case lifeRestoring:
		return "the state of the task is being restored"
	case lifeReleasing, lifeReleased:
		return "the task was stopped to be handed over, and nobody has taken it"
	}
	if !told {
		for _, c := range ev.Calls {
			if c.Task == l.id {
				return "a call of user code does not return: " + c.String()
			}
		}
		return "the task does not answer"
	}
	said := ev.Told[l.input(input)]
	r := e.routes.all[l.input(input)]
	switch {
	case said.Why != "":
		return said.Why
	case r != nil && r.broker < 0:
		return "no broker leads the partition, or none that can be reached"
	case l.sealed != nil && l.sealed.phase == awaitAcks:
		return "the brokers have not acknowledged what the task has written, and its commit waits for that"
	case l.sealed != nil && l.sealed.tries > 0:
		return "the group's coordinator refuses the task's commit"
	case l.sealed != nil:
		return "the task's commit has not come about"
	}
	for _, c := range ev.Calls {
		if c.Task == l.id {
			return "a call of user code does not return: " + c.String()
		}
	}
	return "nothing of it comes from its broker"
}

// Lag says how far the partitions that are read here have come, in the order of their tasks. It changes nothing.
func (e *Engine) Lag(ev LagKnown) []PartLag {
	if e.state == Closed {
		return nil
	}
	var out []PartLag
	for _, l := range e.order {
		if l.role != Active || l.state == lifeClosing {
			continue
		}
		for i, tp := range l.inputs() {
			if !e.exists(tp) {
				continue
			}
			out = append(out, e.lagOf(l, i, tp, &ev))
		}
	}
	return out
}

func (e *Engine) lagOf(l *life, input int, tp task.TopicPartition, ev *LagKnown) PartLag {
	g := PartLag{Part: tp, Task: l.id, Position: l.done[input], Oldest: -1}
	p := e.lags.parts[tp]
	if p != nil && p.stuck {
		g.Stuck, g.Since = true, p.since
	}
	said, told := ev.Told[l.input(input)]
	if !told && p != nil && p.heard && p.said.Position >= g.Position {
		said, told = p.said, true // it is in the middle of a long call
	}
	if told {
		g.Position, g.Oldest = said.Position, said.Oldest
	}
	end, known := ev.Ends[tp]
	if !known || g.Position < 0 {
		return g
	}
	g.Known, g.End = true, max(end, g.Position)
	g.Offsets = max(0, g.End-g.Position-said.Done)
	return g
}
