package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// ordered is a task with two inputs that writes down what it takes.
func ordered(into *string) *Spec {
	s := mapSpec()
	s.Inputs = []Input{{Topic: "a"}, {Topic: "b"}}
	s.Build = func(e *Env) (*Graph, error) {
		take := func(r *Record) { *into += string(r.Key) }
		return &Graph{Inputs: []func(*Record){take, take}}, nil
	}
	return s
}

func known(end int64, b *Batch) *Batch {
	b.HighWatermark = end
	return b
}

func TestWaitingForALaggingInput(t *testing.T) {
	const wait = 100 * time.Millisecond
	setup := func(idle time.Duration) (*world, *string) {
		taken := new(string)
		return newWorld(t, Config{Spec: ordered(taken), MaxIdle: idle}), taken
	}
	t.Run("not at all", func(t *testing.T) {
		w, taken := setup(0)
		w.feed(0, known(9, batch(1, rec(0, "a", "", 10))))
		require.Equal(t, "a", *taken)
	})
	t.Run("whose end is not known", func(t *testing.T) {
		w, taken := setup(wait)
		w.feed(0, known(2, batch(2, rec(0, "a", "", 10), rec(1, "b", "", 20))))
		require.Empty(t, *taken)
		require.True(t, w.wake.Equal(w.now.Add(wait)))
		w.feed(1, known(1, batch(1, rec(0, "x", "", 15))))
		require.Equal(t, "axb", *taken)
		require.Equal(t, never, w.owner.t.idleSince)
	})
	t.Run("which turns out to be empty", func(t *testing.T) {
		w, taken := setup(wait)
		w.feed(0, known(1, batch(1, rec(0, "a", "", 10))))
		require.Empty(t, *taken)
		w.feed(1, known(0, batch(0)))
		require.Equal(t, "a", *taken)
	})
	t.Run("which has more", func(t *testing.T) {
		w, taken := setup(wait)
		w.feed(1, known(5, batch(1, rec(0, "x", "", 5))))
		w.feed(0, known(2, batch(2, rec(0, "a", "", 10), rec(1, "b", "", 20))))
		require.Equal(t, "x", *taken, "the next of b might be before it")
		w.feed(1, known(5, batch(5, rec(4, "y", "", 15))))
		require.Equal(t, "xayb", *taken)
	})
	t.Run("however far the clock is set back", func(t *testing.T) {
		w, taken := setup(wait)
		w.feed(0, known(2, batch(1, rec(0, "a", "", 10))))
		w.advance(-time.Hour)
		w.work()
		require.Empty(t, *taken)
		w.advance(wait)
		w.work()
		require.Equal(t, "a", *taken)
	})
	t.Run("not for ever", func(t *testing.T) {
		w, taken := setup(wait)
		w.feed(0, known(2, batch(1, rec(0, "a", "", 10))))
		w.advance(wait - time.Millisecond)
		w.work()
		require.Empty(t, *taken)
		w.advance(time.Millisecond)
		w.work()
		require.Equal(t, "a", *taken)
		w.feed(0, known(2, batch(2, rec(1, "b", "", 11))))
		require.Equal(t, "ab", *taken, "nor again while it lags")
	})
}
