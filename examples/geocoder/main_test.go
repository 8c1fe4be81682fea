package main

import (
	"bytes"
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// An address is located, or dead-lettered if the service does not know it, whatever the mode is.
func TestEveryAddressComesToItsEnd(t *testing.T) {
	for _, mode := range []string{"ordered", "key-ordered", "parallel"} {
		t.Run(mode, func(t *testing.T) {
			var out bytes.Buffer
			o := &order{mode: mode, workers: 4, count: 600, rate: 1000, service: service{Latency: time.Millisecond, Fails: 0.02, Unknown: 0.02}}
			unknown := 0
			for i := range o.count {
				_, address := addressOf(i)
				if _, err := (&service{Unknown: 0.02}).locate(t.Context(), address); err != nil {
					unknown++
				}
			}
			require.Positive(t, unknown)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			require.NoError(t, run(ctx, &kit.Flags{App: "geocoder"}, o, &view{out: &out}))
			lines := strings.Split(strings.TrimSpace(out.String()), "\n")
			require.Regexp(t, `located +`+strconv.Itoa(o.count-unknown)+` .* dead letters +`+strconv.Itoa(unknown)+` `, lines[len(lines)-1])
		})
	}
}

func TestAnOutageOpensTheBreakerAndNothingIsDeadLettered(t *testing.T) {
	var out bytes.Buffer
	toggle := make(chan struct{})
	o := &order{mode: "parallel", workers: 4, count: 800, rate: 400, service: service{Latency: time.Millisecond, toggled: toggle}}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		for range 2 {
			select {
			case toggle <- struct{}{}:
				time.Sleep(1500 * time.Millisecond)
			case <-ctx.Done():
			}
		}
	}()
	require.NoError(t, run(ctx, &kit.Flags{App: "geocoder"}, o, &view{out: &out}))
	require.Contains(t, out.String(), "the service is DOWN")
	require.Regexp(t, `breaker (open|probing)`, out.String())
	require.Regexp(t, `located +800 .* dead letters +0 `, out.String())
}

func TestStopStopsAtTheFirstFailure(t *testing.T) {
	o := &order{mode: "stop", count: 100, rate: 1000, service: service{Fails: 1}}
	err := run(t.Context(), &kit.Flags{App: "geocoder"}, o, &view{out: &bytes.Buffer{}})
	var failed *streams.RecordError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, errOverloaded)
	require.Equal(t, "geocode", failed.Node)
}

func TestAnUnknownModeIsSaid(t *testing.T) {
	err := run(t.Context(), &kit.Flags{App: "geocoder"}, &order{mode: "sideways"}, &view{out: &bytes.Buffer{}})
	require.EqualError(t, err, "-mode sideways: there are stop, ordered, key-ordered and parallel")
}

func TestTheViewIsOneLineOnATerminalAndManyElsewhere(t *testing.T) {
	var out bytes.Buffer
	s := status{located: 12, parked: 3, due: 1, gates: 2, deadLetters: 4, retried: 9, breaker: "open", waits: true, down: true}
	const line = "   5 s  located    12  tried again     9  parked     3  due    1  gates   2  dead letters   4  breaker open  (a task waits)  the service is DOWN"
	(&view{out: &out}).show(5*time.Second, s)
	require.Equal(t, line+"\n", out.String())
	out.Reset()
	v := &view{out: &out, live: true}
	v.show(5*time.Second, s)
	v.end()
	require.Equal(t, "\r\x1b[K"+line+"\n", out.String())
}

func TestTheServiceKnowsAnAddressAlwaysOrNever(t *testing.T) {
	s := &service{Unknown: 0.5}
	known := 0
	for i := range 100 {
		_, address := addressOf(i)
		first, err := s.locate(t.Context(), address)
		second, again := s.locate(t.Context(), address)
		require.Equal(t, first, second)
		require.Equal(t, err, again)
		if err == nil {
			known++
		} else {
			require.ErrorIs(t, err, errUnknown)
		}
	}
	require.InDelta(t, 50, known, 30)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s.Latency = time.Hour
	_, err := s.locate(ctx, "1 Elm Street")
	require.ErrorIs(t, err, context.Canceled)
}
