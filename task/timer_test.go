package task

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// firing lets the times of a clock pass and returns those at which a schedule fired.
func firing(clock Clock, every time.Duration, streamTime, now int64, times ...int64) (fired []int64) {
	s := newTimers()
	s.add("n", every, clock, func(int64) {}, streamTime, now)
	for _, at := range times {
		for s.pop(clock, at) != nil && len(fired) < 100 {
			fired = append(fired, at)
		}
	}
	return fired
}

func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name       string
		clock      Clock
		every      int64
		streamTime int64
		now        int64
		times      []int64
		want       []int64
	}{
		{"stream time", StreamTime, 10, -1, 0, []int64{20, 25, 142, 145, 155, 159, 160, 161}, []int64{20, 142, 155, 160}},
		{"stream time from 0", StreamTime, 10, -1, 0, []int64{0, 9, 10}, []int64{0, 10}},
		{"stream time known from before", StreamTime, 10, 100, 0, []int64{100, 105, 110, 111}, []int64{110}},
		{"stream time between", StreamTime, 10, 105, 0, []int64{109, 110}, []int64{110}},
		{"wall clock", WallClock, 10, -1, 1000, []int64{1010, 1020, 1029, 1030, 1050}, []int64{1010, 1020, 1030, 1050}},
		{"wall clock with gaps", WallClock, 10, -1, 0, []int64{100, 110, 122, 129, 130, 235, 240}, []int64{100, 110, 122, 130, 235, 240}},
		{"wall clock every 100", WallClock, 100, -1, 0, []int64{99, 100, 199, 200, 1001, 1002, 1100, 1199, 1200}, []int64{100, 200, 1001, 1100, 1200}},
		{"anchored at 50", WallClock, 100, -1, -50, []int64{49, 50, 150, 1051, 1149, 1150}, []int64{50, 150, 1051, 1150}},
		{"the end of time", StreamTime, 10, -1, 0, []int64{math.MaxInt64 - 8, math.MaxInt64 - 7, math.MaxInt64}, []int64{math.MaxInt64 - 8, math.MaxInt64 - 7}},
		{"less than a millisecond", WallClock, 0, -1, 0, []int64{0, 1, 2}, []int64{1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, firing(c.clock, time.Duration(c.every)*time.Millisecond, c.streamTime, c.now, c.times...))
		})
	}
}

func TestSchedulesFireInOrder(t *testing.T) {
	s := newTimers()
	s.add("b", 20*time.Millisecond, WallClock, nil, -1, 0)
	s.add("a", 10*time.Millisecond, WallClock, nil, -1, 0)
	s.add("c", 10*time.Millisecond, WallClock, nil, -1, 0)
	var order string
	for due := s.pop(WallClock, 25); due != nil; due = s.pop(WallClock, 25) {
		order += due.node
	}
	require.Equal(t, "acb", order)
	require.EqualValues(t, 30, s.due[WallClock])
	require.Equal(t, never, s.due[StreamTime])
}

// punctuating is a processor of F6: both clocks forward the key p, and a child adds a header with a count.
func punctuating(into *[]string) *Spec {
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		n := byte('0')
		forward := func(value string) func(int64) {
			return func(ts int64) {
				n++
				topic, partition, offset := e.Source()
				if topic != "" || partition != -1 || offset != -1 {
					*into = append(*into, "has a source")
				}
				e.Send(0, 0, append(append(e.Tail(), 'p'), value...), 1, len(value), ts, []Header{{"n", []byte{n}}})
			}
		}
		e.Schedule("p", 10*time.Millisecond, StreamTime, forward("stream"))
		e.Schedule("p", time.Second, WallClock, forward("wall"))
		return &Graph{Inputs: []func(*Record){func(r *Record) {}}}, nil
	}
	return s
}

func TestPunctuationCarriesItsOwnTime(t *testing.T) {
	var wrong []string
	w := newWorld(t, Config{Spec: punctuating(&wrong)})
	x := func(v string) Header { return Header{"x", []byte(v)} }
	w.feed(0, batch(3, rec(0, "k", "a", 20, x("1")), rec(1, "k", "b", 25, x("2")), rec(2, "k", "c", 31, x("3"))))
	require.True(t, w.wake.Equal(w.now.Add(time.Second)), "woken for the wall clock: %v", w.wake)
	w.advance(time.Second)
	w.advance(time.Second)
	require.Equal(t, []string{"p:stream@20 n=1", "p:stream@31 n=2", "p:wall@1001000 n=3", "p:wall@1002000 n=4"}, w.out["out-0"])
	require.Empty(t, wrong)
	require.EqualValues(t, 4, w.owner.Stats().Punctuations)
}

func TestPunctuationsDoNotFireAgainAfterARestart(t *testing.T) {
	var wrong []string
	w := newWorld(t, Config{Spec: punctuating(&wrong)})
	w.feed(0, batch(1, rec(0, "k", "a", 25)))
	w.step(Release{})
	w.step(Close{})
	w.start(Config{Spec: punctuating(&wrong)})
	w.feed(0, batch(3, rec(1, "k", "a", 26), rec(2, "k", "a", 30)))
	require.Equal(t, []string{"p:stream@25 n=1", "p:stream@30 n=1"}, w.out["out-0"])
}

func TestCancelInsideTheCallback(t *testing.T) {
	var fired []int64
	s := mapSpec()
	s.Build = func(e *Env) (*Graph, error) {
		var cancel func()
		cancel = e.Schedule("p", 10*time.Millisecond, WallClock, func(ts int64) {
			fired = append(fired, ts)
			if len(fired) == 2 {
				cancel()
			}
		})
		return &Graph{Inputs: []func(*Record){func(*Record) {}}}, nil
	}
	w := newWorld(t, Config{Spec: s})
	for range 5 {
		w.advance(10 * time.Millisecond)
	}
	require.Equal(t, []int64{1_000_020, 1_000_030}, fired, "the grid begins with the first turn")
}

func TestAFailingPunctuationNamesItsNode(t *testing.T) {
	for _, clock := range []Clock{StreamTime, WallClock} {
		s := mapSpec()
		build := s.Build
		s.Build = func(e *Env) (*Graph, error) {
			e.Schedule("timer", 10*time.Millisecond, clock, func(ts int64) {
				e.Send(0, 0, append(e.Tail(), 'x'), 1, -1, ts, nil)
				panic("at night")
			})
			return build(e)
		}
		w := newWorld(t, Config{Spec: s})
		w.feed(0, batch(2, rec(0, "a", "1", 20), rec(1, "a", "2", 21)))
		w.advance(10 * time.Millisecond)
		var e *Error
		require.ErrorAs(t, w.failed, &e)
		require.Equal(t, KindPanic, e.Kind)
		require.Equal(t, "timer", e.Node)
		require.EqualValues(t, -1, e.Offset)
		require.NotEmpty(t, e.Stack)
		require.Equal(t, `task 0_1, node "timer": panic: at night`, e.Error())
		require.Equal(t, StateFailed, w.owner.State())
		want := int64(1) // the record is done although what its time set off failed
		if clock == WallClock {
			want = 2
		}
		require.EqualValues(t, want, w.committed["in"].Offset)
		for _, r := range append(w.out["out-0"], w.out["out-1"]...) {
			require.NotContains(t, r, "x:")
		}
	}
}
