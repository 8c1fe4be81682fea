package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func TestActionsComeInTheOrderOfTheirStart(t *testing.T) {
	w := newWorld(t, Config{Spec: countSpec(true)})
	w.holdCommits = true
	w.step(Fetched{0, batch(1, rec(0, "a", "1", 10))})
	w.step(Work{})
	require.Equal(t, []string{"Consumed", "Wake"}, w.actions)
	w.step(Commit{})
	require.Equal(t, []string{"Send", "Seal"}, w.actions)
	w.holdCommits = false
	w.step(Tick{})
	require.Equal(t, StateRunning, w.owner.State())
	require.Equal(t, map[int]int{0: 22}, w.consumed)
}

func TestReleaseCommitsTheRest(t *testing.T) {
	w := newWorld(t, Config{Spec: countSpec(true)})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	w.step(Fetched{0, batch(2, rec(1, "a", "1", 11))})
	w.step(Commit{})
	w.step(Release{})
	require.False(t, w.owner.Runnable(), "takes nothing more")
	w.step(Work{})
	require.Equal(t, StateReleasing, w.owner.State())
	require.NotContains(t, w.actions, "Released")
	w.actions = nil
	w.commit(nil)
	require.Equal(t, []string{"Seal"}, w.actions, "that it does not run any more")
	w.actions = nil
	w.commit(nil)
	require.Equal(t, []string{"Released"}, w.actions)
	require.Equal(t, StateReleased, w.owner.State())
	require.EqualValues(t, 1, w.committed["in"].Offset)

	w.step(Resume{})
	w.work()
	w.step(Commit{})
	w.commit(nil)
	require.EqualValues(t, 2, w.committed["in"].Offset, "what was queued is still there")
	require.Equal(t, map[string]string{"a": "2@11"}, w.rows(0))
}

func TestReleaseWithNothingToCommitIsAnsweredAtOnce(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.step(Release{})
	require.Equal(t, []string{"Released"}, w.actions)
	w.step(Release{})
	require.Equal(t, []string{"Released"}, w.actions, "each is answered")
	w.step(Close{})
	require.Equal(t, []string{"Closed"}, w.actions)
	w.step(Close{})
	w.step(Release{})
	w.step(Work{})
	require.Empty(t, w.actions)
}

func TestResumeWhileReleasing(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	w.step(Release{})
	require.NotContains(t, w.actions, "Released")
	w.step(Resume{})
	require.Contains(t, w.actions, "Released", "each release has its answer")
	w.actions = nil
	w.commit(nil)
	require.NotContains(t, w.actions, "Released")
	require.Equal(t, StateRunning, w.owner.State())
}

func TestALostTaskDropsWhatIsNotCommitted(t *testing.T) {
	var told []error
	w := newWorld(t, Config{Spec: asyncSpec(&told)})
	w.holdCommits, w.holdAcks = true, true
	w.feed(0, batch(1, rec(0, "a", "async", 10))) // sealed
	w.feed(0, batch(2, rec(1, "a", "async", 10))) // active
	require.Len(t, w.seals, 1)
	w.step(Fetched{0, batch(3, rec(2, "a", "v", 10))})
	w.step(Lost{})
	require.Equal(t, []string{"Consumed"}, w.actions)
	require.Equal(t, []error{ErrLost, ErrLost}, told)
	require.Equal(t, StateReleased, w.owner.State())
	require.Zero(t, w.owner.Stats().Dirty)
	w.step(Committed{nil}) // too late
	w.step(Fetched{0, batch(4, rec(3, "a", "v", 10))})
	require.Equal(t, []string{"Consumed"}, w.actions, "what comes late is given back")
	w.step(Work{})
	w.step(Commit{})
	require.Empty(t, w.actions)
	require.Empty(t, w.rows(0))

	w.step(Resume{})
	require.ErrorIs(t, w.failed, ErrLost)
	w.step(Release{})
	require.Equal(t, []string{"Released"}, w.actions, "also when it has failed")
	w.step(Lost{})
	w.failed = nil
	w.step(Resume{})
	require.NoError(t, w.failed, "once")
	w.step(Close{})
	require.Equal(t, StateClosed, w.owner.State())
}

// The sender reads what it was handed until it has heard that the life is over, and callbacks run in the user's code meanwhile.
func TestWhatIsOnItsWayOutlivesTheTask(t *testing.T) {
	for _, end := range []Event{Lost{}, Close{}, Committed{errBad}} {
		t.Run(fmt.Sprintf("%T", end), func(t *testing.T) {
			s := countSpec(false)
			build := s.Build
			s.Build = func(e *Env) (*Graph, error) {
				g, err := build(e)
				count := g.Inputs[0]
				g.Inputs[0] = func(r *Record) {
					e.CommitAsync(func(error) {
						for i := range 100 {
							key := fmt.Appendf(nil, "a key that is longer than one that lies in its entry, number %d", i)
							require.NoError(t, e.Store(0).Put(key, key, 1))
							e.Send(0, 0, append(e.Tail(), key...), len(key), -1, 1, nil)
						}
					})
					count(r)
				}
				return g, err
			}
			w := newWorld(t, Config{Spec: s})
			w.holdCommits, w.holdAcks = true, true
			for i := range 3 {
				w.feed(0, batch(int64(i)+1, rec(int64(i), fmt.Sprintf("another key that does not lie in its entry, number %d", i), "v", 10)))
			}
			w.step(Fetched{0, batch(4, rec(3, "not handed over", "v", 10))})
			bytes := func() (all []string) {
				for _, e := range w.sent {
					for _, g := range e.Groups {
						for _, r := range g.Records() {
							all = append(all, g.To.String()+" "+show(r))
						}
					}
				}
				return all
			}
			before := bytes()
			require.NotEmpty(t, before)
			sealed := fmt.Sprint(w.seals[0].Stores)
			w.step(end)
			require.Equal(t, before, bytes())
			require.Equal(t, sealed, fmt.Sprint(w.seals[0].Stores), "the store may be writing it")
		})
	}
}

func TestAFailureIsAnsweredAfterItsCommit(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.holdCommits = true
	w.feed(0, batch(2, rec(0, "a", "1", 10), rec(1, "a", "bad", 11)))
	require.NoError(t, w.failed)
	require.ErrorIs(t, w.owner.Err(), errBad)
	w.step(Release{})
	w.step(Resume{}) // is not possible any more
	require.Equal(t, StateReleasing, w.owner.State())
	w.actions = nil
	w.commit(nil)
	require.Equal(t, []string{"Consumed", "Failed", "Released"}, w.actions, "its queue is given up")
	require.EqualValues(t, 1, w.committed["in"].Offset)
}

func TestEffectsWaitForLingerWhileThereIsWork(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	var rs []Record
	for i := range 10 {
		rs = append(rs, rec(int64(i), "a", "1", 10))
	}
	w.step(Fetched{0, batch(10, rs...)})
	w.step(Work{Records: 1})
	require.NotContains(t, w.actions, "Send")
	require.True(t, w.wake.Equal(w.now.Add(5*time.Millisecond)))
	w.now = w.now.Add(4 * time.Millisecond)
	w.step(Work{Records: 1})
	require.NotContains(t, w.actions, "Send")
	w.now = w.now.Add(time.Millisecond)
	w.step(Work{Records: 1})
	require.Contains(t, w.actions, "Send")
	w.step(Work{Records: 9})
	require.Contains(t, w.actions, "Send", "at once when there is nothing more to do")
}

func TestNoCreditNoWork(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec(), CreditBytes: 100})
	w.holdAcks = true
	var rs []Record
	for i := range 10 {
		rs = append(rs, rec(int64(i), "21", "01234567", 10)) // 34 bytes each
	}
	w.step(Fetched{0, batch(10, rs...)})
	w.step(Work{Records: 100})
	require.EqualValues(t, 3, w.owner.Stats().Processed)
	require.Contains(t, w.actions, "Send")
	require.Equal(t, 102, w.owner.Stats().Unacked)
	require.False(t, w.owner.Runnable())
	w.ack()
	require.True(t, w.owner.Runnable())
	w.holdAcks = false
	w.work()
	require.EqualValues(t, 10, w.owner.Stats().Processed)
}

// A broker that does not answer while a record comes now and then: each takes effects of its own, which are larger than it.
func TestSmallEffectsCountAgainstTheCredit(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec(), CreditBytes: 64 << 10})
	w.holdAcks = true
	for i := range 100 {
		w.step(Fetched{0, batch(int64(i)+1, rec(int64(i), "21", "01234567", 10))})
		w.step(Work{Records: 1})
	}
	require.EqualValues(t, 16, w.owner.Stats().Processed)
	w.ack()
	w.holdAcks = false
	w.work()
	require.EqualValues(t, 100, w.owner.Stats().Processed)
}

func TestOneAckGivesTheCreditOfAllBeforeItBack(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec(), CreditBytes: 3 * firstChunk})
	w.holdAcks = true
	for i := range 3 {
		w.step(Fetched{0, batch(int64(i)+1, rec(int64(i), "21", "01234567", 10))})
		w.step(Work{Records: 1})
	}
	require.Equal(t, []uint64{1, 2, 3}, w.unacked)
	require.Equal(t, 102, w.owner.Stats().Unacked)
	w.step(Acked{3}) // the sender skips the others where they are complete at the same time
	require.Zero(t, w.owner.Stats().Unacked)
}

func TestTheBudgetFollowsTheClock(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	o := w.owner
	w.step(Work{})
	require.Equal(t, firstBudget, o.budget)
	w.step(Work{Took: time.Millisecond})
	require.Equal(t, 2*firstBudget, o.budget)
	w.step(Work{Took: 4 * time.Millisecond})
	require.Equal(t, 2*firstBudget, o.budget)
	w.step(Work{Took: 20 * time.Millisecond})
	require.Equal(t, firstBudget/2, o.budget)
	w.step(Work{Max: time.Second, Took: 20 * time.Millisecond})
	require.Equal(t, firstBudget, o.budget)
	w.step(Work{Took: time.Hour})
	require.Equal(t, 1, o.budget)
	for range 40 {
		w.step(Work{Took: time.Microsecond})
	}
	require.Equal(t, maxBudget, o.budget)
	w.step(Fetched{0, batch(3, rec(0, "a", "1", 1), rec(1, "a", "1", 1), rec(2, "a", "1", 1))})
	w.step(Work{Records: 2})
	require.EqualValues(t, 2, o.Stats().Processed)
}

func TestWallClockWaitsForTheCommit(t *testing.T) {
	fired := 0
	s := asyncSpec(new([]error))
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		e.Schedule("p", 10*time.Millisecond, WallClock, func(int64) { fired++ })
		return build(e)
	}
	w := newWorld(t, Config{Spec: s})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "sync", 10)))
	w.wake = time.Time{}
	w.advance(20 * time.Millisecond)
	require.Zero(t, fired)
	require.Zero(t, w.wake, "a tick would not help")
	w.commit(nil)
	require.False(t, w.wake.After(w.now), "woken at once")
	w.step(Tick{})
	require.Equal(t, 1, fired)
}

func TestClose(t *testing.T) {
	for _, c := range []struct {
		name  string
		close func()
		want  []string
	}{
		{"without", nil, []string{"Closed"}},
		{"calm", func() {}, []string{"Closed"}},
		{"panics", func() { panic(errBad) }, []string{"Failed", "Closed"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := mapSpec()
			build := s.Build
			s.Build = func(e *Env) (*Graph, error) {
				g, err := build(e)
				g.Close = c.close
				return g, err
			}
			w := newWorld(t, Config{Spec: s})
			w.step(Close{})
			require.Equal(t, c.want, w.actions)
			if len(c.want) > 1 {
				require.ErrorIs(t, w.failed, errBad)
			}
		})
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		name string
		cfg  func(*Config)
		want string
	}{
		{"no spec", func(c *Config) { c.Spec = nil }, "without a spec"},
		{"no build", func(c *Config) { c.Spec = &Spec{} }, "no Build"},
		{"positions", func(c *Config) { c.Positions = nil }, "0 positions for 1 inputs"},
		{"stores", func(c *Config) { c.Stores = []statestore.Reader{nil} }, "1 readers for 0 stores"},
		{"build fails", func(c *Config) { c.Spec.Build = func(*Env) (*Graph, error) { return nil, errBad } }, "build the nodes: bad value"},
		{"build panics", func(c *Config) { c.Spec.Build = func(*Env) (*Graph, error) { panic(errBad) } }, "panic: bad value"},
		{"build reports", func(c *Config) {
			c.Spec.Build = func(e *Env) (*Graph, error) { e.Fail("n", KindProcess, errBad); return nil, nil }
		}, `node "n": process: bad value`},
		{"no entries", func(c *Config) { c.Spec.Build = func(*Env) (*Graph, error) { return &Graph{}, nil } }, "entry node"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := Config{ID: testID, Spec: mapSpec(), Positions: []int64{0}}
			c.cfg(&cfg)
			_, err := New(cfg)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, "task 0_1")
		})
	}
}

func TestEnv(t *testing.T) {
	s := countSpec(false)
	var env *Env
	s.Build = func(e *Env) (*Graph, error) {
		env = e
		require.Equal(t, testID, e.ID())
		require.EqualValues(t, -1, e.StreamTime())
		require.NotNil(t, e.Store(0))
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			require.EqualValues(t, 10, e.StreamTime(), "observed before the nodes run")
			require.EqualValues(t, 1_000_000, e.WallClock())
			topic, partition, offset := e.Source()
			require.Equal(t, "in-1@4", fmt.Sprintf("%s-%d@%d", topic, partition, offset))
		}}}, nil
	}
	w := newWorld(t, Config{Spec: s})
	require.Same(t, env, w.owner.Env())
	w.feed(0, batch(5, rec(4, "a", "1", 10)))
	require.NoError(t, w.failed)
}

func TestStateTransitions(t *testing.T) {
	require.True(t, StateCreated.canBecome(StateRunning))
	require.False(t, StateClosed.canBecome(StateRunning))
	require.Equal(t, "releasing", StateReleasing.String())
	require.Equal(t, "state 77", State(77).String())
	w := newWorld(t, Config{Spec: mapSpec()})
	require.Equal(t, StateCreated, w.owner.State())
	require.Panics(t, func() { w.owner.become(StateFailed) })
	require.Panics(t, func() { w.owner.Step(w.now, nil) })
	w.owner.t.commit.outstanding = &Sealed{}
	require.Panics(t, func() { w.owner.t.Seal(w.now) })
	require.Panics(t, func() {
		defer w.owner.t.recovered()
		panic("outside of a unit")
	})
}
