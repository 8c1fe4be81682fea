package engine

import (
	"math"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// learning is what is known of a follower.
type learning struct {
	since   time.Time
	ready   bool
	shown   bool  // on the readiness board, or it has no row there
	row     int64 // the position that its row on the board names
	sent    int64 // that of the row on the way
	told    bool  // a join has said that it is ready
	failed  int   // writes to the board, in a row
	least   int64
	leastAt time.Time // when its lag was at its least
	stalled bool
}

// learners decides when this member asks for the round in which what it has learned becomes its own.
type learners struct {
	askAt time.Time // zero: nothing to ask for
	tries int       // rounds in a row that were asked for and changed nothing
	stall string    // why a round is to be asked for: a learner has just been found stalled
}

const (
	leastRate = 20_000      // records a second that every restore is trusted with
	longAsk   = time.Minute // between two requests for a round
)

// promotion is how a task came to run here.
type promotion struct {
	at     time.Time
	lag    int64
	copied bool // its state was here
}

// flushLearners finds out which learners are ready, shows them on the board, and asks for the round in which they take over.
func (e *Engine) flushLearners() {
	all, shown, told := 0, 0, 0
	name := task.ID{}
	for _, l := range e.order {
		if l.role != Learner || l.state == lifeClosing {
			continue
		}
		all++
		if l.learn == nil {
			continue
		}
		e.judge(l)
		if l.learn.ready && l.learn.shown {
			if shown == 0 {
				name = l.id
			}
			shown++
			if l.learn.told {
				told++
			}
		}
	}
	e.flushBoard()
	e.tellStall()
	if shown == 0 {
		e.learners = learners{}
		return
	}
	e.askWhenDue(name, shown == all, told == shown)
}

// tellStall asks for the round that a stalled learner needs. A round may end lives, so this is not for the middle of a look at all of them.
func (e *Engine) tellStall() {
	if why := e.learners.stall; why != "" {
		e.learners.stall = ""
		e.step(groupRejoin(why))
	}
}

func (e *Engine) askWhenDue(name task.ID, complete, again bool) {
	if !e.assigned || e.prepare != nil || e.stopping() || e.member.State() != group.Joined {
		return // the round that is under way says who is ready
	}
	ls := &e.learners
	soon := e.now.Add(e.cfg.Coalesce)
	switch {
	case complete && !again:
		ls.askAt = e.now
	case !again && (ls.askAt.IsZero() || soon.Before(ls.askAt)): // whoever asks in vain holds nobody else up
		ls.askAt = soon
	case ls.askAt.IsZero():
		ls.askAt = e.now.Add(min(e.cfg.Coalesce<<min(ls.tries, 10), max(longAsk, e.cfg.Coalesce)))
		ls.tries++
	}
	if e.now.Before(ls.askAt) {
		e.wakeAt(ls.askAt)
		return
	}
	ls.askAt = e.now.Add(longAsk) // the member may begin the round somewhat later
	e.step(groupRejoin("task " + name.String() + " is learned"))
}

// judge says whether a learner is ready: it has passed what was the end when it began, and is close to the present end.
func (e *Engine) judge(l *life) {
	s, lag := l.learn, l.lag()
	switch {
	case lag < 0:
		s.ready = false
	case s.ready: // not for little
		s.ready = lag <= 2*e.cfg.AcceptableLag || e.catchUp(l, lag) <= 2
	default:
		s.ready = l.passed() && (lag <= e.cfg.AcceptableLag || e.catchUp(l, lag) <= 1)
		if s.ready {
			e.note(Notice{Kind: NoticeLearned, Task: l.id, Took: e.now.Sub(s.since), Records: lag})
		}
	}
	if !s.ready {
		s.shown, s.told = false, false
	}
	e.watchStall(l, lag)
}

// watchStall notes a learner that does not get any closer: the leader may find a better one.
func (e *Engine) watchStall(l *life, lag int64) {
	s := l.learn
	switch {
	case s.leastAt.IsZero() || lag >= 0 && (lag < s.least || s.least < 0) || s.ready:
		s.least, s.leastAt, s.stalled = lag, e.now, false
	case e.now.Before(s.leastAt.Add(e.cfg.StallAfter)):
		e.wakeAt(s.leastAt.Add(e.cfg.StallAfter))
	case !s.stalled && e.prepare == nil && e.assigned && !e.stopping():
		s.stalled = true
		e.note(Notice{Kind: NoticeStalled, Task: l.id, Records: lag, Took: e.now.Sub(s.leastAt)})
		e.learners.stall = "task " + l.id.String() + " is not getting learned"
	}
}

func (l *life) passed() bool {
	for _, p := range l.restore {
		if !p.begun || p.pos < p.goal || p.wiping {
			return false
		}
	}
	return true
}

// pace is how many changelog records a second the life has restored, 0 where that cannot be told yet.
func (l *life) pace() float64 {
	records, took := int64(0), time.Duration(0)
	for _, p := range l.restore {
		if p.began() {
			records += p.pos - p.begin
			took = max(took, p.wrote.Sub(p.started))
		}
	}
	if took < 100*time.Millisecond {
		return 0
	}
	return float64(records) / took.Seconds()
}

// rate is how many records a second the life is trusted with. Of one that has caught up the pace is that of what comes, and not what it could do.
func (e *Engine) rate(l *life) float64 { return max(leastRate, l.pace()) }

func (p *restorePart) began() bool { return p.begun && !p.started.IsZero() && p.pos > p.begin }

// catchUp is how many seconds the life needs to the end.
func (e *Engine) catchUp(l *life, lag int64) float64 { return float64(lag) / e.rate(l) }

// eta is how many seconds the life will need to the end, as far as can be told: by its own pace while it restores what had been written before it
// began, 0 where it has none yet.
func (e *Engine) eta(l *life, lag int64) float64 {
	if l.passed() {
		return e.catchUp(l, lag)
	}
	if pace := l.pace(); pace > 0 {
		return float64(lag) / pace
	}
	return 0
}

// copies are what a join says about the states that are here.
func (e *Engine) copies() []assignor.Replica {
	var out []assignor.Replica
	for _, l := range e.order {
		if l.role == Active && !(l.again && l.then != Active) || l.state == lifeClosing && (l.stuck || l.ending() || !l.again) {
			continue
		}
		out = append(out, e.replica(l))
	}
	return append(out, e.storedCopies()...)
}

func (e *Engine) replica(l *life) assignor.Replica {
	role := l.role
	if l.again {
		role = l.then
	}
	r := assignor.Replica{Task: l.id, Kind: assignor.Standby, Lag: assignor.LagUnknown}
	if role == Learner {
		r.Kind = assignor.Learner
	}
	if l.held {
		r.Kind = assignor.Restoring
	}
	lag := l.lag()
	if lag < 0 {
		return r
	}
	r.Lag, r.CatchUp = assignor.Lag(lag), int32(min(math.Ceil(e.eta(l, lag)), 1<<30))
	if s := l.learn; s != nil && role == Learner {
		e.judge(l)
		r.Ready, r.Stalled = s.ready && (s.shown || slices.Contains(e.board.sent, l)), s.stalled
		s.told = r.Ready
	}
	return r
}
