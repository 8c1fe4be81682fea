package pebblestore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/statestore"
)

// allRows are the rows of the first stores of a task, and their positions.
func allRows(t require.TestingT, ts statestore.TaskStores, stores int) (out []string) {
	for i := range stores {
		it := ts.Reader(i).Scan(nil, nil, false)
		for it.Next() {
			out = append(out, fmt.Sprintf("%d %q %q %d", i, it.Key(), it.Row().Value, it.Row().Timestamp))
		}
		require.NoError(t, it.Close())
		out = append(out, fmt.Sprintf("%d at %d", i, ts.Position(i)))
	}
	return out
}

// What is ingested as tables is what the same batches are when they are applied: rows and deletions over older ones, several stores, a store
// that comes twice, keys that come twice, many tables, several goroutines.
func TestIngestIsAnApply(t *testing.T) {
	specs := []statestore.Spec{{Name: "c", Ordered: true}, {Name: "a", Ordered: true}, {Name: "b", Ordered: true}}
	rapid.Check(t, func(t *rapid.T) {
		d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20})
		require.NoError(t, err)
		d.ingestMin, d.tableMax = 0, rapid.SampledFrom([]int{1, 60, 64 << 20}).Draw(t, "table")
		d.wideMin = rapid.SampledFrom([]int{1, 60, 200}).Draw(t, "wide")
		var tasks [2]statestore.TaskStores
		for i := range tasks {
			tasks[i], err = d.Open(statestore.TaskID{Partition: int32(i)}, specs)
			require.NoError(t, err)
		}
		for range rapid.IntRange(1, 4).Draw(t, "batches") {
			b := drawBatch(t, len(specs))
			require.NoError(t, tasks[0].Apply(b))
			var taken atomic.Int32
			b.Taken = func() {
				taken.Add(1)
				spoil(b)
			}
			require.NoError(t, tasks[1].Ingest(b))
			require.EqualValues(t, 1, taken.Load())
			require.Equal(t, allRows(t, tasks[0], len(specs)), allRows(t, tasks[1], len(specs)))
		}
		for i, ts := range tasks {
			require.NoError(t, ts.Close())
			tasks[i], err = d.Open(statestore.TaskID{Partition: int32(i)}, specs) // which reads the positions that are stored
			require.NoError(t, err)
		}
		require.Equal(t, allRows(t, tasks[0], len(specs)), allRows(t, tasks[1], len(specs)))
		for _, ts := range tasks {
			require.NoError(t, ts.Close())
		}
		require.NoError(t, d.Close())
	})
}

// spoil uses what a batch lies in for something else.
func spoil(b *statestore.Batch) {
	for i := range b.Stores {
		for _, c := range b.Stores[i].Changes {
			for _, m := range [][]byte{c.Key, c.Value} {
				for at := range m {
					m[at] = 0xdb
				}
			}
		}
	}
}

// panickingFS panics when it makes its n-th table to be ingested.
type panickingFS struct {
	vfs.FS
	left atomic.Int32
}

func (f *panickingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(f.PathBase(name), ingestPrefix) {
		if f.left.Add(-1) == 0 {
			panic("a fault of somebody's")
		}
	}
	return f.FS.Create(name, c)
}

func (f *panickingFS) Unwrap() vfs.FS { return f.FS }

func TestAPanicLeavesNothingToTheNextIngest(t *testing.T) {
	for _, urgent := range []bool{false, true} {
		t.Run(fmt.Sprint("urgent=", urgent), func(t *testing.T) { testPanicInAnIngest(t, urgent) })
	}
}

func testPanicInAnIngest(t *testing.T, urgent bool) {
	fs := &panickingFS{FS: vfs.NewMem()}
	fs.left.Store(2)
	d, err := Open(Options{Dir: "db", FS: fs})
	require.NoError(t, err)
	d.ingestMin, d.tableMax, d.wideMin = 0, 1, 1 // a table for each row
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	batch := func(keys ...string) *statestore.Batch {
		sb := statestore.StoreBatch{Position: statestore.NoPosition}
		for _, k := range keys {
			sb.Changes = append(sb.Changes, statestore.Change{Key: []byte(k), Value: []byte("v")})
		}
		return &statestore.Batch{Stores: []statestore.StoreBatch{sb}, Urgent: urgent}
	}
	require.Panics(t, func() { _ = ts.Ingest(batch("a", "b")) })
	require.NoError(t, ts.Ingest(batch("c", "d")))
	require.Equal(t, []string{`0 "c" "v" 0`, `0 "d" "v" 0`, "0 at -1"}, allRows(t, ts, 1))
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

func drawBatch(t *rapid.T, stores int) *statestore.Batch {
	b := &statestore.Batch{Urgent: rapid.Bool().Draw(t, "urgent")}
	for range rapid.IntRange(1, 4).Draw(t, "stores") {
		sb := statestore.StoreBatch{
			Store:    rapid.IntRange(0, stores-1).Draw(t, "store"),
			Position: rapid.Int64Range(-1, 100).Draw(t, "position"),
		}
		for i := range rapid.IntRange(0, 60).Draw(t, "changes") {
			c := statestore.Change{Key: rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 0xff}), 0, 3).Draw(t, "key"), Timestamp: int64(i)}
			if rapid.IntRange(0, 3).Draw(t, "kind") > 0 {
				c.Value = fmt.Appendf([]byte{}, "%d", i)
			}
			sb.Changes = append(sb.Changes, c)
		}
		b.Stores = append(b.Stores, sb)
	}
	return b
}

// BenchmarkIngest is per row of 100 bytes, a million of them in random order in pieces of 100,000, in memory and on disk. What compactions
// do behind it is not waited for.
func BenchmarkIngest(b *testing.B) {
	const rows, piece = 1_000_000, 100_000
	for name, fs := range map[string]vfs.FS{"memory": vfs.NewMem(), "disk": vfs.Default} {
		b.Run(name, func(b *testing.B) {
			changes := make([]statestore.Change, rows)
			for i := range changes {
				changes[i] = statestore.Change{Key: benchKey(i), Value: make([]byte, 100), Timestamp: 1}
				copy(changes[i].Value, changes[i].Key)
			}
			for b.Loop() {
				b.StopTimer()
				d, err := Open(Options{Dir: b.TempDir(), FS: fs})
				require.NoError(b, err)
				ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
				require.NoError(b, err)
				b.StartTimer()
				for at := 0; at < rows; at += piece {
					batch := statestore.Batch{Stores: []statestore.StoreBatch{{Changes: changes[at : at+piece], Position: int64(at)}}}
					require.NoError(b, ts.Ingest(&batch))
				}
				b.StopTimer()
				require.NoError(b, ts.Close())
				require.NoError(b, d.Close())
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
