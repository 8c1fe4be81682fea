package retry

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestNominal(t *testing.T) {
	for _, c := range []struct {
		name   string
		opts   []Option
		n      int
		expect time.Duration
	}{
		{"first", nil, 1, 100 * time.Millisecond},
		{"second", nil, 2, 200 * time.Millisecond},
		{"tenth", nil, 10, 51_200 * time.Millisecond},
		{"capped", nil, 11, time.Minute},
		{"far beyond", nil, math.MaxInt32, time.Minute},
		{"constant", []Option{Factor(1)}, 1000, 100 * time.Millisecond},
		{"no wait", []Option{Backoff(0, time.Minute), Factor(1e300)}, 5, 0},
		{"longest is the longest there is", []Option{Backoff(time.Second, math.MaxInt64)}, 310, math.MaxInt64},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.expect, Ordered(c.opts...).Settings().nominal(c.n))
		})
	}
}

// The random part only shortens a wait, by no more than it says, and all of it is used.
func TestJitterBounds(t *testing.T) {
	s := Ordered(Backoff(time.Second, time.Second), Jitter(0.25)).Settings()
	require.Equal(t, time.Second, s.wait(1, 0))
	require.InDelta(t, float64(750*time.Millisecond), float64(s.wait(1, math.MaxUint64)), float64(time.Microsecond))
	require.Greater(t, s.wait(1, math.MaxUint64), 750*time.Millisecond-time.Nanosecond)
	rapid.Check(t, func(t *rapid.T) {
		p := named(ModeOrdered, drawPolicy(t))
		s, n := p.Settings(), rapid.IntRange(1, 2000).Draw(t, "n")
		nominal, wait := s.nominal(n), s.wait(n, rapid.Uint64().Draw(t, "random"))
		require.LessOrEqual(t, nominal, s.Most)
		require.LessOrEqual(t, wait, nominal)
		require.GreaterOrEqual(t, float64(wait), float64(nominal)*(1-s.Jitter)*(1-1e-9)-1)
		require.GreaterOrEqual(t, s.nominal(n+1), nominal, "waits grow")
	})
}

func TestLater(t *testing.T) {
	require.Equal(t, int64(5), later(5, 0))
	require.Equal(t, int64(5), later(5, -time.Hour))
	require.Equal(t, int64(6), later(5, 1))
	require.Equal(t, int64(6), later(5, time.Millisecond))
	require.Equal(t, int64(7), later(5, time.Millisecond+1))
	require.Equal(t, int64(math.MaxInt64), later(math.MaxInt64-1, time.Second))
	require.Positive(t, later(noon, math.MaxInt64))
}
