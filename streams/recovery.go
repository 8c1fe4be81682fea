package streams

import (
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/engine"
)

// OffsetRange is the offsets from From to To, without To.
type OffsetRange struct{ From, To int64 }

// Recovery says how far the records are replayed that a crash has left behind in a partition, while what is new is processed beside them: see
// [RecoverParallel]. Its String is a line with a progress bar.
type Recovery struct {
	Task      TaskID // none of a [Consumer]
	Topic     string
	Partition int32
	// Lo and Hi bound the gap, Hi excluded, as it was when this process began with it: fresh records begin at Hi.
	Lo, Hi int64
	// Position is the offset below which all of the gap has been read.
	Position int64
	// Left is how many offsets of it are not done, those that hold no record included.
	Left int64
	// Rate is how many of them are done in a second, lately; 0 while that is not known.
	Rate float64
	// ETA estimates how long the rest takes; 0 when done or unknown.
	ETA   time.Duration
	State RecoveryState
	// Lost are the offsets that the partition did not have any more when they were to be replayed, because its retention was shorter than the
	// outage: no record of them will be processed.
	Lost []OffsetRange
	// Since is when this process began with it, Heartbeat when it last got on.
	Since, Heartbeat time.Time
}

// RecoveryState says how it is with a [Recovery].
type RecoveryState uint8

// The states of a recovery.
const (
	RecoveryReplaying = RecoveryState(engine.RecoveryReplaying) // it gets on
	RecoveryStalled   = RecoveryState(engine.RecoveryStalled)   // it has not got on for half a minute; it goes on when it can
	RecoveryDone      = RecoveryState(engine.RecoveryDone)      // nothing is left
	RecoveryLost      = RecoveryState(engine.RecoveryLost)      // offsets are lost: see Lost. What is Left is replayed
)

func (s RecoveryState) String() string { return engine.RecoveryState(s).String() }

// Alive reports whether records are being replayed.
func (r Recovery) Alive() bool { return r.Left > 0 && r.State != RecoveryStalled }

// Done is the part of the offsets between Lo and Hi that is done, from 0 to 1.
func (r Recovery) Done() float64 {
	if r.Left <= 0 || r.Hi <= r.Lo {
		return 1
	}
	return max(0, float64(r.Hi-r.Lo-r.Left)/float64(r.Hi-r.Lo))
}

const barWidth = 30

// String is a line for a terminal.
func (r Recovery) String() string {
	full := int(r.Done() * barWidth)
	var b strings.Builder
	fmt.Fprintf(&b, "%s/%d [%s%s] %3.0f%% of %d..%d", r.Topic, r.Partition, strings.Repeat("#", full), strings.Repeat("-", barWidth-full),
		r.Done()*100, r.Lo, r.Hi)
	if r.Left > 0 {
		fmt.Fprintf(&b, ", %d left", r.Left)
	}
	if r.Rate > 0 && r.Left > 0 {
		fmt.Fprintf(&b, ", %.0f/s, eta %v", r.Rate, r.ETA.Round(time.Second))
	}
	fmt.Fprintf(&b, ", %v", r.State)
	for _, l := range r.Lost {
		fmt.Fprintf(&b, " %d..%d", l.From, l.To)
	}
	return b.String()
}

// Recovery returns the partitions of tasks that run here in which a crash has left records behind that are replayed, or have been, beside what
// is new, in order; none before Run and after it. It may be called at any time, by functions of the listener as well.
func (a *App) Recovery() []Recovery {
	a.mu.Lock()
	r := a.runtime
	a.mu.Unlock()
	if r == nil || a.State() == StateClosed {
		return nil
	}
	var out []Recovery
	for _, s := range r.Recovery() {
		out = append(out, recoveryOf(s))
	}
	return out
}

// Recovering reports whether records that a crash has left behind are being replayed here, beside what is new. It is false for those that have
// not got on for half a minute: see [App.Recovery].
func (a *App) Recovering() bool {
	for _, r := range a.Recovery() {
		if r.Alive() {
			return true
		}
	}
	return false
}

func recoveryOf(s engine.RecoveryStatus) Recovery {
	r := Recovery{
		Task: s.Task, Topic: s.Part.Topic, Partition: s.Part.Partition, Lo: s.Lo, Hi: s.Hi, Position: s.Position, Left: s.Left,
		Rate: s.Rate, ETA: s.ETA, State: RecoveryState(s.State), Since: s.Since, Heartbeat: s.Heartbeat,
	}
	for _, l := range s.Lost {
		r.Lost = append(r.Lost, OffsetRange{From: l.From, To: l.To})
	}
	return r
}

// tellRecovery reports a second path.
func (a *App) tellRecovery(n engine.Notice) {
	l := &a.cfg.Listener
	if n.Kind == engine.NoticeRangeLost {
		if l.RecoveryLost != nil {
			l.RecoveryLost(n.Part.Topic, n.Part.Partition, OffsetRange{From: n.Start, To: n.End})
		}
		return
	}
	if l.Recovery != nil {
		l.Recovery(a.noticed(n))
	}
}

// noticed is the recovery that a notice is about: what the notice says, and beside it what is known by now.
func (a *App) noticed(n engine.Notice) (r Recovery) {
	for _, known := range a.Recovery() {
		if known.Task == n.Task && known.Topic == n.Part.Topic && known.Partition == n.Part.Partition {
			r = known
		}
	}
	r.Task, r.Topic, r.Partition = n.Task, n.Part.Topic, n.Part.Partition
	r.Lo, r.Position, r.Hi, r.Left, r.State = n.Start, n.Position, n.End, n.Records, RecoveryReplaying
	switch {
	case n.Kind == engine.NoticeReplayStalled:
		r.State = RecoveryStalled
	case len(r.Lost) > 0:
		r.State = RecoveryLost
	case n.Kind == engine.NoticeGapClosed:
		r.State = RecoveryDone
	}
	if n.Kind == engine.NoticeGapClosed {
		r.ETA = 0
	}
	return r
}

// logRecovery writes a line for a notice about a second path.
func (a *App) logRecovery(n engine.Notice) {
	fields := []zap.Field{
		zap.Stringer("task", n.Task), zap.String("topic", n.Part.Topic), zap.Int32("partition", n.Part.Partition),
		zap.Int64("offset", n.Start), zap.Int64("end", n.End), zap.Int64("records", n.Records),
	}
	log := a.cfg.Log
	if n.Kind == engine.NoticeRangeLost {
		log.Error("records that were to be replayed are not in the log any more: they will not be processed", append(fields, zap.String("reason", n.Text))...)
		return
	}
	r := a.noticed(n)
	fields = append(fields, zap.Int64("position", r.Position), zap.Int("percent", int(r.Done()*100)), zap.Duration("took", n.Took))
	switch n.Kind {
	case engine.NoticeGap:
		log.Info("goes on with what is new, and replays beside it what was left behind", fields...)
	case engine.NoticeReplay:
		log.Info("replaying what was left behind", append(fields, zap.Float64("rate", r.Rate), zap.Duration("eta", r.ETA))...)
	case engine.NoticeReplayStalled:
		log.Warn("the replay of what was left behind does not get on", append(fields, zap.Time("heartbeat", r.Heartbeat))...)
	case engine.NoticeGapClosed:
		log.Info("what was left behind is replayed", fields...)
	}
}
