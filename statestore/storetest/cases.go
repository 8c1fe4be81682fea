package storetest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// An empty value is a value, an empty key is a key, and neither is the absence of one.
func testEmptyIsNotNull(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	require.NoError(t, f.ts.Apply(one(0, 5, put("a", "", 1), put("", "x", 2), del("a"), put("b", "", 5))))
	want := []row{{"", "x", 2}, {"b", "", 5}}
	o := statestore.NewOverlay(statestore.OverlayConfig{Base: f.ts.Reader(0), Ordered: true})
	for name, r := range map[string]statestore.Reader{"backend": f.ts.Reader(0), "overlay": o} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, want, collect(t, r.Scan(nil, nil, false)))
			got, found, err := r.Get([]byte("b"))
			require.NoError(t, err)
			require.True(t, found)
			require.NotNil(t, got.Value)
			require.Empty(t, got.Value)
			_, found, err = r.Get([]byte("a"))
			require.NoError(t, err)
			require.False(t, found)
			_, found, err = r.Get(nil)
			require.NoError(t, err)
			require.True(t, found, "a nil key is the empty key")
		})
	}
	require.NoError(t, o.Put([]byte("b"), []byte{}, 6))
	require.NoError(t, o.Delete([]byte(""), 7))
	changes := o.Seal(nil)
	require.Equal(t, []statestore.Change{{Key: []byte("b"), Value: []byte{}, Timestamp: 6}, {Key: []byte{}, Timestamp: 7}}, changes)
	require.NoError(t, f.ts.Apply(one(0, 7, changes...)))
	o.Applied()
	require.Equal(t, []row{{"b", "", 6}}, collect(t, o.Scan(nil, nil, false)))
	require.Equal(t, []row{{"b", "", 6}}, collect(t, f.ts.Reader(0).Scan(nil, nil, false)))
}

// Keys are bytes: nothing is decoded, nothing is folded.
func testBinaryKeys(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	in := []string{
		"\x00", "\x00\x00", "\x00\x00\x00\x80", "\x00\x00\x00\x81", "\x00\x01", "\x00\xff", "\x00\xff\x01", "\x01", "a", "a\x00", "a\x00\x01",
		"a\x00\xff", "a\x01", "aa", "caf\xe8", "caf\xe9", "caf\xef\xbf\xbd", "\xfe", "\xff", "\xff\xfe", "\xff\xff",
	}
	require.True(t, slices.IsSorted(in))
	changes := []statestore.Change{}
	want := []row{}
	for i, k := range in {
		changes = append(changes, put(k, fmt.Sprint(i), int64(i)))
		want = append(want, row{k, fmt.Sprint(i), int64(i)})
	}
	slices.Reverse(changes)
	require.NoError(t, f.ts.Apply(one(0, 1, changes...)))
	r := f.ts.Reader(0)
	require.Equal(t, want, collect(t, r.Scan(nil, nil, false)))
	require.Equal(t, reversed(want), collect(t, r.Scan(nil, nil, true)))
	for i, k := range in {
		got, found, err := r.Get([]byte(k))
		require.NoError(t, err)
		require.True(t, found, "%q", k)
		require.Equal(t, fmt.Sprint(i), string(got.Value))
		require.Equal(t, want[i:], collect(t, r.Scan([]byte(k), nil, false)))
		require.Equal(t, want[:i], collect(t, r.Scan(nil, append([]byte{}, k...), false)))
	}
}

// Rows deleted above the backend do not come back in a scan.
func testDeletedInOverlay(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	committed := []row{{"0", "v0", 0}, {"1", "v1", 0}, {"2", "v2", 0}, {"3", "v3", 0}, {"4", "v4", 0}}
	for _, r := range committed {
		require.NoError(t, f.ts.Apply(one(0, 1, put(r.Key, r.Value, 0))))
	}
	o := statestore.NewOverlay(statestore.OverlayConfig{Base: f.ts.Reader(0), Ordered: true, CacheBytes: 1 << 10})
	write := func() {
		require.NoError(t, o.Delete([]byte("1"), 1))
		require.NoError(t, o.Delete([]byte("2"), 1))
		require.NoError(t, o.Put([]byte("25"), []byte("new"), 1))
		require.NoError(t, o.Put([]byte("3"), []byte("w3"), 1))
		require.NoError(t, o.Delete([]byte("9"), 1))
	}
	after := []row{{"0", "v0", 0}, {"25", "new", 1}, {"3", "w3", 1}, {"4", "v4", 0}}
	checkAfter := func(t *testing.T) {
		for _, c := range []struct {
			lo, hi string // inclusive
			want   []row
		}{
			{"", "~", after},
			{"1", "3", after[1:3]},
			{"1", "2", []row{}},
			{"9", "9", []row{}},
		} {
			hi := append([]byte(c.hi), 0)
			require.Equal(t, c.want, collect(t, o.Scan([]byte(c.lo), hi, false)), "%q to %q", c.lo, c.hi)
			require.Equal(t, reversed(c.want), collect(t, o.Scan([]byte(c.lo), hi, true)), "%q to %q from the end", c.lo, c.hi)
		}
	}
	o.Begin()
	write()
	checkAfter(t)
	o.Rollback()
	require.Equal(t, committed, collect(t, o.Scan(nil, nil, false)))
	require.Zero(t, o.DirtyLen())

	write()
	changes := o.Seal(nil)
	checkAfter(t)
	middle := o.Scan(nil, nil, false)
	require.True(t, middle.Next())
	require.NoError(t, f.ts.Apply(one(0, 2, changes...)))
	o.Applied()
	require.Equal(t, after[1:], collect(t, middle), "the commit fell into the middle of this scan")
	checkAfter(t)

	t.Run("delete under the iterator", func(t *testing.T) {
		for _, reverse := range []bool{false, true} {
			o.Begin()
			it := o.Scan(nil, nil, reverse)
			got := []string{}
			for it.Next() {
				got = append(got, string(it.Key()))
				require.NotNil(t, it.Row().Value)
				require.NoError(t, o.Delete(it.Key(), 3))
			}
			require.NoError(t, it.Close())
			require.Len(t, got, 4)
			require.Empty(t, collect(t, o.Scan(nil, nil, false)))
			o.Rollback()
			checkAfter(t)
		}
	})
}

// Windows of a key whose bytes begin another key, and times at the borders of a byte. Both bounds are inclusive.
func testNeighbourKeysOfWindows(t *testing.T, open func(*testing.T) statestore.Backend) {
	const k1, k2 = "\x61", "\x61\x00\x00\x00\x00\x00\x00\x00\x05"
	f := setup(t, open)
	o := statestore.NewOverlay(statestore.OverlayConfig{Base: f.ts.Reader(0), Ordered: true, CacheBytes: 1 << 10})
	windowKey := func(key string, start int64) []byte {
		return statestore.AppendTime(statestore.AppendKey(nil, []byte(key)), start, 0)
	}
	add := func(key string, start int64, value string) {
		require.NoError(t, o.Put(windowKey(key, start), []byte(value), start))
	}
	for _, w := range []struct {
		key   string
		start int64
		value string
	}{
		{k1, 5, "p"}, {k1, 6, "q"}, {k2, 0, "r"}, {k2, 7, "s"}, {"aa", 4, "2"}, {"aa", 2, "4"}, {"b", 5, "1"}, {"bb", 4, "2"}, {"b", 3, "3"}, {"b", 1, "5"},
		{"", 9, "z"}, {"n", -5, "before"}, {"n", 0, "epoch"}, {"n", 5, "past"},
	} {
		add(w.key, w.start, w.value)
	}
	for _, start := range []int64{255, 256, 257, 65535, 65536, math.MaxInt32, math.MaxInt32 + 1, 1 << 40} {
		add("k", start, fmt.Sprint(start))
	}
	cases := []struct {
		key    string
		lo, hi int64
		want   string
	}{
		{"b", 0, 10, "5@1 3@3 1@5"},
		{"bb", 0, 10, "2@4"},
		{"aa", 0, 10, "4@2 2@4"},
		{k1, 0, 10, "p@5 q@6"},
		{k2, 0, 10, "r@0 s@7"},
		{"", 0, 10, "z@9"},
		{"n", -10, 10, "before@-5 epoch@0 past@5"},
		{"k", 256, 256, "256@256"},
		{"k", 255, 257, "255@255 256@256 257@257"},
		{"k", math.MaxInt32, math.MaxInt32 + 1, "2147483647@2147483647 2147483648@2147483648"},
		{"k", 0, math.MaxInt64 - 1, "255@255 256@256 257@257 65535@65535 65536@65536 2147483647@2147483647 2147483648@2147483648 1099511627776@1099511627776"},
	}
	fetch := func(r statestore.Reader, key string, lo, hi int64, reverse bool) string {
		out := []string{}
		for _, w := range collect(t, r.Scan(windowKey(key, lo), windowKey(key, hi+1), reverse)) {
			got, rest, err := statestore.CutKey(nil, []byte(w.Key))
			require.NoError(t, err)
			require.Equal(t, key, string(got))
			start, _, err := statestore.ParseTime(rest)
			require.NoError(t, err)
			out = append(out, fmt.Sprintf("%s@%d", w.Value, start))
		}
		return strings.Join(out, " ")
	}
	check := func(t *testing.T, r statestore.Reader) {
		for _, c := range cases {
			require.Equal(t, c.want, fetch(r, c.key, c.lo, c.hi, false), "%q", c.key)
			backward := strings.Fields(c.want)
			slices.Reverse(backward)
			require.Equal(t, strings.Join(backward, " "), fetch(r, c.key, c.lo, c.hi, true), "%q from the end", c.key)
		}
	}
	t.Run("overlay", func(t *testing.T) { check(t, o) })
	require.NoError(t, f.ts.Apply(one(0, 1, o.Seal(nil)...)))
	o.Applied()
	t.Run("committed overlay", func(t *testing.T) { check(t, o) })
	t.Run("backend", func(t *testing.T) { check(t, f.ts.Reader(0)) })
}
