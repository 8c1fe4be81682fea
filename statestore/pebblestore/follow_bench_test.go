//go:build unix

package pebblestore

import (
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// cpuTime is the processor time of the process: flushes and compactions count.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// halfRandom is a value of n bytes of which half are entropy.
func halfRandom(rng *rand.Rand, n int) []byte {
	b := make([]byte, n/2)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return hex.AppendEncode(nil, b)
}

// followed are batches of changes of random keys among n.
func followed(rng *rand.Rand, batches, size, keys int) []*statestore.Batch {
	out := make([]*statestore.Batch, batches)
	for i := range out {
		sb := statestore.StoreBatch{Position: int64(i+1) * int64(size), Changes: make([]statestore.Change, size)}
		for j := range sb.Changes {
			sb.Changes[j] = statestore.Change{Key: benchKey(rng.IntN(keys)), Value: halfRandom(rng, 100), Timestamp: int64(i)}
		}
		out[i] = &statestore.Batch{Stores: []statestore.StoreBatch{sb}}
	}
	return out
}

// settle waits until nothing is to be flushed or compacted.
func settle(b *testing.B, d *DB) {
	require.NoError(b, d.Flush())
	quiet := 0
	for quiet < 3 {
		time.Sleep(5 * time.Millisecond)
		if quiet++; d.db.Metrics().Compact.NumInProgress > 0 {
			quiet = 0
		}
	}
}

// written are the bytes that tables have been written with: by flushes, compactions and the tables that were ingested.
func written(d *DB) uint64 {
	m := d.db.Metrics()
	t := m.Total()
	return t.TableBytesFlushed + t.TableBytesCompacted + m.Flush.AsIngestBytes // Total counts what was ingested as flushed
}

// BenchmarkFollow is what a follower costs that applies 200,000 changes, in batches of one size, to a store of 500,000 rows: ten seconds of
// 20,000 a second. cpu-us/change is of the whole process with flushes and compactions, written/B how often a byte is written in the end.
func BenchmarkFollow(b *testing.B) {
	const keys, changes = 500_000, 200_000
	for _, size := range []int{100, 1000, 2500, 5000, 20_000, 50_000, 100_000} {
		for _, bulk := range []bool{false, true} {
			if bulk && size < 1000 {
				continue // a file each
			}
			name := fmt.Sprintf("apply/%d", size)
			if bulk {
				name = fmt.Sprintf("ingest/%d", size)
			}
			b.Run(name, func(b *testing.B) {
				d, err := Open(Options{Dir: b.TempDir(), FS: vfs.Default})
				require.NoError(b, err)
				d.ingestMin = 0
				ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
				require.NoError(b, err)
				rng := rand.New(rand.NewPCG(1, 1))
				load := &statestore.Batch{Stores: []statestore.StoreBatch{{}}}
				for i := range keys {
					load.Stores[0].Changes = append(load.Stores[0].Changes, statestore.Change{Key: benchKey(i), Value: halfRandom(rng, 100)})
				}
				require.NoError(b, ts.Ingest(load))
				load = nil
				settle(b, d)
				batches := followed(rng, changes/size, size, keys)
				write := ts.Apply
				if bulk {
					write = ts.Ingest
				}
				var used, took time.Duration
				before, n := written(d), 0
				for b.Loop() {
					began, cpu := time.Now(), cpuTime()
					for _, batch := range batches {
						if err := write(batch); err != nil {
							b.Fatal(err)
						}
					}
					took += time.Since(began)
					settle(b, d)
					used += cpuTime() - cpu
					n += changes
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(used.Microseconds())/float64(n), "cpu-us/change")
				b.ReportMetric(float64(took.Microseconds())/float64(n), "us/change")
				b.ReportMetric(float64(written(d)-before)/float64(n*(8+100)), "written/B")
				require.NoError(b, ts.Close())
				require.NoError(b, d.Close())
			})
		}
	}
}

// BenchmarkPromote is what a change of the role of a task with three stores costs here: readers, a first read of each, their release.
func BenchmarkPromote(b *testing.B) {
	const rows = 200_000
	d, err := Open(Options{Dir: b.TempDir(), FS: vfs.Default})
	require.NoError(b, err)
	specs := []statestore.Spec{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	ts, err := d.Open(oneTask, specs)
	require.NoError(b, err)
	rng := rand.New(rand.NewPCG(1, 1))
	for s := range specs {
		for _, batch := range followed(rng, rows/5000, 5000, rows) {
			batch.Stores[0].Store = s
			require.NoError(b, ts.Apply(batch))
		}
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		for s := range specs {
			if _, _, err := ts.Reader(s).Get(benchKey(i % rows)); err != nil {
				b.Fatal(err)
			}
		}
		ts.ReleaseReaders()
	}
	require.NoError(b, ts.Close())
	require.NoError(b, d.Close())
}

// BenchmarkStored lists 200 tasks of three stores with 1,000 rows each, and asks for the bytes of one.
func BenchmarkStored(b *testing.B) {
	const tasks = 200
	d, err := Open(Options{Dir: b.TempDir(), FS: vfs.Default})
	require.NoError(b, err)
	specs := []statestore.Spec{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	rng := rand.New(rand.NewPCG(1, 1))
	for n := range tasks {
		ts, err := d.Open(taskN(n), specs)
		require.NoError(b, err)
		for s, batch := range followed(rng, len(specs), 1000, 1000) {
			batch.Stores[0].Store = s
			require.NoError(b, ts.Apply(batch))
		}
		require.NoError(b, ts.Close())
	}
	require.NoError(b, d.Flush())
	b.Run("Tasks", func(b *testing.B) {
		for b.Loop() {
			list, err := d.Tasks()
			require.NoError(b, err)
			require.Len(b, list, tasks)
		}
	})
	b.Run("DiskUsage", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if _, err := d.DiskUsage(taskN(i % tasks)); err != nil {
				b.Fatal(err)
			}
		}
	})
	require.NoError(b, d.Close())
}
