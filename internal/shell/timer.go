package shell

import "time"

// wakeup is a timer that holds the earliest time asked for.
type wakeup struct {
	at    time.Time
	timer *time.Timer
}

func newWakeup() *wakeup {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return &wakeup{timer: t}
}

func (w *wakeup) set(at time.Time) {
	if !w.at.IsZero() && !at.Before(w.at) {
		return
	}
	w.at = at
	w.timer.Reset(max(time.Until(at), 0))
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
