package serde_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/streams/serde"
)

type order struct {
	ID   string         `json:"id"`
	Cent int64          `json:"cent"`
	Tags map[string]int `json:"tags,omitempty"`
}

func TestBytesAreJavas(t *testing.T) {
	for _, c := range []struct {
		name string
		got  func() ([]byte, error)
		want []byte
	}{
		{"string", func() ([]byte, error) { return serde.String.Append(nil, "caf\xe9") }, []byte("caf\xe9")},
		{"int32", func() ([]byte, error) { return serde.Int32.Append(nil, -2) }, []byte{0xff, 0xff, 0xff, 0xfe}},
		{"int64", func() ([]byte, error) { return serde.Int64.Append(nil, 258) }, []byte{0, 0, 0, 0, 0, 0, 1, 2}},
		{"float64", func() ([]byte, error) { return serde.Float64.Append(nil, 1) }, []byte{0x3f, 0xf0, 0, 0, 0, 0, 0, 0}},
		{"uuid", func() ([]byte, error) { return serde.UUID.Append(nil, [16]byte{0x12, 0xab, 15: 0xff}) }, []byte("12ab0000-0000-0000-0000-0000000000ff")},
		{"json sorts maps", func() ([]byte, error) {
			return serde.JSON[order]().Append(nil, order{ID: "a", Tags: map[string]int{"z": 1, "b": 2}})
		}, []byte(`{"id":"a","cent":0,"tags":{"b":2,"z":1}}`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := c.got()
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}

func TestDecodeErrorsSayWhatWasWrong(t *testing.T) {
	for _, c := range []struct {
		name   string
		decode func() error
		want   string
	}{
		{"int32", func() error { _, err := serde.Int32.Decode(make([]byte, 3)); return err }, "serde: int32 takes 4 bytes, there are 3"},
		{"int64", func() error { _, err := serde.Int64.Decode(nil); return err }, "serde: int64 takes 8 bytes, there are 0"},
		{"float64", func() error { _, err := serde.Float64.Decode(make([]byte, 9)); return err }, "serde: float64 takes 8 bytes, there are 9"},
		{"uuid length", func() error { _, err := serde.UUID.Decode([]byte("x")); return err }, "serde: uuid text takes 36 bytes, there are 1"},
		{"uuid dash", func() error {
			_, err := serde.UUID.Decode([]byte("12ab0000x0000-0000-0000-0000000000ff"))
			return err
		}, "has no dash at byte 8"},
		{"uuid digit", func() error {
			_, err := serde.UUID.Decode([]byte("12ab00zz-0000-0000-0000-0000000000ff"))
			return err
		}, "invalid byte"},
		{"json", func() error { _, err := serde.JSON[order]().Decode([]byte(`{"id":1}`)); return err }, "as JSON of a serde_test.order"},
		{"json trailing", func() error { _, err := serde.JSON[order]().Decode([]byte(`{} {}`)); return err }, "5 bytes as JSON"},
	} {
		t.Run(c.name, func(t *testing.T) { require.ErrorContains(t, c.decode(), c.want) })
	}
}

func TestJSONAppendKeepsDstOnError(t *testing.T) {
	got, err := serde.JSON[float64]().Append([]byte("x"), math.NaN())
	require.ErrorContains(t, err, "serde: float64 as JSON")
	require.Equal(t, "x", string(got))
}

func TestNullValues(t *testing.T) {
	bytesNull := serde.Bytes.(serde.Nuller[[]byte])
	require.True(t, bytesNull.Null(nil))
	require.False(t, bytesNull.Null([]byte{}))
	jsonNull := serde.JSON[*order]().(serde.Nuller[*order])
	require.True(t, jsonNull.Null(nil))
	require.False(t, jsonNull.Null(&order{}))
	_, ok := serde.JSON[order]().(serde.Nuller[order])
	require.False(t, ok, "a value type has no null")
}

func TestBytesDecodeIsAClippedView(t *testing.T) {
	src := []byte("abcd")
	got, err := serde.Bytes.Decode(src[:2])
	require.NoError(t, err)
	_ = append(got, 'X')
	require.Equal(t, "abcd", string(src))
	empty, err := serde.Bytes.Decode(nil)
	require.NoError(t, err)
	require.NotNil(t, empty)
}

func TestProperties(t *testing.T) {
	require.True(t, serde.IsCanonical(serde.String))
	require.True(t, serde.IsCanonical(serde.Bytes))
	require.True(t, serde.IsCanonical(serde.Int32))
	require.True(t, serde.IsCanonical(serde.Int64))
	require.True(t, serde.IsCanonical(serde.Float64))
	require.False(t, serde.IsCanonical(serde.UUID), "capital letters are accepted")
	require.False(t, serde.IsCanonical(serde.JSON[order]()))
	require.True(t, serde.IsOrderPreserving(serde.String))
	require.True(t, serde.IsOrderPreserving(serde.Bytes))
	require.False(t, serde.IsOrderPreserving(serde.Int64))
}

type bound struct{ serde.Serde[string] }

func (b bound) ForTopic(topic string, isKey bool) serde.Serde[string] {
	if isKey {
		return b
	}
	return serde.String
}

func TestForTopic(t *testing.T) {
	require.Equal(t, serde.String, serde.For(serde.String, "t", true))
	require.Equal(t, serde.String, serde.For[string](bound{serde.String}, "t", false))
	require.IsType(t, bound{}, serde.For[string](bound{serde.String}, "t", true))
}

func TestRoundTrips(t *testing.T) {
	t.Run("string", func(t *testing.T) { roundTrip(t, serde.String, rapid.String()) })
	t.Run("bytes", func(t *testing.T) { roundTrip(t, serde.Bytes, rapid.SliceOf(rapid.Byte())) })
	t.Run("int32", func(t *testing.T) { roundTrip(t, serde.Int32, rapid.Int32()) })
	t.Run("int64", func(t *testing.T) { roundTrip(t, serde.Int64, rapid.Int64()) })
	t.Run("float64", func(t *testing.T) { roundTrip(t, serde.Float64, rapid.Float64()) })
	t.Run("json", func(t *testing.T) {
		roundTrip(t, serde.JSON[order](), rapid.Custom(func(t *rapid.T) order {
			return order{ID: rapid.String().Draw(t, "id"), Cent: rapid.Int64().Draw(t, "cent")}
		}))
	})
	t.Run("uuid", func(t *testing.T) {
		roundTrip(t, serde.UUIDAs[[16]byte](), rapid.Custom(func(t *rapid.T) (v [16]byte) {
			copy(v[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "bytes"))
			return v
		}))
	})
}

// roundTrip checks that a value survives, and that Append appends.
func roundTrip[T any](t *testing.T, s serde.Serde[T], values *rapid.Generator[T]) {
	rapid.Check(t, func(t *rapid.T) {
		v := values.Draw(t, "v")
		b, err := s.Append([]byte("head"), v)
		require.NoError(t, err)
		require.Equal(t, "head", string(b[:4]))
		back, err := s.Decode(b[4:])
		require.NoError(t, err)
		require.Equal(t, v, back)
	})
}
