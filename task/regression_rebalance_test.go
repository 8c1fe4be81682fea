package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// What others have lost, stuck on or done out of order when partitions moved.

// run runs an item on a worker and keeps its result back.
func (y *yard) run(v string) *Result {
	i := y.find(v)
	it := y.handed[i]
	y.handed = slices.Delete(y.handed, i, i+1)
	return y.workers[0].Run(context.Background(), y.now, it)
}

// moves lets the task begin anew elsewhere, after a clean end.
func (y *yard) moves() {
	y.step(Release{})
	require.Equal(y.t, StateReleased, y.owner.State())
	y.step(Close{})
	y.crash()
}

// bringAll brings those records that are not committed.
func (y *yard) bringAll(all []string) {
	y.owner.t.in.all[0].end = y.low()
	y.bring(all[y.low():]...)
}

// confluentinc/parallel-consumer #826: a commit came between the dispatch of a record and its run, the partition was revoked, and the record was
// skipped.
func TestRegressionCommitBeforeDispatchedWorkHasRunSkipsNothing(t *testing.T) {
	for _, how := range []string{"release", "lost"} {
		y := newYard(t, retry.Parallel(retry.Workers(4)))
		all := []string{"a:1", "b:2", "c:3"}
		y.bring(all...)
		y.commitNow()
		require.Zero(t, y.low(), "none has run")
		y.runValue("2")
		y.commitNow()
		require.Zero(t, y.low(), "the first has not")
		if how == "lost" {
			y.step(Lost{})
			y.step(Close{})
			y.crash()
		} else {
			y.moves()
		}
		y.bringAll(all)
		require.Equal(t, "1 3", y.values(), how)
		y.drain(true)
		y.commitNow()
		require.EqualValues(t, 3, y.low())
		require.Equal(t, map[string]string{"a": "1@1000", "b": "1@1001", "c": "1@1002"}, y.rows(0))
	}
}

// confluentinc/parallel-consumer #857: a revocation while a commit ran was a deadlock, and consumption did not go on by itself.
func TestRegressionRevokedWhileACommitRuns(t *testing.T) {
	for _, back := range []bool{false, true} {
		y := newYard(t, retry.Parallel(retry.Workers(2)))
		y.bring("a:1", "b:2", "c:3")
		y.runValue("1")
		y.holdCommits = true
		y.step(Commit{})
		require.Len(t, y.seals, 1)
		y.runValue("2")
		y.step(Release{})
		require.NotEqual(t, StateReleased, y.owner.State(), "what is being committed is waited for")
		if back {
			y.step(Resume{})
		}
		y.holdCommits = false
		y.commit(nil)
		y.work()
		for len(y.seals) > 0 {
			y.commit(nil)
		}
		if !back {
			require.Equal(t, StateReleased, y.owner.State())
			require.EqualValues(t, 2, y.low())
			y.step(Resume{})
			y.work()
		}
		y.drain(false)
		y.bring("d:4")
		y.drain(false)
		y.commitNow()
		require.EqualValues(t, 4, y.low())
		require.Equal(t, map[string]string{"a": "1@1000", "b": "1@1001", "c": "1@1002", "d": "1@1003"}, y.rows(0))
	}
}

// confluentinc/parallel-consumer #606: what was handed out before a rebalance counted as load after it, and nothing more was taken.
func TestRegressionGhostsAreNoLoad(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(retry.Workers(2)))
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("k%d:v%d", i%7, i))
	}
	y.bring(all...)
	full := len(y.handed)
	require.Equal(t, 4, full)
	for range 3 {
		ghosts := y.handed
		y.handed = nil
		y.step(Release{})
		require.Equal(t, StateReleased, y.owner.State())
		for _, it := range ghosts[:2] {
			y.step(Done{y.workers[0].Refuse(it, errors.New("cancelled"))})
		}
		y.step(Resume{})
		y.work()
		for _, it := range ghosts[2:] {
			y.step(Done{y.workers[0].Refuse(it, errors.New("cancelled"))})
			y.work()
		}
		require.Len(t, y.handed, full, "as many as before")
	}
	y.drain(true)
	y.pass(3)
	y.commitNow()
	require.Zero(t, y.owner.t.crew.running+y.owner.t.crew.taken+y.owner.t.crew.bytes)
	require.EqualValues(t, 20, y.low())
	for _, r := range all {
		require.Equal(t, 1, y.ran[r[strings.Index(r, ":")+1:]])
	}
}

// confluentinc/parallel-consumer #777: a record took so long that its partition had left and come back when it was done.
func TestRegressionLongRecordOverRevokeAndReturnIsDoneAgainAndCounted(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2)))
	y.bring("a:long", "b:2")
	late := y.run("long")
	y.step(Release{})
	require.Equal(t, StateReleased, y.owner.State())
	y.step(Done{late})
	require.EqualValues(t, 1, y.stats().Stale, "nobody counts on it any more")
	require.Empty(t, y.out["out-1"])
	y.step(Resume{})
	y.work()
	y.drain(false)
	y.commitNow()
	require.Equal(t, 2, y.ran["long"], "done again")
	require.EqualValues(t, 2, y.low())
	require.Equal(t, map[string]string{"a": "1@1000", "b": "1@1001"}, y.rows(0), "and counted once")

	y.bring("c:longer")
	lost := y.run("longer")
	y.step(Lost{})
	y.step(Done{lost})
	require.EqualValues(t, 2, y.stats().Stale)
	y.step(Close{})
	y.crash()
	y.bring("c:longer")
	y.drain(false)
	y.commitNow()
	require.EqualValues(t, 3, y.low())
	require.Equal(t, "1@1002", y.rows(0)["c"])
}

// spring-projects/spring-kafka #2525: a partition that left and came back within a retry's delay was never resumed.
func TestRegressionRetryIsDueWhenItsPartitionLeavesAndReturnsWithinItsDelay(t *testing.T) {
	wait := retry.Backoff(10*time.Second, 10*time.Second)
	for _, p := range []retry.Policy{retry.Ordered(steady, wait), retry.KeyOrdered(steady, wait), retry.Parallel(steady, wait)} {
		for _, how := range []string{"taken back", "elsewhere", "crash"} {
			b := newBed(t, p)
			b.fails["x"] = 1
			b.bring("a:x")
			due := b.now.Add(10 * time.Second)
			b.commitNow()
			b.now = b.now.Add(time.Second)
			switch how {
			case "crash":
				b.crash()
			default:
				b.step(Release{})
				require.Equal(t, StateReleased, b.owner.State())
				b.now = b.now.Add(2 * time.Second)
				if how == "taken back" {
					b.step(Resume{})
				} else {
					b.crash()
				}
			}
			b.work()
			if how != "taken back" && b.committed["in"].Offset == 0 {
				b.bring("a:x")
			}
			require.Equal(t, 1, b.ran["x"], "%v, %s: not early", p.Settings().Mode, how)
			require.False(t, b.wake.After(due), "%v, %s: it wakes up for it, %v", p.Settings().Mode, how, b.wake.Sub(due))
			b.now = due.Add(-time.Millisecond)
			b.step(Tick{})
			b.work()
			require.Equal(t, 1, b.ran["x"], "%v, %s: not early", p.Settings().Mode, how)
			b.now = due
			b.step(Tick{})
			b.work()
			require.Equal(t, 2, b.ran["x"], "%v, %s", p.Settings().Mode, how)
			require.Equal(t, "a:x@1000", b.outs())
		}
	}
}

// spring-projects/spring-kafka #2340: a rebalance while a retry held its partition up drained records that nobody had processed.
func TestRegressionRebalanceWhileTheTaskWaitsDrainsNothingUnprocessed(t *testing.T) {
	for _, back := range []bool{false, true} {
		b := newBed(t, retry.Ordered(steady, retry.Backoff(time.Minute, time.Minute)))
		b.fails["x"] = 1
		b.bring("a:1", "a:x", "b:2", "c:3")
		b.step(Release{})
		require.Equal(t, StateReleased, b.owner.State())
		require.EqualValues(t, 1, b.committed["in"].Offset)
		require.Equal(t, "a:1@1000", b.outs())
		if back {
			b.step(Resume{})
		} else {
			b.crash()
			b.bring("a:x", "b:2", "c:3")
		}
		b.work()
		require.Equal(t, "a:1@1000", b.outs(), "it waits still")
		b.until(3)
		b.commitNow()
		require.Equal(t, "a:1@1000 a:x@1001 b:2@1002 c:3@1003", b.outs())
		require.EqualValues(t, 4, b.committed["in"].Offset)
	}
}

// spring-projects/spring-kafka #2581, reactor-kafka #260: acks that were pending out of their order were mixed up by a rebalance.
func TestRegressionRebalanceWithPendingOutOfOrderAcks(t *testing.T) {
	for _, back := range []bool{false, true} {
		y := newYard(t, retry.Parallel(retry.Workers(4)))
		all := []string{"a:0", "b:1", "c:2", "d:3", "e:4", "f:5"}
		y.bring(all...)
		for _, v := range []string{"1", "3", "5"} {
			y.runValue(v)
		}
		pending := y.run("4")
		if back {
			y.step(Release{})
			y.step(Resume{})
			y.step(Done{pending})
			y.work()
		} else {
			y.moves()
			m, err := retry.ParseMetadata(y.committed["in"].Metadata, y.low(), -1)
			require.NoError(t, err)
			require.Equal(t, []retry.Run{{From: 0, To: 1}, {From: 2, To: 3}, {From: 4, To: 5}}, m.Holes)
			y.bringAll(all)
		}
		open := "0 2 4"
		if back {
			open = "0 2"
		}
		require.Equal(t, open, y.values())
		y.drain(true)
		y.commitNow()
		require.EqualValues(t, 6, y.low())
		require.Len(t, y.rows(0), 6)
		for key, row := range y.rows(0) {
			require.True(t, strings.HasPrefix(row, "1@"), "%s: %s", key, row)
		}
	}
}

// lovoo/goka #490: a failure that was reported while its partition was being revoked let its offset be committed.
func TestRegressionFailureWhileBeingRevokedCommitsNothing(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"dead letter": retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenDeadLetter()),
		"skip":        retry.KeyOrdered(retry.Workers(2), retry.Attempts(1), retry.ThenSkip()),
		"stop":        retry.Parallel(retry.Workers(2), retry.Attempts(1)),
	} {
		t.Run(name, func(t *testing.T) {
			y := newYard(t, p)
			y.fails["x"] = 1
			y.bring("a:x", "b:2")
			failed := y.run("x")
			require.Error(t, failed.Err)
			y.step(Release{})
			y.step(Done{failed})
			require.Equal(t, StateReleased, y.owner.State())
			require.NoError(t, y.failed)
			require.Zero(t, y.low())
			require.Zero(t, y.letters())
			require.Zero(t, y.stats().Skipped)
			y.step(Close{})
			y.crash()
			y.bringAll([]string{"a:x", "b:2"})
			y.drain(false)
			y.commitNow()
			require.EqualValues(t, 2, y.low(), "whoever has it next processes it")
			require.Equal(t, "1@1000", y.rows(0)["a"])
		})
	}
}

// FLINK-40456: the result of a call that had timed out raced its retry, and the record was completed twice, or never.
func TestRegressionTimeoutAndRetryOfARecordCompleteItOnce(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2), steady, retry.Backoff(time.Second, time.Second)))
	y.fails["slow"], y.how["slow"] = 1, context.DeadlineExceeded
	y.bring("a:slow")
	timedOut := y.run("slow")
	require.True(t, y.owner.t.eject(0, y.owner.t.in.all[0].window), "it is put aside while it runs")
	require.Equal(t, 1, y.stats().Running)
	y.pass(3)
	require.Empty(t, y.handed, "it is not tried beside itself")
	y.step(Done{timedOut})
	y.work()
	require.Equal(t, 1, y.stats().Parked)
	require.Zero(t, y.stats().Running)
	y.now = y.now.Add(2 * time.Second)
	y.step(Tick{})
	y.work()
	y.drain(false)
	y.pass(5)
	y.commitNow()
	require.Equal(t, 2, y.ran["slow"])
	require.Equal(t, "1@1000", y.rows(0)["a"], "completed once")
	require.Zero(t, y.stats().Parked)
	require.Empty(t, y.rows(1))
	require.EqualValues(t, 1, y.low())
}

// FLINK-7949: a queue that was full, and one more, when it was restored, was a deadlock.
func TestRegressionRestoreOfAFullStoreAndOneMore(t *testing.T) {
	for _, mode := range []func(...retry.Option) retry.Policy{retry.Parallel, retry.KeyOrdered} {
		for _, workers := range []int{1, 2} {
			policy := func(parked int) retry.Policy {
				return mode(steady, retry.NoBreaker(), retry.Parked(parked, 1<<20), retry.Workers(workers))
			}
			y := newYard(t, policy(3))
			all := []string{"a:x1", "b:x2", "c:x3", "d:x4", "e:5"}
			for _, v := range []string{"x1", "x2", "x3", "x4"} {
				y.fails[v] = 1
			}
			y.bring(all...)
			y.drain(false)
			require.Equal(t, 3, y.stats().Parked)
			y.commitNow()
			y.cfg.Spec.Failure = policy(2) // full, and one more
			y.now = y.now.Add(time.Minute)
			y.crash()
			y.bringAll(all)
			y.drain(false)
			for range 20 {
				y.pass(1)
			}
			y.commitNow()
			require.Zero(t, y.stats().Parked)
			require.EqualValues(t, 5, y.low())
			require.Len(t, y.rows(0), 5)
		}
	}
}

// SAMZA-1384, SAMZA-1146: a commit that ran while callbacks completed covered what was not done, and of several partitions in one task not all got on.
func TestRegressionCommitWhileRecordsOfSeveralInputsCompleteCoversTheDoneOnly(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)), func(c *Config) {
		c.Spec.Inputs[1] = Input{Topic: "beside"}
		build := c.Spec.Build
		c.Spec.Build = func(e *Env) (*Graph, error) {
			g, err := build(e)
			g.Inputs[1] = g.Inputs[0]
			return g, err
		}
	})
	beside := func() int64 { return y.committed["beside"].Offset }
	y.bring("a:1", "b:2")
	y.feed(1, batch(2, rec(0, "c", "3", 1), rec(1, "d", "4", 1)))
	y.runValue("1")
	y.holdCommits = true
	y.step(Commit{})
	require.Len(t, y.seals, 1)
	for _, v := range []string{"2", "3", "4"} { // while it is under way
		y.runValue(v)
	}
	y.holdCommits = false
	y.commit(nil)
	require.EqualValues(t, 1, y.low(), "what was done when it was cut")
	require.Zero(t, beside())
	y.commitNow()
	require.EqualValues(t, 2, y.low())
	require.EqualValues(t, 2, beside(), "both get on")
}

// IBM/sarama PR #2947, segmentio/kafka-go #439: of two commits under way the older one was the last to count.
func TestRegressionThereAreNeverTwoCommitsUnderWay(t *testing.T) {
	b := newBed(t, retry.Parallel(steady))
	b.holdCommits = true
	b.bring("a:1")
	b.step(Commit{})
	require.Len(t, b.seals, 1)
	b.bring("a:2", "a:3")
	for range 5 {
		b.step(Commit{})
		b.now = b.now.Add(2 * time.Hour)
		b.step(Tick{})
		b.work()
	}
	require.Len(t, b.seals, 1)
	b.commit(nil)
	require.EqualValues(t, 1, b.committed["in"].Offset)
	require.Len(t, b.seals, 1, "the next one follows")
	b.commit(nil)
	require.Equal(t, []string{"in@1 redrive@0 st=1000 n=1", "in@3 redrive@0 st=1002 n=2"}, b.commits)
}
