package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// alarm notes when it fires, and may cancel itself.
type alarm struct {
	every  time.Duration
	clock  streams.Clock
	most   int // cancels itself after so many
	fired  []int64
	cancel func()
}

func (a *alarm) Start(c *streams.Context[string, string]) error {
	a.cancel = c.Schedule(a.every, a.clock, func(_ *streams.Context[string, string], at time.Time) error {
		a.fired = append(a.fired, at.UnixMilli())
		if len(a.fired) == a.most {
			a.cancel()
		}
		return nil
	})
	return nil
}

func (*alarm) Process(*streams.Context[string, string], streams.Record[string, string]) error {
	return nil
}

func alarmed(a *alarm) *streams.Builder {
	b := streams.NewBuilder()
	for _, topic := range []string{"a", "b"} {
		b.Stream(topic, serde.String, serde.String)
	}
	b.Stream("a", serde.String, serde.String).Merge(b.Stream("b", serde.String, serde.String)).
		Process("alarm", func(*streams.Init) streams.Processor[string, string, string, string] { return a })
	return b
}

func TestStreamTimePunctuation(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		most  int
		at    []int64
		want  []int64
	}{
		{"one fire after a gap, on multiples from 0", 10 * time.Millisecond, 0,
			[]int64{20, 25, 142, 145, 155, 159, 160, 161}, []int64{20, 142, 155, 160}},
		{"the first record is past 0; late ones fire nothing", 100 * time.Millisecond, 0,
			[]int64{99, 100, 199, 150, 200, 1001, 1002, 1100}, []int64{99, 100, 200, 1001, 1100}},
		{"cancelled from inside", 10 * time.Millisecond, 2, []int64{10, 20, 30, 40}, []int64{10, 20}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &alarm{every: c.every, clock: streams.StreamTime, most: c.most}
			d := streamstest.New(t, alarmed(a))
			in := streamstest.In(d, "a", serde.String, serde.String)
			for _, at := range c.at {
				in.Pipe("k", "v", streamstest.AtMillis(at))
			}
			require.Equal(t, c.want, a.fired)
		})
	}
}

func TestStreamTimeSurvivesARestart(t *testing.T) {
	for _, keepState := range []bool{true, false} {
		a := &alarm{every: 50 * time.Millisecond, clock: streams.StreamTime}
		d := streamstest.New(t, alarmed(a))
		in := streamstest.In(d, "a", serde.String, serde.String)
		in.Pipe("k", "v", streamstest.AtMillis(120))
		d.Restart(keepState)
		in.Pipe("k", "late", streamstest.AtMillis(60))
		in.Pipe("k", "late", streamstest.AtMillis(149))
		in.Pipe("k", "v", streamstest.AtMillis(150))
		require.Equal(t, []int64{120, 150}, a.fired, "state kept: %v", keepState)
	}
}

func TestWallClockPunctuation(t *testing.T) {
	for _, c := range []struct {
		name   string
		sleeps []int64
		want   []int64 // after the start
	}{
		{"small steps", []int64{10, 10, 9, 1, 20}, []int64{10, 20, 30, 50}},
		{"one fire after a gap", []int64{100, 10, 12, 7, 1, 105, 5}, []int64{100, 110, 122, 130, 235, 240}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &alarm{every: 10 * time.Millisecond, clock: streams.WallClock}
			d := streamstest.New(t, alarmed(a), streamstest.StartAt(time.UnixMilli(5)))
			for _, ms := range c.sleeps {
				d.AdvanceWallClock(time.Duration(ms) * time.Millisecond)
			}
			for i := range a.fired {
				a.fired[i] -= 5
			}
			require.Equal(t, c.want, a.fired)
		})
	}
}
