package streamstest_test

import (
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
		require.Equal(t, []string{"two:2@2"}, show(counts.ReadAll()))
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
