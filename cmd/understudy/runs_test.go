package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
)

func TestRuns(t *testing.T) {
	var r runs
	require.Zero(t, r.low())
	r.add(3, 5)
	r.add(7, 8)
	require.Equal(t, runs{{From: 3, To: 5}, {From: 7, To: 8}}, r)
	require.Zero(t, r.low())
	r.add(0, 3)
	require.Equal(t, int64(5), r.low())
	require.Equal(t, []retry.Run{{From: 5, To: 7}}, r.gaps())
	r.add(5, 7)
	require.Equal(t, runs{{From: 0, To: 8}}, r)
	r.add(4, 4)
	require.Equal(t, runs{{From: 0, To: 8}}, r)
}

func TestRunsAreTheirOffsets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var r runs
		model := map[int64]bool{}
		for range rapid.IntRange(0, 40).Draw(t, "adds") {
			from := rapid.Int64Range(0, 60).Draw(t, "from")
			to := from + rapid.Int64Range(0, 6).Draw(t, "length")
			r.add(from, to)
			for o := from; o < to; o++ {
				model[o] = true
			}
		}
		low := int64(0)
		for o := int64(0); o < 70; o++ {
			require.Equal(t, model[o], r.has(o), "offset %d of %v", o, r)
			if low == o && model[o] {
				low++
			}
		}
		require.Equal(t, low, r.low())
		for i := 1; i < len(r); i++ {
			require.Less(t, r[i-1].To, r[i].From, "they do not touch: %v", r)
		}
	})
}
