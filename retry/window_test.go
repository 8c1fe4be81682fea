package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
)

// plainWindow is the same thing as a set of open offsets.
type plainWindow struct {
	open       map[int64]bool // true: in flight
	read, next int64
}

func (p *plainWindow) pass(next int64) (closed int64) {
	for offset, inFlight := range p.open {
		if !inFlight && offset < next && offset >= p.read {
			delete(p.open, offset)
			closed++
		}
	}
	p.read = max(p.read, next)
	closed += max(0, next-p.next)
	p.next = max(p.next, next)
	return closed
}

func (p *plainWindow) taken(offset int64) {
	if offset < p.read {
		return
	}
	p.pass(offset + 1)
	p.open[offset] = true
}

func (p *plainWindow) low() int64 {
	low := p.next
	for offset := range p.open {
		low = min(low, offset)
	}
	return low
}

func (p *plainWindow) inFlight() (n int) {
	for _, is := range p.open {
		if is {
			n++
		}
	}
	return n
}

func (p *plainWindow) restart() {
	for offset := range p.open {
		p.open[offset] = false
	}
	p.read = p.low()
}

func requireSame(t require.TestingT, p *plainWindow, w *retry.Window) {
	low := p.low()
	require.Equal(t, low, w.Low(), "low")
	require.Equal(t, p.next, w.Next(), "next")
	require.Equal(t, p.read, w.Read(), "read")
	require.Equal(t, p.next-low, w.Width(), "width")
	require.Len(t, p.open, w.Open(), "open")
	require.Equal(t, p.inFlight(), w.InFlight(), "in flight")
	open := map[int64]bool{}
	end := low - 1
	for _, h := range w.Holes(nil) {
		require.Greater(t, h.From, end, "holes ascend and do not touch")
		require.Greater(t, h.To, h.From)
		end = h.To
		for offset := h.From; offset < h.To; offset++ {
			open[offset] = true
		}
	}
	require.Len(t, open, len(p.open), "holes")
	for offset := range p.open {
		require.True(t, open[offset], "hole at %d", offset)
	}
}

// Random takes, dones, gaps and restarts through the text of a commit: the window and a set of offsets always say the same.
func TestWindowIsASetOfOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.Int64Range(0, 1000).Draw(t, "start")
		w := retry.NewWindow(start)
		p := &plainWindow{open: map[int64]bool{}, read: start, next: start}
		near := func(from int64) int64 { return max(0, from+rapid.Int64Range(-3, 8).Draw(t, "distance")) }
		for range rapid.IntRange(0, 120).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"take", "take", "take", "done", "done", "done", "pass", "leap", "restart"}).Draw(t, "step") {
			case "take":
				offset := near(w.Read())
				w.Taken(offset)
				p.taken(offset)
			case "done":
				offset := w.Low() + rapid.Int64Range(-2, 2+max(0, min(40, w.Width()))).Draw(t, "offset")
				w.Done(offset)
				delete(p.open, offset)
			case "pass":
				next := near(w.Read())
				require.Equal(t, p.pass(next), w.Pass(next))
			case "leap":
				offset := w.Next() + rapid.Int64Range(0, 1<<40).Draw(t, "leap")
				w.Taken(offset)
				p.taken(offset)
			case "restart":
				w = restarted(t, w)
				p.restart()
			}
			requireSame(t, p, w)
			offset := near(w.Low())
			_, open := p.open[offset]
			require.Equal(t, open || offset >= p.next, w.IsOpen(offset), "open at %d", offset)
		}
	})
}

// restarted is the window that the commit of another gives.
func restarted(t require.TestingT, w *retry.Window) *retry.Window {
	m := retry.NewMetadata(w.Next())
	m.Holes = w.Holes(nil)
	text, fits := m.Encode(w.Low())
	require.True(t, fits)
	read, err := retry.ParseMetadata(text, w.Low(), w.Next())
	require.NoError(t, err)
	return retry.Restore(w.Low(), read.Main, read.Holes)
}
