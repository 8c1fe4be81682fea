package serde_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams/serde"
)

func TestNothingIsAllocated(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	buf := make([]byte, 0, 64)
	t.Run("string", func(t *testing.T) { requireNoAllocs(t, serde.String, "word", buf, false) })
	t.Run("bytes", func(t *testing.T) { requireNoAllocs(t, serde.Bytes, []byte("word"), buf, true) })
	t.Run("int32", func(t *testing.T) { requireNoAllocs(t, serde.Int32, 1<<30, buf, true) })
	t.Run("int64", func(t *testing.T) { requireNoAllocs(t, serde.Int64, 1<<60, buf, true) })
	t.Run("float64", func(t *testing.T) { requireNoAllocs(t, serde.Float64, 1.5, buf, true) })
	t.Run("uuid", func(t *testing.T) { requireNoAllocs(t, serde.UUID, [16]byte{1}, buf, true) })
}

func requireNoAllocs[T any](t *testing.T, s serde.Serde[T], v T, buf []byte, decode bool) {
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b, err := s.Append(buf, v)
		if err == nil && decode {
			_, err = s.Decode(b)
		}
		if err != nil {
			panic(err)
		}
	}))
}
