package engine

import (
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// RecoveryState says where the second path of a partition is.
type RecoveryState uint8

const (
	RecoveryReplaying RecoveryState = iota
	RecoveryStalled                 // it has made no progress for longer than it may
	RecoveryDone                    // the gap is closed
	RecoveryLost                    // the partition does not have some of its records any more; the others are, or will be, processed
)

func (s RecoveryState) String() string {
	return [...]string{"replaying", "stalled", "done", "lost"}[s]
}

// RecoveryStatus is how far a partition's gap is closed, by a task that runs here. It stays for as long as the task does.
type RecoveryStatus struct {
	Task task.ID
	Part task.TopicPartition
	task.Replay
	State     RecoveryState
	Rate      float64       // offsets a second that were closed lately; 0 while that is not known
	ETA       time.Duration // until the gap is closed at that rate; 0 while that is not known, and when it is
	Since     time.Time     // when this life of the task began with it
	Heartbeat time.Time     // when the second path last made progress
}

// recovery is the second path of one input.
type recovery struct {
	part      task.TopicPartition
	replay    task.Replay
	since     time.Time
	heartbeat time.Time
	stalled   bool
	told      time.Time // the last notice of its progress
	rate      float64
}

// Recovery returns what is known of the gaps of the tasks that are here, in order. It changes nothing.
func (e *Engine) Recovery() []RecoveryStatus {
	var out []RecoveryStatus
	for _, l := range e.order {
		for _, r := range l.recoveries {
			out = append(out, r.status(l.id))
		}
	}
	return out
}

func (r *recovery) status(id task.ID) RecoveryStatus {
	s := RecoveryStatus{Task: id, Part: r.part, Replay: r.replay, Rate: r.rate, Since: r.since, Heartbeat: r.heartbeat}
	switch {
	case r.stalled:
		s.State = RecoveryStalled
	case len(r.replay.Lost) > 0:
		s.State = RecoveryLost
	case r.replay.Closed:
		s.State = RecoveryDone
	}
	if r.rate > 0 && !r.replay.Closed {
		s.ETA = time.Duration(float64(r.replay.Left) / r.rate * float64(time.Second))
	}
	return s
}

const (
	// RecoveryStalls is for how long a second path may get on with nothing before it counts as stalled.
	RecoveryStalls = 30 * time.Second
	recoveryTells  = 5 * time.Second
)

// mayRecover says that the main path of an input may have to go on at the log's end.
func (e *Engine) mayRecover(l *life, input int) bool {
	return e.cfg.Recover > 0 && l.spec.Recovers && l.spec.Inputs[input].Redrives == 0
}

// split decides with which gaps a task goes on. While a record of any input is suspected to kill processes there are none: it would kill again,
// and whoever looks for it goes record by record.
func (e *Engine) split(l *life) {
	l.open.splits = nil
	splits, any := make([]retry.Split, len(l.spec.Inputs)), false
	for i, tp := range l.inputs() {
		m := l.open.said[i]
		if l.open.offsets[i] < 0 {
			continue
		}
		m.Running = m.Running && !e.repeats(l)
		if m.Suspicious(l.open.offsets[i]) {
			return
		}
		if !e.mayRecover(l, i) {
			continue
		}
		if s, ok := m.Split(l.open.offsets[i], l.open.logs[tp].end, e.cfg.Recover); ok {
			splits[i], any = s, true
		}
	}
	if !any {
		return
	}
	l.open.splits = splits
	for i := range splits { // which may have been looked at before
		if len(splits[i].Gap) > 0 {
			l.open.start[i] = splits[i].Main
		}
	}
}

// gap is the second path of an input, nil where it has none.
func (l *life) gap(input int) *recovery {
	for _, r := range l.recoveries {
		if r.replay.Input == input {
			return r
		}
	}
	return nil
}

// overtaken goes on with a second path whose offset is not in the log. What it has lost is told by the task, which knows what of it was done.
func (e *Engine) overtaken(r *route, first, end int64) {
	l := e.alive(r.src.Task, r.src.Epoch)
	if l == nil {
		delete(e.routes.all, r.src)
		return
	}
	input := r.src.Index - len(l.spec.Inputs)
	hi := l.gap(input).replay.Hi
	next := first
	if r.offset > end { // what the gap had is not there any more, and others will get its offsets
		next = hi
	}
	next = min(next, hi)
	e.do(ToTask{Task: l.id, Epoch: l.epoch, Event: task.Trimmed{Input: input, First: next}})
	r.offset = next
	if next >= hi {
		delete(e.routes.all, r.src)
	}
}

// beginRecovery notes the gaps that a task begins with.
func (e *Engine) beginRecovery(l *life, splits []retry.Split) {
	l.recoveries = nil
	for i, s := range splits {
		if len(s.Gap) == 0 {
			continue
		}
		r := &recovery{
			part: l.inputs()[i], replay: task.Replay{Input: i, Lo: s.Low, Hi: s.Main, Position: s.Low}, since: e.now, heartbeat: e.now, told: e.now,
		}
		for _, run := range s.Gap {
			r.replay.Left += run.Len()
		}
		l.recoveries = append(l.recoveries, r)
		e.noteRecovery(l, r, NoticeGap)
	}
}

func (e *Engine) noteRecovery(l *life, r *recovery, kind NoticeKind) {
	p := &r.replay
	e.note(Notice{
		Kind: kind, Task: l.id, Part: r.part, Start: p.Lo, Position: p.Position, End: p.Hi, Records: p.Left, Took: e.now.Sub(r.since),
	})
}

// taskReplays takes in how far a task has come in a gap.
func (e *Engine) taskReplays(ev TaskReplays) {
	l := e.alive(ev.Task, ev.Epoch)
	if l == nil {
		return
	}
	for _, r := range l.recoveries {
		if r.replay.Input == ev.Replay.Input && !r.replay.Closed {
			e.progressed(l, r, ev.Replay)
		}
	}
}

func (e *Engine) progressed(l *life, r *recovery, p task.Replay) {
	before := r.replay
	r.replay = p
	if p.Left < before.Left || p.Position > before.Position || p.Closed {
		r.rate = Pace(r.rate, before.Left-p.Left, e.now.Sub(r.heartbeat))
		r.heartbeat, r.stalled = e.now, false
	}
	for _, lost := range p.Lost[len(before.Lost):] {
		e.note(Notice{
			Kind: NoticeRangeLost, Task: l.id, Part: r.part, Start: lost.From, End: lost.To, Records: lost.Len(),
			Text: "the log begins behind them by now: retention has overtaken the second path",
		})
	}
	if p.Position >= p.Hi {
		e.removeRoute(l.replaySource(p.Input))
	}
	switch {
	case p.Closed:
		e.noteRecovery(l, r, NoticeGapClosed)
	case e.now.Sub(r.told) >= recoveryTells && r.heartbeat.Equal(e.now):
		r.told = e.now
		e.noteRecovery(l, r, NoticeReplay)
	}
}

// Pace makes a rate, 0 if it is not known, follow what was closed in a time, with a memory of some seconds.
func Pace(rate float64, closed int64, in time.Duration) float64 {
	const memory = 5.0
	s := in.Seconds()
	if s <= 0 || closed < 0 {
		return rate
	}
	now := float64(closed) / s
	if rate == 0 {
		return now
	}
	return rate + s/(s+memory)*(now-rate)
}

// tickRecovery notices second paths that make no progress.
func (e *Engine) tickRecovery() {
	for _, l := range e.order {
		for _, r := range l.recoveries {
			if r.replay.Closed || r.stalled {
				continue
			}
			late := r.heartbeat.Add(RecoveryStalls)
			if e.now.Before(late) {
				e.wakeAt(late)
				continue
			}
			r.stalled, r.rate = true, 0
			e.noteRecovery(l, r, NoticeReplayStalled)
		}
	}
}

// replaySource is what the second path of an input reads.
func (l *life) replaySource(input int) FetchSource {
	src := l.input(input)
	src.Index += len(l.spec.Inputs)
	return src
}
