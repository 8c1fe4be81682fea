package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// F18 a: keys that are no text are counted apart, also after a restore.
func TestF18BinaryKeys(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.Bytes, serde.Bytes).GroupByKey().Count("counts").ToStream().To("out")
	d := streamstest.New(t, b)
	keys := []string{"\x00\x00\x00\x80", "\x00\x00\x00\x81", "\x00\x00\x00\x80", "\xff\xfe", "\x00\x00\x00\x81", "\x00", "\x00\x00\x00\x81"}
	for _, k := range keys {
		d.PipeRaw("in", []byte(k), []byte("v"))
	}
	want := []streams.KeyValue[string, int64]{
		{Key: "\x00", Value: 1}, {Key: "\x00\x00\x00\x80", Value: 2}, {Key: "\x00\x00\x00\x81", Value: 3}, {Key: "\xff\xfe", Value: 1},
	}
	for range 2 {
		require.Equal(t, want, streamstest.Store(d, "counts", serde.String, serde.Int64).All())
		d.Restart(false)
	}
}

// F18 b: text that is not UTF-8 keeps its bytes.
func TestF18LegacyText(t *testing.T) {
	d := streamstest.New(t, wordsCounted(strings.Fields))
	streamstest.In(d, "lines", serde.String, serde.String).Pipe("", "caf\xe9 caf\xe8 caf\xe9", streamstest.AtMillis(0))
	require.Equal(t, []string{"\"caf\\xe9\":\"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x02\"@0", "\"caf\\xe8\":\"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x01\"@0"},
		showRaw(streamstest.OutRaw(d, "counts").ReadAll()))
}

// F18 c: line ends and a byte order mark are no part of a word.
func TestF18LineEndsAndByteOrderMark(t *testing.T) {
	words := func(line string) []string { return strings.Fields(strings.TrimPrefix(line, "\ufeff")) }
	d := streamstest.New(t, wordsCounted(words))
	in := streamstest.In(d, "lines", serde.String, serde.String)
	in.Pipe("", "\ufeffone two\r", streamstest.AtMillis(0))
	in.Pipe("", "two\r", streamstest.AtMillis(1))
	require.Equal(t, []streams.KeyValue[string, int64]{{Key: "one", Value: 1}, {Key: "two", Value: 2}},
		streamstest.Store(d, "word-counts", serde.String, serde.Int64).All())
}

func wordsCounted(words func(string) []string, opts ...streams.BuilderOption) *streams.Builder {
	b := streams.NewBuilder(opts...)
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(words).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To("counts")
	return b
}
