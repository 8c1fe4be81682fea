package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// F11: headers keep order, duplicates, nulls and empties, and none of ours come to them.
func TestF11Headers(t *testing.T) {
	headers := []streams.Header{
		{Key: "a", Value: []byte{1}}, {Key: "b", Value: []byte{2}}, {Key: "a", Value: []byte{3}}, {Key: "c"}, {Key: "d", Value: []byte{}},
		{Key: "kafka_x", Value: []byte{0x31}}, {Key: "", Value: []byte{9}}, {Key: "attempt", Value: []byte{0xff}},
	}
	upper := func(k, v string) (string, string) { return k, v + "!" }
	for _, c := range []struct {
		name  string
		build func(in streams.Stream[string, string]) streams.Stream[string, string]
	}{
		{"map", func(in streams.Stream[string, string]) streams.Stream[string, string] { return in.Map(upper) }},
		{"map and repartition", func(in streams.Stream[string, string]) streams.Stream[string, string] {
			return in.Map(upper).Repartition("again")
		}},
		{"processor", func(in streams.Stream[string, string]) streams.Stream[string, string] {
			return in.Process("p", func(*streams.Init) streams.Processor[string, string, string, string] {
				return streams.ProcessorFunc[string, string, string, string](
					func(c *streams.Context[string, string], r streams.Record[string, string]) error {
						c.Forward(streams.Record[string, string]{Key: r.Key, Value: r.Value + "!"})
						return nil
					})
			})
		}},
		{"table that emits per update", func(in streams.Stream[string, string]) streams.Stream[string, string] {
			return in.MapValues(func(v string) string { return v + "!" }).ToTable("t", streams.EmitPerUpdate).ToStream()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b.Stream("in", serde.String, serde.String)).To("out")
			d := streamstest.New(t, b)
			streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v", streamstest.AtMillis(1), streamstest.Headers(headers...))
			out := streamstest.OutRaw(d, "out").ReadAll()
			require.Equal(t, []string{`"k":"v!"@1`}, showRaw(out))
			require.Equal(t, headers, out[0].Headers)
		})
	}
}
