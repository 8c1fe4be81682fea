package task

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// run encodes records the way a batch has them on the wire.
func run(base, time int64, fixed bool, records ...Record) Run {
	var b []byte
	zigzag := func(to []byte, v int64) []byte {
		u := uint64(v<<1) ^ uint64(v>>63)
		for ; u >= 0x80; u >>= 7 {
			to = append(to, byte(u)|0x80)
		}
		return append(to, byte(u))
	}
	bytes := func(to, v []byte) []byte {
		if v == nil {
			return zigzag(to, -1)
		}
		return append(zigzag(to, int64(len(v))), v...)
	}
	for _, r := range records {
		body := zigzag(zigzag([]byte{0}, r.Timestamp-time), r.Offset-base)
		body = zigzag(bytes(bytes(body, r.Key), r.Value), int64(len(r.Headers)))
		for _, h := range r.Headers {
			body = bytes(bytes(body, []byte(h.Key)), h.Value)
		}
		b = append(zigzag(b, int64(len(body))), body...)
	}
	return Run{Bytes: b, Count: len(records), Base: base, Time: time, Fixed: fixed}
}

// A reader gives what was written, in whatever pieces it is asked, from the offset on that it was told.
func TestReader(t *testing.T) {
	maybe := rapid.Custom(func(t *rapid.T) []byte {
		if n := rapid.SampledFrom([]int{-1, 0, 1, 60, 70, 9000}).Draw(t, "bytes"); n >= 0 {
			return make([]byte, n)
		}
		return nil
	})
	rapid.Check(t, func(t *rapid.T) {
		b := &Batch{From: rapid.Int64Range(0, 30).Draw(t, "from")}
		var want []Record
		offset := int64(0)
		for range rapid.IntRange(0, 4).Draw(t, "runs") {
			base, time, fixed := offset, rapid.Int64Range(0, 1<<40).Draw(t, "time"), rapid.Bool().Draw(t, "fixed")
			var rs []Record
			for range rapid.IntRange(0, 9).Draw(t, "records") {
				r := Record{Offset: offset, Timestamp: time + rapid.Int64Range(-200, 1<<33).Draw(t, "later"), Key: maybe.Draw(t, "key"), Value: maybe.Draw(t, "value")}
				for range rapid.IntRange(0, 2).Draw(t, "headers") {
					r.Headers = append(r.Headers, Header{Key: rapid.SampledFrom([]string{"", "a", "trace"}).Draw(t, "name"), Value: maybe.Draw(t, "header")})
				}
				offset += rapid.Int64Range(1, 3).Draw(t, "gap")
				rs = append(rs, r)
			}
			b.Runs = append(b.Runs, run(base, time, fixed, rs...))
			for _, r := range rs {
				if fixed {
					r.Timestamp = time
				}
				if r.Offset >= b.From {
					want = append(want, r)
				}
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "decoded already") {
			r := Record{Offset: offset, Key: []byte("k")}
			offset++
			b.Records = append(b.Records, r)
			if r.Offset >= b.From {
				want = append(want, r)
			}
		}
		var in Reader
		in.Reset(b, 0)
		var got []Record
		for more := true; more; {
			rs := make([]Record, rapid.IntRange(1, 5).Draw(t, "at once"))
			n := in.Fill(rs)
			more = n == len(rs)
			for _, r := range rs[:n] {
				r.Headers = slices.Clone(r.Headers)
				got = append(got, r)
			}
		}
		require.Equal(t, want, got)
		in.Reset(b, offset-1)
		var r Record
		require.Equal(t, len(want) > 0 && want[len(want)-1].Offset >= offset-1, in.Next(&r))
	})
}

func TestManyHeaderNamesDoNotPileUp(t *testing.T) {
	var in Reader
	for i := range 3 * maxReaderNames {
		require.Equal(t, string(rune(i+100)), in.name([]byte(string(rune(i+100)))))
	}
	require.LessOrEqual(t, len(in.names), maxReaderNames)
	long := make([]byte, 1<<20)
	require.Equal(t, string(long), in.name(long))
	require.NotContains(t, in.names, string(long), "a megabyte is not remembered a thousand times")
}
