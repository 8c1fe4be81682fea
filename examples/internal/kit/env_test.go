package kit

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

func open(t *testing.T, f *Flags, topics map[string]int32) *Env {
	t.Helper()
	env, err := f.Open(t.Context(), topics)
	require.NoError(t, err)
	t.Cleanup(env.Close)
	return env
}

// second opens the brokers of an Env once more, as another process would.
func second(t *testing.T, first *Env, topics map[string]int32) *Env {
	t.Helper()
	return open(t, &Flags{App: "kit", Brokers: strings.Join(first.Brokers, ",")}, topics)
}

func TestCloseRemovesTheTemporaryStateDirectory(t *testing.T) {
	env := open(t, &Flags{App: "kit"}, nil)
	require.DirExists(t, env.StateDir)
	env.Close()
	require.NoDirExists(t, env.StateDir)
	env.Close()
}

func TestCloseLeavesANamedStateDirectory(t *testing.T) {
	dir := t.TempDir()
	env := open(t, &Flags{App: "kit", State: dir}, nil)
	require.Equal(t, dir, env.StateDir)
	env.Close()
	require.DirExists(t, dir)
}

func TestOpenFailsWithoutAPlaceForState(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	_, err := (&Flags{App: "kit"}).Open(t.Context(), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestOpenEndsWithItsContextWhenNoBrokerAnswers(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := (&Flags{App: "kit", Brokers: "127.0.0.1:1", State: t.TempDir()}).Open(ctx, map[string]int32{"in": 1})
	require.ErrorContains(t, err, "127.0.0.1:1")
	require.ErrorContains(t, err, "make kafka")
}

func TestFollowGivesWhatWasPut(t *testing.T) {
	env := open(t, &Flags{App: "kit"}, map[string]int32{"in": 1})
	want := []Record{
		{Key: []byte("k"), Value: []byte("v"), Headers: []streams.Header{{Key: "h", Value: []byte("1")}}},
		{Value: []byte{}},
		{Key: []byte("gone")},
	}
	for _, r := range want {
		require.NoError(t, env.Put(t.Context(), "in", 0, r))
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var got []Record
	require.NoError(t, env.Follow(ctx, "in", func(r Record) {
		if got = append(got, r); len(got) == len(want) {
			stop()
		}
	}))
	require.Equal(t, want, got)
}

func TestLoadIsDoneOnceByTheProcessThatMadeTheTopic(t *testing.T) {
	topics := map[string]int32{"lines": 2}
	first := open(t, &Flags{App: "kit"}, topics)
	other := second(t, first, topics)
	values := []string{"a", "b", "c"}
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := other.Load(t.Context(), "lines", 2, values); err != nil {
			t.Errorf("the second process: %v", err)
		}
	})
	require.NoError(t, first.Load(t.Context(), "lines", 2, values))
	wg.Wait()
	have, err := first.client.Consume(t.Context(), "lines")
	require.NoError(t, err)
	require.Len(t, have[0], 2)
	require.Len(t, have[1], 1)
	require.Equal(t, "c", string(have[0][1].Value))
	require.Equal(t, "b", string(have[1][0].Value))
}

func TestLoadRefusesATopicOfSomebodyElse(t *testing.T) {
	topics := map[string]int32{"lines": 1}
	first := open(t, &Flags{App: "kit"}, topics)
	require.NoError(t, first.Load(t.Context(), "lines", 1, []string{"a", "b"}))
	err := second(t, first, topics).Load(t.Context(), "lines", 1, []string{"a"})
	require.ErrorContains(t, err, `the topic "lines" has 2 records where the example needs its own 1: delete the topic`)
}

func TestLoadWaitsNoLongerThanItsContext(t *testing.T) {
	topics := map[string]int32{"lines": 1}
	first := open(t, &Flags{App: "kit"}, topics)
	other := second(t, first, topics)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, other.Load(ctx, "lines", 1, []string{"a"}), context.DeadlineExceeded)
}
