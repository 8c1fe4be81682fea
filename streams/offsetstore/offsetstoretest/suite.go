// Package offsetstoretest checks that an offset store does what a consumer relies on. Whoever writes one runs it in a test:
//
//	func TestStore(t *testing.T) {
//		offsetstoretest.Run(t, func(t *testing.T) func() streams.OffsetStore {
//			db := open(t)
//			return func() streams.OffsetStore { return NewStore(db) }
//		})
//	}
package offsetstoretest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/offsetstore"
)

// Run checks a store. For each case fresh is called once, with an empty store in mind; what it returns opens that store, and opens it again as
// after a restart of the process, the one before being in use no more.
func Run(t *testing.T, fresh func(t *testing.T) (open func() streams.OffsetStore)) {
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { c.check(&bed{t: t, open: fresh(t)}) })
	}
}

// bed is the store of one case.
type bed struct {
	t     *testing.T
	open  func() streams.OffsetStore
	store streams.OffsetStore
}

type offsets = map[streams.TopicPartition]int64

func tp(topic string, partition int32) streams.TopicPartition {
	return streams.TopicPartition{Topic: topic, Partition: partition}
}

func (b *bed) restart() { b.store = b.open() }

func (b *bed) save(group string, generation int32, o offsets) {
	b.t.Helper()
	require.NoError(b.t, b.store.Save(b.t.Context(), group, generation, o))
}

func (b *bed) fenced(group string, generation int32, o offsets) {
	b.t.Helper()
	err := b.store.Save(b.t.Context(), group, generation, o)
	require.ErrorIs(b.t, err, offsetstore.ErrFenced)
	require.ErrorContains(b.t, err, group)
}

// holds loads the partitions, which lifts their fences.
func (b *bed) holds(group string, want offsets, parts ...streams.TopicPartition) {
	b.t.Helper()
	have, err := b.store.Load(b.t.Context(), group, parts)
	require.NoError(b.t, err)
	if len(want) == 0 {
		require.Empty(b.t, have)
		return
	}
	require.Equal(b.t, want, have)
}

var cases = []struct {
	name  string
	check func(b *bed)
}{
	{"what was never saved is absent", func(b *bed) {
		b.restart()
		b.holds("g", nil, tp("a", 0), tp("a", 1))
		b.holds("g", nil)
	}},
	{"what is saved is there, zero too, also after a restart", func(b *bed) {
		b.restart()
		saved := offsets{tp("a", 0): 0, tp("a", 1): 7, tp("b", 1): 1<<62 + 3}
		b.save("g", 1, saved)
		b.holds("g", saved, tp("a", 0), tp("a", 1), tp("b", 1), tp("b", 0))
		b.restart()
		b.holds("g", saved, tp("a", 0), tp("a", 1), tp("b", 1), tp("b", 0))
		b.holds("g", offsets{tp("a", 1): 7}, tp("a", 1))
	}},
	{"a save leaves the other partitions as they are", func(b *bed) {
		b.restart()
		b.save("g", 1, offsets{tp("a", 0): 5, tp("a", 1): 6})
		b.save("g", 1, offsets{tp("a", 1): 9})
		b.save("g", 1, offsets{})
		b.restart()
		b.holds("g", offsets{tp("a", 0): 5, tp("a", 1): 9}, tp("a", 0), tp("a", 1))
	}},
	{"groups and topics are apart, whatever their names", func(b *bed) {
		b.restart()
		names := []string{"g", "gg", "g\x00", "g g", "\"", "", "世界", "a\nb", "%d", "G", "\xff"}
		at := int64(0)
		for _, group := range names {
			for _, topic := range []string{"a", "aa", "a.b"} {
				at++
				b.save(group, 1, offsets{tp(topic, 0): at})
			}
		}
		b.restart()
		at = 0
		for _, group := range names {
			b.holds(group, offsets{tp("a", 0): at + 1, tp("aa", 0): at + 2, tp("a.b", 0): at + 3}, tp("a", 0), tp("aa", 0), tp("a.b", 0))
			at += 3
		}
	}},
	{"an owner may go back", func(b *bed) {
		b.restart()
		b.save("g", 3, offsets{tp("a", 0): 50})
		b.save("g", 3, offsets{tp("a", 0): 20})
		b.holds("g", offsets{tp("a", 0): 20}, tp("a", 0))
	}},
	{"an older generation is refused, with all that it saves", func(b *bed) {
		b.restart()
		b.save("g", 3, offsets{tp("a", 0): 5, tp("a", 1): 5})
		b.save("g", 4, offsets{tp("a", 0): 10})
		b.fenced("g", 3, offsets{tp("a", 0): 7, tp("a", 1): 7, tp("a", 2): 7})
		b.save("g", 3, offsets{tp("a", 1): 6})
		b.save("other", 1, offsets{tp("a", 0): 1})
		b.restart()
		b.fenced("g", 3, offsets{tp("a", 0): 11})
		b.save("g", 4, offsets{tp("a", 0): 12})
		b.holds("g", offsets{tp("a", 0): 12, tp("a", 1): 6}, tp("a", 0), tp("a", 1), tp("a", 2))
	}},
	{"whoever loads may save: a broker that has forgotten the group counts from 1 again", func(b *bed) {
		b.restart()
		b.save("g", 57, offsets{tp("a", 0): 10, tp("a", 1): 10})
		b.restart()
		b.holds("g", offsets{tp("a", 0): 10}, tp("a", 0))
		b.save("g", 1, offsets{tp("a", 0): 11})
		b.save("g", 2, offsets{tp("a", 0): 12})
		b.fenced("g", 1, offsets{tp("a", 0): 11})
		b.fenced("g", 1, offsets{tp("a", 1): 11}) // that one was not loaded
	}},
	{"a consumer without a group is not fenced and fences nobody", func(b *bed) {
		b.restart()
		b.save("g", 5, offsets{tp("a", 0): 1})
		b.save("g", -1, offsets{tp("a", 0): 2})
		b.save("g", -7, offsets{tp("a", 0): 3})
		b.save("g", 0, offsets{tp("a", 0): 4})
		b.holds("g", offsets{tp("a", 0): 4}, tp("a", 0))
	}},
	{"what is no offset is refused", func(b *bed) {
		b.restart()
		b.save("g", 1, offsets{tp("a", 0): 1})
		for _, bad := range []offsets{{tp("a", 0): -1}, {tp("a", -1): 1}, {tp("", 0): 1}} {
			bad[tp("a", 1)] = 2
			require.Error(b.t, b.store.Save(b.t.Context(), "g", 1, bad))
		}
		b.holds("g", offsets{tp("a", 0): 1}, tp("a", 0), tp("a", 1))
	}},
	{"a context that has ended saves nothing", func(b *bed) {
		b.restart()
		b.save("g", 1, offsets{tp("a", 0): 1})
		ctx, cancel := context.WithCancel(b.t.Context())
		cancel()
		require.ErrorIs(b.t, b.store.Save(ctx, "g", 1, offsets{tp("a", 0): 2}), context.Canceled)
		_, err := b.store.Load(ctx, "g", []streams.TopicPartition{tp("a", 0)})
		require.ErrorIs(b.t, err, context.Canceled)
		b.holds("g", offsets{tp("a", 0): 1}, tp("a", 0))
	}},
	{"maps stay their owner's", func(b *bed) {
		b.restart()
		saved := offsets{tp("a", 0): 1}
		b.save("g", 1, saved)
		saved[tp("a", 0)] = 9
		have, err := b.store.Load(b.t.Context(), "g", []streams.TopicPartition{tp("a", 0)})
		require.NoError(b.t, err)
		have[tp("a", 0)] = 9
		b.holds("g", offsets{tp("a", 0): 1}, tp("a", 0))
	}},
	{"many partitions", func(b *bed) {
		b.restart()
		saved := offsets{}
		var parts []streams.TopicPartition
		for i := range int32(2000) {
			p := tp(fmt.Sprintf("topic-%d", i%7), i)
			parts = append(parts, p)
			saved[p] = int64(i) * 1000
		}
		b.save("g", 1, saved)
		b.restart()
		b.holds("g", saved, parts...)
	}},
	{"consumers at the same time", func(b *bed) {
		b.restart()
		var all sync.WaitGroup
		for p := range int32(4) {
			all.Go(func() {
				for i := range int64(20) {
					if err := b.store.Save(b.t.Context(), "g", 1, offsets{tp("a", p): i}); err != nil {
						b.t.Error(err)
					}
				}
			})
		}
		all.Wait()
		b.restart()
		b.holds("g", offsets{tp("a", 0): 19, tp("a", 1): 19, tp("a", 2): 19, tp("a", 3): 19}, tp("a", 0), tp("a", 1), tp("a", 2), tp("a", 3))
	}},
}
