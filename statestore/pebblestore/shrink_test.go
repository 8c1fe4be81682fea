package pebblestore

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// Rows that compression makes smaller are compressed on their way in; those that it does not are spared it, and take no more room.
func TestTablesAreCompressedIfThatPays(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	random := func(int) []byte {
		b := make([]byte, 200)
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		return b
	}
	text := func(i int) []byte {
		return fmt.Appendf(nil, `{"customer":%d,"status":"open","currency":"EUR","total":%d}`, i*7919, i)
	}
	for _, c := range []struct {
		name  string
		value func(int) []byte
		want  *sstable.CompressionProfile
	}{
		{"random", random, sstable.NoCompression},
		{"text", text, sstable.SnappyCompression},
		{"counts", func(i int) []byte { return []byte{0, 0, 0, 0, 0, 0, byte(i >> 8), byte(i)} }, sstable.SnappyCompression},
		{"long and equal", func(int) []byte { return make([]byte, 100<<10) }, sstable.SnappyCompression},
		{"empty", func(int) []byte { return []byte{} }, sstable.SnappyCompression},
		{"deletions", func(int) []byte { return nil }, sstable.SnappyCompression},
		{"more text than random", func(i int) []byte {
			if i%4 == 0 {
				return random(i)
			}
			return append(text(i), text(i)...)
		}, sstable.SnappyCompression},
	} {
		t.Run(c.name, func(t *testing.T) {
			sb := statestore.StoreBatch{Position: 1}
			bytes := 0
			for i := range 3000 {
				if bytes > 2<<20 {
					break
				}
				change := statestore.Change{Key: fmt.Appendf(nil, "key %06d", i), Value: c.value(i), Timestamp: 1_800_000_000_000 + int64(i)}
				sb.Changes = append(sb.Changes, change)
				bytes += len(change.Key) + len(change.Value)
			}
			batch := &statestore.Batch{Stores: []statestore.StoreBatch{sb, {Store: 1, Position: 1}}}
			var s sampler
			require.Equal(t, c.want, s.choose(batch.Stores))

			d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20})
			require.NoError(t, err)
			d.ingestMin = 0
			ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}, {Name: "others"}})
			require.NoError(t, err)
			require.NoError(t, ts.Ingest(batch))
			usage, err := d.DiskUsage(oneTask)
			require.NoError(t, err)
			asWritten := int64(bytes + len(sb.Changes)*rowHeaderBytes)
			if c.want == sstable.NoCompression {
				require.InDelta(t, asWritten, usage, 0.1*float64(asWritten))
			} else {
				require.Less(t, usage, asWritten)
			}
			want := 0
			for _, change := range sb.Changes {
				row, found, err := ts.Reader(0).Get(change.Key)
				require.NoError(t, err)
				require.Equal(t, change.Value != nil, found)
				if found {
					require.Equal(t, string(change.Value), string(row.Value))
					want++
				}
			}
			require.Len(t, allRows(t, ts, 1), want+1)
			require.NoError(t, ts.Close())
			require.NoError(t, d.Close())
		})
	}
	require.Equal(t, sstable.SnappyCompression, new(sampler).choose(nil))
}
