package streams

import (
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/consume"
)

// tell tells the listener and the log. It is called on the goroutine of whoever polls or closes.
func (c *Consumer) tell(t consume.Tell) {
	l := &c.cfg.Listener
	c.log.tell(t)
	switch t := t.(type) {
	case consume.TellState:
		if l.State != nil {
			l.State(MemberChange{
				From: MemberState(t.Change.From), To: MemberState(t.Change.To), Reason: t.Change.Reason, Generation: t.Change.Generation,
				Failures: t.Change.Failures, At: t.Change.At,
			})
		}
	case consume.TellAssigned:
		if l.Assigned != nil {
			l.Assigned(t.Generation, t.Parts)
		}
	case consume.TellRevoked:
		if l.Revoked != nil {
			l.Revoked(t.Generation, t.Parts)
		}
	case consume.TellLost:
		if l.Lost != nil {
			l.Lost(t.Parts, t.Reason)
		}
	case consume.TellReset:
		if l.Reset != nil {
			l.Reset(t.Part, t.From, t.To)
		}
	case consume.TellRecovery:
		if l.Recovery != nil {
			l.Recovery(recoveryOf(t.Status))
		}
	case consume.TellRangeLost:
		if l.RecoveryLost != nil {
			l.RecoveryLost(t.Part, OffsetRange{From: t.Run.From, To: t.Run.To})
		}
	case consume.TellRetry:
		if l.Retry != nil {
			l.Retry(t.What, t.Err)
		}
	}
}

// consumerLog writes one line for what an operator wants to know.
type consumerLog struct {
	log *zap.Logger

	mu   sync.Mutex
	said map[string]time.Time
}

func newConsumerLog(log *zap.Logger, group string) *consumerLog {
	return &consumerLog{log: log.With(zap.String("group", group)), said: map[string]time.Time{}}
}

func (c *consumerLog) tell(t consume.Tell) {
	switch t := t.(type) {
	case consume.TellState:
		c.log.Info("member", zap.Stringer("from", MemberState(t.Change.From)), zap.Stringer("to", MemberState(t.Change.To)), zap.String("reason", t.Change.Reason),
			zap.Int32("generation", t.Change.Generation), zap.Int("failures", t.Change.Failures))
	case consume.TellAssigned:
		c.log.Info("partitions assigned", zap.Int32("generation", t.Generation), zap.Stringers("partitions", t.Parts))
	case consume.TellRevoked:
		c.log.Info("partitions revoked", zap.Int32("generation", t.Generation), zap.Stringers("partitions", t.Parts))
	case consume.TellLost:
		c.log.Warn("partitions lost", zap.String("reason", t.Reason), zap.Stringers("partitions", t.Parts))
	case consume.TellReset:
		c.log.Warn("offset out of range, moved by policy", zap.String("topic", t.Part.Topic), zap.Int32("partition", t.Part.Partition),
			zap.Int64("offset", t.From), zap.Int64("to", t.To))
	case consume.TellRecovery:
		what := "goes on with what is new, and returns beside it what was left behind"
		if t.Status.Closed {
			what = "what was left behind is done"
		}
		c.log.Info(what, zap.String("topic", t.Status.Part.Topic), zap.Int32("partition", t.Status.Part.Partition), zap.Int64("offset", t.Status.Lo),
			zap.Int64("end", t.Status.Hi), zap.Int64("records", t.Status.Left))
	case consume.TellRangeLost:
		c.log.Error("records that were left behind are not in the log any more: they will not be returned", zap.String("topic", t.Part.Topic),
			zap.Int32("partition", t.Part.Partition), zap.Int64("offset", t.Run.From), zap.Int64("end", t.Run.To))
	}
}

// note logs what is tried again, each thing once in a while. It may be called by any goroutine.
func (c *consumerLog) note(n consume.Note) {
	c.mu.Lock()
	now := time.Now()
	due := now.Sub(c.said[n.What]) >= quiet
	if due {
		c.said[n.What] = now
	}
	c.mu.Unlock()
	switch {
	case !due:
	case n.Err != nil:
		c.log.Warn("failed, trying again", zap.String("what", n.What), zap.Error(n.Err))
	default:
		c.log.Warn(n.What)
	}
}
