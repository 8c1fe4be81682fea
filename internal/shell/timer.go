package shell

import "time"

// wakeup is a timer that holds the earliest time asked for.
type wakeup struct {
	at    time.Time
	timer *time.Timer
	now   func() time.Time
}

func newWakeup(now func() time.Time) *wakeup {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &wakeup{timer: t, now: now}
}

func (w *wakeup) set(at time.Time) {
	if !w.at.IsZero() && !at.Before(w.at) {
		return
	}
	w.at = at
	w.timer.Reset(max(at.Sub(w.now()), 0))
}

// fired is called when the timer has fired. A wall clock that was set back meanwhile makes it too early: it is armed again.
func (w *wakeup) fired() {
	if !w.at.IsZero() {
		if left := w.at.Sub(w.now()); left > 0 {
			w.timer.Reset(left)
		}
	}
}

// move replaces the time asked for.
func (w *wakeup) move(at time.Time) {
	w.at = time.Time{}
	w.set(at)
}

// due reports whether the time has come, and forgets it if so.
func (w *wakeup) due(now time.Time) bool {
	if w.at.IsZero() || now.Before(w.at) {
		return false
	}
	w.at = time.Time{}
	return true
}

func (w *wakeup) stop() { w.timer.Stop() }
