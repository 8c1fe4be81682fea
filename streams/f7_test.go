package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// F7: absent and empty are told apart on the way through a table and its store, whichever serde, and after a restore.
func TestF7EmptyIsNotNull(t *testing.T) {
	t.Run("String", func(t *testing.T) { runF7(t, serde.String, func(s string) string { return s }) })
	t.Run("Bytes", func(t *testing.T) { runF7(t, serde.Bytes, func(s string) []byte { return []byte(s) }) })
}

func runF7[T any](t *testing.T, s serde.Serde[T], of func(string) T) {
	for _, emission := range []streams.Emission{streams.EmitPerUpdate, streams.EmitAtCommit} {
		b := streams.NewBuilder()
		b.Table("in", s, s, streams.As("t"), emission).ToStream().To("out")
		d := streamstest.New(t, b)
		for i, r := range []struct{ key, value []byte }{
			{[]byte("a"), []byte{}}, {[]byte{}, []byte("x")}, {[]byte("a"), nil}, {nil, []byte("y")}, {[]byte("b"), []byte{}},
		} {
			d.PipeRaw("in", r.key, r.value, streamstest.AtMillis(int64(i+1)))
		}
		require.Equal(t, []string{`"a":""@1`, `"":"x"@2`, `"a":null@3`, `"b":""@5`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
		require.Equal(t, []string{`"a":""@1`, `"":"x"@2`, `"a":null@3`, `"b":""@5`}, showRaw(streamstest.OutRaw(d, "test-t-changelog").ReadAll()))
		require.EqualValues(t, 1, d.Dropped("null-key"))
		require.EqualValues(t, 5, d.Committed("in", 0))
		for range 2 {
			rows := streamstest.Store(d, "t", s, s)
			require.Equal(t, []streams.KeyValue[T, T]{{Key: of(""), Value: of("x")}, {Key: of("b"), Value: of("")}}, rows.All())
			b, ok := rows.Get(of("b"))
			require.True(t, ok)
			require.Equal(t, of(""), b)
			_, ok = rows.Get(of("a"))
			require.False(t, ok)
			d.Restart(false)
		}
	}
}

func TestF7NilFromAMapperIsATombstone(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).MapValues(func(v string) []byte {
		switch v {
		case "nil":
			return nil
		case "empty":
			return []byte{}
		}
		return []byte(v)
	}).FlatMapValues(func(v []byte) [][]byte {
		if string(v) == "none" {
			return nil
		}
		return [][]byte{v}
	}).To("flat")
	b.Stream("in", serde.String, serde.String).MapValues(func(v string) *int {
		if v == "nil" {
			return nil
		}
		n := len(v)
		return &n
	}, streams.WithSerdes[string](nil, serde.JSON[*int]())).To("pointers")
	d := streamstest.New(t, b)
	in := streamstest.In(d, "in", serde.String, serde.String)
	for i, v := range []string{"nil", "empty", "none", "x"} {
		in.Pipe("k", v, streamstest.AtMillis(int64(i)))
	}
	require.Equal(t, []string{`"k":""@1`, `"k":"x"@3`}, showRaw(streamstest.OutRaw(d, "flat").ReadAll()), "a null value gives no records")
	require.Equal(t, []string{`"k":null@0`, `"k":"5"@1`, `"k":"4"@2`, `"k":"1"@3`}, showRaw(streamstest.OutRaw(d, "pointers").ReadAll()))
}
