package protoserde_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/serde/protoserde"
)

func TestRoundTrip(t *testing.T) {
	s := protoserde.Of[*structpb.Struct]()
	in, err := structpb.NewStruct(map[string]any{"b": 1.0, "a": "x", "c": true})
	require.NoError(t, err)
	b, err := s.Append([]byte("head"), in)
	require.NoError(t, err)
	require.Equal(t, "head", string(b[:4]))
	out, err := s.Decode(b[4:])
	require.NoError(t, err)
	require.True(t, proto.Equal(in, out))
	for range 20 { // maps are walked in another order each time
		again, err := s.Append([]byte("head"), in)
		require.NoError(t, err)
		require.Equal(t, b, again)
	}
}

func TestNilIsNull(t *testing.T) {
	s := protoserde.Of[*wrapperspb.StringValue]().(serde.Nuller[*wrapperspb.StringValue])
	require.True(t, s.Null(nil))
	require.False(t, s.Null(wrapperspb.String("")))
	require.True(t, protoserde.Of[proto.Message]().(serde.Nuller[proto.Message]).Null(nil))
}

func TestErrorsSayTheTypeAndTheLength(t *testing.T) {
	s := protoserde.Of[*wrapperspb.StringValue]()
	_, err := s.Decode([]byte{0xff, 0xff})
	require.ErrorContains(t, err, "protoserde: 2 bytes as a *wrapperspb.StringValue")
	dst, err := s.Append([]byte("x"), wrapperspb.String("caf\xe9"))
	require.ErrorContains(t, err, "protoserde: *wrapperspb.StringValue")
	require.Equal(t, "x", string(dst))
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0x0a, 0x01, 'x'})
	s := protoserde.Of[*structpb.Struct]()
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := s.Decode(src)
		if err != nil {
			return
		}
		b, err := s.Append(nil, m)
		require.NoError(t, err)
		back, err := s.Decode(b)
		require.NoError(t, err)
		again, err := s.Append(nil, back)
		require.NoError(t, err)
		require.Equal(t, b, again)
	})
}
