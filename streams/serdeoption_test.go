package streams_test

import (
	"context"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// decimal writes integers as text.
type decimal struct{}

func (decimal) Append(dst []byte, v int64) ([]byte, error) { return strconv.AppendInt(dst, v, 10), nil }
func (decimal) Decode(src []byte) (int64, error)           { return strconv.ParseInt(string(src), 10, 64) }

// Serdes named at a step that keeps keys and values are those of the steps behind it.
func TestEveryStepHearsOfSerdes(t *testing.T) {
	type numbers = streams.Stream[string, int64]
	text := streams.WithValueSerde[int64](decimal{})
	keep := func(string, int64) bool { return true }
	for name, build := range map[string]func(s numbers) numbers{
		"Filter":    func(s numbers) numbers { return s.Filter(keep, text) },
		"FilterNot": func(s numbers) numbers { return s.FilterNot(func(string, int64) bool { return false }, text) },
		"Peek":      func(s numbers) numbers { return s.Peek(func(string, int64) {}, text) },
		"SelectKey": func(s numbers) numbers { return s.SelectKey(func(k string, _ int64) string { return k }, text) },
		"Table":     func(s numbers) numbers { return s.ToTable("t").Filter(keep, text).ToStream() },
		"ToStream":  func(s numbers) numbers { return s.ToTable("t").ToStream(text) },
		"TryMapValues": func(s numbers) numbers {
			return s.TryMapValues("try", func(_ context.Context, r streams.Record[string, int64]) (int64, error) { return r.Value, nil }, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			build(b.Stream("in", serde.String, serde.Int64)).To("out")
			d := streamstest.New(t, b)
			streamstest.In(d, "in", serde.String, serde.Int64).Pipe("k", 12, streamstest.AtMillis(1))
			require.Equal(t, []string{`"k":"12"@1`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
		})
	}
}

// Where three merged streams do not all have one serde, that of the type is used, whichever comes last.
func TestMergeOfThreeWithTwoSerdes(t *testing.T) {
	b := streams.NewBuilder()
	a := b.Stream("a", serde.String, serde.Serde[int64](decimal{}))
	a.Merge(b.Stream("b", serde.String, serde.Int64), b.Stream("c", serde.String, serde.Serde[int64](decimal{}))).To("out")
	d := streamstest.New(t, b)
	d.PipeRaw("a", []byte("k"), []byte("1"), streamstest.AtMillis(1))
	require.Equal(t, []string{`"k":"\x00\x00\x00\x00\x00\x00\x00\x01"@1`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
}
