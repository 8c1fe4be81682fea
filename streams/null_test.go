package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// The first key that a task sees may be an empty one: it is an empty key behind the table too, and no null.
func TestTheFirstKeyOfATableMayBeEmpty(t *testing.T) {
	for name, build := range map[string]func(s keyed, e streams.Emission){
		"ToTable": func(s keyed, e streams.Emission) { s.ToTable("t", e).ToStream().To("out") },
		"Reduce": func(s keyed, e streams.Emission) {
			s.GroupByKey().Reduce("t", func(_, v []byte) []byte { return v }, e).ToStream().To("out")
		},
		"Repartition": func(s keyed, _ streams.Emission) { s.Repartition("r").To("out") },
	} {
		for _, emission := range []streams.Emission{streams.EmitAtCommit, streams.EmitPerUpdate} {
			t.Run(name, func(t *testing.T) {
				b := streams.NewBuilder()
				build(b.Stream("in", serde.Bytes, serde.Bytes), emission)
				d := streamstest.New(t, b)
				d.PipeRaw("in", []byte{}, []byte{}, streamstest.AtMillis(1))
				require.Equal(t, []string{`"":""@1`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
			})
		}
	}
}

// The text null is no value for a pointer, whether or not anybody else looks at the values.
func TestCountLeavesOutTheTextNullOfAPointer(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.JSON[*basket]()).GroupByKey().Count("c")
	d := streamstest.New(t, b)
	d.PipeRaw("in", []byte("k"), []byte("null"))
	d.PipeRaw("in", []byte("k"), []byte("{}"))
	require.Equal(t, int64(1), d.Dropped("null-value"))
	n, _ := streamstest.Store(d, "c", serde.String, serde.Int64).Get("k")
	require.Equal(t, int64(1), n)
}
