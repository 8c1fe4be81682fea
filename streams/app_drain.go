package streams

import (
	"context"
	"time"
)

// Drain hands the tasks of this process over to the others and then ends the application cleanly, as Close does; Run returns nil. Each task runs
// on here until somebody has learned its state, so none of them pauses for longer than it takes to hand it over. Where there is nobody else, it
// is a Close. What has not been taken over within Config.DrainTimeout is left as Close leaves it: committed, and for others to restore.
//
// The deadline of ctx, if it has one, bounds all of it, and the last part of that time, Config.CloseTimeout or a quarter, is for the end. When
// ctx ends without, the drain is given up and the end begins. Errors are those of Close, and so are the rules: it may be called more than once,
// and before Run, but not by a function of the application or of its listener. Call it when a process is to be taken away for good, and Close
// when it comes back soon: then its state on disk is worth more than two moves.
func (a *App) Drain(ctx context.Context) error {
	a.mu.Lock()
	a.drains = true
	r := a.runtime
	if r == nil {
		a.shut()
	}
	a.mu.Unlock()
	if r == nil {
		return a.await(ctx)
	}
	within, rest := a.drainTimes(ctx)
	r.Drain(within)
	if rest > 0 {
		defer time.AfterFunc(within, func() { r.Close(rest) }).Stop()
	}
	defer context.AfterFunc(ctx, func() { r.Close(0) })()
	return a.await(ctx)
}

// drainTimes is how much time there is to hand tasks over, and for the end after that; zero: Config.CloseTimeout.
func (a *App) drainTimes(ctx context.Context) (within, rest time.Duration) {
	within = a.cfg.DrainTimeout
	deadline, ok := ctx.Deadline()
	if !ok {
		return within, 0
	}
	left := max(time.Until(deadline), 2*time.Millisecond)
	rest = min(left/4, a.cfg.CloseTimeout)
	within = min(within, left-rest)
	return within, rest - min(rest/10, closeMargin)
}
