package retry

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func circuit(opts ...Option) *Circuit { return NewCircuit(Parallel(opts...).Settings()) }

// opened is a circuit that has opened at noon.
func opened(opts ...Option) *Circuit {
	c := circuit(opts...)
	for range c.row {
		c.Failed("call", "timeout", noon)
	}
	return c
}

func TestCircuitOpensAfterARow(t *testing.T) {
	c := circuit(Breaker(3, time.Second))
	c.Failed("call", "timeout", noon)
	c.Failed("call", "refused", noon+1)
	c.Failed("other", "timeout", noon+2)
	c.Failed("call", "timeout", noon+3)
	require.False(t, c.Open(), "four failures, of three sorts")
	c.Failed("call", "timeout", noon+4)
	require.Equal(t, CircuitOpen, c.State())
	node, class, since := c.Cause()
	require.Equal(t, "call timeout", node+" "+class)
	require.Equal(t, int64(noon+4), since)
	require.Equal(t, 1, c.Openings())
	require.Equal(t, int64(noon+104), c.Waits(noon+4))
}

func TestCircuitSuccessEndsTheRow(t *testing.T) {
	c := circuit(Breaker(3, time.Second))
	for range 1000 {
		c.Failed("call", "timeout", noon)
		c.Failed("call", "timeout", noon)
		c.Succeeded()
	}
	require.False(t, c.Open())
}

func TestCircuitOpensWhenMostFail(t *testing.T) {
	c := circuit(Breaker(50, time.Second))
	for i := 0; !c.Open(); i++ {
		require.Less(t, i, 200)
		if i%10 == 0 {
			c.Succeeded()
		} else {
			c.Failed("call", "timeout", noon+int64(i))
		}
	}
	_, _, since := c.Cause()
	require.Equal(t, int64(noon+99), since, "the ninetieth of a hundred")
}

// With every second record bad the good ones must go on: parallel-consumer came to a stand within a minute.
func TestRegressionHalfBadRecordsKeepItClosed(t *testing.T) {
	c := circuit()
	random := rand.New(rand.NewPCG(1, 2))
	for range 100_000 {
		if random.IntN(2) == 0 {
			c.Failed("call", "timeout", noon)
		} else {
			c.Succeeded()
		}
	}
	require.Zero(t, c.Openings())
}

func TestCircuitWithoutBreaker(t *testing.T) {
	c := circuit(NoBreaker())
	for range 1000 {
		c.Failed("call", "timeout", noon)
	}
	require.False(t, c.Open())
	require.False(t, c.Probe(noon))
	require.Equal(t, int64(noon), c.Waits(noon))
}

func TestCircuitProbes(t *testing.T) {
	c := opened(Breaker(3, time.Second))
	require.False(t, c.Probe(noon+99), "too early")
	var waits []int64
	now := int64(noon)
	for range 6 {
		at := c.Waits(now)
		waits = append(waits, at-now)
		now = at
		require.True(t, c.Probe(now))
		require.Equal(t, CircuitProbing, c.State())
		require.True(t, c.Open())
		require.False(t, c.Probe(now), "one at a time")
		c.Failed("call", "timeout", now)
	}
	require.Equal(t, []int64{100, 200, 400, 800, 1000, 1000}, waits)
	require.True(t, c.Probe(now+1000))
	c.Succeeded()
	require.Equal(t, CircuitClosed, c.State())
	c.Failed("call", "timeout", now)
	c.Failed("call", "timeout", now)
	require.False(t, c.Open(), "the old row is over")
	c.Failed("call", "timeout", now)
	require.Equal(t, now+100, c.Waits(now), "and so are the long waits")
	require.Equal(t, 2, c.Openings())
}

// Nine of ten failures have opened it; once it is closed they are forgotten.
func TestCircuitForgetsTheShare(t *testing.T) {
	c := circuit(Breaker(1000, time.Second))
	for range circuitFailures {
		c.Failed("call", "timeout", noon)
	}
	require.True(t, c.Probe(c.Waits(noon)))
	c.Succeeded()
	for range circuitFailures - 1 {
		c.Failed("call", "timeout", noon)
	}
	require.False(t, c.Open())
}

// A bad record may be the probe. It says nothing of the outage, and must not make the wait longer.
func TestCircuitReleasedProbe(t *testing.T) {
	c := opened(Breaker(3, time.Second))
	require.True(t, c.Probe(noon+100))
	c.Release(noon + 150)
	require.Equal(t, CircuitOpen, c.State())
	require.Equal(t, int64(noon+150), c.Waits(noon+150))
	require.True(t, c.Probe(noon+150))
	c.Failed("call", "timeout", noon+160)
	require.Equal(t, int64(noon+360), c.Waits(noon+160))
	c.Release(noon + 160)
	require.Equal(t, int64(noon+360), c.Waits(noon+160), "none was under way")
}

// Workers come back late with what they began before it opened.
func TestCircuitLateOutcomesMeanNothing(t *testing.T) {
	c := opened(Breaker(3, time.Second))
	for range 50 {
		c.Failed("call", "timeout", noon+50)
		c.Succeeded()
	}
	require.Equal(t, CircuitOpen, c.State())
	require.Equal(t, int64(noon+100), c.Waits(noon+50))
	require.Equal(t, 1, c.Openings())
}

func TestCircuitClockSetBack(t *testing.T) {
	c := opened(Breaker(3, time.Second))
	require.Equal(t, int64(100), c.Waits(0), "no longer than the wait itself")
	require.True(t, c.Probe(100))
}

func TestCircuitShortProbe(t *testing.T) {
	c := opened(Breaker(3, 20*time.Millisecond))
	require.Equal(t, int64(noon+20), c.Waits(noon))
}

// Errors of ever new types must not fill the memory.
func TestCircuitManyClasses(t *testing.T) {
	c := circuit(Breaker(1000, time.Second))
	for i := range circuitFailures {
		require.False(t, c.Open())
		c.Failed("call", string(rune('A'+i)), noon)
	}
	require.Len(t, c.rows, circuitRows)
	require.True(t, c.Open(), "the share of failures decides")
}

func TestCircuitCostsNothingPerRecord(t *testing.T) {
	c := circuit()
	require.Zero(t, testing.AllocsPerRun(100, c.Succeeded))
	c.Failed("call", "timeout", noon)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		c.Failed("call", "timeout", noon)
		c.Succeeded()
	}))
}

// The circuit against a plain model of what it says of itself: lists of outcomes, counted anew each time.
func TestCircuitAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.IntRange(1, 8).Draw(t, "row")
		c := circuit(Breaker(row, 500*time.Millisecond))
		m := circuitModel{row: row}
		now := int64(noon)
		kinds := []string{"fail", "fail", "fail", "fail", "fail", "succeed", "probe", "release", "time"}
		for range rapid.IntRange(1, 300).Draw(t, "steps") {
			switch rapid.SampledFrom(kinds).Draw(t, "step") {
			case "fail":
				class := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "class")
				c.Failed("n", class, now)
				m.failed(class, now)
			case "succeed":
				c.Succeeded()
				m.succeeded()
			case "probe":
				require.Equal(t, m.probe(now), c.Probe(now))
			case "release":
				c.Release(now)
				m.release(now)
			case "time":
				now += rapid.Int64Range(0, 300).Draw(t, "ms")
			}
			require.Equal(t, m.state, c.State())
			if m.state == CircuitOpen {
				require.Equal(t, m.until, c.Waits(now))
			}
		}
	})
}

type circuitModel struct {
	row         int
	state       CircuitState
	history     []string // classes of failures, "" for a success, since it closed last
	wait, until int64
}

func (m *circuitModel) failed(class string, now int64) {
	switch m.state {
	case CircuitProbing:
		m.wait = min(m.wait*2, 500)
		m.state, m.until = CircuitOpen, now+m.wait
	case CircuitClosed:
		m.history = append(m.history, class)
		inRow, bad := 0, 0
		for i := len(m.history) - 1; i >= 0 && m.history[i] != ""; i-- {
			if m.history[i] == class {
				inRow++
			}
		}
		for _, h := range m.history[max(0, len(m.history)-100):] {
			if h != "" {
				bad++
			}
		}
		if inRow >= m.row || bad >= 90 {
			m.state, m.wait, m.until = CircuitOpen, 100, now+100
		}
	}
}

func (m *circuitModel) succeeded() {
	switch m.state {
	case CircuitProbing:
		m.state, m.history = CircuitClosed, nil
	case CircuitClosed:
		m.history = append(m.history, "")
	}
}

func (m *circuitModel) probe(now int64) bool {
	if m.state != CircuitOpen || m.until > now {
		return false
	}
	m.state = CircuitProbing
	return true
}

func (m *circuitModel) release(now int64) {
	if m.state == CircuitProbing {
		m.state, m.until = CircuitOpen, now
	}
}
