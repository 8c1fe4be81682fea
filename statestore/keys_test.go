package statestore

import (
	"bytes"
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// The layout is in databases for ever.
func TestDatabaseKeyBytes(t *testing.T) {
	k := AppendStorePrefix(nil, TaskID{Subtopology: 1, Partition: 258}, 7)
	k = AppendKey(k, []byte("a\x00b"))
	split := len(k)
	k = AppendTime(k, 5, 9)
	require.Equal(t, unhex("80000001 80000102 00000007 61 00ff 62 0001 8000000000000005 00000009"), k)
	require.Equal(t, split, SplitLen(k))

	id, store, rest, err := CutStore(k)
	require.NoError(t, err)
	require.Equal(t, TaskID{Subtopology: 1, Partition: 258}, id)
	require.EqualValues(t, 7, store)
	key, rest, err := CutKey([]byte("x"), rest)
	require.NoError(t, err)
	require.Equal(t, "xa\x00b", string(key))
	at, seq, err := ParseTime(rest)
	require.NoError(t, err)
	require.EqualValues(t, 5, at)
	require.EqualValues(t, 9, seq)
}

func TestBarePrefixesAreWhole(t *testing.T) {
	task := AppendTaskPrefix(nil, TaskID{Subtopology: 1, Partition: 1})
	require.Equal(t, len(task), SplitLen(task))
	require.Equal(t, len(task), SplitLen(PrefixEnd(slices.Clone(task))))
	store := AppendStorePrefix(nil, TaskID{Subtopology: 1, Partition: 1}, 1) // ends in 00 01, as a key does
	require.Equal(t, len(store), SplitLen(store))
	require.Equal(t, len(store)+3, SplitLen(append(slices.Clone(store), 'a', 0, 1, 'x')))
	require.Equal(t, len(store)+2, SplitLen(append(slices.Clone(store), 'a', 'b')), "a key that does not end is whole")
	require.Zero(t, SplitLen(nil))
}

func TestPrefixEnd(t *testing.T) {
	for _, c := range []struct{ prefix, want string }{
		{"00", "01"},
		{"01ff", "02"},
		{"7fffff", "80"},
		{"ff", ""},
		{"", ""},
	} {
		require.Equal(t, c.want, hex.EncodeToString(PrefixEnd(unhex(c.prefix))), c.prefix)
	}
}

func TestMalformedKeys(t *testing.T) {
	for _, c := range []struct{ name, in string }{
		{"empty", ""},
		{"no end", "61"},
		{"ends in a zero", "6100"},
		{"unknown escape", "610002"},
		{"end cut off after an escape", "00ff"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := CutKey(nil, unhex(c.in))
			require.ErrorIs(t, err, errKey)
		})
	}
	_, _, err := ParseTime(make([]byte, 11))
	require.ErrorIs(t, err, errKey)
	_, _, _, err = CutStore(make([]byte, 11))
	require.ErrorIs(t, err, errKey)
}

// Encoded keys compare as what they encode: task, store, key, time, sequence.
func TestKeyOrder(t *testing.T) {
	type parts struct {
		id    TaskID
		store uint32
		key   []byte
		at    int64
		seq   uint32
	}
	key := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 2, 'a', 0xfe, 0xff}), 0, 4)
	draw := func(t *rapid.T, label string) parts {
		return parts{
			id:    TaskID{Subtopology: rapid.Int32Range(-1, 2).Draw(t, label), Partition: rapid.SampledFrom([]int32{-1, 0, 255, 256, math.MaxInt32}).Draw(t, label)},
			store: rapid.SampledFrom([]uint32{0, 1, 256, math.MaxUint32}).Draw(t, label),
			key:   key.Draw(t, label),
			at:    rapid.SampledFrom([]int64{math.MinInt64, -1, 0, 255, 256, math.MaxInt64}).Draw(t, label),
			seq:   rapid.SampledFrom([]uint32{0, 1, math.MaxUint32}).Draw(t, label),
		}
	}
	order := func(a, b parts) int {
		if c := a.id.Compare(b.id); c != 0 {
			return sign(c)
		}
		if c := compare(int64(a.store), int64(b.store)); c != 0 {
			return c
		}
		if c := bytes.Compare(a.key, b.key); c != 0 {
			return c
		}
		if c := compare(a.at, b.at); c != 0 {
			return c
		}
		return compare(int64(a.seq), int64(b.seq))
	}
	encode := func(p parts) []byte {
		return AppendTime(AppendKey(AppendStorePrefix(nil, p.id, p.store), p.key), p.at, p.seq)
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := draw(t, "a"), draw(t, "b")
		x, y := encode(a), encode(b)
		require.Equal(t, order(a, b), bytes.Compare(x, y), "%x %x", x, y)
		same := a.id == b.id && a.store == b.store && bytes.Equal(a.key, b.key)
		require.Equal(t, same, bytes.Equal(x[:SplitLen(x)], y[:SplitLen(y)]))
	})
}

func sign(c int) int { return compare(int64(c), 0) }

func compare(a, b int64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

func FuzzCutKey(f *testing.F) {
	for _, s := range []string{"", "61", "6100", "610001", "6100ff000162", "000261"} {
		f.Add(unhex(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		key, rest, err := CutKey(nil, b)
		n := KeyLen(b)
		require.LessOrEqual(t, n, len(b))
		if err != nil {
			return
		}
		require.Equal(t, b, append(AppendKey(nil, key), rest...), "only one encoding of a key is accepted")
		require.Equal(t, len(b)-len(rest), n)
	})
}

func FuzzDatabaseKey(f *testing.F) {
	f.Add(unhex("80000001800001020000000761000180000000000000050000 0009"))
	f.Add(unhex("8000000180000102"))
	f.Add(unhex("ffffffffffffffffffffffff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := SplitLen(b)
		require.LessOrEqual(t, n, len(b))
		require.Equal(t, n, SplitLen(b[:n]), "a split is its own split")
		id, store, rest, err := CutStore(b)
		if err != nil {
			return
		}
		require.Equal(t, b, append(AppendStorePrefix(nil, id, store), rest...))
		if at, seq, err := ParseTime(rest); err == nil {
			require.Equal(t, rest, AppendTime(nil, at, seq))
		}
	})
}
