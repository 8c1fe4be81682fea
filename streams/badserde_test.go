package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// panicking is a serde that panics on one value.
type panicking struct{ on string }

func (p panicking) Append(dst []byte, v string) ([]byte, error) {
	if p.on == "append" {
		panic("cannot write")
	}
	return append(dst, v...), nil
}

func (p panicking) Decode(src []byte) (string, error) {
	if p.on == "decode" {
		panic("cannot read")
	}
	return string(src), nil
}

// A serde that panics fails the record, and the error names the step whose serde it is.
func TestASerdeThatPanics(t *testing.T) {
	reads, writes := serde.Serde[string](panicking{"decode"}), serde.Serde[string](panicking{"append"})
	keep := func(string, string) bool { return true }
	for _, c := range []struct {
		name, node string
		build      func(b *streams.Builder)
	}{
		{"source", "source-in", func(b *streams.Builder) { b.Stream("in", reads, serde.String).Filter(keep).To("out") }},
		{"second source of a topic", "source-in-2", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).Filter(keep, streams.As("f")).To("out")
			b.Stream("in", serde.String, reads).Filter(keep).To("out")
		}},
		{"sink", "to-out", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).Filter(keep).To("out", streams.WithKeySerde(writes))
		}},
		{"table", "table-t", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).Peek(func(string, string) {}).ToTable("t", streams.WithKeySerde(writes))
		}},
		{"key of an aggregation", "count-c", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).Peek(func(string, string) {}).GroupByKey(streams.WithKeySerde(writes)).Count("c")
		}},
		{"value of an aggregation", "reduce-r", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).GroupByKey().
				Reduce("r", func(a, _ string) string { return a }, streams.WithValueSerde(writes))
		}},
		{"change of a table", "table-t", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).ToTable("t", streams.EmitPerUpdate, streams.WithKeySerde(reads)).Filter(keep)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			d := streamstest.New(t, b)
			var failed *streams.RecordError
			require.ErrorAs(t, streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "v"), &failed)
			require.Equal(t, streams.KindPanic, failed.Kind)
			require.Equal(t, c.node, failed.Node)
			require.Equal(t, "in", failed.Topic)
			require.Zero(t, failed.Offset)
		})
	}
}
