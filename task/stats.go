package task

import (
	"slices"
	"strings"
)

// Stats are the counts of one task since it was made. No count goes down.
type Stats struct {
	Processed    int64 // records whose unit was kept
	Failed       int64 // units that failed
	Emitted      int64 // emissions at commit
	Punctuations int64
	Commits      int64 // commits done
	Dropped      []Dropped
	Inputs       []InputStats // one for each input
	Failures     FailureStats
	Lost         int64    // offsets of gaps that their partition did not have any more when they were to be replayed
	Replays      []Replay // of the inputs that have, or had, a gap
	// Gauges.
	Unacked    int   // bytes of effects that are not acknowledged
	Dirty      int   // bytes of state that are not committed
	StreamTime int64 // ms, -1 before the first record
}

// Dropped is how many records were left out for one reason.
type Dropped struct {
	Reason string
	N      int64
}

// InputStats are about one input.
type InputStats struct {
	Position int64 // the next offset to process
	Queued   int   // bytes
	Time     int64 // partition time in ms, -1 before the first record
}

// DroppedNegativeTimestamp is the reason of records dropped by the policy of their input.
const DroppedNegativeTimestamp = "negative-timestamp"

// Reasons are the user's, who may give one for each record: when so many are known the others are counted together.
const (
	mostReasons  = 1000
	otherReasons = "other"
)

// leaveOut counts records that were left out.
func (t *Task) leaveOut(reason string, n int64) {
	if len(t.dropped) >= mostReasons {
		if _, known := t.dropped[reason]; !known {
			reason = otherReasons
		}
	}
	t.dropped[reason] += n
}

type dropCount struct {
	reason string
	n      int64
}

// Stats returns the counts, reasons sorted.
func (t *Task) Stats() Stats {
	s := t.stats
	s.Dropped = make([]Dropped, 0, len(t.dropped))
	for reason, n := range t.dropped {
		s.Dropped = append(s.Dropped, Dropped{reason, n})
	}
	slices.SortFunc(s.Dropped, func(a, b Dropped) int { return strings.Compare(a.Reason, b.Reason) })
	for i := range t.in.all {
		q := &t.in.all[i]
		s.Inputs = append(s.Inputs, InputStats{Position: q.position, Queued: q.bytes, Time: q.time})
	}
	s.Replays = t.replays()
	s.Failures = t.failureStats()
	s.Unacked, s.Dirty, s.StreamTime = t.out.pending(), t.dirtyBytes(), t.streamTime
	return s
}
