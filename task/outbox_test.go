package task

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestEffectsAreHandedOverInOrderAndRecycled(t *testing.T) {
	o := newOutbox(testID, 1)
	o.dests = []destination{{Dest: Dest{Topic: "x"}, partitions: 4}}
	put := func(p int32, s string) {
		o.add(&o.dests[0], p, o.place(append(o.tail(), s...), -1, len(s), 0, nil), 0)
	}
	require.Nil(t, o.take())
	o.cut()
	require.Zero(t, o.seq, "empty effects are not handed over")
	put(0, "a")
	put(3, "b")
	put(0, "c")
	o.cut()
	put(1, "d")
	o.cut()
	first, second := o.take(), o.take()
	require.EqualValues(t, 1, first.Seq)
	require.EqualValues(t, 2, second.Seq)
	require.Len(t, first.Groups, 2)
	require.Equal(t, "c", string(first.Groups[0].Record(1).Value))
	require.Equal(t, first.Bytes+second.Bytes, o.pending())

	o.acked(9) // never cut
	o.acked(0)
	require.Equal(t, first.Bytes+second.Bytes, o.pending())
	o.acked(2) // of both
	o.acked(2)
	o.acked(1)
	require.Zero(t, o.pending())
	require.Empty(t, o.inflight)
	put(2, "e")
	require.Same(t, first, o.free[0])
	o.cut()
	require.Same(t, second, o.active, "memory is used again")
	o.acked(3)
	o.trim()
	o.trim()
	require.Empty(t, o.free, "what the traffic does not need is given up")
}

func TestAHugeRecordIsNotHeldOnTo(t *testing.T) {
	o := newOutbox(testID, 1)
	o.dests = []destination{{Dest: Dest{Topic: "x"}, partitions: 1}}
	o.add(&o.dests[0], 0, o.place(make([]byte, 2*chunkBytes), -1, 2*chunkBytes, 0, nil), 0)
	o.cut()
	e := o.take()
	o.acked(1)
	for _, c := range e.arena[:cap(e.arena)] {
		require.LessOrEqual(t, cap(c), chunkBytes)
	}
}

func TestTheArenaKeepsWhatItWasGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := newOutbox(testID, 1)
		o.dests = []destination{{Dest: Dest{Topic: "x"}, partitions: 3}, {Dest: Dest{Topic: "y"}, partitions: 3}}
		type sent struct {
			to TopicPartition
			v  []byte
		}
		var kept []sent
		n := 0
		for range rapid.IntRange(1, 30).Draw(t, "units") {
			var m effectsMark
			o.active.mark(&m)
			o.journal = o.journal[:0]
			before := len(kept)
			for range rapid.IntRange(0, 5).Draw(t, "records") {
				n++
				v := bytes.Repeat([]byte{byte(n)}, rapid.SampledFrom([]int{0, 1, 40, 3000, 70000}).Draw(t, "size"))
				b := append(o.tail(), v...)
				if rapid.Bool().Draw(t, "from elsewhere") {
					b = append([]byte(nil), v...)
				}
				o.learn(len(b))
				d, p := rapid.IntRange(0, 1).Draw(t, "dest"), rapid.Int32Range(0, 2).Draw(t, "partition")
				o.add(&o.dests[d], p, o.place(b, -1, len(b), 0, []Header{{"h", v}}), 0)
				kept = append(kept, sent{TopicPartition{o.dests[d].Topic, p}, v})
			}
			if rapid.Bool().Draw(t, "undo") {
				o.undo(&m)
				kept = kept[:before]
			}
		}
		require.Len(t, o.active.headers, len(kept), "those of undone units are gone")
		for _, c := range o.active.arena[min(o.active.chunk+1, len(o.active.arena)):] {
			require.Empty(t, c)
		}
		bytesSent, at := 0, map[TopicPartition]int{}
		groups := map[TopicPartition]*Group{}
		for i := range o.active.Groups {
			g := &o.active.Groups[i]
			require.NotEmpty(t, g.Refs)
			require.NotContains(t, groups, g.To)
			groups[g.To] = g
			bytesSent += g.Bytes
		}
		require.Equal(t, bytesSent, o.active.Bytes)
		for _, s := range kept {
			r := groups[s.to].Record(at[s.to])
			at[s.to]++
			require.True(t, bytes.Equal(s.v, r.Value) && bytes.Equal(s.v, r.Headers[0].Value))
		}
		for to, g := range groups {
			require.Len(t, g.Refs, at[to])
		}
	})
}
