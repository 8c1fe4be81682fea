package pebblestore

import (
	"fmt"
	"sync"
	"time"

	"github.com/understudy-streams/understudy/statestore"
)

// OverrunError says that a write has not ended by its deadline. The write goes on.
type OverrunError struct {
	Task  statestore.TaskID
	After time.Duration // since it was handed over
}

func (e *OverrunError) Error() string {
	return fmt.Sprintf("pebblestore: a write of task %s has not ended after %v: look for a full or slow disk", e.Task, e.After)
}

// Writers is a pool of goroutines for what may block: Apply, Ingest, Wipe, Drop, Flush. Operations of one task run one after the other in
// the order in which they came. The queue has no bound of its own: a task has at most one commit under way.
type Writers struct {
	wg sync.WaitGroup

	mu      sync.Mutex
	wake    sync.Cond
	closed  bool
	ready   []statestore.TaskID               // tasks with operations, none of which is running
	waiting map[statestore.TaskID][]*writeJob // has an entry, maybe empty, while a task is ready or running
}

type writeJob struct {
	f    func() error
	done func(error)

	mu    sync.Mutex
	ended bool
	timer *time.Timer
}

// NewWriters starts a pool of n goroutines. Close it.
func NewWriters(n int) *Writers {
	w := &Writers{waiting: map[statestore.TaskID][]*writeJob{}}
	w.wake.L = &w.mu
	for range max(n, 1) {
		w.wg.Go(w.run)
	}
	return w
}

// Do runs f on the pool, after all that was handed over for the same task before. done is called with its result, from another goroutine.
// If f has not ended within the deadline, counted from now, done is called with an *OverrunError first, and once more when f ends. A
// deadline of 0 is none. After Close, done is called with ErrClosed before Do returns.
func (w *Writers) Do(task statestore.TaskID, deadline time.Duration, f func() error, done func(error)) {
	j := &writeJob{f: f, done: done}
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		done(ErrClosed)
		return
	}
	if deadline > 0 {
		j.timer = time.AfterFunc(deadline, func() { j.overrun(&OverrunError{Task: task, After: deadline}) })
	}
	jobs, busy := w.waiting[task]
	w.waiting[task] = append(jobs, j)
	if !busy {
		w.ready = append(w.ready, task)
		w.wake.Signal()
	}
	w.mu.Unlock()
}

// overrun reports that the deadline has passed. The result is not reported before this has returned.
func (j *writeJob) overrun(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		j.done(err)
	}
}

func (j *writeJob) run() {
	err := j.f()
	j.mu.Lock()
	j.ended = true
	j.mu.Unlock()
	if j.timer != nil {
		j.timer.Stop()
	}
	j.done(err)
}

func (w *Writers) run() {
	for {
		task, j := w.next()
		if j == nil {
			return
		}
		j.run()
		w.release(task)
	}
}

// next waits for an operation. It returns nil after Close, when nothing is left.
func (w *Writers) next() (statestore.TaskID, *writeJob) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.ready) == 0 {
		if w.closed && len(w.waiting) == 0 {
			return statestore.TaskID{}, nil
		}
		w.wake.Wait()
	}
	task := w.ready[0]
	w.ready = w.ready[1:]
	jobs := w.waiting[task]
	w.waiting[task] = jobs[1:]
	return task, jobs[0]
}

// release lets the next operation of the task run.
func (w *Writers) release(task statestore.TaskID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.waiting[task]) > 0 {
		w.ready = append(w.ready, task)
		w.wake.Signal()
		return
	}
	delete(w.waiting, task)
	if w.closed && len(w.waiting) == 0 {
		w.wake.Broadcast()
	}
}

// Close waits until all that was handed over has ended, and ends the goroutines.
func (w *Writers) Close() {
	w.mu.Lock()
	w.closed = true
	w.wake.Broadcast()
	w.mu.Unlock()
	w.wg.Wait()
}
