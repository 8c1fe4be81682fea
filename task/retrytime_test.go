package task

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// A record that was put aside sees the stream time of its arrival, with its own, however far that has gone meanwhile.
func TestRetrySeesTheStreamTimeOfItsArrival(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers, " workers"), func(t *testing.T) {
			y := newYard(t, retry.Parallel(steady, retry.Workers(workers)), func(c *Config) {
				var seen []int64
				build := c.Spec.Build
				c.Spec.Build = func(e *Env) (*Graph, error) {
					g, err := build(e)
					in := g.Inputs[0]
					g.Inputs[0] = func(r *Record) {
						if string(r.Value) == "x" {
							seen = append(seen, e.StreamTime())
						}
						in(r)
					}
					return g, err
				}
				t.Cleanup(func() { require.Equal(t, []int64{1001, 1001}, seen) })
			})
			y.fails["x"] = 1
			y.bring("k:0", "a:x", "b:1", "c:2")
			y.drain(false)
			y.pass(3)
			require.Equal(t, 2, y.ran["x"])
			require.EqualValues(t, 1003, y.owner.t.streamTime, "and does not move it")
		})
	}
}

// One that waits behind a dead letter and is done already, but for a deletion that was cut off, stops nobody.
func TestFollowerWithoutItsPayloadIsDone(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Attempts(2), retry.ThenDeadLetter(), retry.WithFollowers(retry.FollowersToo)))
	b.fails["x"] = -1
	b.bring("a:x", "a:1", "a:2")
	require.NoError(t, b.owner.t.failure.pool.store.Delete(retry.AppendPayloadKey(nil, b.owner.t.origin(0, 1)), 1))
	b.until(10)
	require.NoError(t, b.failed)
	require.Zero(t, b.stats().Parked)
	require.Equal(t, 2, b.letters())
}

// Reasons are the user's: one for each record must not fill the memory.
func TestReasonsOfSkippedRecordsAreBounded(t *testing.T) {
	b := newBed(t, retry.Ordered(steady))
	for i := range 3000 {
		v := fmt.Sprint("v", i)
		b.fails[v], b.how[v] = 1, retry.Skip(fmt.Sprint("order ", i))
		b.bring("a:" + v)
	}
	dropped := b.owner.Stats().Dropped
	require.LessOrEqual(t, len(dropped), mostReasons+1)
	sum := int64(0)
	for _, n := range dropped {
		sum += n.N
	}
	require.EqualValues(t, 3000, sum)
}
