package statestore

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// Keys whose hashes are equal or lie side by side are told apart, and removal leaves no gap in a run.
func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			tab     table
			a       arena
			entries = make([]entry, 1)
			model   = map[string]uint32{}
			hashes  = rapid.SampledFrom([]uint32{0, 1, 2, 14, 15, 16, 30, 31, ^uint32(0)})
			hashOf  = map[string]uint32{}
		)
		t.Repeat(map[string]func(*rapid.T){
			"insert": func(t *rapid.T) {
				key := fmt.Sprint(len(entries))
				e := entry{hash: hashes.Draw(t, "hash")}
				a.set(&e.key, []byte(key))
				entries = append(entries, e)
				model[key], hashOf[key] = uint32(len(entries)-1), e.hash
				tab.insert(e.hash, model[key])
			},
			"remove": func(t *rapid.T) {
				key := fmt.Sprint(rapid.IntRange(1, len(entries)).Draw(t, "key"))
				if model[key] == 0 {
					t.Skip("not there")
				}
				tab.remove(hashOf[key], model[key])
				delete(model, key)
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), tab.used)
				for id := 1; id < len(entries); id++ {
					key := fmt.Sprint(id)
					require.Equal(t, model[key], tab.find(entries, &a, hashOf[key], []byte(key)))
				}
			},
		})
	})
}

func TestHashDependsOnSeedAndAllBytes(t *testing.T) {
	seen := map[uint32]string{}
	for n := range 40 {
		for i := range n {
			key := make([]byte, n)
			key[i] = 1
			h := hashKey(7, key)
			require.Empty(t, seen[h])
			seen[h] = fmt.Sprintf("%x", key)
			require.NotEqual(t, h, hashKey(8, key))
		}
	}
	require.NotEqual(t, hashKey(7, []byte{0}), hashKey(7, []byte{0, 0}), "the length counts")
}

// Keys that differ in few places, as numbered ones do, must not crowd: the number of slots that are looked at is that of random hashes.
func TestProbesAreShort(t *testing.T) {
	const n = 10_000
	for _, format := range []string{"%d", "key-%d", "key-%012d", "%08d-suffix", "%x"} {
		var tab table
		keys := make([]uint32, n)
		for i := range keys {
			keys[i] = hashKey(7, fmt.Appendf(nil, format, i))
			tab.insert(keys[i], uint32(i+1))
		}
		mask, probes := uint32(len(tab.slots)-1), 0
		for i, h := range keys {
			at := h & mask
			for probes++; tab.slots[at] != uint64(h)<<32|uint64(i+1); probes++ {
				at = (at + 1) & mask
			}
		}
		require.Less(t, float64(probes)/n, 2.0, format) // 1.8 is expected at the fullest
	}
}
