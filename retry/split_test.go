package retry_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

func TestRecoverySplits(t *testing.T) {
	type m = retry.Metadata
	type runs = []retry.Run
	for _, c := range []struct {
		name        string
		said        m
		offset, end int64
		above       int64
		gap         runs // nil: one path
		main        int64
	}{
		{"an end that was none", m{Running: true, Main: 70}, 70, 120, 10, runs{{70, 120}}, 120},
		{"a clean end", m{Main: 70}, 70, 120, 10, nil, 0},
		{"it is off", m{Running: true, Main: 70}, 70, 120, 0, nil, 0},
		{"a lag that is just small enough", m{Running: true, Main: 70}, 70, 120, 50, nil, 0},
		{"one record more", m{Running: true, Main: 70}, 70, 121, 50, runs{{70, 121}}, 121},
		{"holes of the workers are part of the gap", m{Running: true, Main: 80, Holes: runs{{70, 71}, {75, 77}}}, 70, 120, 10, runs{{70, 71}, {75, 77}, {80, 120}}, 120},
		{"a hole that touches the rest", m{Running: true, Main: 80, Holes: runs{{70, 71}, {78, 80}}}, 70, 120, 10, runs{{70, 71}, {78, 120}}, 120},
		{"a second crash far from the end", m{Running: true, Main: 130, Holes: runs{{90, 120}, {125, 126}}}, 90, 200, 10, runs{{90, 120}, {125, 126}, {130, 200}}, 200},
		{"a second crash close to the end", m{Running: true, Main: 195, Holes: runs{{90, 120}, {194, 195}}}, 90, 200, 10, runs{{90, 120}, {194, 195}}, 195},
		{"a clean end with an open gap", m{Main: 130, Holes: runs{{90, 120}}}, 90, 200, 10, runs{{90, 120}}, 130},
		{"the rest of a gap is no more than may lie ahead", m{Running: true, Main: 130, Holes: runs{{125, 130}}}, 125, 132, 10, nil, 0},
		{"the second start without progress", m{Running: true, Main: 70, Starts: 1}, 70, 120, 10, nil, 0},
		{"the start after a first one", m{Running: true, Main: 70, Starts: 0}, 70, 120, 10, runs{{70, 120}}, 120},
		{"starts that a clean end has kept", m{Main: 130, Holes: runs{{90, 120}}, Starts: 2}, 90, 200, 10, nil, 0},
		{"a suspect", m{Running: true, Main: 71, Suspect: 70, Deaths: 1}, 70, 120, 10, nil, 0},
		{"somebody went by pieces", m{Running: true, Main: 100}, 70, 120, 10, nil, 0},
		{"an end that is behind the main position", m{Running: true, Main: 130, Holes: runs{{70, 71}}}, 70, 75, 10, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.said.Suspect == 0 {
				c.said.Suspect = -1
			}
			s, ok := c.said.Split(c.offset, c.end, c.above)
			require.Equal(t, c.gap != nil, ok)
			if ok {
				require.Equal(t, retry.Split{Low: c.offset, Gap: c.gap, Main: c.main}, s)
			}
		})
	}
}

// However often a process dies, there is one gap: what was open before, and what the main path has left.
func TestRecoverySplitOfASplit(t *testing.T) {
	said, offset := retry.Metadata{Running: true, Main: 70, Suspect: -1}, int64(70)
	open := map[int64]bool{}
	for o := int64(70); o < 1000; o++ {
		open[o] = true
	}
	for crash, end := range []int64{120, 300, 305, 400, 1000} {
		s, ok := said.Split(offset, end, 10)
		require.True(t, ok, "crash %d", crash)
		w := retry.Restore(s.Low, s.Main, s.Gap)
		for o := int64(0); o < s.Main; o++ {
			require.Equal(t, open[o], w.IsOpen(o), "offset %d after crash %d", o, crash)
		}
		for range 7 { // some of the gap, from its beginning; and two of the main path
			w.Taken(w.Low())
			open[w.Low()] = false
			w.Done(w.Low())
		}
		main := min(s.Main+2, end)
		for o := s.Main; o < main; o++ {
			open[o] = false
		}
		offset = w.Low()
		said = retry.Metadata{Running: true, Main: main, Holes: w.Holes(nil), Suspect: -1}
		text, ok := said.Encode(offset)
		require.True(t, ok)
		back, err := retry.ParseMetadata(text, offset, 1002)
		require.NoError(t, err)
		back.StreamTime = said.StreamTime
		require.Equal(t, said, back)
	}
}
