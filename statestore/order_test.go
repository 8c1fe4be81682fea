package statestore

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// sortedByModel is what Order.Sort promises, the plain way.
func sortedByModel(changes []Change) []uint32 {
	last := map[string]uint32{}
	for i := range changes {
		last[string(changes[i].Key)] = uint32(i)
	}
	out := []uint32{}
	for _, n := range last {
		out = append(out, n)
	}
	slices.SortFunc(out, func(x, y uint32) int { return bytes.Compare(changes[x].Key, changes[y].Key) })
	return out
}

func changesOf(keys ...string) []Change {
	out := make([]Change, len(keys))
	for i, k := range keys {
		out[i].Key = []byte(k)
	}
	return out
}

// Keys of few letters, zeros among them, are often equal, or begin or nearly equal each other.
func TestOrderModel(t *testing.T) {
	alphabet := rapid.SampledFrom([]byte{0, 1, 'a', 0xff})
	var o Order
	rapid.Check(t, func(t *rapid.T) {
		begin := rapid.SampledFrom([]string{"", "a", "common-beginning-"}).Draw(t, "begin")
		keys := rapid.SliceOfN(rapid.SliceOfN(alphabet, 0, 20), 0, 60).Draw(t, "keys")
		// Enough of them that the bytes are counted.
		times := rapid.SampledFrom([]int{1, 1, 20}).Draw(t, "times")
		var changes []Change
		for i := range times {
			for _, k := range keys {
				key := append([]byte(begin), k...)
				if i > 0 {
					key = append(key, byte(i), byte(len(k)))
				}
				changes = append(changes, Change{Key: key})
			}
		}
		require.Equal(t, sortedByModel(changes), append([]uint32{}, o.Sort(changes)...))
	})
}

func TestOrderOfManyKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		name string
		key  func(i int) string
	}{
		{"numbers", func(int) string { return fmt.Sprintf("k%07d", rnd.IntN(5000)) }},
		{"numbers of different lengths", func(int) string { return fmt.Sprint(rnd.IntN(5000)) }},
		{"long after a long beginning", func(int) string { return fmt.Sprintf("tenant-0001/user-%020d/x", rnd.IntN(5000)) }},
		{"two beginnings", func(i int) string {
			return fmt.Sprintf("%s%020d", []string{"aaaaaaaaaaaa", "aaaaaaaabbbb"}[i%2], rnd.IntN(5000))
		}},
		{"few keys", func(i int) string { return fmt.Sprintf("key %d", i%3) }},
		{"one key", func(int) string { return "k" }},
		{"the empty key and zeros", func(i int) string { return string(make([]byte, i%20)) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			keys := make([]string, 20_000)
			for i := range keys {
				keys[i] = c.key(i)
			}
			changes := changesOf(keys...)
			var o Order
			require.Equal(t, sortedByModel(changes), o.Sort(changes))
		})
	}
}

func TestOrderOfNothing(t *testing.T) {
	var o Order
	require.Empty(t, o.Sort(nil))
	require.Equal(t, []uint32{1}, o.Sort(changesOf("a", "a")))
}

func FuzzOrder(f *testing.F) {
	f.Add([]byte("a,b,a,\x00,\x00\x00,,common beginning 1,common beginning 2"), 3)
	f.Fuzz(func(t *testing.T, data []byte, times int) {
		var changes []Change
		for i := range max(1, min(times, 100)) {
			for _, k := range bytes.Split(data, []byte(",")) {
				changes = append(changes, Change{Key: append(slices.Clone(k), make([]byte, i%3)...)})
			}
		}
		var o Order
		require.Equal(t, sortedByModel(changes), append([]uint32{}, o.Sort(changes)...))
	})
}

func TestOrderAllocatesNothingOnceItHasGrown(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	keys := make([]string, 5000)
	for i := range keys {
		keys[i] = fmt.Sprintf("common-%d-%016x", i%7, rnd.Uint64()&0xffff)
	}
	changes := changesOf(keys...)
	var o Order
	require.Zero(t, testing.AllocsPerRun(10, func() { o.Sort(changes) }))
}

// BenchmarkOrder is per change, beside sorting by comparing keys.
func BenchmarkOrder(b *testing.B) {
	const n = 250_000
	rnd := rand.New(rand.NewPCG(1, 2))
	for _, format := range []string{"k%07d", "customer-%016x", "%08x-%[1]d-uuid-like-long-key"} {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = fmt.Sprintf(format, rnd.IntN(8*n))
		}
		changes := changesOf(keys...)
		var o Order
		b.Run(format+"/order", func(b *testing.B) {
			for b.Loop() {
				o.Sort(changes)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/change")
		})
		b.Run(format+"/compare", func(b *testing.B) {
			at := make([]uint32, n)
			for b.Loop() {
				for i := range at {
					at[i] = uint32(i)
				}
				slices.SortStableFunc(at, func(x, y uint32) int { return bytes.Compare(changes[x].Key, changes[y].Key) })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/change")
		})
	}
}
