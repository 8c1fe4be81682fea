package engine

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// The readiness board is kept by the group's coordinator, as committed offsets of changelog partitions: a learner that is ready commits its
// position there, and the owner of the task looks when a rebalance begins. So only what is really ready is ever paused. A row that is lost
// costs one round more: the leader sees a learner that is ready and an owner that did not let go, and says so in the mark.
type board struct {
	read    uint64 // the FetchOffsets on the way
	until   time.Time
	write   uint64  // the CommitOffsets on the way
	sent    []*life // in it
	retryAt time.Time
	tries   int
}

const (
	boardTime   = 100 * time.Millisecond // to look at the board before a join
	boardTries  = 5                      // writes, after which a learner goes without a row
	boardFormat = "learned/1"
)

// row is the partition of the board that belongs to a task: that of its first changelog, if that is nobody's input.
func (e *Engine) row(l *life) (task.TopicPartition, int, bool) {
	for i := range l.spec.Stores {
		if t := l.spec.Stores[i].Changelog; t != "" && !e.isInput(t) {
			return l.changelog(i), i, true
		}
	}
	return task.TopicPartition{}, 0, false
}

func (e *Engine) isInput(topic string) bool {
	return slices.ContainsFunc(e.cfg.Specs, func(s *task.Spec) bool {
		return slices.ContainsFunc(s.Inputs, func(in task.Input) bool { return in.Topic == topic })
	})
}

// rowText is what a row says beside the position: who is ready, and how many records a second it restores.
func rowText(member string, rate float64) string {
	return boardFormat + " " + strconv.FormatInt(int64(rate), 10) + " " + member
}

func parseRow(s string) (member string, rate float64, ok bool) {
	format, rest, _ := strings.Cut(s, " ")
	number, member, found := strings.Cut(rest, " ")
	n, err := strconv.ParseInt(number, 10, 64)
	return member, float64(n), format == boardFormat && found && err == nil && n > 0 && member != ""
}

// flushBoard writes the rows of learners that have become ready, and those that have grown old while the learner waits for others. Not once a round has begun: an owner would let go for a learner whose join did
// not say yet that it is ready.
func (e *Engine) flushBoard() {
	b := &e.board
	if b.write != 0 || !e.assigned || e.prepare != nil || e.stopping() || e.member.State() != group.Joined {
		return
	}
	var ready []*life
	for _, l := range e.order {
		if s := l.learn; l.role == Learner && !l.held && l.state == lifeFollowing && s.ready {
			_, store, has := e.row(l)
			switch {
			case !has || s.failed >= boardTries:
				s.shown = true
			case !s.shown || e.outran(l, store):
				ready = append(ready, l)
			}
		}
	}
	if len(ready) == 0 {
		return
	}
	if e.now.Before(b.retryAt) {
		e.wakeAt(b.retryAt)
		return
	}
	member, generation, coordinator := e.member.Membership()
	if generation < 0 || member == "" {
		return
	}
	b.write, b.sent = e.request(), ready
	a := CommitOffsets{Request: b.write, Coordinator: coordinator, MemberID: member, Generation: generation}
	for _, l := range ready {
		tp, store, _ := e.row(l)
		l.learn.sent = l.partOf(store).pos
		a.Offsets = append(a.Offsets, task.InputOffset{TopicPartition: tp, Offset: l.learn.sent, Metadata: rowText(member, e.rate(l))})
	}
	e.do(a)
}

// outran says that a learner has come so far beyond its row that the owner of the task, who sees nothing else of it, would soon think that more
// than a second's work is missing there.
func (e *Engine) outran(l *life, store int) bool {
	return float64(l.partOf(store).pos-l.learn.row) > e.rate(l)/2
}

// boardWritten takes the answer to flushBoard. It reports false if the answer is to something else.
func (e *Engine) boardWritten(ev OffsetsCommitted) bool {
	b := &e.board
	if ev.Request != b.write || b.write == 0 {
		return false
	}
	sent := b.sent
	b.write, b.sent = 0, nil
	failed := false
	for _, l := range sent {
		if l.learn == nil || e.lives[l.id] != l {
			continue
		}
		tp, _, _ := e.row(l)
		code := ev.Code
		if at, has := ev.Codes[tp]; has && code == kcode.None {
			code = at
		}
		if ev.Err != nil || code != kcode.None {
			l.learn.failed++
			failed = true
			continue
		}
		l.learn.shown, l.learn.failed, l.learn.row = l.learn.ready, 0, l.learn.sent
	}
	if !failed {
		b.tries = 0
		return true
	}
	b.retryAt = e.now.Add(e.backoff(b.tries))
	b.tries++
	return true
}

// readBoard asks for the rows of those marked tasks that are not known to be learned.
func (e *Engine) readBoard(marks []assignor.Mark) {
	var parts []task.TopicPartition
	for _, k := range marks {
		if l := e.lives[k.Task]; l != nil && l.state == lifeRunning && !k.Ready {
			if tp, _, has := e.row(l); has {
				parts = append(parts, tp)
			}
		}
	}
	_, _, coordinator := e.member.Membership()
	if len(parts) == 0 || coordinator == "" {
		return
	}
	e.board.read = e.request()
	e.do(FetchOffsets{Request: e.board.read, Coordinator: coordinator, Parts: parts})
}

// boardRead releases the tasks whose learner can be at the end within a second. It reports false if the answer is to something else.
func (e *Engine) boardRead(ev OffsetsFetched) bool {
	b := &e.board
	if ev.Request != b.read || b.read == 0 {
		return false
	}
	b.read = 0
	if e.prepare == nil || ev.Err != nil || ev.Code != kcode.None {
		return true
	}
	for _, k := range e.prepare.marks {
		if l := e.lives[k.Task]; l != nil && l.state == lifeRunning && !k.Ready && e.learnedBy(l, k.Receiver, ev.Offsets) {
			e.releaseMarked(l)
		}
	}
	return true
}

// learnedBy says that the row of a task names the receiver, and how little is missing there.
func (e *Engine) learnedBy(l *life, receiver string, rows map[task.TopicPartition]CommittedOffset) bool {
	tp, store, has := e.row(l)
	row, found := rows[tp]
	if !has || !found || row.Code != kcode.None {
		return false
	}
	member, rate, ok := parseRow(row.Metadata)
	return ok && member == receiver && float64(l.ends[store]-row.Offset) <= rate
}

// boardPending says that the board has not answered yet, and that there is time left for it. A row that is being written may be seen already:
// whether it is, the join has to say the same as it does.
func (e *Engine) boardPending() bool {
	if e.board.read == 0 && e.board.write == 0 {
		return false
	}
	if e.now.Before(e.board.until) {
		e.wakeAt(e.board.until)
		return true
	}
	e.board.read = 0
	return false
}
