//go:build unix

package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// restoredRows are rows of new keys, in the order of the keys or in none, as they lie in what was fetched: the value behind its key.
func restoredRows(rng *rand.Rand, from, n int, sorted bool) []statestore.Change {
	changes := make([]statestore.Change, n)
	buf := make([]byte, 0, n*120)
	for i := range changes {
		at := len(buf)
		key := benchKey(from + i)
		if sorted {
			key = fmt.Appendf(nil, "k%07d", from+i)
		}
		buf = append(append(append(buf, key...), halfRandom(rng, 100)...), "header."...)
		changes[i] = statestore.Change{Key: buf[at : at+8 : at+8], Value: buf[at+8 : at+108 : at+108], Timestamp: int64(i)}
	}
	return changes
}

// BenchmarkRestore writes 1,000,000 rows of new keys of 1 or 4 tasks, in pieces of a size in bytes, as a restore does: us/row is until the last piece is in,
// cpu-us/row until then and all-cpu-us/row until nothing is left to compact, of the whole process.
func BenchmarkRestore(b *testing.B) {
	const rows = 1_000_000
	for _, c := range []struct {
		bulk   bool
		tasks  int
		piece  int
		sorted bool
	}{
		{true, 4, 32 << 20, true}, {true, 4, 32 << 20, false},
		{true, 1, 32 << 20, false}, {true, 1, 4 << 20, false}, {true, 1, 1 << 20, false}, {true, 1, 256 << 10, false},
		{false, 1, 4 << 20, false}, {false, 1, 1 << 20, false}, {false, 1, 256 << 10, false},
	} {
		b.Run(fmt.Sprintf("bulk=%v/tasks=%d/%dKiB/sorted=%v", c.bulk, c.tasks, c.piece>>10, c.sorted), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 1))
			var changes [][]statestore.Change
			for n := range c.tasks {
				changes = append(changes, restoredRows(rng, n*rows, rows/c.tasks, c.sorted))
			}
			var r restoreCost
			for b.Loop() {
				r.restore(b, c.bulk, c.piece, changes)
			}
			b.ReportMetric(0, "ns/op")
			n := float64(b.N * rows)
			b.ReportMetric(float64(r.took.Nanoseconds())/n/1e3, "us/row")
			b.ReportMetric(float64(r.used.Nanoseconds())/n/1e3, "cpu-us/row")
			b.ReportMetric(float64(r.all.Nanoseconds())/n/1e3, "all-cpu-us/row")
			b.ReportMetric(float64(r.wrote)/(n*108), "written/B")
			b.ReportMetric(float64(r.size)/1e6, "MB")
		})
	}
}

type restoreCost struct {
	took, used, all time.Duration
	wrote           uint64
	size            int64 // of the last one
}

func (r *restoreCost) restore(b *testing.B, bulk bool, piece int, changes [][]statestore.Change) {
	d, err := Open(Options{Dir: b.TempDir(), FS: vfs.Default})
	require.NoError(b, err)
	d.ingestMin = 0
	began, cpu := time.Now(), cpuTime()
	for n := range changes {
		ts, err := d.Open(taskN(n), []statestore.Spec{{Name: "rows"}})
		require.NoError(b, err)
		write := ts.Apply
		if bulk {
			write = ts.Ingest
		}
		rows := len(changes[n])
		for from, each := 0, piece/108; from < rows; from += each {
			to := min(rows, from+each)
			err := write(&statestore.Batch{Stores: []statestore.StoreBatch{{Changes: changes[n][from:to], Position: int64(to)}}})
			require.NoError(b, err)
		}
		require.NoError(b, ts.Close())
	}
	r.took += time.Since(began)
	r.used += cpuTime() - cpu
	settle(b, d)
	r.all += cpuTime() - cpu
	r.wrote += written(d)
	r.size = 0
	for n := range changes {
		size, err := d.DiskUsage(taskN(n))
		require.NoError(b, err)
		r.size += size
	}
	require.NoError(b, d.Close())
}
