package sim

import (
	"container/heap"
	"time"
)

// event is something that happens at a time, to a process or, with none, in the world.
type event struct {
	at  time.Time
	seq uint64
	p   *process
	run func()
}

type queue []*event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	if !q[i].at.Equal(q[j].at) {
		return q[i].at.Before(q[j].at)
	}
	return q[i].seq < q[j].seq
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *queue) Push(x any)   { *q = append(*q, x.(*event)) }
func (q *queue) Pop() any {
	old := *q
	n := len(old) - 1
	e := old[n]
	old[n] = nil
	*q = old[:n]
	return e
}

// at plans an event. One for a process that has died by then never happens.
func (w *world) at(t time.Time, p *process, run func()) {
	w.seq++
	heap.Push(&w.queue, &event{at: later(t, w.now), seq: w.seq, p: p, run: run})
}

func (w *world) after(d time.Duration, p *process, run func()) { w.at(w.now.Add(d), p, run) }

// lane is a way on which messages keep their order: a mailbox, a connection in one direction.
type lane struct{ last time.Time }

// send plans an event at the end of a lane, after the delay and after everything that was sent before.
func (w *world) send(l *lane, d time.Duration, p *process, run func()) {
	l.last = later(l.last, w.now.Add(d))
	w.at(l.last, p, run)
}

// wakeup holds the earliest time asked for, as the shell's timer does.
type wakeup struct{ at time.Time }

func (u *wakeup) set(w *world, at time.Time, p *process, run func()) {
	if !u.at.IsZero() && !at.Before(u.at) {
		return
	}
	u.at = at
	w.at(at, p, func() {
		if u.at.Equal(at) {
			u.at = time.Time{}
			run()
		}
	})
}

// move replaces the time asked for.
func (u *wakeup) move(w *world, at time.Time, p *process, run func()) {
	u.at = time.Time{}
	u.set(w, at, p, run)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
