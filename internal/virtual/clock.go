package virtual

import "time"

// event is something that happens at a time, to a process or, with none, in the world.
type event struct {
	at  int64 // nanoseconds after the beginning
	seq uint64
	p   *Process
	run func()
}

func (e *event) before(o *event) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

// queue is a heap of events, the next one first, of four children a node: half of what a run does is here.
type queue []event

func (q *queue) push(e event) {
	s := append(*q, e)
	i := len(s) - 1
	for i > 0 {
		up := (i - 1) / 4
		if !e.before(&s[up]) {
			break
		}
		s[i] = s[up]
		i = up
	}
	s[i] = e
	*q = s
}

func (q *queue) pop() event {
	s := *q
	top, n := s[0], len(s)-1
	e := s[n]
	s[n] = event{}
	s = s[:n]
	i := 0
	for {
		least := 4*i + 1
		if least >= n {
			break
		}
		for c := least + 1; c < min(4*i+5, n); c++ {
			if s[c].before(&s[least]) {
				least = c
			}
		}
		if !s[least].before(&e) {
			break
		}
		s[i] = s[least]
		i = least
	}
	if n > 0 {
		s[i] = e
	}
	*q = s
	return top
}

// At plans an event. One for a process that has ended by then never happens.
func (w *World) At(t time.Time, p *Process, run func()) {
	w.seq++
	w.queue.push(event{at: max(t.Sub(w.begin), w.Now.Sub(w.begin)).Nanoseconds(), seq: w.seq, p: p, run: run})
}

// After plans an event a while from now.
func (w *World) After(d time.Duration, p *Process, run func()) { w.At(w.Now.Add(d), p, run) }

// lane is a way on which messages keep their order: a mailbox, a connection in one direction.
type lane struct{ last time.Time }

// send plans an event at the end of a lane, after the delay and after everything that was sent before.
func (w *World) send(l *lane, d time.Duration, p *Process, run func()) {
	l.last = later(l.last, w.Now.Add(d))
	w.At(l.last, p, run)
}

// wakeup holds the earliest time asked for, as the shell's timer does.
type wakeup struct{ at time.Time }

func (u *wakeup) set(w *World, at time.Time, p *Process, run func()) {
	if !u.at.IsZero() && !at.Before(u.at) {
		return
	}
	u.at = at
	w.At(at, p, func() {
		if u.at.Equal(at) {
			u.at = time.Time{}
			run()
		}
	})
}

// move replaces the time asked for.
func (u *wakeup) move(w *World, at time.Time, p *Process, run func()) {
	u.at = time.Time{}
	u.set(w, at, p, run)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
