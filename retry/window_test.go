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

func TestWindowOfARecordAtATimeAllocatesNothing(t *testing.T) {
	w := retry.NewWindow(0)
	offset := int64(0)
	allocations := testing.AllocsPerRun(1000, func() {
		w.Taken(offset)
		w.Done(offset)
		offset++
	})
	require.Zero(t, allocations)
	require.Equal(t, offset, w.Low())
}

func TestWindowLetsGoOfItsMemory(t *testing.T) {
	w := retry.NewWindow(0)
	for offset := range int64(30_000) {
		w.Taken(3 * offset)
	}
	require.Equal(t, 30_000, w.Kept())
	for offset := int64(29_999); offset >= 0; offset-- {
		w.Done(3 * offset)
	}
	require.Zero(t, w.Kept())
	require.Equal(t, int64(89_998), w.Low())
	w.Taken(90_000)
	require.Equal(t, []retry.Run{{90_000, 90_001}}, w.Holes(nil))
}

func TestRestoreLeavesOutWhatLiesOutside(t *testing.T) {
	w := retry.Restore(10, 20, []retry.Run{{0, 5}, {8, 12}, {18, 25}, {30, 40}})
	require.Equal(t, []retry.Run{{10, 12}, {18, 20}}, w.Holes(nil))
	require.Equal(t, int64(20), w.Next())
	require.Equal(t, int64(7), retry.Restore(7, 3, nil).Next(), "main is never below low")
}

// A transaction's marker is no record: no fetch delivers it, and the low-water must not wait for it.
func TestRegressionMarkersArePassed(t *testing.T) {
	w := retry.NewWindow(0)
	for _, offset := range []int64{0, 1, 3} { // a marker at 2
		w.Taken(offset)
	}
	w.Done(1)
	w.Done(0)
	require.Equal(t, int64(3), w.Low())
	w.Done(3)
	require.Equal(t, int64(4), w.Low(), "nothing says that 4 is a marker yet")
	require.Equal(t, int64(1), w.Pass(5))
	require.Equal(t, int64(5), w.Low())
	require.Zero(t, w.Pass(2), "a fetch that ends before is nothing new")
	require.Zero(t, w.Width())
	require.Empty(t, w.Holes(nil))

	w = retry.Restore(5, 9, []retry.Run{{5, 7}, {8, 9}})
	w.Taken(5)
	w.Taken(8) // 6 was a marker
	w.Done(8)
	w.Done(5)
	require.Equal(t, int64(9), w.Low())
}

// What retention or compaction has taken away is lost: it is counted and holds nothing up.
func TestRegressionRetentionTakesHolesAway(t *testing.T) {
	w := retry.Restore(70, 100, []retry.Run{{70, 75}, {90, 95}})
	require.Equal(t, int64(8), w.Pass(93), "the log begins at 93 now")
	require.Equal(t, int64(93), w.Low())
	require.Equal(t, 2, w.Open())
	require.Equal(t, int64(2+20), w.Pass(120), "and now past all that was ever read")
	require.Equal(t, int64(120), w.Low())
	require.Zero(t, w.Open())
	w.Taken(120)
	require.Equal(t, int64(120), w.Low())
}
