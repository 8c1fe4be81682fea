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
		seen := map[*pulse]sighting{}
		for {
			select {
			case <-ctx.Done():
				return
			case now := <-ticker.C:
				seen = t.look(now, limit, seen)
			}
		}
	})
}

type sighting struct {
	pulse int64
	since time.Time
}

// look returns what is seen now, for the next look.
func (t *tasks) look(now time.Time, limit time.Duration, seen map[*pulse]sighting) map[*pulse]sighting {
	t.mu.RLock()
	defer t.mu.RUnlock()
	next := make(map[*pulse]sighting, len(seen))
	for _, l := range t.by {
		for _, p := range l.pulses() {
			n := p.n.Load()
			s, known := seen[p]
			if n == idle || !known || s.pulse != n {
				next[p] = sighting{n, now}
				continue
			}
			next[p] = s
			if now.Sub(s.since) >= limit && !l.stuck.Swap(true) {
				l.cancel(errStuck)
				t.r.post(engine.TaskStuck{Task: l.key.task, Epoch: l.key.epoch, Err: &CallTimeoutError{Call: l.call(n), After: limit}})
			}
		}
	}
	return next
}
