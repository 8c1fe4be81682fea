package statestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// brokenReader fails when told to.
type brokenReader struct {
	rows      tree
	err       error
	failAfter int // rows of a scan
	gets      int
}

func (r *brokenReader) Get(key []byte) (Row, bool, error) {
	r.gets++
	if r.err != nil {
		return Row{}, false, r.err
	}
	row, ok := r.rows.get(key)
	return row, ok, nil
}

func (r *brokenReader) Scan(lo, hi []byte, reverse bool) Iterator {
	it := &treeScan{root: r.rows.snapshot().root, lo: lo, hi: hi, reverse: reverse}
	if r.err != nil {
		return &brokenScan{Iterator: it, left: r.failAfter, err: r.err}
	}
	return it
}

type brokenScan struct {
	Iterator
	left int
	err  error
}

func (s *brokenScan) Next() bool {
	s.left--
	return s.left >= 0 && s.Iterator.Next()
}

func (s *brokenScan) Close() error { return s.err }

func withRows(keys ...string) *brokenReader {
	r := &brokenReader{}
	for _, k := range keys {
		r.rows.put([]byte(k), Row{Value: []byte("base " + k), Timestamp: 1})
	}
	return r
}

var errDisk = errors.New("disk on fire")

func TestBaseErrorsSurfaceAndLeaveNothing(t *testing.T) {
	base := withRows("a", "b", "c")
	o := NewOverlay(OverlayConfig{Base: base, Ordered: true, KeepBefore: true, CacheBytes: 1 << 20})
	base.err = errDisk
	_, _, err := o.Get([]byte("a"))
	require.ErrorIs(t, err, errDisk)
	require.ErrorIs(t, o.Put([]byte("a"), []byte("x"), 2), errDisk)
	require.ErrorIs(t, o.Delete([]byte("a"), 2), errDisk)
	require.Zero(t, o.DirtyLen())
	require.Zero(t, o.DirtyBytes())

	base.failAfter = 1
	it := o.Scan(nil, nil, false)
	require.True(t, it.Next())
	require.False(t, it.Next(), "the scan ends where base failed, also if there were rows in the overlay")
	require.ErrorIs(t, it.Close(), errDisk)
	require.ErrorIs(t, it.Close(), errDisk)

	base.err = nil
	row, found, err := o.Get([]byte("a"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "base a", string(row.Value))
	require.NoError(t, o.Put([]byte("a"), []byte("x"), 2))
	_, _, _, before, had := o.Dirty(0)
	require.True(t, had)
	require.Equal(t, "base a", string(before.Value))

	base.err, base.failAfter = errDisk, 3
	it = o.Scan(nil, nil, false)
	require.True(t, it.Next())
	require.ErrorIs(t, it.Close(), errDisk, "an error of the close of base is not lost")
}

func TestPutReadsBaseOnlyForBefore(t *testing.T) {
	base := withRows("a")
	base.err = errDisk
	o := NewOverlay(OverlayConfig{Base: base})
	require.NoError(t, o.Put([]byte("a"), []byte("x"), 2))
	require.NoError(t, o.Delete([]byte("b"), 2))
	require.Zero(t, base.gets)
}

func TestMissesAreCached(t *testing.T) {
	base := withRows("a")
	o := NewOverlay(OverlayConfig{Base: base, CacheBytes: 1 << 20})
	for range 3 {
		_, found, err := o.Get([]byte("nothing"))
		require.NoError(t, err)
		require.False(t, found)
		_, found, err = o.Get([]byte("a"))
		require.NoError(t, err)
		require.True(t, found)
	}
	require.Equal(t, 2, base.gets)
}

func TestCacheIsBounded(t *testing.T) {
	base := withRows()
	pad := strings.Repeat("v", 200)
	for i := range 5000 {
		base.rows.put(fmt.Append(nil, i), Row{Value: []byte(pad), Timestamp: 1})
	}
	const bound = 50 << 10
	for name, between := range map[string]func(o *Overlay){
		"reads only": func(*Overlay) {},
		"units":      func(o *Overlay) { o.Begin(); o.Keep() },
		"writes":     func(o *Overlay) { require.NoError(t, o.Put([]byte("w"), []byte("x"), 1)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := NewOverlay(OverlayConfig{Base: base, CacheBytes: bound})
			for i := range 20_000 {
				_, _, err := o.Get(fmt.Append(nil, i%5000))
				require.NoError(t, err)
				_, _, err = o.Get([]byte("0")) // read all the time
				require.NoError(t, err)
				between(o)
			}
			// A run of nothing but reads keeps what its last two epochs have read.
			require.Less(t, o.clean.bytes, bound+2*readsPerEpoch*(entryBytes+300))
			require.Less(t, o.Bytes(), 4*(bound+2*readsPerEpoch*(entryBytes+300)))
		})
	}
	t.Run("what is read is spared", func(t *testing.T) {
		o := NewOverlay(OverlayConfig{Base: base, CacheBytes: bound})
		for i := range 1000 {
			_, _, err := o.Get(fmt.Append(nil, i))
			require.NoError(t, err)
			_, _, err = o.Get([]byte("0"))
			require.NoError(t, err)
			o.Begin()
			o.Keep()
		}
		gets := base.gets
		_, _, err := o.Get([]byte("0"))
		require.NoError(t, err)
		require.Equal(t, gets, base.gets)
	})
}

func TestDirtyIsNotEvicted(t *testing.T) {
	o := NewOverlay(OverlayConfig{CacheBytes: 0})
	for i := range 1000 {
		require.NoError(t, o.Put(fmt.Append(nil, i), []byte("v"), 1))
	}
	changes := o.Seal(nil)
	require.NoError(t, o.Put([]byte("0"), []byte("w"), 1))
	for i := range 1000 {
		_, found, err := o.Get(fmt.Append(nil, i))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, fmt.Sprint(i), string(changes[i].Key))
	}
	o.Applied()
	require.Equal(t, 1, o.table.used, "all but the key that was written again")
}

// What is neither dirty nor cached leaves no trace, whichever way it went.
func TestNothingIsLeftBehind(t *testing.T) {
	put := func(t *testing.T, o *Overlay, keys ...string) {
		for _, k := range keys {
			require.NoError(t, o.Put([]byte(k), []byte(strings.Repeat(k, 20)), 1))
		}
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, o *Overlay)
	}{
		{"commit", func(t *testing.T, o *Overlay) {
			put(t, o, "a", "b")
			o.Seal(nil)
			o.Applied()
		}},
		{"rollback", func(t *testing.T, o *Overlay) {
			o.Begin()
			put(t, o, "a", "b", "a")
			o.Rollback()
		}},
		{"rollback of a write over a sealed one that is applied meanwhile", func(t *testing.T, o *Overlay) {
			put(t, o, "a", "b")
			o.Seal(nil)
			o.Begin()
			put(t, o, "a")
			o.Applied()
			o.Rollback()
		}},
		{"commit during a scan", func(t *testing.T, o *Overlay) {
			put(t, o, "a", "b")
			o.Seal(nil)
			it := o.Scan(nil, nil, false)
			require.True(t, it.Next())
			o.Begin()
			require.NoError(t, o.Delete([]byte("b"), 1))
			o.Applied()
			put(t, o, "a")
			o.Rollback()
			require.Equal(t, 2, o.table.used, "held for the scan")
			require.NoError(t, it.Close())
		}},
		{"rollback after the end of a scan", func(t *testing.T, o *Overlay) {
			put(t, o, "a")
			it := o.Scan(nil, nil, false)
			o.Seal(nil)
			o.Applied()
			o.Begin()
			put(t, o, "a")
			require.NoError(t, it.Close())
			o.Rollback()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, keepBefore := range []bool{false, true} {
				o := NewOverlay(OverlayConfig{Base: withRows("a", "c"), Ordered: true, KeepBefore: keepBefore, CacheBytes: 1 << 20})
				c.do(t, o)
				if !o.Sealed() {
					put(t, o, "a", "c")
					o.Seal(nil)
				}
				o.Applied()
				o.cacheBytes = 0
				o.Begin()
				o.Keep()
				require.Zero(t, o.table.used)
				require.Zero(t, o.sorted.root)
				require.Zero(t, o.clean.n)
				require.Zero(t, o.clean.bytes)
				require.Zero(t, o.dirtyBytes)
				require.Empty(t, o.linger)
				for _, chunk := range o.arena.chunks {
					require.Zero(t, chunk.used)
				}
			}
		})
	}
}

// The value of a row may be written to its own key or to another one.
func TestPutOfARowsOwnBytes(t *testing.T) {
	for _, n := range []int{3, 16, 17, 100, 5000} {
		base := withRows()
		long := strings.Repeat("ab", n)[:n]
		base.rows.put([]byte("a"), Row{Value: []byte(long), Timestamp: 1})
		o := NewOverlay(OverlayConfig{Base: base})
		row, _, err := o.Get([]byte("a"))
		require.NoError(t, err)
		require.NoError(t, o.Put([]byte("b"), row.Value, 2))
		row, _, err = o.Get([]byte("b"))
		require.NoError(t, err)
		require.Equal(t, long, string(row.Value))
		require.NoError(t, o.Put([]byte("b"), row.Value[1:], 2))
		row, _, err = o.Get([]byte("b"))
		require.NoError(t, err)
		require.Equal(t, long[1:], string(row.Value))
	}
}

func TestMisusePanics(t *testing.T) {
	o := NewOverlay(OverlayConfig{})
	require.Error(t, o.Put([]byte("a"), nil, 1))
	require.Error(t, o.Scan(nil, nil, false).Close())
	require.False(t, o.Scan(nil, nil, false).Next())
	require.Panics(t, o.Keep)
	require.Panics(t, o.Rollback)
	require.Panics(t, o.Applied)
	o.Begin()
	require.Panics(t, o.Begin)
	require.Panics(t, func() { o.Seal(nil) })
	o.Keep()
	o.Seal(nil)
	require.Panics(t, func() { o.Seal(nil) })
}

func TestDropInsideAUnit(t *testing.T) {
	o := NewOverlay(OverlayConfig{Base: withRows("a"), Ordered: true})
	it := o.Scan(nil, nil, false)
	o.Begin()
	require.NoError(t, o.Put([]byte("b"), []byte("x"), 1))
	o.Drop(withRows("c"))
	require.False(t, it.Next())
	require.ErrorContains(t, it.Close(), "dropped")
	require.NoError(t, o.Put([]byte("d"), []byte("x"), 1))
	o.Rollback()
	rows := o.Scan(nil, nil, false)
	require.True(t, rows.Next())
	require.Equal(t, "c", string(rows.Key()))
	require.False(t, rows.Next())
	require.NoError(t, rows.Close())
}

// Who still encodes the changes of a task that is lost must not see the next generation's bytes among them.
func TestDropLeavesSealedChangesAsTheyAre(t *testing.T) {
	o := NewOverlay(OverlayConfig{})
	put := func(key, value string) { require.NoError(t, o.Put([]byte(key), []byte(value), 1)) }
	put("a long key that has a block", "a value that has a block of its own")
	put("short", "inline")
	sealed := o.Seal(nil)
	o.Drop(nil)
	put("another key that has a block", "another value with a block of its o")
	put("shirt", "infant")
	o.Seal(nil)
	o.Applied()
	put("third", "value")
	o.Seal(nil)
	require.Equal(t, []Change{
		{Key: []byte("a long key that has a block"), Value: []byte("a value that has a block of its own"), Timestamp: 1},
		{Key: []byte("short"), Value: []byte("inline"), Timestamp: 1},
	}, sealed)
}

// A write finds the entry of the read before it, unless that has been evicted, and maybe serves another key by now.
func TestWriteAfterReadAndEviction(t *testing.T) {
	o := NewOverlay(OverlayConfig{Base: withRows("a", "b", "c", "")})
	get := func(key string) bool {
		_, found, err := o.Get([]byte(key))
		require.NoError(t, err)
		return found
	}
	require.True(t, get("a"))
	o.Begin()
	require.Zero(t, o.clean.n, "evicted")
	require.NoError(t, o.Put(nil, []byte("empty key"), 1))
	require.NoError(t, o.Put([]byte("b"), []byte("x"), 1))
	o.Keep()
	require.True(t, get("a"))
	require.NoError(t, o.Put([]byte("a"), []byte("y"), 1))
	require.Equal(t, []Change{
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: 1},
		{Key: []byte("b"), Value: []byte("x"), Timestamp: 1},
		{Key: []byte("a"), Value: []byte("y"), Timestamp: 1},
	}, o.Seal(nil))
	require.True(t, get(""))
	o.Drop(nil)
	require.NoError(t, o.Put(nil, []byte("z"), 1), "after the drop nothing was read")
	require.Equal(t, []Change{{Key: []byte{}, Value: []byte("z"), Timestamp: 1}}, o.Seal(nil))
}

func TestSealBufferShrinks(t *testing.T) {
	o := NewOverlay(OverlayConfig{})
	require.NoError(t, o.Put([]byte("a"), make([]byte, 4<<20), 1))
	o.Seal(nil)
	o.Applied()
	held := o.Bytes()
	require.NoError(t, o.Put([]byte("a"), []byte("x"), 1))
	o.Seal(nil)
	o.Applied()
	require.Less(t, o.Bytes(), held-3<<20)
}

// cycle is what a task does between two commits, on keys that are there.
func cycle(tb testing.TB, o *Overlay, keys [][]byte, value []byte, dst []Change) []Change {
	for round := range 3 {
		for i, k := range keys {
			o.Begin()
			row, _, err := o.Get(k)
			if err != nil {
				tb.Fatal(err)
			}
			binary.BigEndian.PutUint64(value, uint64(i+round+len(row.Value)))
			if err := o.Put(k, value, int64(i)); err != nil {
				tb.Fatal(err)
			}
			if i%7 == 0 {
				o.Rollback()
			} else {
				o.Keep()
			}
		}
	}
	dst = o.Seal(dst[:0])
	for _, k := range keys[:len(keys)/2] { // the others are first written again in a unit, which may be rolled back
		if err := o.Put(k, value, 1); err != nil {
			tb.Fatal(err)
		}
	}
	o.Applied()
	return dst
}

func TestSteadyStateDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		name       string
		size       int
		ordered    bool
		keepBefore bool
		cache      int
		long       string
	}{
		{"counter", 8, false, false, 1 << 20, ""},
		{"row", 100, false, true, 1 << 20, "key of more than sixteen bytes "},
		{"ordered", 100, true, true, 1 << 20, ""},
		{"no cache", 100, true, false, 0, ""},
		{"large", 9000, false, true, 1 << 24, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			base := withRows()
			var keys [][]byte
			for i := range 100 {
				keys = append(keys, fmt.Append(nil, c.long, i))
				base.rows.put(keys[i], Row{Value: []byte("v"), Timestamp: 1})
			}
			o := NewOverlay(OverlayConfig{Base: base, Ordered: c.ordered, KeepBefore: c.keepBefore, CacheBytes: c.cache})
			value := make([]byte, c.size)
			var dst []Change
			for range 5 {
				dst = cycle(t, o, keys, value, dst)
			}
			held := o.Bytes()
			require.Zero(t, testing.AllocsPerRun(20, func() { dst = cycle(t, o, keys, value, dst) }))
			require.Equal(t, held, o.Bytes(), "it does not grow")
		})
	}
}

func BenchmarkGet(b *testing.B) {
	o, keys := filled(b, 100_000, false)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, ok, _ := o.Get(keys[i*7919%len(keys)]); !ok {
			b.Fatal("lost")
		}
	}
}

func BenchmarkPut(b *testing.B) {
	for _, ordered := range []bool{false, true} {
		b.Run(fmt.Sprintf("ordered=%v", ordered), func(b *testing.B) {
			o, keys := filled(b, 100_000, ordered)
			value := make([]byte, 100)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				o.Begin()
				_ = o.Put(keys[i*7919%len(keys)], value, 1)
				o.Keep()
			}
		})
	}
}

// BenchmarkCycle is per key: read, write, commit.
func BenchmarkCycle(b *testing.B) {
	for _, ordered := range []bool{false, true} {
		b.Run(fmt.Sprintf("ordered=%v", ordered), func(b *testing.B) {
			o, keys := filled(b, 100_000, ordered)
			value := make([]byte, 100)
			var dst []Change
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				k := keys[i*7919%len(keys)]
				o.Begin()
				_, _, _ = o.Get(k)
				_ = o.Put(k, value, 1)
				o.Keep()
				if i%10_000 == 9_999 {
					dst = o.Seal(dst[:0])
					o.Applied()
				}
			}
		})
	}
}

// filled returns an overlay with n keys of 8 bytes in its cache.
func filled(b *testing.B, n int, ordered bool) (*Overlay, [][]byte) {
	o := NewOverlay(OverlayConfig{Base: withRows(), Ordered: ordered, CacheBytes: 1 << 30})
	var keys [][]byte
	for i := range n {
		keys = append(keys, binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15))
		if err := o.Put(keys[i], make([]byte, 100), 1); err != nil {
			b.Fatal(err)
		}
	}
	o.Seal(nil)
	o.Applied()
	return o, keys
}

func TestTouchedAreTheKeysThatTheUnitHasWritten(t *testing.T) {
	o := NewOverlay(OverlayConfig{Ordered: true})
	touched := func() (keys []string) {
		for i := range o.Touched() {
			keys = append(keys, string(o.TouchedKey(i)))
		}
		return keys
	}
	o.Begin()
	require.NoError(t, o.Put([]byte("dirty"), []byte("1"), 1))
	o.Keep()
	o.Begin()
	require.Empty(t, touched())
	require.NoError(t, o.Put([]byte("a key that does not lie in place"), []byte("1"), 1))
	require.NoError(t, o.Put([]byte("dirty"), []byte("2"), 1))
	require.NoError(t, o.Delete([]byte("gone"), 1))
	require.NoError(t, o.Put([]byte("dirty"), []byte("3"), 1))
	require.Equal(t, []string{"a key that does not lie in place", "dirty", "gone"}, touched())
	o.Rollback()
}
