package pebblestore

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func TestComparer(t *testing.T) {
	require.Equal(t, "understudy.1", comparer.Name, "the name is in databases for ever")
	var prefixes [][]byte
	for _, task := range []statestore.TaskID{{Subtopology: 0, Partition: 0}, {Subtopology: 1, Partition: 256}} {
		for _, key := range []string{"", "\x00", "\x00\x01", "a", "a\x00", "ab", "\xff", "\xff\xff"} {
			prefixes = append(prefixes, statestore.AppendKey(statestore.AppendStorePrefix(nil, task, 1), []byte(key)))
		}
	}
	var suffixes [][]byte
	for _, at := range []int64{-1, 0, 255, 256} {
		suffixes = append(suffixes, statestore.AppendTime(nil, at, 0))
	}
	prefixes = append(prefixes, statestore.AppendTaskPrefix(nil, oneTask), statestore.AppendStorePrefix(nil, oneTask, 1))
	suffixes = append(suffixes, nil)
	// pebble.CheckComparer asks for more than we need: that a prefix without its first bytes is a prefix, for tables with synthetic ones.
	for _, ap := range prefixes {
		for _, as := range suffixes {
			if len(ap) <= 12 && as != nil {
				continue // nothing follows a bare prefix
			}
			a := slices.Concat(ap, as)
			require.Equal(t, len(ap), comparer.Split(a), "%x", a)
			for _, bp := range prefixes {
				for _, bs := range suffixes {
					if len(bp) <= 12 && bs != nil {
						continue
					}
					b := slices.Concat(bp, bs)
					want := bytes.Compare(ap, bp)
					if want == 0 {
						want = comparer.ComparePointSuffixes(as, bs)
					}
					require.Equal(t, want, comparer.Compare(a, b), "%x %x", a, b)
				}
			}
		}
	}
}

func TestNextPrefix(t *testing.T) {
	task := statestore.AppendTaskPrefix(nil, oneTask)
	store := statestore.AppendStorePrefix(nil, oneTask, 1)
	key := statestore.AppendKey(store, []byte("a"))
	for _, p := range [][]byte{{}, task, store, key} {
		next := nextPrefix(nil, p)
		require.Equal(t, len(next), comparer.Split(next), "%x", p)
		require.Positive(t, comparer.Compare(next, p))
	}
	require.Positive(t, comparer.Compare(nextPrefix(nil, key), statestore.AppendTime(key, 1<<62, 1<<31)))
	require.Negative(t, comparer.Compare(nextPrefix(nil, key), statestore.AppendKey(store, []byte("a\x00"))))
}
