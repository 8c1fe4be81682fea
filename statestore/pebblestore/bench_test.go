package pebblestore

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

var oneTask = statestore.TaskID{Subtopology: 1, Partition: 2}

func benchKey(i int) []byte {
	return binary.BigEndian.AppendUint64(nil, uint64(i)*0x9e3779b97f4a7c15)
}

// filled returns a database with n rows of 100 bytes, compacted, and its task.
func filled(tb testing.TB, n int, fs vfs.FS, dir string) (*DB, statestore.TaskStores) {
	d, err := Open(Options{Dir: dir, FS: fs})
	require.NoError(tb, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(tb, err)
	for from := 0; from < n; from += 10_000 {
		b := &statestore.Batch{Stores: []statestore.StoreBatch{{Position: int64(from)}}}
		for i := from; i < min(n, from+10_000); i++ {
			b.Stores[0].Changes = append(b.Stores[0].Changes, statestore.Change{Key: benchKey(i), Value: make([]byte, 100), Timestamp: 1})
		}
		require.NoError(tb, ts.Apply(b))
	}
	require.NoError(tb, d.Flush())
	tb.Cleanup(func() {
		require.NoError(tb, ts.Close())
		require.NoError(tb, d.Close())
	})
	return d, ts
}

func BenchmarkGet(b *testing.B) {
	const n = 200_000
	d, ts := filled(b, n, vfs.Default, b.TempDir())
	r := ts.Reader(0)
	for _, c := range []struct {
		name string
		from int
	}{{"hit", 0}, {"miss", n}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if _, _, err := r.Get(benchKey(c.from + i*7919%n)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(c.name+" by pebble's Get", func(b *testing.B) {
			var key []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key = statestore.AppendKey(append(key[:0], r.(*reader).prefix...), benchKey(c.from+i*7919%n))
				if v, closer, err := d.db.Get(key); err == nil {
					_ = v
					_ = closer.Close()
				}
			}
		})
	}
}

// BenchmarkApply is per change, in batches of 1000.
func BenchmarkApply(b *testing.B) {
	_, ts := filled(b, 100_000, vfs.Default, b.TempDir())
	batch := &statestore.Batch{Stores: []statestore.StoreBatch{{Changes: make([]statestore.Change, 1000)}}}
	value := make([]byte, 100)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		c := &batch.Stores[0].Changes[i%1000]
		*c = statestore.Change{Key: benchKey(i * 7919 % 100_000), Value: value, Timestamp: 1}
		if i%1000 == 999 {
			batch.Stores[0].Position = int64(i)
			if err := ts.Apply(batch); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkCycle is per record: read and write through an overlay, a commit each 1000.
func BenchmarkCycle(b *testing.B) {
	for _, ordered := range []bool{false, true} {
		b.Run(fmt.Sprintf("ordered=%v", ordered), func(b *testing.B) {
			_, ts := filled(b, 100_000, vfs.Default, b.TempDir())
			o := statestore.NewOverlay(statestore.OverlayConfig{Base: ts.Reader(0), Ordered: ordered, CacheBytes: 4 << 20})
			value := make([]byte, 100)
			var changes []statestore.Change
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				key := benchKey(i * 7919 % 100_000)
				o.Begin()
				_, _, err := o.Get(key)
				if err == nil {
					err = o.Put(key, value, 1)
				}
				o.Keep()
				if err == nil && i%1000 == 999 {
					changes = o.Seal(changes[:0])
					err = ts.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Changes: changes, Position: int64(i)}}})
					o.Applied()
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCommits is per row of 17 bytes: eight tasks commit in turns 8,000 of their 12,500 or 125,000 rows, in no order, while the database flushes
// and compacts what they have written. cpu-ns/op is of all goroutines together.
func BenchmarkCommits(b *testing.B) {
	const tasks, rows = 8, 8000
	for _, keys := range []int{12_500, 125_000} {
		b.Run(fmt.Sprintf("keys=%d", tasks*keys), func(b *testing.B) {
			d, err := Open(Options{Dir: b.TempDir(), Memory: 170 << 20})
			require.NoError(b, err)
			defer d.Close()
			var stores [tasks]statestore.TaskStores
			for i := range stores {
				stores[i], err = d.Open(statestore.TaskID{Partition: int32(i)}, []statestore.Spec{{Name: "rows"}})
				require.NoError(b, err)
				defer stores[i].Close()
			}
			random := rand.New(rand.NewPCG(1, 2))
			var batches [8 * tasks]statestore.Batch
			for i := range batches {
				changes := make([]statestore.Change, rows)
				for j, n := range random.Perm(keys)[:rows] {
					changes[j] = statestore.Change{Key: fmt.Appendf(nil, "k%08d", n), Value: make([]byte, 8), Timestamp: 1}
				}
				batches[i].Stores = []statestore.StoreBatch{{Changes: changes}}
			}
			b.ResetTimer()
			began := cpuTime()
			for n := 0; n < b.N; n += rows {
				batch := &batches[n/rows%len(batches)]
				batch.Stores[0].Position = int64(n)
				if err := stores[n/rows%tasks].Apply(batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cpuTime()-began).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}
