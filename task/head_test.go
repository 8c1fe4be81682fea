package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// Offsets without a record, of compaction or of markers, may come before the record that waits: its tries are kept over a deploy all the same.
func TestAttemptsOfTheHeadBehindAGapSurviveADeploy(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.Attempts(4)))
	b.fails["x"] = -1
	bring := func() { b.feed(0, &Batch{Records: []Record{rec(3, "a", "x", 1003)}, Next: 4, Bytes: 20}) }
	bring()
	b.until(1)
	require.Equal(t, 2, b.ran["x"])
	b.step(Release{})
	require.Equal(t, StateReleased, b.owner.State())
	require.EqualValues(t, 3, b.committed["in"].Offset, "there is nothing below")
	b.start(b.cfg)
	b.step(Tick{})
	bring()
	b.until(12)
	require.Equal(t, 4, b.ran["x"])
	require.ErrorContains(t, b.failed, "after 4 attempts")
}

// What an error has asked for is waited for over a restart too, also where it is longer than the policy's longest wait.
func TestLongWaitOfTheHeadSurvivesARestart(t *testing.T) {
	for name, how := range map[string]error{"snooze": retry.Snooze(3 * time.Hour), "after": retry.After(errBad, 3*time.Hour)} {
		for _, clean := range []bool{true, false} {
			for _, forever := range []bool{true, false} {
				opts := []retry.Option{steady}
				if forever {
					opts = append(opts, retry.Attempts(retry.Forever))
				}
				b := newBed(t, retry.Ordered(opts...))
				b.fails["x"], b.how["x"] = 1, how
				b.bring("a:x")
				began := b.now
				if clean {
					b.step(Release{})
				} else {
					b.commitNow()
				}
				b.now = b.now.Add(time.Hour)
				b.start(b.cfg)
				b.step(Tick{})
				b.bring("a:x")
				for i := 0; i < 9 && b.ran["x"] < 2; i++ {
					b.now = b.wake
					b.step(Tick{})
					b.work()
				}
				require.Equal(t, 2, b.ran["x"], name)
				require.WithinDuration(t, began.Add(3*time.Hour), b.now, time.Second, name)
			}
		}
	}
}

// The times of a commit may be of a clock that was far ahead: nothing waits for that.
func TestRegressionDueOfAClockThatWasAheadIsBounded(t *testing.T) {
	year := 365 * 24 * time.Hour
	for _, c := range []struct {
		policy     retry.Policy
		first, due time.Duration // from now
		wait, most time.Duration
	}{
		{retry.Ordered(steady), year, year + time.Minute, time.Minute, time.Minute},
		{retry.Ordered(steady), 0, year, time.Minute, time.Minute}, // its first try was at a host whose clock was right
		{retry.Ordered(steady), 0, year, year, 24 * time.Hour},
		{retry.Ordered(steady, retry.MaxAge(time.Hour)), 0, year, year, time.Hour},
		{retry.Ordered(steady, retry.Attempts(retry.Forever)), 0, year, year, 7 * 24 * time.Hour},
		{retry.Ordered(steady, retry.Attempts(retry.Forever)), year, 0, time.Minute, 0},
	} {
		b := newBed(t, c.policy)
		at := func(d time.Duration) int64 { return b.now.Add(d).UnixMilli() }
		m := retry.Metadata{StreamTime: -1, Suspect: -1, Head: &retry.Head{Attempt: 1, First: at(c.first), Due: at(c.due), Wait: c.wait.Milliseconds()}}
		text, ok := m.Encode(0)
		require.True(t, ok)
		b.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Metadata: text}
		b.start(b.cfg)
		b.step(Tick{})
		b.bring("a:x")
		b.now = b.now.Add(c.most)
		b.step(Tick{})
		b.work()
		require.Equal(t, 1, b.ran["x"], "%+v", c)
	}
}

// A Snooze is no attempt, but the record's age is kept over a deploy.
func TestAgeOfASnoozeSurvivesADeploy(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.MaxAge(time.Hour), retry.ThenSkip()))
	b.fails["x"], b.how["x"] = -1, retry.Snooze(25*time.Minute)
	b.bring("a:x")
	for range 4 {
		b.now = b.now.Add(25 * time.Minute)
		b.step(Tick{})
		b.work()
		b.step(Release{})
		b.start(b.cfg)
		b.step(Tick{})
		if b.committed["in"].Offset == 0 {
			b.bring("a:x")
		}
	}
	require.EqualValues(t, 1, b.committed["in"].Offset, "it has become too old")
}

// A clock that is set back makes no wait longer.
func TestWaitWhileTheClockIsSetBack(t *testing.T) {
	b := newBed(t, retry.Ordered(retry.Backoff(time.Second, time.Second), retry.Jitter(0)))
	b.fails["x"] = 1
	b.bring("a:x")
	b.now = b.now.Add(-15 * time.Minute)
	b.step(Tick{})
	b.now = b.now.Add(time.Second)
	b.step(Tick{})
	b.work()
	require.Equal(t, 2, b.ran["x"])
}

// Where another runner has had several workers, what it has left open is done in its place, and nothing is looked up after that.
func TestWindowOfAnotherRunnerIsClosed(t *testing.T) {
	b := newBed(t, retry.Parallel(steady))
	m := retry.Metadata{StreamTime: -1, Main: 4, Holes: []retry.Run{{From: 0, To: 1}, {From: 2, To: 3}}, Suspect: -1}
	text, ok := m.Encode(0)
	require.True(t, ok)
	b.committed["in"] = InputOffset{TopicPartition: TopicPartition{"in", 1}, Metadata: text}
	b.crash()
	b.bring("a:0", "a:1", "a:2")
	b.commitNow()
	require.EqualValues(t, 4, b.committed["in"].Offset)
	require.True(t, b.owner.t.in.all[0].guarded)
	b.bring("a:3", "a:4")
	b.commitNow()
	require.EqualValues(t, 5, b.committed["in"].Offset)
	require.Equal(t, []string{"0", "2", "4"}, b.runs)
	require.False(t, b.owner.t.in.all[0].guarded)
}
