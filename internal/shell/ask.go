package shell

import (
	"context"
	"time"

	"github.com/understudy-streams/understudy/task"
)

// Ask returns what f says of the owner of a task that runs here. f is called on the task's goroutine, between two of its steps, and must not
// keep the owner. It is false where the task does not run here, or does not answer before ctx ends, as in the middle of a long call of user code.
func Ask[T any](ctx context.Context, r *Runtime, id task.ID, f func(*task.Owner) T) (T, bool) {
	var none T
	l := r.tasks.running(id)
	if l == nil {
		return none, false
	}
	answer := make(chan T, 1)
	l.box.put(task.Ask{Answer: func(o *task.Owner) { answer <- f(o) }})
	select {
	case v := <-answer:
		return v, true
	case <-l.ended:
	case <-ctx.Done():
	}
	return none, false
}

// running is the last life of a task.
func (t *tasks) running(id task.ID) (l *taskLoop) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for key, other := range t.by {
		if key.task == id && (l == nil || key.epoch > l.key.epoch) {
			l = other
		}
	}
	return l
}

// Failures asks all tasks that run here for their failures. Those that do not answer in time are left out.
func (r *Runtime) Failures(within time.Duration) map[task.ID]task.FailureStats {
	type told struct {
		id    task.ID
		stats task.FailureStats
	}
	r.tasks.mu.RLock()
	answers := make(chan told, len(r.tasks.by))
	for key, l := range r.tasks.by {
		l.box.put(task.Ask{Answer: func(o *task.Owner) { answers <- told{key.task, o.Stats().Failures} }})
	}
	asked := len(r.tasks.by)
	r.tasks.mu.RUnlock()

	out := make(map[task.ID]task.FailureStats, asked)
	limit := time.NewTimer(within)
	defer limit.Stop()
	for range asked {
		select {
		case a := <-answers:
			out[a.id] = a.stats
		case <-limit.C:
			return out
		}
	}
	return out
}
