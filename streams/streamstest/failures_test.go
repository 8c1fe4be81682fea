package streamstest_test

import (
	"context"
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func failing() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).TryForEach("fails", func(context.Context, streams.Record[string, string]) error {
		return errors.New("no")
	})
	return b
}

// Each misuse fails the test with a message that says what was wrong.
func TestWhatFailsATest(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t streamstest.TB)
		want string
	}{
		{"a topology with faults", func(t streamstest.TB) { streamstest.New(t, streams.NewBuilder()) }, "the topology is empty"},
		{"a source that does not exist", func(t streamstest.TB) {
			streamstest.New(t, wordCount(), streamstest.Partitions("lines", 0))
		}, `topic "lines" is read and does not exist`},
		{"a task that does not start", func(t streamstest.TB) {
			b := streams.NewBuilder()
			b.Stream("in", serde.String, serde.String).
				Process("p", func(*streams.Init) streams.Processor[string, string, string, string] { return nil })
			streamstest.New(t, b)
		}, "the supplier returned no processor"},
		{"a record that fails", func(t streamstest.TB) {
			d := streamstest.New(t, failing())
			streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v")
		}, `pipe to in: streams: task 0_0, in-0 at offset 0, node "fails": process: no`},
		{"a raw record that fails", func(t streamstest.TB) {
			streamstest.New(t, failing()).PipeRaw("in", nil, nil)
		}, "process: no"},
		{"a commit after a failure", func(t streamstest.TB) {
			d := streamstest.New(t, failing())
			if d.TryPipeRaw("in", nil, nil) == nil {
				panic("no error")
			}
			d.Commit()
		}, "process: no"},
		{"a restart that fails again", func(t streamstest.TB) {
			d := streamstest.New(t, failing())
			_ = d.TryPipeRaw("in", nil, nil)
			d.Restart(true)
		}, "restart: streams: task 0_0"},
		{"a topic that does not exist", func(t streamstest.TB) {
			streamstest.New(t, wordCount(), streamstest.Partitions("gone", 0)).PipeRaw("gone", nil, nil)
		}, `topic "gone" does not exist`},
		{"a store that does not exist", func(t streamstest.TB) {
			streamstest.Store(streamstest.New(t, wordCount()), "gone", serde.String, serde.String)
		}, `no store is named "gone"`},
		{"an output of another type", func(t streamstest.TB) {
			d := streamstest.New(t, wordCount())
			d.PipeRaw("lines", nil, []byte("a"))
			streamstest.Out(d, "counts", serde.String, serde.Int32).ReadAll()
		}, "int32 takes 4 bytes, there are 8"},
		{"an input that cannot be written", func(t streamstest.TB) {
			d := streamstest.New(t, wordCount())
			streamstest.In(d, "lines", serde.String, serde.JSON[float64]()).Pipe("k", math.NaN())
		}, "encode NaN"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{}
			var said any
			func() {
				defer func() { said = recover() }()
				c.run(r)
			}()
			r.end()
			require.IsType(t, "", said)
			require.Contains(t, said, c.want)
			require.Empty(t, r.errors)
		})
	}
}

func TestErrIsTheRecordsError(t *testing.T) {
	d := streamstest.New(t, failing())
	require.NoError(t, d.Err())
	err := d.TryPipeRaw("in", nil, nil)
	require.Error(t, err)
	require.Equal(t, err, d.Err())
	var failed *streams.RecordError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, err, d.TryCommit())
}

func TestTryCommitSaysThatAnEmissionFailed(t *testing.T) {
	b := streams.NewBuilder()
	broken := errors.New("broken")
	b.Table("in", serde.String, serde.String).ToStream().
		TryForEach("fails", func(context.Context, streams.Record[string, string]) error { return broken })
	d := streamstest.New(t, b, streamstest.HoldCommits())
	require.NoError(t, d.TryCommit())
	streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v")
	require.ErrorIs(t, d.TryCommit(), broken)
	require.Zero(t, d.Committed("in", 0))
}
