package shell

import (
	"context"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
)

// CallTimeoutError says that one call of user code has run longer than the watchdog allows.
type CallTimeoutError struct {
	engine.Call
	After time.Duration
}

func (e *CallTimeoutError) Error() string {
	return fmt.Sprintf("%v: one call of user code has run for more than %v: the task was given up here and goes on elsewhere; "+
		"let the function honour its context, or raise Config.CallTimeout", e.Call, e.After)
}

// watch looks at the pulses of all tasks. A pulse that stays the same is one call that has not returned.
func (t *tasks) watch(limit time.Duration) {
	every := max(limit/10, time.Millisecond)
	t.r.request(func(ctx context.Context) {
		ticker := time.NewTicker(every)
		defer ticker.Stop()
		seen := map[*taskLoop]sighting{}
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				t.look(now, limit, seen)
			}
		}
	})
}

type sighting struct {
	pulse int64
	since time.Time
}

func (t *tasks) look(now time.Time, limit time.Duration, seen map[*taskLoop]sighting) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for l := range seen {
		if t.by[l.key] != l {
			delete(seen, l)
		}
	}
	for _, l := range t.by {
		p := l.pulse.Load()
		s := seen[l]
		if p == idle || s.pulse != p {
			seen[l] = sighting{p, now}
			continue
		}
		if now.Sub(s.since) >= limit && !l.stuck.Swap(true) {
			l.cancel(errStuck)
			t.r.post(engine.TaskStuck{Task: l.key.task, Epoch: l.key.epoch, Err: &CallTimeoutError{Call: l.call(), After: limit}})
		}
	}
}
