package retry

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

const benchItems = 100_000

// benchIndex holds many items, of which each tenth key has a follower.
func benchIndex(mode Mode) (*Index, []*Item) {
	rnd := rand.New(rand.NewPCG(1, 2))
	x := NewIndex(mode)
	items := make([]*Item, 0, benchItems)
	for i := range int64(benchItems) {
		e := testEntry(i, fmt.Sprintf("key-%08d", i*10/11), rnd.Int64N(1e9))
		e.Kind, e.Class, e.Node = "process", "*net.OpError", "KSTREAM-MAPVALUES-0000000001"
		items = append(items, x.Park(e))
	}
	return x, items
}

func BenchmarkIndexRetry(b *testing.B) {
	for _, mode := range []Mode{ModeParallel, ModeKeyOrdered} {
		b.Run(mode.String(), func(b *testing.B) {
			x, _ := benchIndex(mode)
			rnd := rand.New(rand.NewPCG(3, 4))
			b.ReportAllocs()
			for b.Loop() {
				it := x.Due(Never)
				x.Start(it)
				it.Attempt++
				it.Due += rnd.Int64N(1e9)
				x.Again(it)
			}
		})
	}
}

func BenchmarkIndexParkAndRemove(b *testing.B) {
	for _, mode := range []Mode{ModeParallel, ModeKeyOrdered} {
		b.Run(mode.String(), func(b *testing.B) {
			x, _ := benchIndex(mode)
			e := testEntry(0, "another key", 5e8)
			e.Offset = benchItems
			b.ReportAllocs()
			for b.Loop() {
				x.Remove(x.Park(e), 0)
				e.Offset++
			}
		})
	}
}

func BenchmarkIndexClosed(b *testing.B) {
	x, items := benchIndex(ModeKeyOrdered)
	empty := NewIndex(ModeKeyOrdered)
	b.Run("with nothing put aside", func(b *testing.B) {
		for b.Loop() {
			empty.Closed(items[7].Key, false)
		}
	})
	i := 0
	b.Run("among many", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			x.Closed(items[i*7919%benchItems].Key, false)
			i++
		}
	})
}

func BenchmarkIndexFind(b *testing.B) {
	x, _ := benchIndex(ModeKeyOrdered)
	i := int64(0)
	for b.Loop() {
		x.Find(Origin{Topic: "t", Offset: i * 7919 % benchItems})
		i++
	}
}

func BenchmarkEntry(b *testing.B) {
	e := Entry{
		Origin: Origin{Topic: "orders", Partition: 3, Offset: 1 << 40}, Key: []byte("customer-1234567"), Seq: 1 << 20, Attempt: 3,
		First: 1_700_000_000_000, Due: 1_700_000_001_000, Stream: 1_700_000_000_000, Kind: "process", Class: "*net.OpError",
		Node: "KSTREAM-MAPVALUES-0000000001", Message: "dial tcp 10.0.0.1:443: connect: connection refused", Bytes: 300,
	}
	var row []byte
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			row = AppendEntry(row[:0], &e)
		}
		b.ReportMetric(float64(len(row)), "B/row")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeEntry(e.Origin, row); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func TestWhatTheIndexTakes(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	x, items := benchIndex(ModeParallel)
	clear(items)
	each := (heap() - before) / benchItems
	t.Logf("%d bytes an item", each)
	require.Less(t, each, uint64(450))
	require.Equal(t, benchItems, x.Len())

	key := []byte("key-00000007")
	x, _ = benchIndex(ModeKeyOrdered)
	require.True(t, x.Closed(key, false))
	require.Zero(t, testing.AllocsPerRun(100, func() { x.Closed(key, false) }))
	require.Zero(t, testing.AllocsPerRun(100, func() { x.Find(Origin{Topic: "t", Offset: 7}) }))
	require.Zero(t, testing.AllocsPerRun(100, func() {
		it := x.Due(Never)
		x.Start(it)
		it.Due++
		x.Again(it)
	}))
}
