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

// BenchmarkRestore writes 1,000,000 rows of new keys in pieces of a size in bytes, as a restore does: cpu-us/row is of the whole process and
// until nothing is left to compact, us/row until the last piece is in.
func BenchmarkRestore(b *testing.B) {
	const rows = 1_000_000
	rng := rand.New(rand.NewPCG(1, 1))
	changes := make([]statestore.Change, rows)
	for i := range changes {
		changes[i] = statestore.Change{Key: benchKey(i), Value: halfRandom(rng, 100), Timestamp: int64(i)}
	}
	for _, bulk := range []bool{true, false} {
		for _, piece := range []int{256 << 10, 1 << 20, 4 << 20, 32 << 20} {
			if !bulk && piece > 4<<20 {
				continue
			}
			b.Run(fmt.Sprintf("bulk=%v/%dKiB", bulk, piece>>10), func(b *testing.B) {
				var used, took time.Duration
				var size, wrote uint64
				n := 0
				for b.Loop() {
					d, err := Open(Options{Dir: b.TempDir(), FS: vfs.Default})
					require.NoError(b, err)
					d.ingestMin = 0
					ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
					require.NoError(b, err)
					write := ts.Apply
					if bulk {
						write = ts.Ingest
					}
					began, cpu := time.Now(), cpuTime()
					for from, each := 0, piece/108; from < rows; from += each {
						to := min(rows, from+each)
						if err := write(&statestore.Batch{Stores: []statestore.StoreBatch{{Changes: changes[from:to], Position: int64(to)}}}); err != nil {
							b.Fatal(err)
						}
					}
					took += time.Since(began)
					settle(b, d)
					used += cpuTime() - cpu
					n += rows
					wrote += written(d)
					usage, err := d.DiskUsage(oneTask)
					require.NoError(b, err)
					size = uint64(usage)
					require.NoError(b, ts.Close())
					require.NoError(b, d.Close())
				}
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(float64(used.Nanoseconds())/float64(n)/1e3, "cpu-us/row")
				b.ReportMetric(float64(took.Nanoseconds())/float64(n)/1e3, "us/row")
				b.ReportMetric(float64(wrote)/float64(n*108), "written/B")
				b.ReportMetric(float64(size)/1e6, "MB")
			})
		}
	}
}
