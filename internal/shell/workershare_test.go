package shell

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// crewOf are workers whose goroutines the test is.
func crewOf(n int) (*workers, []*worker) {
	l := &taskLoop{}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	l.cancel(errClosed) // no goroutine is started
	s := &workers{l: l, most: n, ctx: l.ctx}
	for range n {
		s.all = append(s.all, &worker{s: s, wake: make(chan struct{}, 1)})
	}
	return s, slices.Clone(s.all)
}

// However many records of a gap, or put aside, wait, one worker is free for what is new: it does not wait for a call to return.
func TestReplayLeavesAWorkerFree(t *testing.T) {
	for _, c := range []struct {
		n    int
		path task.Path
	}{{2, task.GapPath}, {8, task.GapPath}, {2, task.RetryPath}, {8, task.RetryPath}} {
		n := c.n
		s, all := crewOf(n)
		for range 2 * n {
			s.dispatch(&task.Item{Path: c.path})
		}
		for _, w := range all[:n-1] {
			it, ok, _ := w.take(false)
			require.True(t, ok)
			require.Equal(t, c.path, it.Path)
		}
		last := all[n-1]
		_, ok, over := last.take(false)
		require.False(t, ok)
		require.False(t, over)
		s.dispatch(&task.Item{})
		require.Len(t, last.wake, 1, "it is woken")
		it, ok, _ := last.take(false)
		require.True(t, ok)
		require.Equal(t, task.MainPath, it.Path)
		_, ok, _ = last.take(false)
		require.False(t, ok)
		it, ok, _ = all[0].take(false) // who has run one of the gap runs the next
		require.True(t, ok)
		require.Equal(t, c.path, it.Path)
	}
}

// While more comes than the workers can do, one of four that they take is of the gap: neither path stands still.
func TestReplayGetsOnBesideALoadThatNeverEnds(t *testing.T) {
	s, all := crewOf(4)
	queued := map[bool]int{}
	fill := func() { // as the task does: two for each worker, a quarter of them of the gap
		for ; queued[true] < 2; queued[true]++ {
			s.dispatch(&task.Item{Path: task.GapPath})
		}
		for ; queued[false] < 6; queued[false]++ {
			s.dispatch(&task.Item{})
		}
	}
	ran := map[bool]int{}
	holds := map[*worker]bool{}
	for i := range 400 {
		fill()
		w := all[i%4]
		if i >= 4 {
			queued[holds[w]]-- // it is done
			fill()
		}
		it, ok, _ := w.take(false)
		require.True(t, ok)
		ran[it.Path == task.GapPath]++
		holds[w] = it.Path == task.GapPath
	}
	require.InDelta(t, 100, ran[true], 5)
}

// A worker that ends in the middle of a record of a gap makes room for the next one.
func TestReplayOfAWorkerThatEnds(t *testing.T) {
	s, all := crewOf(2)
	s.dispatch(&task.Item{Path: task.GapPath})
	s.dispatch(&task.Item{Path: task.GapPath})
	_, ok, _ := all[0].take(false)
	require.True(t, ok)
	_, ok, _ = all[1].take(false)
	require.False(t, ok)
	s.gone(all[0])
	_, ok, _ = all[1].take(false)
	require.True(t, ok)
}

// One of each path may run, and where there are three workers one is free all the same: neither what is slow to retry nor a long gap keeps the other
// from getting on.
func TestGapAndRetriesGetOnBesideEachOther(t *testing.T) {
	for n, free := range map[int]int{2: 0, 3: 1, 8: 1} {
		s, all := crewOf(n)
		s.dispatch(&task.Item{Path: task.RetryPath})
		for range n {
			s.dispatch(&task.Item{Path: task.RetryPath})
			s.dispatch(&task.Item{Path: task.GapPath})
		}
		ran := map[task.Path]int{}
		for _, w := range all {
			if it, ok, _ := w.take(false); ok {
				ran[it.Path]++
			}
		}
		require.Equal(t, n-free, ran[task.GapPath]+ran[task.RetryPath], "of %d", n)
		require.InDelta(t, ran[task.GapPath], ran[task.RetryPath], 1, "of %d", n)
	}
}
