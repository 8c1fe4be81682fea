package task

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/statestore"
)

// programSpec has nodes that run small programs, the values of records: "r a" reads a row, "s a c" the rows from a to c, "S a c" the other way
// round, "f a c" the first of them; "w a" writes what has been seen so far, "d a" deletes; "!" fails. What was seen is sent at the end.
func programSpec() *Spec {
	return &Spec{
		Inputs: []Input{{Topic: "in"}}, Dests: []Dest{{Topic: "out"}},
		Stores: []Store{{Spec: statestore.Spec{Name: "rows", Ordered: true}, Changelog: "rows-changelog"}},
		Build: func(e *Env) (*Graph, error) {
			return &Graph{Inputs: []func(*Record){func(r *Record) {
				out, err := runProgram(overlayRows{e.Store(0)}, string(r.Value))
				if err != nil {
					e.Fail("program", KindProcess, err)
					return
				}
				e.Send(0, 0, append(e.Tail(), out...), -1, len(out), r.Timestamp, nil)
			}}}, nil
		},
	}
}

// rowsOf is what a program works on.
type rowsOf interface {
	get(key string) (string, bool, error)
	scan(lo, hi string, reverse bool, yield func(k, v string) bool) error
	put(key, value string) error
	remove(key string) error
}

func runProgram(rows rowsOf, program string) (string, error) {
	saw := ""
	see := func(k, v string) bool { saw = fmt.Sprintf("%s(%s=%.12s)", saw, k, v); return true }
	for _, op := range strings.Split(program, ";") {
		f := strings.Fields(op)
		var err error
		switch f[0] {
		case "r":
			var v string
			var found bool
			if v, found, err = rows.get(f[1]); found {
				see(f[1], v)
			}
		case "s", "S":
			err = rows.scan(f[1], f[2], f[0] == "S", see)
		case "f":
			err = rows.scan(f[1], f[2], false, func(k, v string) bool { see(k, v); return false })
		case "w":
			err = rows.put(f[1], saw)
		case "d":
			err = rows.remove(f[1])
		case "!":
			err = errBad
		}
		if err != nil {
			return "", err
		}
	}
	return saw, nil
}

type overlayRows struct{ o *statestore.Overlay }

func (r overlayRows) get(key string) (string, bool, error) {
	row, found, err := r.o.Get([]byte(key))
	return string(row.Value), found, err
}

func (r overlayRows) scan(lo, hi string, reverse bool, yield func(k, v string) bool) error {
	it := r.o.Scan([]byte(lo), []byte(hi), reverse)
	for it.Next() && yield(string(it.Key()), string(it.Row().Value)) {
	}
	return it.Close()
}

func (r overlayRows) put(key, value string) error { return r.o.Put([]byte(key), []byte(value), 1) }
func (r overlayRows) remove(key string) error     { return r.o.Delete([]byte(key), 1) }

type mapRows map[string]string

func (m mapRows) get(key string) (string, bool, error) { v, ok := m[key]; return v, ok, nil }
func (m mapRows) put(key, value string) error          { m[key] = value; return nil }
func (m mapRows) remove(key string) error              { delete(m, key); return nil }

func (m mapRows) scan(lo, hi string, reverse bool, yield func(k, v string) bool) error {
	keys := sortedKeys(m)
	if reverse {
		sort.Sort(sort.Reverse(sort.StringSlice(keys)))
	}
	for _, k := range keys {
		if k >= lo && k < hi && !yield(k, m[k]) {
			break
		}
	}
	return nil
}

func (c *shift) program(text string) *Item { return c.take(rec(int64(c.id), "k", text, 1)) }

func TestWrittenMeanwhileMakesStale(t *testing.T) {
	for _, x := range []struct {
		reads, writes string
		stale         bool
	}{
		{"r a", "w a", true},
		{"r a", "d a", true},
		{"r a", "w b", false},
		{"w a", "w a", false}, // nobody has looked
		{"w a;r a", "w a", false},
		{"s a c", "w b", true},
		{"s a c", "w a", true},
		{"s a c", "w c", false},
		{"S a c", "w b", true},
		{"s a c", "w bb", true},
		{"r a;!", "w a", true}, // what has failed may have failed for what it read
		{"r a", "w a;!", false},
	} {
		t.Run(x.reads+" / "+x.writes, func(t *testing.T) {
			c := newShift(t, 2, Config{Spec: programSpec()})
			it := c.program(x.reads)
			r := c.run(0, it)
			c.keep(c.run(1, c.program(x.writes)))
			require.Equal(t, x.stale, it.seen.stale)
			c.owner.t.watch.end(it)
			require.Zero(t, c.owner.t.watch.n, "nothing is watched any more")
			require.Empty(t, c.owner.t.watch.stores[0].keys)
			require.Empty(t, c.owner.t.watch.stores[0].ranges)
			require.Empty(t, c.owner.t.watch.running)
			require.Same(t, it, r.Item)
		})
	}
}

func TestUnitsOfTheTaskMakeStaleToo(t *testing.T) {
	c := newShift(t, 1, Config{Spec: programSpec()})
	it := c.program("r a")
	c.run(0, it)
	c.feed(0, batch(1, rec(0, "k", "w a", 1)))
	require.True(t, it.seen.stale)
}

func TestRowsAreWatchedAlsoWhenTheyWereWrittenBefore(t *testing.T) {
	c := newShift(t, 2, Config{Spec: programSpec()})
	require.True(t, c.keep(c.run(0, c.program("w a")))) // dirty already
	it := c.program("r a")
	c.run(0, it)
	require.True(t, c.keep(c.run(1, c.program("r b;w a"))))
	require.True(t, it.seen.stale)
}

func TestLongRangesArriveInPieces(t *testing.T) {
	c := newShift(t, 2, Config{Spec: programSpec()})
	want := mapRows{}
	for i := range 3*answerRows + 5 {
		key := fmt.Sprintf("a%04d", i)
		require.True(t, c.keep(c.run(0, c.program("w "+key))))
		want[key] = ""
	}
	for _, program := range []string{"s a b", "S a b", "f a b", "s a0100 a0390"} {
		c.asked = nil
		r := c.run(0, c.program(program))
		require.NoError(t, errorOf(r))
		saw, err := runProgram(want, program)
		require.NoError(t, err)
		require.Equal(t, saw, string(r.Sent()[0].Record(0).Value), program)
		require.Greater(t, len(c.asked), 0)
	}
	first := c.program("f a b")
	c.run(0, first)
	require.True(t, c.keep(c.run(1, c.program("w a0300"))))
	require.False(t, first.seen.stale, "only what was handed over is watched")
	require.True(t, c.keep(c.run(1, c.program("w a0001"))))
	require.True(t, first.seen.stale)
}

func errorOf(r *Result) error {
	if r.Err != nil {
		return r.Err
	}
	return nil
}

func TestReadsOfAnItemThatIsOverAreNotAnswered(t *testing.T) {
	c := newShift(t, 1, Config{Spec: programSpec()})
	it := c.program("r a")
	c.owner.t.watch.end(it)
	_, ok := c.owner.t.answer(Read{Item: it.ID, Key: []byte("a")})
	require.False(t, ok)
	it = c.program("r a")
	c.step(Lost{})
	a, ok := c.owner.t.answer(Read{Item: it.ID, Key: []byte("a")})
	require.True(t, ok)
	require.ErrorIs(t, a.Err, ErrLost)
}

func TestBrokenStoreIsAnError(t *testing.T) {
	c := newShift(t, 1, Config{Spec: programSpec()})
	require.NoError(t, c.stores.Close())
	for _, program := range []string{"r a", "s a b"} {
		r := c.run(0, c.program(program))
		require.Error(t, errorOf(r), program)
		require.False(t, errors.Is(r.Err, errBad))
	}
	c.stores = nil
}

// However items run beside each other, what is kept is what one after the other would have done.
func TestAnyHistoryOfWorkersIsSerial(t *testing.T) {
	op := rapid.Custom(func(rt *rapid.T) string {
		key := func(label string) string { return rapid.StringMatching("[a-d]").Draw(rt, label) }
		switch verb := rapid.SampledFrom([]string{"r", "r", "s", "S", "f", "w", "w", "d", "!"}).Draw(rt, "verb"); verb {
		case "s", "S", "f":
			return verb + " " + key("lo") + " " + key("hi") + "~"
		case "!":
			return verb
		default:
			return verb + " " + key("key")
		}
	})
	rapid.Check(t, func(rt *rapid.T) {
		c := newShift(t, 4, Config{Spec: programSpec()})
		model, want := mapRows{}, []string{}
		busy := 0
		var launch func()
		var finished []*Result
		settle := func() {
			r := finished[0]
			finished = finished[1:]
			stale := r.Item.seen.stale
			c.owner.t.watch.end(r.Item)
			if stale {
				return
			}
			program := string(r.Item.Record.Value)
			copied := mapRows{}
			for k, v := range model {
				copied[k] = v
			}
			saw, err := runProgram(copied, program)
			require.Equal(rt, err == nil, r.Err == nil, program)
			if err == nil {
				require.True(rt, c.owner.t.apply(r))
				model, want = copied, append(want, "-:"+saw+"@1")
			}
		}
		launch = func() {
			w := c.workers[busy]
			busy++
			program := strings.Join(rapid.SliceOfN(op, 1, 5).Draw(rt, "program"), ";")
			it := c.program(program)
			finished = append(finished, w.Run(context.Background(), c.now, it))
			busy--
		}
		c.before = func(Read) { // others go on while this one waits for its answer
			switch {
			case rapid.Bool().Draw(rt, "wait"):
			case busy < len(c.workers) && rapid.Bool().Draw(rt, "another"):
				launch()
			case len(finished) > 0:
				settle()
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"run": func(*rapid.T) { launch() },
			"settle": func(*rapid.T) {
				if len(finished) > 0 {
					settle()
				}
			},
			"commit": func(*rapid.T) { c.step(Commit{}) },
		})
		for len(finished) > 0 {
			settle()
		}
		c.step(Commit{})
		require.Equal(rt, append([]string(nil), want...), c.out["out-0"])
		got := mapRows{}
		it := c.stores.Reader(0).Scan(nil, nil, false)
		for it.Next() {
			got[string(it.Key())] = string(it.Row().Value)
		}
		require.NoError(rt, it.Close())
		require.Equal(rt, model, got)
		require.Zero(rt, c.owner.t.watch.n)
	})
}
