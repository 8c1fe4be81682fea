package streamstest_test

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// wordCount is the example of the package's documentation.
func wordCount(opts ...streams.BuilderOption) *streams.Builder {
	b := streams.NewBuilder(opts...)
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To("counts")
	return b
}

// show prints records as key:value@time.
func show[K, V any](records []streams.Record[K, V]) []string {
	out := []string{}
	for _, r := range records {
		key, value := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
		if r.NullKey {
			key = "null"
		}
		if r.NullValue {
			value = "null"
		}
		out = append(out, fmt.Sprintf("%s:%s@%d", key, value, r.Time.UnixMilli()))
	}
	return out
}

func TestWordCount(t *testing.T) {
	t.Run("emitted at commit", func(t *testing.T) {
		d := streamstest.New(t, wordCount())
		lines := streamstest.In(d, "lines", serde.String, serde.String)
		counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
		lines.Pipe("", "one two one", streamstest.AtMillis(1))
		require.Equal(t, []string{"one:2@1", "two:1@1"}, show(counts.ReadAll()))
		lines.Pipe("", "two", streamstest.AtMillis(2))
		require.Equal(t, []streams.KeyValue[string, int64]{{Key: "two", Value: 2}}, counts.ReadKeyValues())
		require.Empty(t, counts.ReadKeyValues())
		n, ok := streamstest.Store(d, "word-counts", serde.String, serde.Int64).Get("two")
		require.True(t, ok)
		require.EqualValues(t, 2, n)
	})
	t.Run("emitted per update", func(t *testing.T) {
		d := streamstest.New(t, wordCount(streams.EmitPerUpdate))
		lines := streamstest.In(d, "lines", serde.String, serde.String)
		counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
		lines.Pipe("", "one two one", streamstest.AtMillis(1))
		require.Equal(t, []string{"one:1@1", "two:1@1", "one:2@1"}, show(counts.ReadAll()))
	})
}

func TestHeldCommitsAndRestarts(t *testing.T) {
	d := streamstest.New(t, wordCount(streams.EmitPerUpdate), streamstest.HoldCommits(), streamstest.ApplicationID("app"))
	lines := streamstest.In(d, "lines", serde.String, serde.String)
	counts := streamstest.Out(d, "counts", serde.String, serde.Int64)
	rows := streamstest.Store(d, "word-counts", serde.String, serde.Int64)
	lines.Pipe("", "a b", streamstest.AtMillis(1))
	d.Commit()
	lines.Pipe("", "a c", streamstest.AtMillis(2))
	require.Equal(t, []string{"a:1@1", "b:1@1", "a:2@2", "c:1@2"}, show(counts.ReadAll()))
	require.Equal(t, []streams.KeyValue[string, int64]{{Key: "a", Value: 2}, {Key: "b", Value: 1}, {Key: "c", Value: 1}}, rows.All())
	require.EqualValues(t, 1, d.Committed("lines", 0))

	d.Restart(true)
	require.Equal(t, []string{"a:2@2", "c:1@2"}, show(counts.ReadAll())[:2], "what was not committed is processed again")
	require.EqualValues(t, 1, d.Committed("lines", 0))
	d.Commit()
	require.EqualValues(t, 2, d.Committed("lines", 0))
	n, ok := rows.Get("a")
	require.True(t, ok)
	require.EqualValues(t, 3, n, "at least once: the repartition topic has it twice")
	require.Len(t, streamstest.OutRaw(d, "app-word-counts-repartition").ReadAll(), 6)
}

func TestPartitions(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).ToTable("t").ToStream().To("out")
	d := streamstest.New(t, b, streamstest.Partitions("in", 4), streamstest.Partitions("out", 2))
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("moved", "x", streamstest.ToPartition(3))
	for i := range 8 {
		in.Pipe(fmt.Sprint(i), "v")
	}
	in.PipeTombstone("0")
	raw := streamstest.OutRaw(d, "out").ReadAll()
	require.Len(t, raw, 10)
	partitions := make(map[int32]int)
	for _, r := range raw {
		partitions[r.Partition]++
	}
	require.Len(t, partitions, 2)
	rows := streamstest.Store(d, "t", serde.String, serde.String)
	require.Len(t, rows.All(), 8)
	_, ok := rows.Get("0")
	require.False(t, ok)
	require.EqualValues(t, 0, d.Dropped("null-key"))
	require.Equal(t, "0-1-2-3", committedOf(d))
}

// committedOf lists the partitions that something was committed of.
func committedOf(d *streamstest.Driver) string {
	var all []string
	for p := range int32(4) {
		if d.Committed("in", p) > 0 {
			all = append(all, fmt.Sprint(p))
		}
	}
	return strings.Join(all, "-")
}

func TestLentBytesAreOverwritten(t *testing.T) {
	var kept, cloned []byte
	var header streams.Header
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.Bytes).TryPeek("keeps", func(_ context.Context, r streams.Record[string, []byte]) error {
		kept, cloned, header = r.Value, bytes.Clone(r.Value), r.Headers[0]
		return nil
	}).To("out")
	d := streamstest.New(t, b)
	in := streamstest.In(d, "in", serde.String, serde.Bytes)
	in.Pipe("k", []byte("value"), streamstest.AtMillis(1), streamstest.Headers(streams.Header{Key: "h", Value: []byte("x")}))
	require.NotEqual(t, "value", string(kept))
	require.Equal(t, "value", string(cloned))
	require.NotEqual(t, "x", string(header.Value))
	r, _ := streamstest.OutRaw(d, "out").Read()
	require.Equal(t, "value", string(r.Value))
	require.Equal(t, []streams.Header{{Key: "h", Value: []byte("x")}}, r.Headers)
}

func TestNewTopology(t *testing.T) {
	topology, err := wordCount().Build("mine")
	require.NoError(t, err)
	d := streamstest.NewTopology(t, topology)
	require.Same(t, topology, d.Topology())
	streamstest.In(d, "lines", serde.String, serde.String).Pipe("", "a")
	require.Len(t, streamstest.OutRaw(d, "mine-word-counts-changelog").ReadAll(), 1)
}
