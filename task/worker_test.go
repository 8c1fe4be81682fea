package task

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// shift is a world whose records are run by workers, each when the test says so.
type shift struct {
	*world
	workers []*Worker
	id      uint64
	asked   []Read
	before  func(q Read) // the answer
}

func newShift(t *testing.T, n int, cfg Config) *shift {
	c := &shift{world: newWorld(t, cfg)}
	for range n {
		c.workers = append(c.workers, c.hire(c.owner.t.cfg))
	}
	c.step(Tick{})
	return c
}

func (c *shift) hire(cfg Config) *Worker {
	w, err := NewWorker(cfg, c.answer)
	require.NoError(c.t, err)
	return w
}

func (c *shift) answer(q Read) Answer {
	c.asked = append(c.asked, q)
	if c.before != nil {
		c.before(q)
	}
	a, ok := c.owner.t.answer(q)
	require.True(c.t, ok)
	return a
}

// take makes an item of a record, which the task watches over from here on.
func (c *shift) take(r Record) *Item {
	it := &Item{}
	it.fill(0, &r, r.Timestamp)
	c.begin(it)
	return it
}

func (c *shift) begin(it *Item) {
	c.id++
	it.ID = c.id
	c.owner.t.watch.begin(it)
}

func (c *shift) run(w int, it *Item) *Result {
	return c.workers[w].Run(context.Background(), c.now, it)
}

// keep applies a result, and carries out what follows.
func (c *shift) keep(r *Result) bool {
	c.owner.t.watch.end(r.Item)
	kept := c.owner.t.apply(r)
	c.step(Tick{})
	return kept
}

func TestWorkersResultIsAUnitOfTheTask(t *testing.T) {
	c := newShift(t, 2, Config{Spec: countSpec(false)})
	one, two := c.take(rec(0, "a", "1", 10)), c.take(rec(1, "b", "1", 11))
	r1, r2 := c.run(0, one), c.run(1, two)
	require.Empty(t, c.out, "a worker changes nothing")
	require.Zero(t, c.owner.t.dirtyBytes())
	require.True(t, c.keep(r2))
	require.True(t, c.keep(r1))
	require.True(t, c.keep(c.run(1, c.take(rec(2, "a", "1", 12)))))
	c.step(Commit{})
	require.Equal(t, []string{"b:1@11", "a:1@10", "a:2@12"}, c.out["out-0"])
	require.Equal(t, map[string]string{"a": "2@12", "b": "1@11"}, c.rows(0))
	require.EqualValues(t, 3, c.owner.Stats().Processed)
}

func TestWhatAWorkerSendsIsWhatTheTaskWouldSend(t *testing.T) {
	records := []Record{
		rec(0, "21", "a", 1), rec(1, "-", "b", 2), rec(2, "abc", "-", 3), rec(3, "abc", "", 4), rec(4, "", "c", 5),
		rec(5, "21", "x", 6, Header{"name", []byte("value")}, Header{"null", nil}, Header{"empty", []byte{}}),
	}
	want := newWorld(t, Config{Spec: mapSpec()})
	want.feed(0, batch(6, records...))
	c := newShift(t, 1, Config{Spec: mapSpec()})
	var it Item
	for i := range records { // one item for all, whose memory is used again
		it.fill(0, &records[i], 0)
		c.begin(&it)
		require.True(t, c.keep(c.run(0, &it)))
	}
	c.step(Commit{})
	require.Equal(t, want.out, c.out)
}

func TestItemsBytesAreItsOwn(t *testing.T) {
	r := rec(0, "key", "value", 1, Header{"h", []byte("head")}, Header{"null", nil}, Header{"empty", []byte{}})
	var it Item
	it.fill(0, &r, 5)
	for _, b := range [][]byte{r.Key, r.Value, r.Headers[0].Value} {
		copy(b, "XXXXX")
	}
	require.Equal(t, rec(0, "key", "value", 1, Header{"h", []byte("head")}, Header{"null", nil}, Header{"empty", []byte{}}), it.Record)
	null := rec(1, "-", "-", 2)
	it.fill(0, &null, 5)
	require.Nil(t, it.Record.Key)
	require.Nil(t, it.Record.Value)
	require.Empty(t, it.Record.Headers)
	empty := rec(2, "", "", 2)
	it.fill(0, &empty, 5)
	require.NotNil(t, it.Record.Key, "empty is not null")
	require.NotNil(t, it.Record.Value)
}

func TestFailedUnitOnAWorkerLeavesNothing(t *testing.T) {
	for _, v := range []string{"bad", "panic"} {
		t.Run(v, func(t *testing.T) {
			c := newShift(t, 1, Config{Spec: countSpec(false)})
			require.True(t, c.keep(c.run(0, c.take(rec(0, "a", "1", 10)))))
			r := c.run(0, c.take(rec(1, "a", v, 11)))
			require.ErrorIs(t, r.Err, errBad)
			require.Equal(t, "in", r.Err.Topic)
			require.EqualValues(t, 1, r.Err.Offset)
			require.Equal(t, v == "panic", r.Err.Kind == KindPanic)
			require.Empty(t, r.Sent())
			require.Empty(t, r.Writes[0])
			require.True(t, c.keep(c.run(0, c.take(rec(2, "a", "1", 12)))), "and the worker goes on")
			require.False(t, c.keep(r))
			require.ErrorIs(t, c.failed, errBad)
			require.Equal(t, map[string]string{"a": "2@12"}, c.rows(0))
			require.Equal(t, []string{"a:1@10", "a:2@12"}, c.out["out-0"])
		})
	}
}

func TestWorkerRemembersNothingOfItsLastItem(t *testing.T) {
	c := newShift(t, 2, Config{Spec: countSpec(false)})
	for i, w := range []int{0, 1, 0, 0, 1} {
		require.True(t, c.keep(c.run(w, c.take(rec(int64(i), "a", "1", 10)))))
	}
	require.Equal(t, []string{"a:1@10", "a:2@10", "a:3@10", "a:4@10", "a:5@10"}, c.out["out-0"])
	for _, w := range c.workers {
		require.Zero(t, w.t.stores[0].DirtyLen())
	}
	require.Len(t, c.asked, 5, "each item asks anew")
}

func TestWorkersDropsAndCommitsAreTheTasks(t *testing.T) {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			e.Dropped("late", 2)
			if string(r.Value) == "commit" {
				e.RequestCommit()
			}
			misbehave(e, "n", r.Value)
		}}}, nil
	}
	c := newShift(t, 1, Config{Spec: s})
	c.holdCommits = true
	require.True(t, c.keep(c.run(0, c.take(rec(0, "a", "x", 1)))))
	require.Empty(t, c.seals)
	require.True(t, c.keep(c.run(0, c.take(rec(1, "a", "commit", 1)))))
	require.Len(t, c.seals, 1)
	c.step(Fetched{0, batch(2, rec(0, "a", "1", 1))})
	require.False(t, c.owner.Runnable(), "nothing is taken before that commit is done")
	c.commit(nil)
	require.True(t, c.owner.Runnable())
	require.False(t, c.keep(c.run(0, c.take(rec(2, "a", "bad", 1)))))
	require.Equal(t, []Dropped{{"late", 4}}, c.owner.Stats().Dropped, "what a failed unit has dropped does not count")
}

// callSpec asks for an asynchronous commit in each unit. The callback sends what it is told, and writes or reads a row.
func callSpec(told *[]string) *Spec {
	s := mapSpec()
	s.Stores = []Store{{Spec: statestore.Spec{Name: "told"}, Changelog: "told-changelog"}}
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			offset, value := r.Offset, string(r.Value)
			e.CommitAsync(func(err error) {
				*told = append(*told, fmt.Sprintf("%d: %v", offset, err))
				e.Send(0, 0, append(e.Tail(), "told"...), 4, -1, 7, nil)
				if value == "read" {
					if _, _, err := e.Store(0).Get([]byte("told")); err != nil {
						e.Fail("n", KindStore, err)
					}
				}
				if err := e.Store(0).Put([]byte("told"), []byte("x"), 7); err != nil {
					e.Fail("n", KindStore, err)
				}
			})
			misbehave(e, "n", r.Value)
		}}}, nil
	}
	return s
}

// calls runs the callbacks that are due on their workers.
func (c *shift) calls() (n int) {
	for len(c.called) > 0 {
		call := c.called[0]
		c.called = c.called[1:]
		c.begin(call.Item)
		c.keep(call.Worker.Run(context.Background(), c.now, call.Item))
		n++
	}
	return n
}

func TestCallbacksOfWorkersRunOnTheirWorker(t *testing.T) {
	var told []string
	c := newShift(t, 2, Config{Spec: callSpec(&told)})
	require.True(t, c.keep(c.run(0, c.take(rec(0, "a", "x", 1)))))
	require.True(t, c.keep(c.run(1, c.take(rec(1, "a", "x", 1)))))
	require.Empty(t, told, "the nodes of a worker are not called by the task")
	require.True(t, c.workers[0].Owes())
	require.Equal(t, 2, c.calls())
	require.Equal(t, []string{"0: <nil>", "1: <nil>"}, told)
	require.False(t, c.workers[0].Owes())
	c.step(Commit{})
	require.Equal(t, []string{"told:-@7", "told:-@7"}, c.out["out-0"])
	require.Equal(t, map[string]string{"told": "x@7"}, c.rows(0))
}

func TestCallbacksOfWorkersAreToldWhyThereIsNoCommit(t *testing.T) {
	for _, x := range []struct {
		name string
		do   func(c *shift)
		want string
	}{
		{"lost", func(c *shift) { c.step(Lost{}) }, ErrLost.Error()},
		{"closed", func(c *shift) { c.step(Close{}) }, ErrReleased.Error()},
		{"failed", func(c *shift) { c.commit(errBad) }, errBad.Error()},
	} {
		t.Run(x.name, func(t *testing.T) {
			var told []string
			c := newShift(t, 1, Config{Spec: callSpec(&told)})
			c.holdCommits = true
			require.True(t, c.keep(c.run(0, c.take(rec(0, "a", "x", 1)))))
			x.do(c)
			c.calls()
			require.Equal(t, []string{"0: " + x.want}, told)
			require.Empty(t, c.out["out-0"], "what it does then is not kept")
		})
	}
	t.Run("unit failed", func(t *testing.T) {
		var told []string
		c := newShift(t, 1, Config{Spec: callSpec(&told)})
		require.False(t, c.keep(c.run(0, c.take(rec(0, "a", "bad", 1)))))
		c.calls()
		require.Equal(t, []string{"0: " + ErrRolledBack.Error()}, told)
	})
	t.Run("disowned", func(t *testing.T) {
		var told []string
		c := newShift(t, 1, Config{Spec: callSpec(&told)})
		r := c.run(0, c.take(rec(0, "a", "x", 1)))
		c.workers[0].Disown(r, ErrReleased)
		require.Equal(t, []string{"0: " + ErrReleased.Error()}, told)
		require.False(t, c.workers[0].Owes())
	})
}

func TestCallbackOfAWorkerThatReadsFails(t *testing.T) {
	var told []string
	c := newShift(t, 1, Config{Spec: callSpec(&told)})
	require.True(t, c.keep(c.run(0, c.take(rec(0, "a", "read", 1)))))
	c.calls()
	require.ErrorIs(t, c.failed, errReadInCallback)
}

func TestWorkersScheduleNothing(t *testing.T) {
	nop := func(int64) {}
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		e.Schedule("node", time.Second, WallClock, nop)
		return &Graph{Inputs: []func(*Record){func(*Record) {}}}, nil
	}
	_, err := NewWorker(Config{Spec: s}, nil)
	require.ErrorIs(t, err, errScheduled)

	s = mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(*Record) { e.Schedule("node", time.Second, WallClock, nop) }}}, nil
	}
	c := newShift(t, 1, Config{Spec: s})
	require.ErrorIs(t, c.run(0, c.take(rec(0, "a", "x", 1))).Err, errScheduled)

	s.Build = func(*Env) (*Graph, error) { return nil, errBad }
	_, err = NewWorker(Config{Spec: s}, nil)
	require.ErrorIs(t, err, errBad)
	_, err = NewWorker(Config{}, nil)
	require.Error(t, err)
}

func TestContextOfAnItem(t *testing.T) {
	type mark struct{}
	s := mapSpec()
	var got []any
	s.Build = func(e *Env) (*Graph, error) {
		got = append(got, e.Context().Value(mark{}))
		return &Graph{
			Inputs: []func(*Record){func(*Record) { got = append(got, e.Context().Value(mark{}), e.StreamTime(), e.WallClock()) }},
			Close:  func() { got = append(got, e.Context().Value(mark{})) },
		}, nil
	}
	w, err := NewWorker(Config{Spec: s, Context: context.WithValue(context.Background(), mark{}, "task")}, nil)
	require.NoError(t, err)
	w.Run(context.WithValue(context.Background(), mark{}, "item"), epoch0, &Item{StreamTime: 42})
	require.NoError(t, w.Close())
	require.Equal(t, []any{"task", "item", int64(42), epoch0.UnixMilli(), "task"}, got)
}

func TestWorkersDestinationsOfRunTime(t *testing.T) {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		return &Graph{Inputs: []func(*Record){func(r *Record) {
			d, err := e.Dest(string(r.Key))
			if err != nil {
				e.Fail("to", KindProduce, err)
				return
			}
			e.Send(d, 0, append(e.Tail(), r.Value...), -1, len(r.Value), r.Timestamp, nil)
		}}}, nil
	}
	c := newShift(t, 2, Config{Spec: s})
	for i, topic := range []string{"x", "y", "x", "out"} {
		require.True(t, c.keep(c.run(i%2, c.take(rec(int64(i), topic, fmt.Sprint(i), 1)))))
	}
	c.step(Commit{})
	require.Equal(t, map[string][]string{"x-0": {"-:0@1", "-:2@1"}, "y-0": {"-:1@1"}, "out-0": {"-:3@1"}}, c.out)
	require.ErrorContains(t, c.run(0, c.take(rec(4, "nowhere", "", 1))).Err, "not known")
}

func TestStoreErrorOfTheTaskFailsTheItem(t *testing.T) {
	c := newShift(t, 1, Config{Spec: countSpec(false)})
	gone := errors.New("gone")
	w, err := NewWorker(c.owner.t.cfg, func(q Read) Answer { return Answer{Item: q.Item, Err: gone} })
	require.NoError(t, err)
	r := w.Run(context.Background(), c.now, c.take(rec(0, "a", "1", 1)))
	require.ErrorIs(t, r.Err, gone)
	require.Equal(t, KindStore, r.Err.Kind)
}

// A store that cannot be asked any more, as the time for the try is over, has not failed.
func TestRegressionTimeoutInAReadIsNoFailureOfTheStore(t *testing.T) {
	c := newShift(t, 1, Config{Spec: countSpec(false)})
	ctx, cancel := context.WithCancelCause(context.Background())
	w, err := NewWorker(c.owner.t.cfg, func(q Read) Answer {
		cancel(context.DeadlineExceeded)
		return Answer{Item: q.Item, Err: context.Cause(ctx)}
	})
	require.NoError(t, err)
	r := w.Run(ctx, c.now, c.take(rec(0, "a", "1", 1)))
	require.ErrorIs(t, r.Err, context.DeadlineExceeded)
	require.Equal(t, KindProcess, r.Err.Kind, "the policy decides")
}

func TestRunningAnItemAgainAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	c := newShift(t, 1, Config{Spec: mapSpec()})
	r := rec(0, "key", "value", 1, Header{"h", []byte("x")})
	var it Item
	ctx := context.Background()
	require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		it.fill(0, &r, 1)
		c.owner.t.apply(c.workers[0].Run(ctx, c.now, &it))
	}), 0.0)
}
