package modelbroker

import (
	"container/heap"
	"time"
)

// timer is something to do at a time. Of equal times the one that was set first comes first.
type timer struct {
	at   time.Time
	seq  uint64
	fire func()
	off  bool
}

// stop makes a timer do nothing; a nil one is fine.
func (t *timer) stop() {
	if t != nil {
		t.off = true
	}
}

type timers struct {
	heap timerHeap
	seq  uint64
}

func (b *Broker) after(d time.Duration, fire func()) *timer {
	b.timers.seq++
	t := &timer{at: b.now.Add(d), seq: b.timers.seq, fire: fire}
	heap.Push(&b.timers.heap, t)
	return t
}

// due takes the next timer that is not after now.
func (t *timers) due(now time.Time) *timer {
	at, ok := t.next()
	if !ok || at.After(now) {
		return nil
	}
	return heap.Pop(&t.heap).(*timer)
}

func (t *timers) next() (time.Time, bool) {
	for len(t.heap) > 0 && t.heap[0].off {
		heap.Pop(&t.heap)
	}
	if len(t.heap) == 0 {
		return time.Time{}, false
	}
	return t.heap[0].at, true
}

type timerHeap []*timer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, j int) bool {
	if !h[i].at.Equal(h[j].at) {
		return h[i].at.Before(h[j].at)
	}
	return h[i].seq < h[j].seq
}
func (h timerHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	t := old[len(old)-1]
	*h = old[:len(old)-1]
	return t
}
