package task

import "github.com/understudy-streams/understudy/retry"

// FailureStats are about the records of one task that have failed. No count goes down, no gauge is negative.
type FailureStats struct {
	Retried     int64 // tries that failed and are followed by another
	PutAside    int64 // records put aside
	Recovered   int64 // that were put aside and have been processed since
	DeadLetters int64
	Skipped     int64
	Outages     int64 // times the breaker opened
	Conflicts   int64 // results of workers that were thrown away, as what they had read was written to meanwhile
	Stale       int64 // results of workers that came when the task was given up, or had stopped: they count for nothing
	Ejected     int64 // records that were put aside while they ran, as too many behind them were done

	// Gauges.
	retry.IndexStats
	Newer   int    // records that a newer version has put aside in a form that this one does not know: they stay there until it runs again. They are not in Parked
	Waits   int64  // ms since the epoch: the task takes nothing before; 0 where it does not wait
	Why     string // it waits
	Breaker string // state; empty where there is none
	Width   int64  // offsets between the committed position and that of the main path, over all inputs
	Starts  int    // of runners of this task without progress after ends that were none
}

func (t *Task) failureStats() FailureStats {
	f := &t.failure
	s := f.counts
	if f.pool != nil {
		s.IndexStats, s.Newer = f.pool.index.Stats(t.now), f.pool.newer.all
	}
	if f.until > t.now {
		s.Waits, s.Why = f.until, f.why
	}
	if f.circuit != nil {
		s.Breaker = f.circuit.State().String()
	}
	for i := range t.in.all {
		q := &t.in.all[i]
		main := q.position
		if q.window != nil {
			main = q.window.Next()
		}
		switch g := t.gap(i); {
		case g != nil:
			s.Width += main - g.window.Low()
		case q.window != nil:
			s.Width += q.window.Width()
		}
	}
	s.Starts = f.suspects.starts
	return s
}

// failureWake says when something becomes due by itself.
func (t *Task) failureWake(at func(ms int64)) {
	f := &t.failure
	if f.until > t.now {
		at(f.until)
		return
	}
	if c := f.circuit; c != nil && c.State() == retry.CircuitOpen && c.Waits(t.now) > t.now {
		at(c.Waits(t.now))
		return
	}
	if f.pool != nil && !t.halted() {
		if due := f.pool.index.NextDue(); due > t.now && due != never { // what is due already is work, not a time
			at(due)
		}
	}
}
