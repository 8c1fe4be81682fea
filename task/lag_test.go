package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// With a gap the position is the gap's, and what both paths have done above it is counted: the lag is what is open in both.
func TestLagOfTwoPaths(t *testing.T) {
	b := broken(t)
	open := func(end int64) int64 {
		l := b.owner.Lag(0)
		return end - l.Position - l.Done
	}
	require.EqualValues(t, 50, open(120))
	b.feed(0, log(120, 123))
	require.EqualValues(t, 50+7, open(130), "the main path has done three of ten")
	b.feed(ofGap, log(70, 80))
	require.Equal(t, Lag{Position: 80, Done: 3, Oldest: 5122}, b.owner.Lag(0))
	require.EqualValues(t, 40+7, open(130))
	b.feed(ofGap, log(80, 120))
	require.Equal(t, Lag{Position: 123, Oldest: 5122}, b.owner.Lag(0), "one path again")
	require.EqualValues(t, 7, open(130))
}

// The same where workers have done some of both out of order.
func TestLagOfTwoPathsOfWorkers(t *testing.T) {
	y := brokenYard(t, retry.Workers(4))
	y.feed(ofGap, log(70, 74))
	y.feed(0, log(120, 124))
	for _, v := range []string{"71", "73", "121", "123"} {
		y.runValue(v)
	}
	l := y.owner.Lag(0)
	require.EqualValues(t, 70, l.Position)
	require.EqualValues(t, 4, l.Done)
	y.runValue("70")
	l = y.owner.Lag(0)
	require.EqualValues(t, []int64{72, 3}, []int64{l.Position, l.Done})
	y.drain(false)
	l = y.owner.Lag(0)
	require.EqualValues(t, []int64{74, 4}, []int64{l.Position, l.Done})
}
