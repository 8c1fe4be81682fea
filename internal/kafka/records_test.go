package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What the short way of checking a record accepts is a record, with what the careful walker reads of it, whatever the bytes are; and it accepts
// those that it is for.
func TestCheckSmall(t *testing.T) {
	maybe := rapid.Custom(func(t *rapid.T) []byte {
		if n := rapid.SampledFrom([]int{-1, 0, 1, 8, 63, 64, 100, 8170, 8192}).Draw(t, "bytes"); n >= 0 {
			return make([]byte, n)
		}
		return nil
	})
	rapid.Check(t, func(t *rapid.T) {
		key, value := maybe.Draw(t, "key"), maybe.Draw(t, "value")
		time, offset := rapid.Int64Range(-9000, 9000).Draw(t, "time"), rapid.Int64Range(-1, 9000).Draw(t, "offset")
		b := appendRecord(nil, key, value, nil, time, offset)
		whole := len(b)
		b = append(b, rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "what follows")...)
		spoiled := rapid.IntRange(0, 2).Draw(t, "spoiled")
		for range spoiled {
			b[rapid.IntRange(0, min(len(b)-1, 12)).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
		}
		end, delta := checkSmall(b, 0)
		if end < 0 {
			small := key != nil && value != nil && offset >= 0 && varintLen(time) <= 2 && varintLen(offset) <= 2 && varintLen(int64(whole)) <= 2
			require.False(t, small && spoiled == 0 && len(b) >= whole+2, "a small one that is in order")
			return
		}
		w := walker{b: b}
		size := w.varint()
		require.EqualValues(t, end-w.at, size)
		w.skip(1)
		w.varint() // timestamp
		require.Equal(t, w.varint(), delta)
		require.GreaterOrEqual(t, delta, int64(0))
		require.NotNil(t, w.bytes())
		require.NotNil(t, w.bytes())
		require.Zero(t, w.varint(), "headers")
		require.False(t, w.bad)
		require.Equal(t, end, w.at)
	})
}

func TestCheckSmallAcceptsWhatItIsFor(t *testing.T) {
	for _, c := range []struct {
		key, value   int
		time, offset int64
	}{{}, {key: 1, value: 1, time: 1, offset: 1}, {key: 8, value: 100, time: -1}, {key: 63, value: 64, time: 63, offset: 64}, {key: 100, value: 8000, time: 8191, offset: 8191}} {
		b := appendRecord(nil, make([]byte, c.key), make([]byte, c.value), nil, c.time, c.offset)
		end, delta := checkSmall(append(b, 0, 0), 0)
		require.Equal(t, len(b), end, "%+v", c)
		require.Equal(t, c.offset, delta, "%+v", c)
	}
}
