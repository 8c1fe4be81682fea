package statestore

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// Warm looks, and that is all: what is in the overlay, what it has cached and what it evicts next are as before.
func TestWarmChangesNothing(t *testing.T) {
	base := withRows("a", "b")
	o := NewOverlay(OverlayConfig{Base: base, CacheBytes: 1 << 20})
	var keys [][]byte
	for i := range 100 {
		keys = append(keys, fmt.Appendf(nil, "key %d", i))
	}
	o.Warm(keys)
	for _, k := range keys[:50] {
		require.NoError(t, o.Put(k, k, 1))
	}
	o.Seal(nil)
	o.Applied()
	before := append([]entry{}, o.entries...)
	o.Warm(keys)
	o.Warm(nil)
	require.Equal(t, before, o.entries)
	require.Zero(t, base.gets)
	if !raceEnabled {
		require.Zero(t, testing.AllocsPerRun(10, func() { o.Warm(keys) }))
	}
}

// The numbers of units begin anew some day. A write of a later unit that has an old number must be undone all the same.
func TestUnitsWhoseNumbersBeginAnew(t *testing.T) {
	o := NewOverlay(OverlayConfig{Base: withRows(), CacheBytes: 1 << 20})
	unit := func(value string, keep bool) {
		o.Begin()
		require.NoError(t, o.Put([]byte("k"), []byte(value), 1))
		if keep {
			o.Keep()
		} else {
			o.Rollback()
		}
	}
	unit("first", true) // unit 1
	o.undo.unit = math.MaxUint32
	unit("second", false) // unit 1 again
	require.Equal(t, uint32(1), o.undo.unit)
	row, found, err := o.Get([]byte("k"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "first", string(row.Value))

	// Unused entries are in a list by the same field.
	o.Begin()
	for i := range 3 {
		require.NoError(t, o.Put(fmt.Append(nil, i), []byte("v"), 1))
	}
	o.Rollback()
	o.undo.unit = math.MaxUint32
	for i := range 5 {
		o.Begin()
		require.NoError(t, o.Put(fmt.Append(nil, i), []byte("v"), 1))
		o.Keep()
	}
	require.Len(t, o.entries, 1+1+5)
	require.Equal(t, 6, o.table.used)
}

// What was written while it was in the cache's queue goes on there once, wherever it stands.
func TestWrittenRowsAreQueuedOnce(t *testing.T) {
	base := withRows("a", "b", "c")
	o := NewOverlay(OverlayConfig{Base: base, CacheBytes: 1 << 20})
	for _, k := range []string{"a", "b", "c"} {
		_, _, err := o.Get([]byte(k))
		require.NoError(t, err)
	}
	for range 3 {
		require.NoError(t, o.Put([]byte("a"), []byte("x"), 1))
		o.Seal(nil)
		o.Applied()
	}
	require.Equal(t, 3, o.clean.n)
	require.Equal(t, 3, o.clean.waiting)
	require.NoError(t, o.Put([]byte("b"), []byte("y"), 1))
	require.Equal(t, 2, o.clean.n)
	o.cacheBytes = 0
	o.Begin()
	o.Keep()
	require.Zero(t, o.clean.n)
	require.Zero(t, o.clean.bytes)
	require.Zero(t, o.clean.waiting, "b is not clean and goes without a trace")
	row, _, err := o.Get([]byte("b"))
	require.NoError(t, err)
	require.Equal(t, "y", string(row.Value))
}
