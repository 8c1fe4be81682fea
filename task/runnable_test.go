package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// A task that says it is runnable and takes nothing keeps its loop busy for nothing.
func TestWorkersTaskRestsWhileAProbeRuns(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2), steady, retry.Backoff(time.Hour, time.Hour), retry.Breaker(3, time.Second)))
	for i := range 3 {
		v := fmt.Sprint("v", i)
		y.fails[v] = -1
		y.bring("k:" + v)
		y.drain(false)
	}
	require.Equal(t, "open", y.stats().Breaker)
	y.now = y.now.Add(10 * time.Second)
	y.step(Fetched{0, batch(6, rec(3, "a", "1", 1), rec(4, "b", "2", 1), rec(5, "c", "3", 1))})
	for range 10 {
		y.step(Work{Records: 100})
	}
	require.Equal(t, "1", y.values(), "one at a time")
	require.Equal(t, "probing", y.stats().Breaker)
	require.False(t, y.owner.Runnable(), "it waits for the probe")
	y.drain(false)
	require.Equal(t, 1, y.ran["3"])
	require.Equal(t, "closed", y.stats().Breaker)
}

// The window of a task that was full when it ended is full when it begins again: what has to be read again first makes it no wider.
func TestWorkersWindowThatIsRestoredFull(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2)))
	var holes []retry.Run
	for o := int64(0); o < 24_000; o += 2 {
		holes = append(holes, retry.Run{From: o, To: o + 1})
	}
	m := retry.Metadata{StreamTime: -1, Main: 24_000, Holes: holes, Suspect: -1}
	text, ok := m.Encode(0)
	require.True(t, ok)
	y.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Metadata: text}
	y.crash()
	require.True(t, y.owner.t.full(y.owner.t.in.all[0].window))
	y.bring("a:0", "b:1", "c:2", "d:3")
	require.Equal(t, "0 2", y.values())
	y.drain(false)
	y.commitNow()
	require.EqualValues(t, 4, y.low())
}

// What waits behind the bound of a key goes on as fast as the retries do.
func TestRetriesRunAtOnceWhileTheMainPathHasToWaitForThem(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Depth(50)))
	b.fails["x"] = 1
	b.bring("a:x")
	for i := range 60 {
		b.bring(fmt.Sprintf("a:v%d", i))
	}
	require.LessOrEqual(t, b.stats().Deepest, 51)
	start := b.wake
	b.until(1)
	require.Zero(t, b.stats().Parked)
	require.Equal(t, 60, b.ran["v0"]+len(b.runs)-3) // x twice, then all others once
	require.Less(t, b.now.Sub(start), 2*time.Millisecond)
}

// A limit of dead letters does not shorten the wait of the breaker.
func TestFloodDoesNotEndAnotherWait(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.Attempts(1), retry.ThenDeadLetter(), retry.Flood(1)))
	b.step(Tick{})
	later := b.now.Add(5 * time.Minute).UnixMilli()
	b.owner.t.failure.until = later
	b.owner.t.failure.flood = flood{minute: b.now.UnixMilli() / minute, sent: 1}
	require.True(t, b.owner.t.flooded(1))
	require.Equal(t, later, b.owner.t.failure.until)
}

// The wait for a lagging input leaves no retry of a busy crew to be looked for over and over.
func TestWorkersTaskRestsWhileItIdles(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2), steady), func(c *Config) { c.MaxIdle = time.Minute })
	y.fails["x"], y.fails["y"] = 1, 1
	y.step(Fetched{1, &Batch{Next: 0, HighWatermark: 0}}) // nothing to be redriven
	y.bring("a:x", "b:y")
	y.drain(false)
	require.Equal(t, 2, y.stats().Parked)
	y.step(Fetched{1, &Batch{Next: 0, HighWatermark: 5}}) // there is now, and it is not here
	y.step(Fetched{0, batch(3, rec(2, "c", "1", 1))})
	y.now = y.now.Add(10 * time.Second)
	y.step(Tick{})
	for range 10 {
		y.step(Work{Records: 100})
	}
	require.NotEmpty(t, y.values())
	require.False(t, y.owner.Runnable())
}
