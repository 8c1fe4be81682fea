package task

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/retry"
)

// yard is a bed whose records are run by workers: what is handed out waits until the test lets somebody run it.
type yard struct {
	*bed
	workers   []*Worker
	cancelled int
}

func newYard(t testing.TB, p retry.Policy, more ...func(*Config)) *yard {
	f := newFlaky()
	y := &yard{bed: &bed{flaky: f, cfg: Config{Spec: f.spec(p), CommitInterval: time.Hour, Workers: true}}}
	for _, m := range more {
		m(&y.cfg)
	}
	y.world = newWorld(t, y.cfg)
	y.hireAll()
	return y
}

func (y *yard) hireAll() {
	y.workers = nil
	for range y.cfg.Spec.Failure.Settings().Workers {
		w, err := NewWorker(y.owner.t.cfg, func(q Read) Answer {
			y.step(q)
			require.NotNil(y.t, y.answered, "there was no answer")
			a := *y.answered
			y.answered = nil
			return a
		})
		require.NoError(y.t, err)
		y.workers = append(y.workers, w)
	}
	y.step(Tick{})
	y.work()
}

// turn lets a worker run the i-th item that waits, and brings its result.
func (y *yard) turn(i int) *Item {
	it := y.handed[i]
	y.handed = slices.Delete(y.handed, i, i+1)
	r := y.workers[int(it.ID)%len(y.workers)].Run(context.Background(), y.now, it)
	y.step(Done{r})
	y.work()
	return it
}

// drain runs everything, the first or the last that waits first, callbacks too.
func (y *yard) drain(last bool) {
	for len(y.handed) > 0 || len(y.called) > 0 {
		if len(y.called) > 0 {
			c := y.called[0]
			y.called = y.called[1:]
			y.step(Done{c.Worker.Run(context.Background(), y.now, c.Item)})
			continue
		}
		i := 0
		if last {
			i = len(y.handed) - 1
		}
		y.turn(i)
	}
}

// runValue runs the item with this value.
func (y *yard) runValue(v string) { y.turn(y.find(v)) }

func (y *yard) find(v string) int {
	i := slices.IndexFunc(y.handed, func(it *Item) bool { return string(it.Record.Value) == v })
	require.GreaterOrEqual(y.t, i, 0, "%s is not handed out", v)
	return i
}

func (y *yard) values() string {
	var vs []string
	for _, it := range y.handed {
		vs = append(vs, string(it.Record.Value))
	}
	return strings.Join(vs, " ")
}

// pass lets time go on, and runs what comes.
func (y *yard) pass(steps int) {
	for range steps {
		y.until(1)
		y.drain(false)
	}
}

func (y *yard) low() int64 { return y.committed["in"].Offset }

func (y *yard) crash() {
	y.handed, y.called, y.answered = nil, nil, nil
	y.start(y.cfg)
	y.unacked, y.seals = nil, nil
	y.hireAll()
}

func TestWorkersParallelIsDoneInAnyOrder(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(3)))
	y.bring("a:1", "a:2", "b:3", "c:4")
	require.Equal(t, "1 2 3 4", y.values())
	y.runValue("3")
	y.commitNow()
	require.EqualValues(t, 0, y.low(), "the commit waits for nobody, and covers what is done")
	m, err := retry.ParseMetadata(y.committed["in"].Metadata, 0, 4)
	require.NoError(t, err)
	require.Equal(t, []retry.Run{{From: 0, To: 2}, {From: 3, To: 4}}, m.Holes)
	y.drain(true)
	y.commitNow()
	require.EqualValues(t, 4, y.low())
	require.Equal(t, map[string]string{"a": "2@1001", "b": "1@1002", "c": "1@1003"}, y.rows(0))
	require.Len(t, strings.Fields(y.outs()), 4)
}

func TestWorkersAfterACrashRunOnlyWhatIsOpen(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	y.bring("a:1", "b:2", "c:3", "d:4")
	y.runValue("2")
	y.runValue("4")
	y.commitNow()
	y.crash()
	y.bring("a:1", "b:2", "c:3", "d:4", "e:5")
	require.Equal(t, "1 3 5", y.values())
	y.drain(false)
	y.commitNow()
	require.EqualValues(t, 5, y.low())
	require.Equal(t, map[string]int{"1": 1, "2": 1, "3": 1, "4": 1, "5": 1}, y.ran)
}

func TestWorkersKeyOrderedRunsAKeyInItsOrder(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(retry.Workers(4)))
	y.bring("a:1", "a:2", "b:3", "a:4", "b:5", "-:6", "-:7")
	require.Equal(t, "1 3 6 7", y.values(), "a null key has no order")
	y.runValue("3")
	require.Equal(t, "1 6 7 5", y.values())
	y.runValue("1")
	require.Equal(t, "6 7 5 2", y.values())
	y.drain(true)
	require.Equal(t, "3 1 2 4 5 7 6", strings.Join(y.runs, " "))
	y.commitNow()
	require.EqualValues(t, 7, y.low())
}

func TestWorkersFailureOfAKeyTakesThoseBehindWithIt(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(retry.Workers(4)))
	y.fails["1"] = 1
	y.bring("a:1", "a:2", "b:3", "a:4")
	y.runValue("1")
	require.Equal(t, "3", y.values())
	require.Equal(t, 3, y.stats().Parked)
	y.bring("a:5")
	require.Equal(t, 4, y.stats().Parked)
	y.commitNow()
	require.EqualValues(t, 2, y.low(), "but for the one that runs")
	y.drain(false)
	y.pass(10)
	require.Zero(t, y.stats().Parked)
	y.commitNow()
	require.Equal(t, "1 3 1 2 4 5", strings.Join(y.runs, " "))
	require.Equal(t, map[string]string{"a": "4@1004", "b": "1@1002"}, y.rows(0))
	require.Empty(t, y.owner.t.crew.lanes)
}

func TestWorkersResultsThatHaveReadWhatIsWrittenRunAgain(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	y.bring("a:1", "a:2", "a:3")
	w := y.workers[0]
	var rs []*Result
	for _, it := range y.handed { // all read the row before any is applied
		rs = append(rs, w.Run(context.Background(), y.now, it))
	}
	y.handed = nil
	for _, r := range rs {
		y.step(Done{r})
	}
	y.work()
	require.EqualValues(t, 2, y.stats().Conflicts)
	require.Equal(t, "2 3", y.values())
	rs = nil
	for _, it := range y.handed {
		rs = append(rs, w.Run(context.Background(), y.now, it))
	}
	y.handed = nil
	y.step(Done{rs[0]})
	y.step(Done{rs[1]})
	y.work()
	require.Empty(t, y.handed, "the third time the task runs it itself")
	y.commitNow()
	require.Equal(t, map[string]string{"a": "3@1002"}, y.rows(0))
	require.EqualValues(t, 3, y.low())
	require.EqualValues(t, 3, y.owner.Stats().Processed)
	require.Zero(t, y.owner.t.watch.n)
}

func TestWorkersItemThatTheTaskRunsItselfMayFailToo(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	y.bring("a:1", "a:2")
	y.fails["2"] = 0
	for range rerunsBeside {
		i := y.find("2")
		it := y.handed[i]
		y.handed = slices.Delete(y.handed, i, i+1)
		r := y.workers[0].Run(context.Background(), y.now, it)
		it.seen.stale = true
		if it.seen.reruns == rerunsBeside-1 {
			y.fails["2"] = 1
		}
		y.step(Done{r})
		y.work()
	}
	require.Equal(t, 1, y.stats().Parked)
	y.drain(false)
	y.pass(5)
	y.commitNow()
	require.EqualValues(t, 2, y.low())
	require.Zero(t, y.stats().Parked)
}

func TestWorkersEndsOfThePolicy(t *testing.T) {
	for _, x := range []struct {
		name   string
		policy retry.Policy
		err    error
		check  func(t *testing.T, y *yard)
	}{
		{"dead letter", retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenDeadLetter()), nil, func(t *testing.T, y *yard) {
			require.Equal(t, 1, y.letters())
			require.EqualValues(t, 3, y.low())
		}},
		{"skip at the end", retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenSkip()), nil, func(t *testing.T, y *yard) {
			require.EqualValues(t, 1, y.stats().Skipped)
			require.EqualValues(t, 3, y.low())
		}},
		{"skip", retry.Parallel(retry.Workers(2)), retry.Skip("not ours"), func(t *testing.T, y *yard) {
			require.Equal(t, []Dropped{{"not ours", 1}}, y.owner.Stats().Dropped)
			require.EqualValues(t, 3, y.low())
		}},
		{"stop", retry.KeyOrdered(retry.Workers(2), retry.Attempts(1)), nil, func(t *testing.T, y *yard) {
			require.ErrorIs(t, y.failed, errBad)
			require.LessOrEqual(t, y.low(), int64(1))
		}},
		{"inline", retry.Parallel(retry.Workers(2), retry.Inline(2), retry.Attempts(1), retry.ThenSkip()), nil, func(t *testing.T, y *yard) {
			require.Equal(t, 2, y.ran["ill"])
			require.EqualValues(t, 3, y.low())
		}},
		{"panic", retry.Parallel(retry.Workers(2), retry.Attempts(1), retry.ThenSkip()), panicking{}, func(t *testing.T, y *yard) {
			require.EqualValues(t, 3, y.low())
		}},
	} {
		t.Run(x.name, func(t *testing.T) {
			y := newYard(t, x.policy)
			y.fails["ill"] = -1
			if x.err != nil {
				y.how["ill"] = x.err
			}
			y.bring("a:1", "a:ill", "b:3")
			y.drain(false)
			y.pass(3)
			y.commitNow()
			x.check(t, y)
		})
	}
}

func TestWorkersRetriesLeaveRoomForTheMainPath(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4), retry.NoBreaker(), retry.Attempts(retry.Forever)))
	for i := range 40 {
		v := fmt.Sprint("bad", i)
		y.fails[v] = -1
		y.bring(fmt.Sprintf("k%d:%s", i, v))
		y.drain(false)
	}
	require.Equal(t, 40, y.stats().Parked)
	var rs []string
	for i := range 30 {
		rs = append(rs, fmt.Sprintf("g%d:good%d", i, i))
	}
	y.now = y.now.Add(time.Hour)
	y.bring(rs...)
	require.LessOrEqual(t, strings.Count(y.values(), "bad"), 2)
	require.Len(t, y.handed, 8)
}

func TestRegressionReleaseDoesNotWaitForWorkers(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	y.bring("a:1", "b:2", "c:3")
	y.runValue("2")
	y.step(Release{})
	require.Contains(t, y.actions, "Cancel")
	require.Contains(t, y.actions, "Released")
	require.Equal(t, StateReleased, y.owner.State())
	require.EqualValues(t, 0, y.low())

	late := y.handed[y.find("1")]
	y.handed = slices.DeleteFunc(y.handed, func(it *Item) bool { return it == late })
	y.step(Done{y.workers[0].Run(context.Background(), y.now, late)})
	require.False(t, y.owner.t.Dirty(), "a late result changes nothing")

	failed := y.handed[0]
	y.handed = nil
	y.step(Resume{})
	y.work()
	require.Equal(t, "1", y.values(), "and is run again")
	y.step(Done{y.workers[0].Refuse(failed, errors.New("cancelled"))})
	y.work()
	require.Equal(t, "1 3", y.values(), "what was cancelled has not failed")
	require.Zero(t, y.stats().Parked)
	y.drain(false)
	y.commitNow()
	require.EqualValues(t, 3, y.low())
	require.Equal(t, map[string]string{"a": "1@1000", "b": "1@1001", "c": "1@1002"}, y.rows(0))
}

func TestRegressionLateResultOfALostTaskIsIgnored(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4)))
	y.bring("a:1", "b:2")
	y.step(Lost{})
	y.drain(false)
	require.Empty(t, y.out["out-0"])
	y.step(Close{})
	require.Equal(t, StateClosed, y.owner.State())
}

func TestWorkersCommitOfAUnitIsWaitedFor(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2)))
	y.bring("a:1", "b:2", "c:3", "d:4", "e:5", "f:6")
	it := y.handed[0]
	y.handed = y.handed[1:]
	r := y.workers[0].Run(context.Background(), y.now, it)
	r.commit = true
	y.holdCommits = true
	y.step(Done{r})
	y.work()
	require.Len(t, y.seals, 1)
	n := len(y.handed)
	y.turn(0)
	require.Len(t, y.handed, n-1, "nothing more is handed out")
	y.holdCommits = false
	y.commit(nil)
	y.work()
	y.drain(false)
	y.commitNow()
	require.EqualValues(t, 6, y.low())
}

func TestWorkersEjectionOfWhatRunsForEver(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(retry.Workers(2)))
	y.bring("slow:slow", "slow:behind")
	slow := y.handed[0]
	y.handed = nil
	for y.stats().Ejected == 0 {
		var rs []string
		for i := range 2000 {
			rs = append(rs, fmt.Sprintf("k%d:v", i))
		}
		y.bring(rs...)
		y.drain(false)
		require.LessOrEqual(t, y.stats().Width, int64(mostKept)+4000)
	}
	require.Equal(t, 2, y.stats().Parked, "with what waits behind it")
	require.Equal(t, 1, y.stats().Running)
	y.commitNow()
	require.Greater(t, y.low(), int64(mostKept), "the commit stands still no more")
	y.step(Done{y.workers[0].Run(context.Background(), y.now, slow)})
	y.work()
	y.pass(3)
	y.commitNow()
	require.Zero(t, y.stats().Parked)
	require.Equal(t, 1, y.ran["slow"])
	require.Equal(t, 1, y.ran["behind"])
	require.Equal(t, "2@1001", y.rows(0)["slow"])
}

func TestRegressionKillerAmongWorkersIsIsolatedAlone(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(4), retry.Crashes(2), retry.ThenSkip()))
	y.cfg.Announce = true
	y.crash()
	all := []string{"a:1", "b:2", "c:killer", "d:4", "e:5", "f:6"}
	crashes := 0
	for ; y.low() < 6 && crashes < 12; crashes++ {
		y.bring(all[y.low():]...)
		y.until(2)                                        // a suspect is not taken at once
		for len(y.handed) > 0 && y.values() != "killer" { // everybody else is done first
			i := slices.IndexFunc(y.handed, func(it *Item) bool { return string(it.Record.Value) != "killer" })
			y.turn(i)
		}
		y.commitNow()
		y.work()
		if len(y.handed) > 0 {
			y.crash()
		}
	}
	require.EqualValues(t, 6, y.low())
	require.LessOrEqual(t, crashes, 6)
	require.EqualValues(t, 1, y.stats().Skipped)
	require.Zero(t, y.ran["killer"], "the test has killed it each time")
	for _, v := range []string{"1", "2", "4", "5", "6"} {
		require.Equal(t, 1, y.ran[v], "%s is a neighbour", v)
	}
}

func TestWorkersAreNotForSchedules(t *testing.T) {
	f := newFlaky()
	s := f.spec(retry.Parallel(retry.Workers(2)))
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		e.Schedule("node", time.Second, WallClock, func(int64) {})
		return build(e)
	}
	cfg := Config{Spec: s, Workers: true, Positions: make([]int64, 2)}
	cfg.Stores = append(cfg.Stores, nil, nil)
	_, err := New(cfg)
	require.ErrorIs(t, err, errScheduledBeside)
	cfg.Workers = false
	_, err = New(cfg)
	require.NoError(t, err, "nobody runs anything beside it")
}

func TestWorkersWaitWhileNoneCanBeMade(t *testing.T) {
	y := newYard(t, retry.Parallel(retry.Workers(2)))
	y.bring("a:1")
	y.step(Unmanned{errBad})
	require.ErrorIs(t, y.failed, errBad)
}

// Whatever runs, fails, conflicts and crashes: in the end every record has counted exactly once where its commit says so, nothing is lost, and
// records of a key have been kept in their order.
func TestAnyHistoryOfDispatchLosesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		byKey := rapid.Bool().Draw(rt, "by key")
		opts := []retry.Option{retry.Workers(rapid.IntRange(2, 4).Draw(rt, "workers")), retry.Attempts(retry.Forever), retry.NoBreaker(), retry.Backoff(time.Millisecond, time.Second)}
		opts = append(opts, retry.Crashes(100)) // of which no record is the cause
		p := retry.Parallel(opts...)
		if byKey {
			p = retry.KeyOrdered(opts...)
		}
		y := newYard(t, p)
		var all []string
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 1))
		flight := []*Result{}
		finish := func() {
			r := flight[0]
			flight = flight[1:]
			y.step(Done{r})
			y.work()
		}
		run := func() { // reads now, is applied later
			i := rng.IntN(len(y.handed))
			it := y.handed[i]
			y.handed = slices.Delete(y.handed, i, i+1)
			flight = append(flight, y.workers[rng.IntN(len(y.workers))].Run(context.Background(), y.now, it))
		}
		fed := 0
		feed := func() {
			if fed < len(all) {
				n := min(len(all), fed+1+rng.IntN(5))
				y.bring(all[fed:n]...)
				fed = n
			}
		}
		for i := range rapid.IntRange(1, 30).Draw(rt, "records") {
			v := fmt.Sprintf("v%d", i)
			all = append(all, fmt.Sprintf("%c:%s", 'a'+rng.IntN(3), v))
			if rng.IntN(4) == 0 {
				y.fails[v] = 1 + rng.IntN(3)
			}
		}
		crashed := false
		for range rapid.IntRange(10, 150).Draw(rt, "steps") {
			switch k := rng.IntN(12); {
			case k < 2:
				feed()
			case k < 6 && len(y.handed) > 0:
				run()
			case k < 9 && len(flight) > 0:
				finish()
			case k == 9:
				y.commitNow()
			case k == 10:
				y.until(1)
			case k == 11 && rng.IntN(6) == 0:
				flight, crashed = nil, true
				y.crash()
				fed = int(y.low())
				y.owner.t.in.all[0].end = y.low()
			}
		}
		for range 400 {
			feed()
			for len(y.handed) > 0 || len(flight) > 0 {
				if len(flight) > 0 {
					finish()
				} else {
					run()
				}
			}
			y.until(1)
		}
		y.commitNow()
		y.commitNow()
		require.NoError(rt, y.failed)
		require.Zero(rt, y.stats().Parked)
		require.EqualValues(rt, len(all), y.low())
		counts := map[string]int{}
		for _, r := range all {
			counts[r[:1]]++
		}
		for k, n := range counts {
			require.True(rt, strings.HasPrefix(y.rows(0)[k], fmt.Sprint(n)+"@"), "%s: %s, want %d", k, y.rows(0)[k], n)
		}
		if !byKey {
			return
		}
		last := map[byte]int{}
		for _, o := range strings.Fields(y.outs()) {
			var n int
			_, err := fmt.Sscanf(o[1:], ":v%d", &n)
			require.NoError(rt, err)
			if !crashed { // a crash may bring some once more
				require.Greater(rt, n+1, last[o[0]], "%s in %s", o, y.outs())
			}
			last[o[0]] = n + 1
		}
	})
}
