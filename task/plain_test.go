package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// What passes without a second look would pass with one, and gets the same partition; and what it is for does pass.
func TestPlainRecords(t *testing.T) {
	const now = 1_000_000
	rapid.Check(t, func(t *rapid.T) {
		bound := func(name string) time.Duration {
			return rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Minute}).Draw(t, name)
		}
		limits := Limits{
			RecordBytes: rapid.IntRange(0, 40).Draw(t, "limit"), Before: bound("before"), After: bound("after"), Compacted: rapid.Bool().Draw(t, "compacted"),
		}
		task := &Task{now: now, cfg: Config{
			MaxRecordBytes: rapid.IntRange(1, 40).Draw(t, "most"), Limits: func(string) Limits { return limits },
			Partitions: func(string) int32 { return rapid.Int32Range(-1, 9).Draw(t, "partitions") },
		}, out: newOutbox(testID, 1), destByTopic: map[string]int{}}
		known := rapid.Int32Range(0, 9).Draw(t, "known")
		d := &task.out.dests[task.addDest(Dest{Topic: "out", Compacted: rapid.Bool().Draw(t, "changelog")}, known)]
		for range 3 {
			klen, vlen := rapid.IntRange(-1, 20).Draw(t, "key"), rapid.IntRange(-1, 20).Draw(t, "value")
			ts := rapid.SampledFrom([]int64{-1, 0, now - 60_001, now - 60_000, now - 1, now, now + 1, now + 2, now + 60_000, now + 60_001, 1 << 62}).Draw(t, "timestamp")
			b := rapid.SliceOfN(rapid.Byte(), max(klen, 0)+max(vlen, 0), -1).Draw(t, "bytes")[:max(klen, 0)+max(vlen, 0)]
			plain := d.plain.holds(klen, len(b), ts, now)
			var at int32
			if plain {
				at = d.plain.partition(b[:klen])
			}
			looked := d.partitions > 0
			want, err := task.check(d, -1, b, klen, vlen, ts, nil)
			if plain {
				require.NoError(t, err)
				require.Equal(t, want, at)
			} else {
				require.True(t, err != nil || klen < 0 || !looked, "all that is in order and has a key is plain once the partitions are known")
			}
		}
	})
}
