package statestore

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// These bytes are those of Kafka Streams: WindowKeySchema.toStoreKeyBinary and SessionKeySchema.toBinary.
func TestWindowChangelogKeyBytes(t *testing.T) {
	for _, c := range []struct {
		name  string
		key   string
		start int64
		seq   int32
		want  string
	}{
		{"plain", "a", 5, 0, "61 0000000000000005 00000000"},
		{"sequence", "aa", 1_600_000_000_000, 258, "6161 00000174876e8000 00000102"},
		{"empty key", "", 0, 0, "0000000000000000 00000000"},
		{"negative start", "a", -1, math.MaxInt32, "61 ffffffffffffffff 7fffffff"},
		{"key like a time", "\x61\x00\x00\x00\x00\x00\x00\x00\x05", 7, 0, "610000000000000005 0000000000000007 00000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := AppendWindowKey([]byte{}, []byte(c.key), c.start, c.seq)
			require.Equal(t, unhex(c.want), b)
			key, start, seq, err := ParseWindowKey(b)
			require.NoError(t, err)
			require.Equal(t, c.key, string(key))
			require.Equal(t, c.start, start)
			require.Equal(t, c.seq, seq)
		})
	}
	_, _, _, err := ParseWindowKey(make([]byte, 11))
	require.ErrorIs(t, err, errChangelogKey)
}

func TestSessionChangelogKeyBytes(t *testing.T) {
	for _, c := range []struct {
		name       string
		key        string
		start, end int64
		want       string
	}{
		{"the end comes first", "k", 10, 20, "6b 0000000000000014 000000000000000a"},
		{"empty key", "", 0, math.MaxInt64, "7fffffffffffffff 0000000000000000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := AppendSessionKey([]byte{}, []byte(c.key), c.start, c.end)
			require.Equal(t, unhex(c.want), b)
			key, start, end, err := ParseSessionKey(b)
			require.NoError(t, err)
			require.Equal(t, c.key, string(key))
			require.Equal(t, c.start, start)
			require.Equal(t, c.end, end)
		})
	}
	_, _, _, err := ParseSessionKey(make([]byte, 15))
	require.ErrorIs(t, err, errChangelogKey)
}

func FuzzWindowKey(f *testing.F) {
	f.Add(unhex("61000000000000000500000000"))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, start, seq, err := ParseWindowKey(b); err == nil {
			require.Equal(t, b, AppendWindowKey([]byte{}, key, start, seq))
		}
	})
}

func FuzzSessionKey(f *testing.F) {
	f.Add(unhex("6b0000000000000014000000000000000a"))
	f.Add([]byte("short"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if key, start, end, err := ParseSessionKey(b); err == nil {
			require.Equal(t, b, AppendSessionKey([]byte{}, key, start, end))
		}
	})
}
