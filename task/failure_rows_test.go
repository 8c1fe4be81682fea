package task

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// rowsSpec counts by key and emits at commit; the emission of a key fails as often as fails says, and so does a punctuation.
func rowsSpec(p retry.Policy, fails map[string]int, clock Clock, fired *[]int64) *Spec {
	trip := func(e *Env, what string, kind Kind) {
		if fails[what] != 0 {
			fails[what]--
			e.Fail("trip", kind, errBad)
		}
	}
	return &Spec{
		Inputs: []Input{{Topic: "in", DeadLetters: 2}}, Dests: []Dest{{Topic: "out"}, {Topic: "dlq"}}, Failure: p,
		Stores: []Store{{Spec: statestore.Spec{Name: "counts"}, Changelog: "counts-changelog", KeepBefore: true}},
		Build: func(e *Env) (*Graph, error) {
			c := &counter{e: e, store: e.Store(0), atCommit: true}
			if fired != nil {
				e.Schedule("tick", 10*time.Millisecond, clock, func(ts int64) {
					*fired = append(*fired, ts)
					e.Send(0, 0, append(e.Tail(), "tick"...), 4, -1, ts, nil)
					trip(e, "tick", KindPunctuate)
				})
			}
			emit := func(key []byte, now statestore.Row, present bool, before statestore.Row, had bool) {
				c.emit(key, now, present, before, had)
				trip(e, string(key), KindEmit)
			}
			return &Graph{Inputs: []func(*Record){c.process}, Tables: []Table{{Store: 0, Node: "counts", Emit: emit}}}, nil
		},
	}
}

func (w *world) sentTo(topic string) string {
	return strings.Join(append(w.out[topic+"-0"], w.out[topic+"-1"]...), " ")
}

func TestEmissionIsTriedInItsPlace(t *testing.T) {
	fails := map[string]int{"b": 2}
	b := &bed{world: newWorld(t, Config{Spec: rowsSpec(retry.Ordered(steady), fails, StreamTime, nil), CommitInterval: time.Hour})}
	b.feed(0, batch(3, rec(0, "a", "1", 1), rec(1, "b", "1", 2), rec(2, "c", "1", 3)))
	b.step(Commit{})
	require.Empty(t, b.commits, "a commit waits for what it emits")
	b.feed(0, batch(4, rec(3, "d", "1", 4)))
	b.until(4)
	require.Equal(t, []string{"in@3 st=3 n=3"}, b.commits, "and nothing is taken meanwhile")
	require.ElementsMatch(t, []string{"a:1@1", "b:1@2", "c:1@3"}, strings.Fields(b.sentTo("out")), "each once")
	b.commitNow()
	require.Contains(t, b.sentTo("out"), "d:1@4")
}

func TestEmissionThatFailsForGood(t *testing.T) {
	for _, c := range []struct {
		rows    retry.End
		stopped bool
		letters int
	}{{retry.EndStop, true, 0}, {retry.EndDeadLetter, false, 1}, {retry.EndSkip, false, 0}} {
		t.Run(c.rows.String(), func(t *testing.T) {
			p := retry.Ordered(steady, retry.Attempts(3), retry.Rows(c.rows))
			b := &bed{world: newWorld(t, Config{Spec: rowsSpec(p, map[string]int{"b": -1}, StreamTime, nil), CommitInterval: time.Hour})}
			b.feed(0, batch(3, rec(0, "a", "1", 1), rec(1, "b", "1", 2), rec(2, "c", "1", 3)))
			b.step(Commit{})
			b.until(6)
			if c.stopped {
				require.ErrorIs(t, b.failed, errBad)
				require.Empty(t, b.commits)
				return
			}
			require.NoError(t, b.failed)
			require.Equal(t, []string{"in@3 st=3 n=3"}, b.commits)
			require.ElementsMatch(t, []string{"a:1@1", "c:1@3"}, strings.Fields(b.sentTo("out")))
			require.Equal(t, c.letters, b.letters())
			if c.letters > 0 {
				require.Contains(t, b.sentTo("dlq"), "__understudy.errors.class=row")
				require.Contains(t, b.sentTo("dlq"), "__understudy.errors.row=counts")
			}
		})
	}
}

// What time sets off never fails the record that moved time.
func TestRegressionPunctuationFailsNoRecord(t *testing.T) {
	for _, clock := range []Clock{StreamTime, WallClock} {
		fails := map[string]int{"tick": 2}
		var fired []int64
		b := &bed{world: newWorld(t, Config{Spec: rowsSpec(retry.Ordered(steady, retry.ThenDeadLetter()), fails, clock, &fired), CommitInterval: time.Hour})}
		b.step(Tick{})
		b.now = b.now.Add(10 * time.Millisecond)
		b.feed(0, batch(1, rec(0, "a", "1", 10)))
		require.Len(t, fired, 1)
		if clock == StreamTime {
			require.EqualValues(t, 1, b.owner.Stats().Processed, "the record is processed")
		}
		for len(fired) < 3 {
			b.until(1)
		}
		require.Equal(t, fired[0], fired[1], "the same punctuation again")
		require.Equal(t, fired[0], fired[2])
		b.commitNow()
		require.Equal(t, len(fired)-2, strings.Count(b.sentTo("out"), "tick:-@"), "what failed has left nothing")
		require.Zero(t, b.letters())
	}
}

func TestReleaseInTheMiddleOfAnEmission(t *testing.T) {
	fails := map[string]int{"b": 1}
	b := &bed{world: newWorld(t, Config{Spec: rowsSpec(retry.Ordered(steady), fails, StreamTime, nil), CommitInterval: time.Hour})}
	b.feed(0, batch(2, rec(0, "a", "1", 1), rec(1, "b", "1", 2)))
	b.step(Commit{})
	b.step(Release{})
	require.Equal(t, StateReleasing, b.owner.State(), "it is in the middle of a commit")
	b.until(2)
	require.Equal(t, StateReleased, b.owner.State())
	require.EqualValues(t, 2, b.committed["in"].Offset)
}

// A row that fails for ever does not hold a release up: what is not committed is done again by whoever has the task next, for whom that was no crash.
func TestRegressionReleaseDoesNotWaitForARowThatFailsForEver(t *testing.T) {
	fails := map[string]int{"b": -1}
	cfg := Config{Spec: rowsSpec(retry.Ordered(steady, retry.Attempts(retry.Forever)), fails, StreamTime, nil), CommitInterval: time.Hour, Announce: true}
	b := &bed{world: newWorld(t, cfg)}
	b.step(Tick{})
	require.True(t, b.said().Running)
	b.feed(0, batch(2, rec(0, "a", "1", 1), rec(1, "b", "1", 2)))
	b.step(Commit{})
	b.until(5)
	began := b.now
	b.step(Release{})
	for i := 0; i < 5 && b.owner.State() != StateReleased; i++ {
		b.until(1)
	}
	require.Equal(t, StateReleased, b.owner.State())
	require.LessOrEqual(t, b.now.Sub(began), 250*time.Millisecond)
	require.NoError(t, b.owner.Err())
	require.Zero(t, b.committed["in"].Offset)
	require.False(t, b.said().Running)
	b.step(Resume{})
	require.NotEqual(t, StateRunning, b.owner.State(), "there is nothing left to go on with")
	fails["b"] = 0
	b.start(cfg)
	b.feed(0, batch(2, rec(0, "a", "1", 1), rec(1, "b", "1", 2)))
	b.step(Commit{})
	require.EqualValues(t, 2, b.committed["in"].Offset)
	require.Zero(t, b.said().Starts)
}

// One that is taken back at once says that it was not carried out in full.
func TestReleaseThatIsTakenBackFromATaskThatHasForgoneItsCommit(t *testing.T) {
	b := &bed{world: newWorld(t, Config{
		Spec: rowsSpec(retry.Ordered(steady, retry.Attempts(retry.Forever)), map[string]int{"b": -1}, StreamTime, nil), CommitInterval: time.Hour, Announce: true,
	})}
	b.step(Tick{})
	b.feed(0, batch(2, rec(0, "a", "1", 1), rec(1, "b", "1", 2)))
	b.step(Commit{})
	b.until(5)
	b.holdCommits = true
	b.step(Release{})
	b.until(3)
	require.Equal(t, StateReleasing, b.owner.State())
	acts := b.owner.Step(b.now, Resume{})
	require.Contains(t, acts, Released{Forgone: true})
	b.commit(nil)
	require.Equal(t, StateReleased, b.owner.State())
}

func redriven(offset int64, n int) Record {
	l := retry.Letter{Origin: retry.Origin{Topic: "in", Partition: 1, Offset: 41}, Attempts: 3, Class: "x", Message: "bad", Redriven: n}
	h := taskHeaders(l.AppendHeaders(nil, []retry.Header{{Key: "own", Value: []byte("1")}}))
	r := rec(offset, "a", "x", 5)
	r.Headers = h
	return r
}

func TestRedrivenRecordsAreRunAtTheirSource(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.Parallel(steady, retry.ThenDeadLetter(), retry.Attempts(2)), retry.KeyOrdered(steady, retry.ThenDeadLetter(), retry.Attempts(2)),
		retry.Ordered(steady, retry.ThenDeadLetter(), retry.Attempts(2)),
	} {
		t.Run(p.Settings().Mode.String(), func(t *testing.T) {
			b := newBed(t, p)
			b.fails["x"] = 1
			b.feed(1, batch(1, redriven(0, 1)))
			b.until(5)
			require.Equal(t, "a:x@5 own=1", b.outs(), "with its own headers")
			require.EqualValues(t, -1, b.owner.Stats().StreamTime, "and stream time stands")
			b.fails["x"] = -1
			b.feed(1, batch(2, redriven(1, 2)))
			b.until(5)
			b.commitNow()
			require.Equal(t, 1, b.letters())
			letters := b.sentTo("dlq")
			require.Contains(t, letters, "__streams.errors.offset=41", "it is still that record's letter")
			require.Contains(t, letters, "__understudy.errors.redriven=2")
			require.EqualValues(t, 2, b.committed["redrive"].Offset)
		})
	}
}

func TestRedriveThatNeverEndsIsEnded(t *testing.T) {
	b := newBed(t, retry.Parallel(steady, retry.ThenDeadLetter()))
	b.feed(1, batch(1, redriven(0, 6)))
	b.until(2)
	require.Equal(t, 1, b.letters())
	require.Empty(t, b.runs)
}

func TestExplain(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady))
	b.fails["x"] = -1
	b.bring("a:0", "a:x", "a:1")
	say := func(offset int64) string { return b.owner.Explain(0, offset).String() }
	require.Contains(t, say(0), "done")
	require.Contains(t, say(1), `parked, failed 1 times (last at "flaky"`)
	require.Contains(t, say(1), "not before 1970-01-01T00:16:40.1Z")
	require.Contains(t, say(2), "follows, waits behind in-1 at offset 1")
	require.Contains(t, say(3), "ahead")
	b.commitNow()
	require.Contains(t, say(0), "committed")

	o := newBed(t, retry.Ordered(steady))
	o.fails["x"], o.how["x"] = -1, errors.New("no answer")
	o.bring("a:x", "a:1")
	require.Contains(t, o.owner.Explain(0, 0).String(), "head, failed 1 times")
	require.Contains(t, o.owner.Explain(0, 1).String(), "the task takes nothing before 1970-01-01T00:16:40.1Z: ")
	require.Contains(t, o.owner.Explain(0, 1).String(), "no answer")
}

// Dead letters of one key lie in one partition, that of its hash: whoever follows the topic has them in their order.
func TestDeadLettersLieByTheirKey(t *testing.T) {
	for _, p := range []retry.Policy{
		retry.Ordered(steady, retry.Attempts(1), retry.ThenDeadLetter()), retry.Parallel(steady, retry.Attempts(2), retry.ThenDeadLetter(), retry.NoBreaker()),
	} {
		b := newBed(t, p)
		b.fails["x"] = -1
		want := map[string]int{}
		for _, key := range []string{"a", "b", "c", "d", "e", "f"} {
			b.bring(key + ":x")
			want[fmt.Sprintf("dlq-%d", PartitionFor([]byte(key), 2))]++
		}
		b.until(20)
		require.Len(t, want, 2)
		for partition, n := range want {
			require.Len(t, b.out[partition], n, partition)
		}
	}
}

// An outage is a state of the task: it is released at once, and nothing that waits is lost.
func TestReleaseWhileTheBreakerIsOpen(t *testing.T) {
	b := newBed(t, retry.KeyOrdered(steady, retry.Breaker(3, time.Minute)))
	var all []string
	for i := range 6 {
		v := fmt.Sprint("v", i)
		b.fails[v] = 1
		all = append(all, fmt.Sprintf("k%d:%s", i, v))
	}
	b.bring(all...)
	require.Equal(t, "open", b.stats().Breaker)
	require.NotZero(t, b.stats().Waits)
	b.step(Release{})
	require.Equal(t, StateReleased, b.owner.State())
	require.EqualValues(t, 3, b.committed["in"].Offset, "what was put aside before")
	b.crash()
	b.bring(all[3:]...)
	for i := 0; i < 200 && len(strings.Fields(b.outs())) < 6; i++ {
		b.until(1)
	}
	b.commitNow()
	require.Len(t, strings.Fields(b.outs()), 6)
	require.EqualValues(t, 6, b.committed["in"].Offset)
}
