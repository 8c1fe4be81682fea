package modelbroker

import "time"

// timer is something to do at a time. Of equal times the one that was set first comes first.
type timer struct {
	at   time.Time
	fire func()
	off  bool
}

// stop makes a timer do nothing; a nil one is fine.
func (t *timer) stop() {
	if t != nil {
		t.off, t.fire = true, nil
	}
}

// timers are a heap, the next one first. Those that were stopped stay in it until it is their turn.
type timers struct {
	heap []timerEntry
	seq  uint64
}

type timerEntry struct {
	at  int64 // nanoseconds
	seq uint64
	*timer
}

func (e *timerEntry) before(o *timerEntry) bool { return e.at < o.at || e.at == o.at && e.seq < o.seq }

func (b *Broker) after(d time.Duration, fire func()) *timer {
	t := &timer{at: b.now.Add(d), fire: fire}
	b.timers.push(t)
	return t
}

func (t *timers) push(x *timer) {
	t.seq++
	e := timerEntry{x.at.UnixNano(), t.seq, x}
	h := append(t.heap, e)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(&h[up]) {
			break
		}
		h[i] = h[up]
		i = up
	}
	h[i] = e
	t.heap = h
}

func (t *timers) pop() *timer {
	h := t.heap
	first, n := h[0].timer, len(h)-1
	e := h[n]
	h[n] = timerEntry{}
	h = h[:n]
	t.heap = h
	if n == 0 {
		return first
	}
	i := 0
	for {
		c := 2*i + 1
		if c >= n {
			break
		}
		if c+1 < n && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&e) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = e
	return first
}

// due takes the next timer that is not after now.
func (t *timers) due(now time.Time) *timer {
	at, ok := t.next()
	if !ok || at.After(now) {
		return nil
	}
	return t.pop()
}

func (t *timers) next() (time.Time, bool) {
	for len(t.heap) > 0 && t.heap[0].off {
		t.pop()
	}
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].timer.at, true
}
