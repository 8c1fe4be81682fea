package streamstest_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
	"github.com/understudy-streams/understudy/task"
)

var errRefused = errors.New("refused")

// shaky is a step that fails for values as often as it is told to; below zero is always.
type shaky struct {
	fails  map[string]int
	deadly string   // the value that the process does not outlive
	tried  []string // value@seconds since the beginning
	d      *streamstest.Driver
	in     *streamstest.Input[string, string]
	out    *streamstest.Output[string, string]
}

func newShaky(t *testing.T, p retry.Policy, opts ...streamstest.Option) *shaky {
	s := &shaky{fails: map[string]int{}}
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String, streams.OnFailure(p)).TryPeek("shaky", s.peek).To("out")
	s.d = streamstest.New(t, b, opts...)
	s.in, s.out = streamstest.In(s.d, "in", serde.String, serde.String), streamstest.Out(s.d, "out", serde.String, serde.String)
	return s
}

func (s *shaky) peek(_ context.Context, r streams.Record[string, string]) error {
	at := s.d.Now().Sub(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC))
	s.tried = append(s.tried, fmt.Sprintf("%s@%g", r.Value, at.Seconds()))
	if s.deadly != "" && r.Value == s.deadly {
		runtime.Goexit()
	}
	if s.fails[r.Value] == 0 {
		return nil
	}
	s.fails[r.Value]--
	return fmt.Errorf("%s: %w", r.Value, errRefused)
}

func (s *shaky) values() (values []string) {
	for _, r := range s.out.ReadAll() {
		values = append(values, r.Value)
	}
	return values
}

func exactly(opts ...retry.Option) []retry.Option {
	return append([]retry.Option{retry.Jitter(0), retry.Backoff(time.Second, time.Minute), retry.NoBreaker()}, opts...)
}

var task00 = task.ID{}

func TestStopEndsWithTheFirstFailure(t *testing.T) {
	s := newShaky(t, retry.Stop())
	s.fails["bad"] = 1
	s.in.Pipe("a", "good")
	require.ErrorIs(t, s.in.TryPipe("a", "bad"), errRefused)
	require.Equal(t, []string{"good"}, s.values())
	require.EqualValues(t, 1, s.d.Committed("in", 0))
}

func TestWithoutAPolicyATestSeesItsErrorAtOnce(t *testing.T) {
	fails := func(t *testing.T, opts ...streamstest.Option) error {
		return streamstest.New(t, failing(), opts...).TryPipeRaw("in", nil, nil)
	}
	require.Error(t, fails(t))
	require.NoError(t, fails(t, streamstest.OnFailure(retry.Ordered())), "it waits and is tried again")
}

func TestOrderedWaitsInItsPlace(t *testing.T) {
	s := newShaky(t, retry.Ordered(exactly()...))
	s.fails["bad"] = 3
	s.in.Pipe("a", "bad")
	s.in.Pipe("b", "good")
	require.Empty(t, s.values())
	e := s.d.Explain("in", 0, 0)
	require.Equal(t, streams.RecordHead, e.State)
	require.Contains(t, e.String(), "failed 1 times")
	require.Equal(t, streams.RecordAhead, s.d.Explain("in", 0, 1).State)
	s.d.AdvanceWallClock(time.Hour)
	require.Equal(t, []string{"bad@0", "bad@1", "bad@3", "bad@7", "good@7"}, s.tried, "each when it is due, never early")
	require.Equal(t, []string{"bad", "good"}, s.values())
	require.Equal(t, streams.RecordCommitted, s.d.Explain("in", 0, 0).State)
	require.EqualValues(t, 3, s.d.Failures(task00).Retried)
}

func TestOrderedStopsAtTheEnd(t *testing.T) {
	s := newShaky(t, retry.Ordered(exactly(retry.Attempts(2))...), streamstest.HoldCommits())
	s.fails["bad"] = -1
	s.in.Pipe("a", "bad")
	require.NoError(t, s.d.Err())
	require.NoError(t, s.d.TryCommit())
	s.d.Restart(true)
	require.NoError(t, s.d.Err(), "what was committed says that it has failed once")
	var failed *streams.RecordError
	require.ErrorAs(t, s.d.TryAdvanceWallClock(time.Second), &failed)
	require.Equal(t, 2, failed.Attempts)
	require.ErrorContains(t, failed, "(after 2 attempts)")
}

func TestKeyOrderedLetsOtherKeysPass(t *testing.T) {
	s := newShaky(t, retry.KeyOrdered(exactly()...))
	s.fails["a1"] = 2
	s.in.Pipe("a", "a1")
	s.in.Pipe("b", "b1")
	s.in.Pipe("a", "a2")
	require.Equal(t, []string{"b1"}, s.values())
	require.Equal(t, streams.RecordParked, s.d.Explain("in", 0, 0).State)
	follows := s.d.Explain("in", 0, 2)
	require.Equal(t, streams.RecordFollows, follows.State)
	require.Equal(t, retry.Origin{Topic: "in", ID: follows.Behind.ID}, follows.Behind)
	require.EqualValues(t, 3, s.d.Committed("in", 0), "a record that is put aside holds nothing up")
	s.d.AdvanceWallClock(time.Minute)
	require.Equal(t, []string{"a1", "a2"}, s.values())
	require.Equal(t, []string{"a1@0", "b1@0", "a1@1", "a1@3", "a2@3"}, s.tried)
	f := s.d.Failures(task00)
	require.Zero(t, f.Parked+f.Gates)
	require.EqualValues(t, 2, f.Recovered)
}

func TestParallelLetsAllPass(t *testing.T) {
	s := newShaky(t, retry.Parallel(exactly()...))
	s.fails["a1"] = 1
	for _, v := range []string{"a1", "a2", "a3"} {
		s.in.Pipe("a", v)
	}
	require.Equal(t, []string{"a2", "a3"}, s.values())
	s.d.AdvanceWallClock(time.Minute)
	require.Equal(t, []string{"a1"}, s.values())
}

func TestWhatWasPutAsideOutlivesAProcess(t *testing.T) {
	for _, keep := range []bool{true, false} {
		for name, mode := range map[string]func(...retry.Option) retry.Policy{"key": retry.KeyOrdered, "parallel": retry.Parallel} {
			t.Run(fmt.Sprintf("%s, state kept %t", name, keep), func(t *testing.T) {
				s := newShaky(t, mode(exactly()...))
				s.fails["a1"] = 1
				s.in.Pipe("a", "a1")
				s.d.Restart(keep)
				require.EqualValues(t, 1, s.d.Failures(task00).Parked)
				s.d.AdvanceWallClock(time.Second)
				require.Equal(t, []string{"a1"}, s.values())
				s.d.Restart(keep)
				require.Zero(t, s.d.Failures(task00).Parked)
				require.Empty(t, s.values())
			})
		}
	}
}

func TestDeadLettersComeBack(t *testing.T) {
	for name, mode := range map[string]func(...retry.Option) retry.Policy{
		"ordered": retry.Ordered, "key": retry.KeyOrdered, "parallel": retry.Parallel,
	} {
		t.Run(name, func(t *testing.T) {
			s := newShaky(t, mode(exactly(retry.Attempts(2), retry.ThenDeadLetter())...))
			s.fails["bad"] = -1
			s.in.Pipe("a", "bad", streamstest.AtMillis(7), streamstest.Headers(streams.Header{Key: "h", Value: []byte("v")}))
			s.in.Pipe("b", "good")
			s.d.AdvanceWallClock(time.Minute)
			require.Equal(t, []string{"good"}, s.values())
			letters := s.d.DeadLetters("in")
			require.Len(t, letters, 1)
			l := letters[0]
			require.Equal(t, "a", string(l.Key))
			require.Equal(t, "bad", string(l.Value))
			require.EqualValues(t, 7, l.Time.UnixMilli())
			require.Equal(t, []streams.Header{{Key: "h", Value: []byte("v")}}, l.Headers)
			require.Equal(t, retry.Origin{Topic: "in"}, l.Origin)
			require.Equal(t, 2, l.Attempts)
			require.Equal(t, "shaky", l.Node)
			require.Contains(t, l.Message, "refused")

			s.fails["bad"] = 0
			require.NoError(t, s.d.Redrive(l))
			s.d.AdvanceWallClock(time.Minute)
			require.Equal(t, []string{"bad"}, s.values())
			require.Len(t, s.d.DeadLetters("in"), 1)
		})
	}
}

// Effects and what is put aside are written; the acknowledgements are lost, and the process dies.
func TestRegressionLostAcksLoseNoRecord(t *testing.T) {
	s := newShaky(t, retry.KeyOrdered(exactly()...))
	s.fails["a1"] = 2
	s.in.Pipe("a", "a1")
	s.d.SetBrokers(streamstest.BrokersSilent)
	s.in.Pipe("b", "b1")
	s.d.AdvanceWallClock(time.Second)
	s.d.SetBrokers(streamstest.BrokersDown)
	s.d.AdvanceWallClock(10 * time.Second) // a1 succeeds, and nobody hears of it
	require.EqualValues(t, 1, s.d.Committed("in", 0))
	s.d.Crash(true)
	s.d.SetBrokers(streamstest.BrokersUp)
	s.d.AdvanceWallClock(time.Minute)
	require.Equal(t, []string{"b1", "b1", "a1"}, s.values(), "once more what was not committed, and a1 at last")
	require.EqualValues(t, 2, s.d.Committed("in", 0))
}

func TestBrokersThatComeBackGetWhatWaited(t *testing.T) {
	s := newShaky(t, retry.Stop())
	for _, b := range []streamstest.Brokers{streamstest.BrokersDown, streamstest.BrokersSilent} {
		s.d.SetBrokers(b)
		s.in.Pipe("a", fmt.Sprint(b))
	}
	require.Zero(t, s.d.Committed("in", 0))
	s.d.SetBrokers(streamstest.BrokersUp)
	require.Equal(t, []string{"2", "1"}, s.values())
	require.EqualValues(t, 2, s.d.Committed("in", 0))
}

// The process dies in the middle of the same record again and again: that one is found, and its neighbours are processed.
func TestRegressionRecordThatKillsProcesses(t *testing.T) {
	s := newShaky(t, retry.Ordered(exactly(retry.ThenDeadLetter())...))
	s.deadly = "killer"
	s.in.Pipe("a", "before")
	deaths := 0
	dies := func(f func()) bool { // the goroutine ends as the process would
		returned, ended := false, make(chan struct{})
		go func() {
			defer close(ended)
			f()
			returned = true
		}()
		<-ended
		if !returned {
			deaths++
		}
		return !returned
	}
	require.True(t, dies(func() { s.in.Pipe("a", "killer") }))
	comesBack := func() { // a suspect is not taken at once
		s.d.Crash(true)
		s.d.AdvanceWallClock(10 * time.Second)
	}
	for dies(comesBack) {
		require.LessOrEqual(t, deaths, 5)
	}
	s.in.Pipe("a", "after")
	require.Equal(t, []string{"before", "after"}, s.values())
	letters := s.d.DeadLetters("in")
	require.Len(t, letters, 1)
	require.Equal(t, "killer", string(letters[0].Value))
	require.Equal(t, "crash", letters[0].Class)
}
