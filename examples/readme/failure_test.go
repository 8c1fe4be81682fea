package main

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// status answers calls with what is set for the value of the record, and notes which were answered well.
type status struct {
	of   map[string]int
	done []string
}

func (s *status) call(_ context.Context, r streams.Record[string, string]) error {
	code := s.of[r.Value]
	if code == 0 {
		code = 200
	}
	err := answers(code)
	if err == nil {
		s.done = append(s.done, r.Value)
	}
	return err
}

func TestEachModeDoesWhatTheReadmeSays(t *testing.T) {
	s := &status{of: map[string]int{"bad": 500}}
	d := streamstest.New(t, shop(s.call, s.call, s.call, s.call))
	pipe := func(topic, key, value string) error {
		return streamstest.In(d, topic, serde.String, serde.String).TryPipe(key, value)
	}
	heals := func(want ...string) {
		t.Helper()
		s.of["bad"] = 200
		d.AdvanceWallClock(2 * time.Minute)
		require.Equal(t, want, s.done)
		s.of["bad"], s.done = 500, nil
	}

	require.NoError(t, pipe("shipments", "a", "bad"))
	require.NoError(t, pipe("shipments", "b", "1"))
	require.Empty(t, s.done, "the partition waits")
	heals("bad", "1")

	require.NoError(t, pipe("stock", "a", "bad"))
	require.NoError(t, pipe("stock", "a", "1"))
	require.NoError(t, pipe("stock", "b", "2"))
	require.Equal(t, []string{"2"}, s.done, "other articles pass")
	heals("2", "bad", "1")

	require.NoError(t, pipe("mails", "a", "bad"))
	require.NoError(t, pipe("mails", "a", "1"))
	require.Equal(t, []string{"1"}, s.done, "all others pass")
	heals("1", "bad")

	require.ErrorIs(t, pipe("payments", "a", "bad"), errNoAnswer)
}

func TestWhatAnErrorSays(t *testing.T) {
	for code, want := range map[int]string{400: "dead letter", 404: "left out", 425: "again", 429: "again", 503: "again"} {
		s := &status{of: map[string]int{"x": code}}
		d := streamstest.New(t, shop(s.call, s.call, s.call, s.call))
		streamstest.In(d, "stock", serde.String, serde.String).Pipe("a", "x")
		s.of["x"] = 200
		d.AdvanceWallClock(5 * time.Minute)
		letters := streamstest.OutRaw(d, d.Topology().ApplicationID()+"-stock-dlq").ReadAll()
		switch want {
		case "dead letter":
			require.Len(t, letters, 1)
			require.Empty(t, s.done)
		case "left out":
			require.EqualValues(t, 1, d.Dropped("unknown customer"))
			require.Empty(t, letters)
		default:
			require.True(t, slices.Equal([]string{"x"}, s.done), "%d: %v", code, s.done)
			require.Empty(t, letters)
		}
	}
}
