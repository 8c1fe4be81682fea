package task

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

func TestCommitsFallOnTheInterval(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec(), CommitInterval: 300 * time.Millisecond})
	w.now = time.UnixMilli(1_000_100)
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	require.Empty(t, w.commits)
	require.True(t, w.wake.Equal(time.UnixMilli(1_000_200)), "%v", w.wake.UnixMilli())
	w.advance(99 * time.Millisecond)
	require.Empty(t, w.commits)
	w.advance(time.Millisecond)
	require.Equal(t, []string{"in@1 st=10 n=1"}, w.commits)
	m, err := retry.ParseMetadata(w.committed["in"].Metadata, 1, 1)
	require.NoError(t, err)
	require.Equal(t, retry.Metadata{StreamTime: 10, Main: 1, Suspect: -1, Running: true}, m)

	w.advance(time.Hour) // with nothing to commit the interval passes unused
	require.Len(t, w.commits, 1)
	w.feed(0, batch(2, rec(1, "a", "1", 10)))
	require.Len(t, w.commits, 1)
	w.advance(300 * time.Millisecond)
	require.Len(t, w.commits, 2)

	w.feed(0, batch(3, rec(2, "a", "1", 10)))
	w.advance(-time.Hour) // the clock is set back
	require.Len(t, w.commits, 2)
	w.advance(300 * time.Millisecond)
	require.Len(t, w.commits, 3, "the interval begins anew")
}

func TestATaskThatOnlyMovedCommits(t *testing.T) {
	s := countSpec(false)
	w := newWorld(t, Config{Spec: s})
	w.feed(0, batch(3, rec(0, "-", "1", 1), rec(1, "-", "1", 2), rec(2, "-", "1", 3))) // dropped by the node
	w.advance(time.Second)
	require.Equal(t, []string{"in@3 st=3 n=3"}, w.commits)
	require.Equal(t, []Dropped{{"null-key", 3}}, w.owner.Stats().Dropped)
	w.feed(0, &Batch{Next: 9, Bytes: 1}) // a gap
	w.advance(time.Second)
	require.Equal(t, []string{"in@3 st=3 n=3", "in@9 st=3 n=0"}, w.commits)
	require.EqualValues(t, 2, w.owner.Stats().Commits)
	w.step(Commit{})
	w.advance(time.Second)
	require.Len(t, w.commits, 2, "nothing to commit")
}

func TestProcessingGoesOnBesideACommit(t *testing.T) {
	w := newWorld(t, Config{Spec: countSpec(true)})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	w.step(Commit{})
	require.Len(t, w.seals, 1)
	require.EqualValues(t, 1, w.seals[0].Seq)
	require.Equal(t, []SealedStore{{Store: 0, Changelog: TopicPartition{"counts-changelog", 1}, Changes: []statestore.Change{
		{Key: []byte("a"), Value: []byte{0, 0, 0, 0, 0, 0, 0, 1}, Timestamp: 10},
	}}}, w.seals[0].Stores)

	w.feed(0, batch(3, rec(1, "a", "1", 11), rec(2, "b", "1", 12)))
	w.step(Commit{})
	require.Len(t, w.seals, 1, "at most one is outstanding")
	w.commit(nil)
	require.Len(t, w.seals, 1, "the next one follows at once")
	w.commit(nil)
	require.Equal(t, map[string]string{"a": "2@11", "b": "1@12"}, w.rows(0))
	require.Equal(t, []string{"a:1@10", "a:2@11", "b:1@12"}, w.out["out-0"])
	require.Equal(t, []string{"in@1 st=10 n=1", "in@3 st=12 n=2"}, w.commits)
}

func TestAFailedCommitStopsTheTask(t *testing.T) {
	var told []error
	w := newWorld(t, Config{Spec: asyncSpec(&told)})
	w.holdCommits = true
	w.feed(0, batch(2, rec(0, "a", "async", 10), rec(1, "a", "async", 10)))
	refused := errors.New("refused")
	w.commit(refused)
	require.Equal(t, []error{refused, ErrRolledBack}, told)
	require.ErrorIs(t, w.failed, refused)
	require.EqualError(t, w.failed, "task 0_1: commit: refused")
	require.Empty(t, w.rows(0))
	require.Equal(t, StateFailed, w.owner.State())
}

func TestAFailingEmissionDropsTheGeneration(t *testing.T) {
	var told []error
	w := newWorld(t, Config{Spec: countSpec(true)})
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	w.step(Commit{})
	w.feed(0, batch(3, rec(1, "a", "1", 11), rec(2, "poison", "1", 12)))
	w.owner.t.commit.callbacks = append(w.owner.t.commit.callbacks, func(err error) { told = append(told, err) })
	w.step(Release{})
	require.Equal(t, []string{"Failed", "Released"}, w.actions)
	require.ErrorContains(t, w.failed, `node "out": emit: bad value`)
	require.Equal(t, []error{ErrRolledBack}, told)
	require.Equal(t, []string{"in@1 st=10 n=1"}, w.commits)
	require.Equal(t, []string{"a:1@10"}, w.out["out-0"])
	require.Equal(t, map[string]string{"a": "1@10"}, w.rows(0))
}

// asyncSpec counts, and asks for commits: "async" and "sync" values do.
func asyncSpec(told *[]error) *Spec {
	s := countSpec(false)
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		g, err := build(e)
		count := g.Inputs[0]
		g.Inputs[0] = func(r *Record) {
			switch string(r.Value) {
			case "async", "panic":
				e.CommitAsync(func(err error) { *told = append(*told, err) })
			case "again":
				e.CommitAsync(func(err error) {
					*told = append(*told, err)
					e.CommitAsync(func(err error) { *told = append(*told, fmt.Errorf("again: %w", err)) })
				})
			case "for ever":
				var next func(error)
				next = func(err error) {
					*told = append(*told, err)
					e.CommitAsync(next)
				}
				e.CommitAsync(next)
			case "sync":
				e.RequestCommit()
			case "callback panics":
				e.CommitAsync(func(error) { panic(errBad) })
			case "nil":
				e.CommitAsync(nil)
			}
			count(r)
		}
		return g, err
	}
	return s
}

func TestRequestCommitWaits(t *testing.T) {
	w := newWorld(t, Config{Spec: asyncSpec(new([]error))})
	w.holdCommits = true
	w.step(Fetched{0, batch(3, rec(0, "a", "v", 10), rec(1, "a", "sync", 10), rec(2, "a", "v", 10))})
	w.step(Work{Records: 1})
	w.step(Commit{})
	w.step(Work{Records: 9})
	require.False(t, w.owner.Runnable())
	w.commit(nil)
	require.False(t, w.owner.Runnable(), "that commit does not cover it")
	require.Len(t, w.seals, 1)
	require.EqualValues(t, 2, w.seals[0].Offsets[0].Offset, "nothing more was taken")
	w.commit(nil)
	require.True(t, w.owner.Runnable())
	w.work()
	require.EqualValues(t, 3, w.owner.Stats().Processed)
}

func TestCommitAsyncGoesOn(t *testing.T) {
	var told []error
	w := newWorld(t, Config{Spec: asyncSpec(&told)})
	w.holdCommits = true
	w.feed(0, batch(4, rec(0, "a", "async", 10), rec(1, "a", "async", 10), rec(2, "a", "nil", 10), rec(3, "a", "v", 10)))
	require.EqualValues(t, 4, w.owner.Stats().Processed)
	require.Empty(t, told)
	require.EqualValues(t, 1, w.seals[0].Offsets[0].Offset)
	w.commit(nil)
	require.Equal(t, []error{nil}, told)
	require.EqualValues(t, 4, w.seals[0].Offsets[0].Offset)
	w.commit(nil)
	require.Equal(t, []error{nil, nil}, told)
	require.Empty(t, w.seals)
}

func TestCallbacksOfCommits(t *testing.T) {
	for _, c := range []struct {
		name   string
		value  string
		then   Event
		told   []error
		failed bool
	}{
		{"of a unit that fails", "panic", Tick{}, []error{ErrRolledBack}, true},
		{"of a task that is closed", "async", Close{}, []error{ErrReleased}, false},
		{"that asks again when it is told an error", "again", Lost{}, []error{ErrLost}, false},
		{"that panics", "callback panics", Committed{}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var told []error
			w := newWorld(t, Config{Spec: asyncSpec(&told)})
			w.holdCommits = true
			w.feed(0, batch(1, rec(0, "a", c.value, 10)))
			if c.then == (Committed{}) {
				w.seals = nil // it is the answer
			}
			w.step(c.then)
			if len(w.seals) > 0 && c.failed {
				w.commit(nil)
			}
			require.Equal(t, c.told, told)
			require.Equal(t, c.failed, w.failed != nil)
		})
	}
	t.Run("that asks again", func(t *testing.T) {
		var told []error
		w := newWorld(t, Config{Spec: asyncSpec(&told)})
		w.feed(0, batch(1, rec(0, "a", "again", 10)))
		require.Len(t, told, 2)
		require.Nil(t, told[0])
		require.Len(t, w.commits, 2)
	})
}

func TestMuchDirtyStateCommitsNow(t *testing.T) {
	w := newWorld(t, Config{Spec: countSpec(true), DirtyBytes: 40})
	w.holdCommits = true
	var rs []Record
	for i := range 50 {
		rs = append(rs, rec(int64(i), fmt.Sprintf("key-%02d", i), "v", 10))
	}
	w.step(Fetched{0, batch(50, rs...)})
	w.work()
	require.Len(t, w.seals, 1)
	require.False(t, w.owner.Runnable(), "the next generation is full too")
	processed := w.owner.Stats().Processed
	require.Less(t, processed, int64(20))
	w.holdCommits = false
	w.commit(nil)
	w.work()
	w.step(Commit{})
	require.EqualValues(t, 50, w.owner.Stats().Processed)
	require.Len(t, w.rows(0), 50)
}

func TestACommitWithNothingToCommitIsForgotten(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.step(Commit{})
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	require.Empty(t, w.commits, "it asked for a commit of what was there")
}

func TestACommitThatTookLongIsNotFollowedAtOnce(t *testing.T) {
	w := newWorld(t, Config{Spec: mapSpec()})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "1", 10)))
	w.advance(time.Second)
	require.Len(t, w.seals, 1)
	w.feed(0, batch(2, rec(1, "a", "1", 10)))
	w.now = w.now.Add(300 * time.Millisecond)
	w.commit(nil)
	require.Empty(t, w.seals)
	require.True(t, w.wake.Equal(epoch0.Add(2*time.Second)))
	w.advance(700 * time.Millisecond)
	require.Len(t, w.seals, 1)
}

func TestACallbackDoesNotHoldUpARelease(t *testing.T) {
	var told []error
	w := newWorld(t, Config{Spec: asyncSpec(&told)})
	w.holdCommits = true
	w.feed(0, batch(1, rec(0, "a", "for ever", 10)))
	w.commit(nil)
	require.Len(t, w.seals, 1, "the next one is under way")
	w.step(Release{})
	w.commit(nil)
	w.commit(nil) // that it does not run any more
	require.Equal(t, StateReleased, w.owner.State())
	w.step(Resume{})
	w.step(Release{})
	require.Equal(t, StateReleased, w.owner.State())
	require.Equal(t, []error{nil, nil, nil}, told)
	w.step(Close{})
	require.Equal(t, []error{nil, nil, nil, ErrReleased}, told)
}
