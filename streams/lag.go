package streams

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
)

// PartitionLag says how far one input partition has come. No number in it is negative.
type PartitionLag struct {
	Topic     string
	Partition int32
	// Position is the first offset that is not done: processed, left out, put aside to be tried again, or dead-lettered. It may be ahead of what
	// is committed by a commit interval.
	Position int64
	// End is where the partition ends: the offset that the next record will get. It comes with every answer to a fetch; that of a partition that
	// is not fetched, as its task has enough records to do, is asked for every few seconds.
	End int64
	// Offsets is how many offsets from Position to End are not done. Records that were done out of their order are not among them. Offsets may
	// hold no record where the log was compacted or a transaction ended.
	Offsets int64
	// Time is how long ago, by its timestamp, the record was made that is taken next: 0 where Offsets is. While that record is on its way it is
	// reckoned from the newest that was taken, so it is not less than it should be.
	Time time.Duration
	// Known says that End is known: a partition's leader has told in the last 15 seconds. If it is not, End, Offsets and Time are 0 and mean
	// nothing. So it is before the first answer, when the leader has changed until the new one answers, and while the task is not running yet.
	Known bool
	// Stuck says that there were records to be read for Config.StuckAfter and none was committed; see [Listener].Stuck. StuckFor is for how
	// long that has been so.
	Stuck    bool
	StuckFor time.Duration
}

// StuckPartition is an input partition that has records to be read and does not move.
type StuckPartition struct {
	Topic     string
	Partition int32
	// Position is the offset that is committed, at which it is stuck: -1 where nothing was read yet.
	Position int64
	// For is how long nothing has been committed although there was something to do.
	For time.Duration
	// Why says what keeps it, in words: a record that fails, a call of user code that does not return, brokers that do not acknowledge, no
	// leader, a state that is being restored, a full disk. [App.Explain] says more of a record.
	Why string
}

func stuckOf(n engine.Notice) StuckPartition {
	return StuckPartition{Topic: n.Part.Topic, Partition: n.Part.Partition, Position: n.Position, For: n.Took, Why: n.Text}
}

// lagWithin is how long Lag waits for what tasks say.
const lagWithin = 20 * time.Millisecond

// Lag returns how far the input partitions of the tasks that run in this process have come, in the order of the tasks; none before Run and
// after it, and none that another process has. The sum over all processes counts each partition once, but for those that are being handed
// over. It may be called at any time, by functions of the listener as well, asks no broker, and takes no longer than one decision of the
// runtime and 20 ms. Of a task that is in the middle of a longer call it has what the task said last.
func (a *App) Lag() []PartitionLag {
	a.mu.Lock()
	r := a.runtime
	a.mu.Unlock()
	if r == nil || a.State() == StateClosed {
		return nil
	}
	lags := r.Lag(lagWithin)
	out := make([]PartitionLag, len(lags))
	now := time.Now()
	for i := range lags {
		out[i] = lagOf(&lags[i], now)
	}
	return out
}

func lagOf(g *engine.PartLag, now time.Time) PartitionLag {
	p := PartitionLag{
		Topic: g.Part.Topic, Partition: g.Part.Partition, Position: max(0, g.Position), End: g.End, Offsets: g.Offsets, Known: g.Known, Stuck: g.Stuck,
	}
	if g.Offsets > 0 && g.Oldest >= 0 {
		p.Time = max(0, now.Sub(time.UnixMilli(g.Oldest)))
	}
	if g.Stuck {
		p.StuckFor = max(0, now.Sub(g.Since))
	}
	return p
}
