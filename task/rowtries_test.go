package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// A punctuation that always fails ends, although commits go on and emit what they have to.
func TestTriesOfAPunctuationAreItsOwn(t *testing.T) {
	fails := map[string]int{"tick": -1}
	var fired []int64
	p := retry.Ordered(retry.Backoff(time.Second, time.Second), retry.Jitter(0), retry.Attempts(4), retry.NoBreaker())
	b := &bed{world: newWorld(t, Config{Spec: rowsSpec(p, fails, WallClock, &fired), CommitInterval: time.Hour})}
	b.step(Tick{})
	b.feed(0, batch(1, rec(0, "a", "1", 1)))
	b.now = b.now.Add(10 * time.Millisecond)
	b.step(Tick{})
	for range 10 {
		if b.failed != nil {
			break
		}
		b.step(Rewrite{Store: 0, Keys: [][]byte{[]byte("a")}}) // something to commit each time
		b.step(Commit{})
		b.now = b.now.Add(time.Second)
		b.step(Tick{})
	}
	require.ErrorIs(t, b.failed, errBad)
	require.Len(t, fired, 4)
}

// Tries of a punctuation do not count against an emission, and an emission that is left out takes no punctuation with it.
func TestTriesOfAnEmissionAreItsOwn(t *testing.T) {
	fails := map[string]int{"tick": 2, "a": 2}
	var fired []int64
	p := retry.Ordered(retry.Backoff(time.Second, time.Second), retry.Jitter(0), retry.Attempts(3), retry.Rows(retry.EndSkip))
	b := &bed{world: newWorld(t, Config{Spec: rowsSpec(p, fails, StreamTime, &fired), CommitInterval: time.Hour})}
	b.feed(0, batch(1, rec(0, "a", "1", 50)))
	require.Len(t, fired, 1)
	b.now = b.now.Add(time.Second)
	b.step(Tick{})
	require.Len(t, fired, 2, "it has failed twice")
	b.step(Commit{})
	b.until(5)
	require.Len(t, fired, 3, "and has been processed")
	require.Contains(t, b.sentTo("out"), "tick:-@50")
	require.Contains(t, b.sentTo("out"), "a:1@50")
	require.Zero(t, b.stats().Skipped)

	fails["a"], fails["tick"] = -1, 1
	b.feed(0, batch(2, rec(1, "a", "1", 100)))
	b.step(Commit{})
	b.until(8)
	require.EqualValues(t, 1, b.stats().Skipped)
	require.Contains(t, b.sentTo("out"), "tick:-@100")
}

// The next schedule of stream time does not wait for the next record where the one before it had to be tried again.
func TestSchedulesBehindOneThatFails(t *testing.T) {
	fails := 1
	var fired []string
	s := mapSpec()
	s.Failure = retry.Ordered(steady)
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		e.Schedule("first", 10*time.Millisecond, StreamTime, func(int64) {
			fired = append(fired, "first")
			if fails > 0 {
				fails--
				e.Fail("first", KindPunctuate, errBad)
			}
		})
		e.Schedule("second", 10*time.Millisecond, StreamTime, func(int64) { fired = append(fired, "second") })
		return build(e)
	}
	b := &bed{world: newWorld(t, Config{Spec: s, CommitInterval: time.Hour})}
	b.feed(0, batch(1, rec(0, "a", "1", 15)))
	b.until(1)
	require.Equal(t, []string{"first", "first", "second"}, fired)
}

// A schedule of stream time that has not succeeded is made up for by whoever runs the task next, although the record that set it off is done.
func TestScheduleThatHasFailedIsNotForgotten(t *testing.T) {
	fails := map[string]int{"tick": 1}
	var fired []int64
	spec := rowsSpec(retry.Ordered(steady), fails, StreamTime, &fired)
	b := &bed{cfg: Config{Spec: spec, CommitInterval: time.Hour}}
	b.world = newWorld(t, b.cfg)
	b.feed(0, batch(1, rec(0, "a", "1", 57)))
	require.Equal(t, []int64{57}, fired)
	b.step(Release{})
	require.Equal(t, StateReleased, b.owner.State())
	require.EqualValues(t, 1, b.committed["in"].Offset)
	b.crash()
	b.feed(0, batch(2, rec(1, "a", "1", 58)))
	require.Equal(t, []int64{57, 58}, fired)
	b.commitNow()
	require.EqualValues(t, 58, b.said().StreamTime)
}
