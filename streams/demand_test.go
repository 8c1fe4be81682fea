package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// What is decoded and encoded for one record, and what only passes through as bytes.
func TestOnlyWhatIsNeededIsDecoded(t *testing.T) {
	type kv = streams.Stream[string, string]
	for _, c := range []struct {
		name         string
		build        func(in kv)
		keys, values counts
	}{
		{"a copy checks what a serde can refuse, and writes nothing anew", func(in kv) { in.To("out") }, counts{1, 0}, counts{1, 0}},
		{"Filter looks at both", func(in kv) { in.Filter(func(string, string) bool { return true }).To("out") }, counts{1, 0}, counts{1, 0}},
		{"MapValues keeps the key's bytes", func(in kv) { in.MapValues(strings.ToUpper).To("out") }, counts{1, 0}, counts{1, 0}},
		{"Count looks at no value", func(in kv) { in.GroupByKey().Count("c") }, counts{1, 0}, counts{}},
		{"two branches decode once", func(in kv) {
			in.Peek(func(string, string) {}).To("out")
			in.Peek(func(string, string) {}).To("out")
		}, counts{1, 0}, counts{1, 0}},
		{"a table stores the bytes, and its stream passes them on", func(in kv) { in.ToTable("t").ToStream().To("out") }, counts{1, 0}, counts{1, 0}},
		{"a table that is filtered decodes key and row at the commit", func(in kv) {
			in.ToTable("t").Filter(func(string, string) bool { return true }).ToStream().To("out")
		}, counts{2, 0}, counts{2, 0}},
		{"nobody listens", func(kv) {}, counts{}, counts{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var keys, values counts
			k, v := serde.Serde[string](countingSerde{&keys}), serde.Serde[string](countingSerde{&values})
			b := streams.NewBuilder()
			c.build(b.Stream("in", k, v))
			d := streamstest.New(t, b)
			d.PipeRaw("in", []byte("k"), []byte("v"))
			require.Equal(t, c.keys, keys, "keys")
			require.Equal(t, c.values, values, "values")
		})
	}
}

func TestStringsAndBytesPassThroughUnread(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.Bytes).GroupByKey().Reduce("r", func(_, v []byte) []byte { return v }).ToStream().To("out")
	d := streamstest.New(t, b)
	d.PipeRaw("in", []byte("\xff"), []byte("v"), streamstest.AtMillis(1))
	require.Equal(t, []string{`"\xff":"v"@1`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
}

func TestAnUnreadableValueOfACopyFailsWhereItIsRead(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.Serde[string](countingSerde{&counts{}})).To("out")
	d := streamstest.New(t, b)
	require.ErrorContains(t, d.TryPipeRaw("in", []byte("k"), []byte("unreadable")), `node "source-in": decode: value: unreadable`)
}
