package task

import (
	"math"
	"time"
)

// Clock is what a schedule goes by.
type Clock uint8

const (
	// StreamTime is the highest timestamp of the records taken.
	StreamTime Clock = iota
	// WallClock is the time of day.
	WallClock
)

const (
	never      = int64(math.MaxInt64)
	notStarted = int64(math.MinInt64) // the wall clock before the first turn
)

// timer is one schedule.
type timer struct {
	node      string
	every     int64 // ms
	next      int64 // ms; the first time at or after which it fires
	seq       uint64
	clock     Clock
	waiting   bool // its grid begins with the first turn
	cancelled bool
	f         func(ts int64)
}

// timers are the schedules of a task, few as a rule.
type timers struct {
	all []*timer
	seq uint64
	// due are the earliest next times by clock.
	due [2]int64
}

func newTimers() timers { return timers{due: [2]int64{never, never}} }

func (s *timers) add(node string, every time.Duration, clock Clock, f func(int64), streamTime, now int64) func() {
	t := &timer{node: node, every: max(every.Milliseconds(), 1), clock: clock, seq: s.seq, f: f}
	s.seq++
	switch {
	case clock == StreamTime:
		t.next = gridAfter(0, t.every, streamTime)
	case now != notStarted:
		t.next = now + t.every
	default:
		t.waiting, t.next = true, never
	}
	s.all = append(s.all, t)
	s.due[clock] = min(s.due[clock], t.next)
	return func() { t.cancelled = true }
}

// start begins the grids that wait for the first turn.
func (s *timers) start(now int64) {
	for _, t := range s.all {
		if t.waiting {
			t.waiting, t.next = false, now+t.every
		}
	}
	s.refresh()
}

// pop returns a timer of this clock that is due at a time, the earliest first, set to its next time; nil if none is.
func (s *timers) pop(clock Clock, at int64) *timer {
	if at < s.due[clock] || s.due[clock] == never {
		return nil
	}
	var first *timer
	for _, t := range s.all {
		if t.clock != clock || t.cancelled || t.next > at || t.next == never {
			continue
		}
		if first == nil || t.next < first.next || t.next == first.next && t.seq < first.seq {
			first = t
		}
	}
	if first != nil {
		first.next = gridAfter(first.next, first.every, at)
	}
	s.refresh()
	return first
}

// undo takes back the schedules made since there were n.
func (s *timers) undo(n int) {
	if len(s.all) > n {
		clear(s.all[n:])
		s.all = s.all[:n]
		s.refresh()
	}
}

// refresh forgets cancelled timers and finds the earliest of each clock again. It must not run within a unit.
func (s *timers) refresh() {
	s.due = [2]int64{never, never}
	kept := s.all[:0]
	for _, t := range s.all {
		if t.cancelled {
			continue
		}
		kept = append(kept, t)
		s.due[t.clock] = min(s.due[t.clock], t.next)
	}
	clear(s.all[len(kept):])
	s.all = kept
}

// gridAfter returns the first of anchor, anchor+every, … (or before it) that is greater than at. One that is beyond the range of time is
// never: a record may have any timestamp.
func gridAfter(anchor, every, at int64) int64 {
	k := (at - anchor) / every
	if at < anchor && (at-anchor)%every != 0 {
		k--
	}
	last := anchor + k*every
	if last > never-every {
		return never
	}
	return last + every
}
