package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

var steady = retry.Jitter(0)

// Each mode, as its row in the table says: what happens to the failed record, what later ones do, what is left behind.
func TestModes(t *testing.T) {
	t.Run("stop", func(t *testing.T) {
		b := newBed(t, retry.Stop())
		b.fails["x"] = 1
		b.bring("a:1", "a:x", "a:2")
		require.ErrorIs(t, b.failed, errBad)
		require.Equal(t, "a:1@1000", b.outs())
		require.EqualValues(t, 1, b.committed["in"].Offset, "nothing past it is committed")
		require.Equal(t, map[string]string{"a": counted(1, 1000)}, b.rows(0))
	})
	t.Run("ordered", func(t *testing.T) {
		b := newBed(t, retry.Ordered(steady))
		b.fails["x"] = 2
		b.bring("a:1", "a:x", "b:2")
		require.Equal(t, "a:1@1000", b.outs(), "the task waits")
		require.False(t, b.owner.Runnable())
		require.True(t, b.wake.Equal(epoch0.Add(5*time.Millisecond)) || b.wake.Equal(epoch0.Add(100*time.Millisecond)), "%v", b.wake)
		b.commitNow()
		require.EqualValues(t, 1, b.committed["in"].Offset, "what precedes it is committed meanwhile")
		b.until(6)
		require.Equal(t, "a:1@1000 a:x@1001 b:2@1002", b.outs(), "in order")
		require.Equal(t, 3, b.ran["x"])
		b.commitNow()
		require.Equal(t, map[string]string{"a": counted(2, 1001), "b": counted(1, 1002)}, b.rows(0), "counted once: the tries left nothing behind")
	})
	t.Run("key-ordered", func(t *testing.T) {
		b := newBed(t, retry.KeyOrdered(steady))
		b.fails["x"] = 2
		b.bring("a:1", "a:x", "b:2", "a:3", "a:4", "b:5")
		require.Equal(t, "a:1@1000 b:2@1002 b:5@1005", b.outs(), "other keys pass")
		s := b.stats()
		require.Equal(t, 3, s.Parked)
		require.Equal(t, 1, s.Gates)
		require.Equal(t, 3, s.Deepest)
		b.commitNow()
		require.EqualValues(t, 6, b.committed["in"].Offset, "what is put aside holds no commit up")
		b.until(12)
		require.Equal(t, "a:1@1000 b:2@1002 b:5@1005 a:x@1001 a:3@1003 a:4@1004", b.outs(), "a's in their order")
		require.Zero(t, b.stats().Parked)
		b.commitNow()
		require.Equal(t, map[string]string{"a": counted(4, 1004), "b": counted(2, 1005)}, b.rows(0))
		require.Empty(t, b.rows(1))
	})
	t.Run("parallel", func(t *testing.T) {
		b := newBed(t, retry.Parallel(steady))
		b.fails["x"] = 2
		b.bring("a:1", "a:x", "a:2")
		require.Equal(t, "a:1@1000 a:2@1002", b.outs(), "all others pass")
		b.until(12)
		require.Equal(t, "a:1@1000 a:2@1002 a:x@1001", b.outs())
		b.commitNow()
		require.Equal(t, map[string]string{"a": counted(3, 1002)}, b.rows(0))
		require.Empty(t, b.rows(1))
	})
}

// What becomes of a record whose attempts are used up.
func TestEnds(t *testing.T) {
	for _, mode := range []struct {
		name string
		make func(...retry.Option) retry.Policy
	}{{"ordered", retry.Ordered}, {"key-ordered", retry.KeyOrdered}, {"parallel", retry.Parallel}} {
		t.Run(mode.name, func(t *testing.T) {
			t.Run("stop", func(t *testing.T) {
				b := newBed(t, mode.make(steady, retry.Attempts(3)))
				b.fails["x"] = -1
				b.bring("a:1", "a:x")
				b.until(20)
				require.ErrorIs(t, b.failed, errBad)
				require.ErrorContains(t, b.failed, "after 3 attempts")
				require.ErrorContains(t, b.failed, "in-1 at offset 1")
				require.Equal(t, 3, b.ran["x"])
			})
			t.Run("dead letter", func(t *testing.T) {
				b := newBed(t, mode.make(steady, retry.Attempts(3), retry.ThenDeadLetter()))
				b.fails["x"] = -1
				b.bring("a:1", "a:x", "b:2")
				b.until(20)
				b.bring("a:3")
				b.until(5)
				b.commitNow()
				require.NoError(t, b.failed)
				require.Equal(t, 3, b.ran["x"])
				require.Equal(t, 1, b.letters())
				require.EqualValues(t, 4, b.committed["in"].Offset)
				require.Contains(t, b.outs(), "a:3@1003", "and what comes after it goes on")
				require.Equal(t, map[string]string{"a": counted(2, 1003), "b": counted(1, 1002)}, b.rows(0))
			})
			t.Run("skip", func(t *testing.T) {
				b := newBed(t, mode.make(steady, retry.Attempts(2), retry.ThenSkip()))
				b.fails["x"] = -1
				b.bring("a:x", "a:2")
				b.until(10)
				b.commitNow()
				require.NoError(t, b.failed)
				require.Equal(t, "a:2@1001", b.outs())
				require.EqualValues(t, 2, b.committed["in"].Offset)
				require.EqualValues(t, 1, b.stats().Skipped)
			})
		})
	}
}

func TestErrorsThatSayHowTheyAreToBeTaken(t *testing.T) {
	cases := []struct {
		name  string
		how   error
		fails int
		tries int
		outs  string
		dlq   int
	}{
		{"permanent", retry.Permanent(errBad), -1, 1, "a:2@1001", 1},
		{"skip", retry.Skip("not for us"), -1, 1, "a:2@1001", 0},
		{"snooze is no attempt", retry.Snooze(50 * time.Millisecond), 20, 21, "a:2@1001 a:x@1000", 0},
		{"after", retry.After(errBad, time.Minute), 2, 3, "a:2@1001 a:x@1000", 0},
		{"panic", panicking{}, 2, 3, "a:2@1001 a:x@1000", 0},
		{"panic for ever", panicking{}, -1, 3, "a:2@1001", 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, retry.Parallel(steady, retry.Attempts(3), retry.ThenDeadLetter()))
			b.fails["x"], b.how["x"] = c.fails, c.how
			b.bring("a:x", "a:2")
			b.until(60)
			require.NoError(t, b.failed)
			require.Equal(t, c.tries, b.ran["x"])
			require.Equal(t, c.outs, b.outs())
			require.Equal(t, c.dlq, b.letters())
		})
	}
}

func TestInlineTries(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.Inline(3), retry.Attempts(2)))
	b.fails["x"] = 5
	b.bring("a:x")
	require.Equal(t, 3, b.ran["x"], "at once")
	b.until(6)
	require.Equal(t, 6, b.ran["x"], "and again three for the second attempt")
	require.Equal(t, "a:x@1000", b.outs())
}

// A failure in the middle of a panic leaves nothing of the record, its neighbours are processed in the same turn.
func TestRegressionPanicOfOneRecordCostsNoOther(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.ThenDeadLetter(), retry.Attempts(1)))
	b.fails["x"], b.how["x"] = -1, panicking{}
	b.bring("a:1", "a:x", "a:2", "b:3")
	b.until(3)
	b.commitNow()
	require.Equal(t, "a:1@1000 a:2@1002 b:3@1003", b.outs())
	require.Equal(t, map[string]string{"a": counted(2, 1002), "b": counted(1, 1003)}, b.rows(0))
	require.Equal(t, 1, b.letters())
}

// The deletion of what was put aside goes out when what its retry made is acknowledged, and no earlier.
func TestSecondLeg(t *testing.T) {
	b := newBed(t, retry.Parallel(steady))
	b.fails["x"] = 1
	b.bring("a:x")
	b.commitNow()
	b.until(3)
	require.Equal(t, "a:x@1000", b.outs())
	parked := len(b.out["in-retry-1"])
	require.NotZero(t, parked)
	b.holdAcks = true
	b.bring("a:2")
	b.step(Commit{})
	require.Empty(t, b.seals)
	require.Len(t, b.out["in-retry-1"], parked, "not before the acknowledgements")
	for len(b.unacked) > 1 {
		b.ack()
		require.Empty(t, b.seals)
	}
	b.ack()
	require.Len(t, b.out["in-retry-1"], parked+2, "entry and payload")
	require.Len(t, b.seals, 1)
	require.Equal(t, b.seals[0].Seq, b.unacked[len(b.unacked)-1], "the offsets wait for the second leg")
	b.ack()
	b.commit(nil)
	require.Empty(t, b.rows(1))
}

// After a crash an entry whose offset is not committed neither runs nor gates until the main path has come to it again.
func TestInertEntries(t *testing.T) {
	for _, p := range []retry.Policy{retry.KeyOrdered(steady), retry.Parallel(steady)} {
		b := newBed(t, p)
		b.fails["x"] = 1
		b.bring("a:1", "a:x", "a:3")
		b.holdCommits = true
		b.step(Commit{})
		require.Len(t, b.seals, 1)
		// The rows are in the changelog, and so in the store of whoever restores it; the offsets are lost.
		offsets := b.committed["in"]
		b.apply(b.seals[0])
		b.committed["in"] = offsets
		b.holdCommits = false
		b.out, b.runs = map[string][]string{}, nil
		b.crash()
		b.until(5)
		require.Empty(t, b.runs, "neither runs before its offset is read again")
		require.Equal(t, b.stats().Parked, b.stats().Inert)
		b.bring("a:1", "a:x", "a:3")
		b.until(8)
		b.commitNow()
		twice := 1 // a:1, as its effects were there: at least once
		if p.Settings().Mode == retry.ModeParallel {
			twice = 2 // and a:3
		}
		require.Equal(t, map[string]string{"a": counted(3+twice, 1002)}, b.rows(0))
		require.Zero(t, b.stats().Parked)
		require.EqualValues(t, 3, b.committed["in"].Offset)
	}
}

func TestAttemptsOfTheHeadSurviveADeploy(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.Attempts(4)))
	b.fails["x"] = -1
	b.bring("a:x")
	b.until(1)
	require.Equal(t, 2, b.ran["x"])
	b.step(Release{})
	require.Equal(t, StateReleased, b.owner.State(), "a task that waits is released at once")
	b.start(b.cfg)
	b.step(Tick{})
	b.bring("a:x")
	require.Equal(t, 2, b.ran["x"], "nor is its time forgotten")
	b.until(12)
	require.Equal(t, 4, b.ran["x"])
	require.ErrorContains(t, b.failed, "after 4 attempts")
}

func TestDelays(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.Backoff(time.Second, time.Minute), retry.Attempts(4)))
	b.fails["x"] = 3
	began := b.now
	b.bring("a:x")
	var at []time.Duration
	for len(at) < 3 {
		n := b.ran["x"]
		b.until(1)
		if b.ran["x"] > n {
			at = append(at, b.now.Sub(began))
		}
	}
	require.Equal(t, []time.Duration{time.Second, 3 * time.Second, 7 * time.Second}, at, "1, 2 and 4 seconds, never early")
}

func TestBreakerTellsAnOutageFromBadRecords(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.Breaker(5, 10*time.Second)))
	var records []string
	for i := range 100 {
		v := fmt.Sprint("v", i)
		records = append(records, fmt.Sprintf("k%d:%s", i, v))
		b.fails[v] = -1
	}
	b.bring(records...)
	require.Len(t, b.runs, 5, "then the partition waits")
	require.Equal(t, "open", b.stats().Breaker)
	b.until(20)
	require.Less(t, b.stats().Parked, 30, "the source is not emptied into the retry topic")
	for v := range b.fails {
		b.fails[v] = 0
	}
	b.until(300)
	require.Equal(t, "closed", b.stats().Breaker)
	require.Len(t, strings.Fields(b.outs()), 100, "when it is over all are processed")
	require.Zero(t, b.stats().Parked)
}

func TestFollowersOfADeadLetter(t *testing.T) {
	cases := []struct {
		how  retry.Followers
		outs string
		dlq  int
		err  bool
	}{
		{retry.FollowersGoOn, "a:2@1001 a:3@1002", 1, false},
		{retry.FollowersToo, "", 3, false},
		{retry.FollowersStop, "", 0, true},
	}
	for _, c := range cases {
		t.Run(c.how.String(), func(t *testing.T) {
			b := newBed(t, retry.KeyOrdered(steady, retry.Attempts(2), retry.ThenDeadLetter(), retry.WithFollowers(c.how)))
			b.fails["x"] = -1
			b.bring("a:x", "a:2", "a:3")
			b.until(10)
			require.Equal(t, c.outs, b.outs())
			require.Equal(t, c.dlq, b.letters())
			require.Equal(t, c.err, b.failed != nil)
		})
	}
}

func TestDepthIsBounded(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Depth(3)))
	b.fails["x"] = 1
	b.bring("a:x", "a:1", "a:2", "a:3", "a:4", "b:5")
	require.LessOrEqual(t, b.stats().Deepest, 4)
	require.NotContains(t, b.outs(), "b:5", "the partition waits for the key")
	b.until(20)
	require.Equal(t, "a:x@1000 a:1@1001 a:2@1002 a:3@1003 a:4@1004 b:5@1005", sorted(b.outs()))
}

func sorted(s string) string {
	f := strings.Fields(s)
	for i := range f {
		for j := i + 1; j < len(f); j++ {
			if f[j][strings.Index(f[j], "@"):] < f[i][strings.Index(f[i], "@"):] {
				f[i], f[j] = f[j], f[i]
			}
		}
	}
	return strings.Join(f, " ")
}

func TestDeadLettersAreLimited(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.Attempts(1), retry.ThenDeadLetter(), retry.Flood(2), retry.NoBreaker()))
	for _, v := range []string{"w", "x", "y"} {
		b.fails[v] = -1
	}
	b.bring("a:w", "b:x", "c:y", "d:1")
	require.Equal(t, 2, b.letters())
	require.Empty(t, b.outs(), "the task waits for the next minute")
	require.Contains(t, b.stats().Why, "dead letters")
	b.until(3)
	require.Equal(t, 3, b.letters())
	require.Equal(t, "d:1@1003", b.outs())
}

// A record that ends its process is named, run alone, and ended as the policy says, wherever the task runs.
func TestCrashSuspects(t *testing.T) {
	b := newBed(t, retry.Ordered(steady, retry.ThenDeadLetter()))
	var records []string
	for i := range 20 {
		records = append(records, fmt.Sprintf("k:v%d", i))
	}
	b.fails["v7"], b.how["v7"] = -1, errKill
	deaths := 0
	b.cfg.CommitInterval, b.cfg.Announce = time.Second, true
	for ; deaths < 20 && b.committed["in"].Offset < 20; deaths++ {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.crash()
			b.bringFrom(records)
			b.until(3)
			b.commitNow()
		}()
		<-done
	}
	require.EqualValues(t, 20, b.committed["in"].Offset)
	require.Equal(t, 1, b.letters())
	require.LessOrEqual(t, b.ran["v7"], 6, "deaths")
	require.Len(t, strings.Fields(b.outs()), 19, "all others are processed")
	require.Contains(t, strings.Join(append(b.out["dlq-0"], b.out["dlq-1"]...), " "), "v7")
}

// What is known of a record is handed on with the task, and is not forgotten by a runner that does not come to it either.
func TestCrashSuspectsOutliveARelease(t *testing.T) {
	for _, end := range []string{"release", "crash"} {
		b := newBed(t, retry.Ordered(steady, retry.ThenDeadLetter()))
		b.cfg.Announce = true
		b.start(b.cfg)
		b.fails["x"], b.how["x"] = -1, errKill
		for b.letters() == 0 {
			require.Less(t, b.ran["x"], 7, "deaths")
			done := make(chan struct{})
			go func() {
				defer close(done)
				b.crash()
				b.bringFrom([]string{"a:x"})
				b.until(3)
			}()
			<-done
			b.crash() // it begins, and gets nothing to do
			if end == "release" {
				b.step(Release{})
				b.work()
				require.Equal(t, StateReleased, b.owner.State())
			}
		}
		require.Equal(t, 1, b.letters())
	}
}

// errKill ends the process, as far as a test can: it ends the goroutine, which nothing recovers.
var errKill = errors.New("kill")

// bringFrom brings the records from the position of the task on.
func (b *bed) bringFrom(records []string) {
	at := b.owner.t.in.all[0].end
	if at < int64(len(records)) {
		b.bring(records[at:]...)
	}
}

// Clocks jump, and those of two hosts are not the same. That makes no wait longer, neither that of what was put aside nor that for a head.
func TestWaitsAreNotLongerByAnotherClock(t *testing.T) {
	wait := retry.Backoff(time.Second, time.Second)
	for _, p := range []retry.Policy{retry.Parallel(steady, wait), retry.KeyOrdered(steady, wait), retry.Ordered(steady, wait)} {
		for _, how := range []string{"another host", "set back"} {
			b := newBed(t, p)
			ahead := b.now
			b.now = b.now.Add(time.Hour)
			b.fails["x"] = 1
			b.bring("a:x")
			b.commitNow()
			require.Equal(t, 1, b.ran["x"])
			b.now = ahead
			if how == "another host" {
				b.crash()
				b.bringFrom([]string{"a:x"})
			}
			b.step(Tick{})
			b.now = b.now.Add(2 * time.Second)
			b.step(Tick{})
			b.work()
			require.Equal(t, 2, b.ran["x"], "%v, %s", p.Settings().Mode, how)
		}
	}
}

// Records that fail each time are no outage, however often they are tried.
func TestRegressionRetriesOfBadRecordsOpenNoBreaker(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.Breaker(5, 10*time.Second), retry.Attempts(10), retry.ThenDeadLetter()))
	for _, v := range []string{"w", "x"} {
		b.fails[v] = -1
	}
	b.bring("a:1", "a:w", "a:2", "a:x", "a:3")
	b.until(60)
	require.Zero(t, b.stats().Outages)
	require.Equal(t, 2, b.letters())
}

// The time of a turn is old when a unit fails at its end.
func TestRegressionNoTryIsEarlyByTheClockOfTheTry(t *testing.T) {
	f := newFlaky()
	b := &bed{flaky: f, cfg: Config{Spec: f.spec(retry.Parallel(steady, retry.Backoff(time.Second, time.Minute))), CommitInterval: time.Hour}}
	failed := epoch0.Add(7 * time.Millisecond)
	b.cfg.Clock = func() time.Time { return failed }
	b.world = newWorld(t, b.cfg)
	b.fails["x"] = 1
	b.bring("a:x")
	require.Equal(t, 1, b.ran["x"])
	require.False(t, b.wake.Before(failed.Add(time.Second)), "%v", b.wake)
}
