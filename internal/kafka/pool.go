package kafka

import (
	"slices"
	"sync"

	"github.com/understudy-streams/understudy/task"
)

// batchPool keeps the memory of batches that are done, so that a busy reader makes no garbage. Last in, first out: what was used last is in
// the processor's cache. A nil pool keeps nothing. It may be used by any goroutine.
type batchPool struct {
	mu      sync.Mutex
	buffers [][]byte
	bytes   int
	batches []*task.Batch
}

const (
	poolBytes    = 8 << 20 // kept at most
	poolBuffers  = 256
	poolSmallest = 4 << 10 // smaller ones are not worth looking for
	poolLook     = 32      // buffers that are looked at for one of the right size
)

// get gives n bytes with whatever is in them. What needs little does not get a large buffer: it would pin all of it.
func (p *batchPool) get(n int) []byte {
	if p == nil || n < poolSmallest {
		return make([]byte, n)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := len(p.buffers) - 1; i >= max(0, len(p.buffers)-poolLook); i-- {
		if b := p.buffers[i]; n <= cap(b) && n > cap(b)/4 {
			last := len(p.buffers) - 1
			p.buffers[i], p.buffers[last] = p.buffers[last], nil
			p.buffers = p.buffers[:last]
			p.bytes -= cap(b)
			return b[:n]
		}
	}
	return make([]byte, n, roomFor(n))
}

// roomFor rounds up, so that buffers of about the same size serve each other's purpose.
func roomFor(n int) int {
	const step = 16 << 10
	return (n + step - 1) / step * step
}

// put takes memory that nothing refers to any more.
func (p *batchPool) put(b []byte) {
	if p == nil || cap(b) < poolSmallest || cap(b) > poolBytes {
		return
	}
	poison(b)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0 // those that were used last longest ago: nobody may want their size any more
	for p.bytes+cap(b) > poolBytes || len(p.buffers)-n == poolBuffers {
		p.bytes -= cap(p.buffers[n])
		n++
	}
	p.buffers = slices.Delete(p.buffers, 0, n)
	p.bytes += cap(b)
	p.buffers = append(p.buffers, b)
}

// batch gives an empty batch.
func (p *batchPool) batch() *task.Batch {
	if p == nil {
		return &task.Batch{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	n := len(p.batches)
	if n == 0 {
		return &task.Batch{}
	}
	b := p.batches[n-1]
	p.batches[n-1] = nil
	p.batches = p.batches[:n-1]
	return b
}

// recycle takes a batch that nothing refers to any more, with its memory.
func (p *batchPool) recycle(b *task.Batch) {
	for _, m := range b.Memory {
		p.put(m)
	}
	clear(b.Memory)
	clear(b.Runs)
	*b = task.Batch{Memory: b.Memory[:0], Runs: b.Runs[:0]}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.batches) < poolBuffers {
		p.batches = append(p.batches, b)
	}
}

// Recycle takes batches back that the caller is done with: nothing refers to them or to their records any more. It may be called from any
// goroutine.
func (c *Client) Recycle(batches []*task.Batch) {
	for _, b := range batches {
		c.pool.recycle(b)
	}
}
