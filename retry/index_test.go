package retry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func testEntry(offset int64, key string, due int64) Entry {
	return Entry{Origin: Origin{Topic: "t", Offset: offset}, Key: []byte(key), Due: due, Bytes: 10}
}

func TestTheHeadOfAKeyIsDueAndOthersFollow(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	require.False(t, x.Closed([]byte("a"), false))
	a1 := x.Park(testEntry(1, "a", 100))
	a2 := x.Park(testEntry(2, "a", 10))
	b := x.Park(testEntry(3, "b", 50))
	a3 := x.Park(testEntry(4, "a", 10))
	require.Equal(t, []int64{100, Follows, 50, Follows}, []int64{a1.Due, a2.Due, b.Due, a3.Due})
	require.True(t, x.Closed([]byte("a"), false))
	require.False(t, x.Closed([]byte("c"), false))
	require.False(t, x.Closed([]byte("a"), true), "no key is no gate")
	require.Equal(t, []*Item{a2, a3}, x.Followers(a1))
	require.Equal(t, 3, x.Depth([]byte("a")))

	require.Nil(t, x.Due(49))
	require.EqualValues(t, 50, x.NextDue())
	require.Same(t, b, x.Due(200), "it is due first")
	x.Start(b)
	require.Same(t, a1, x.Due(200))
	require.Equal(t, IndexStats{Parked: 4, Due: 1, Running: 1, Gates: 2, Deepest: 3, Bytes: 40, OldestDue: 100}, x.Stats(200))

	x.Start(a1)
	require.Nil(t, x.Due(200))
	require.Equal(t, Never, x.NextDue())
	a1.Due, a1.Attempt = 300, 2
	x.Again(a1)
	require.Nil(t, x.Due(299))
	require.Same(t, a1, x.Due(300))
	x.Start(a1)
	require.Same(t, a2, x.Remove(a1, 310))
	require.EqualValues(t, 310, a2.Due)
	require.Same(t, a2, x.Due(310))
	require.Nil(t, x.Remove(b, 310))
	require.False(t, x.Closed([]byte("b"), false))
	require.Nil(t, x.Remove(a3, 310), "no head")
	require.Nil(t, x.Remove(a2, 310))
	require.Nil(t, x.Remove(a2, 310), "a second time")
	require.Equal(t, IndexStats{OldestDue: Never}, x.Stats(400))
}

func TestEqualDueTimesRunBySeq(t *testing.T) {
	x := NewIndex(ModeParallel)
	for i := range int64(100) {
		x.Park(testEntry(i, "a", 7))
	}
	for i := range int64(100) {
		it := x.Due(7)
		require.Equal(t, i, it.Offset)
		require.Nil(t, x.Remove(it, 7))
	}
}

func TestARecordWithoutAKeyWaitsForNoOther(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	for i := range int64(3) {
		e := testEntry(i, "", 5)
		e.NullKey = true
		require.EqualValues(t, 5, x.Park(e).Due)
	}
	require.Equal(t, IndexStats{Parked: 3, Due: 3, Bytes: 30, OldestDue: 5}, x.Stats(5))
}

func TestWhatIsParkedTwiceIsOneEntry(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	x.Load(testEntry(1, "a", 5), true)
	it := x.Park(testEntry(1, "a", 9))
	require.Same(t, it, x.Park(testEntry(1, "a", 9)))
	require.Equal(t, IndexStats{Parked: 1, Due: 1, Gates: 1, Deepest: 1, Bytes: 10, OldestDue: 5}, x.Stats(5))
}

func TestAnInertEntryNeitherRunsNorClosesItsKey(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	e := testEntry(1, "a", 5)
	e.Seq = 7
	x.Load(e, true)
	require.Nil(t, x.Due(100))
	require.False(t, x.Closed([]byte("a"), false))
	require.Equal(t, 1, x.Inert())
	it, asleep := x.Find(e.Origin)
	require.True(t, asleep)
	x.Start(it)
	x.Again(it)
	require.Nil(t, x.Due(100), "not even if it is told to")

	require.False(t, x.Activate(it))
	require.False(t, x.Activate(it), "a second time")
	require.Zero(t, x.Inert())
	require.Same(t, it, x.Due(5))
	require.True(t, x.Closed([]byte("a"), false))
	require.EqualValues(t, 8, x.Park(testEntry(2, "b", 5)).Seq)
	_, asleep = x.Find(e.Origin)
	require.False(t, asleep)
	none, _ := x.Find(Origin{Topic: "t", Offset: 9})
	require.Nil(t, none)
	none, _ = x.Find(Origin{Topic: "u", Offset: 1})
	require.Nil(t, none)
}

// The put of offset 1 was lost in the crash and that of offset 2 was not: 1 fails again before 2 is found.
func TestWhatIsActivatedStandsBehindWhatWasReadBeforeIt(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	second := testEntry(2, "a", 5)
	second.Seq = 4
	x.Load(second, true)
	first := x.Park(testEntry(1, "a", 6))
	it, _ := x.Find(second.Origin)
	require.True(t, x.Activate(it))
	require.Greater(t, it.Seq, first.Seq)
	require.Equal(t, Follows, it.Due)
	require.Same(t, it, first.next)
}

func TestEntriesMayBeLoadedInAnyOrder(t *testing.T) {
	for _, order := range [][]uint64{{1, 2, 3}, {3, 2, 1}, {2, 1, 3}, {3, 1, 2}, {1, 3, 2}} {
		x := NewIndex(ModeKeyOrdered)
		for _, seq := range order {
			e := testEntry(int64(seq), "a", 50*int64(seq))
			e.Seq = seq
			if seq == 2 {
				e.Due = Follows
			}
			x.Load(e, false)
		}
		it := x.Due(50)
		require.EqualValues(t, 1, it.Seq, order)
		require.EqualValues(t, 50, it.Due)
		require.Equal(t, 1, x.Stats(1000).Due)
		for seq := range uint64(3) {
			require.Equal(t, seq+1, it.Seq)
			it = x.Remove(it, 60)
		}
		require.Nil(t, it)
	}
}

func TestAFollowerWhoseHeadIsDoneIsDueAtOnce(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	x.Load(testEntry(1, "a", Follows), false)
	require.NotNil(t, x.Due(0))
}

func TestAnInertEntryWhoseRecordIsGoneIsOverdue(t *testing.T) {
	x := NewIndex(ModeParallel)
	for _, offset := range []int64{30, 10, 20} {
		x.Load(testEntry(offset, "a", 5), true)
	}
	require.Nil(t, x.Overdue("t", 0, 10))
	require.Nil(t, x.Overdue("t", 1, 99))
	require.Nil(t, x.Overdue("u", 0, 99))
	it := x.Overdue("t", 0, 25)
	require.EqualValues(t, 10, it.Offset)
	x.Activate(it)
	it = x.Overdue("t", 0, 25)
	require.EqualValues(t, 20, it.Offset)
	x.Remove(it, 0)
	require.Nil(t, x.Overdue("t", 0, 25))
	x.Activate(x.Overdue("t", 0, 31))
	require.Nil(t, x.Overdue("t", 0, 31))
	require.Zero(t, x.Inert())
}

// modelItem is what the naive model knows of an entry.
type modelItem struct {
	Entry
	inert, running bool
}

// model is an Index that looks at everything each time.
type model struct {
	mode  Mode
	seq   uint64
	items []*modelItem // in the order of seq
}

func (m *model) line(of *modelItem) (line []*modelItem) {
	for _, it := range m.items {
		if !it.inert && (it == of || m.mode == ModeKeyOrdered && !of.NullKey && !it.NullKey && string(it.Key) == string(of.Key)) {
			line = append(line, it)
		}
	}
	return line
}

func (m *model) heads() (heads []*modelItem) {
	for _, it := range m.items {
		if !it.inert && m.line(it)[0] == it {
			heads = append(heads, it)
		}
	}
	return heads
}

func (m *model) due() *modelItem {
	var first *modelItem
	for _, it := range m.heads() {
		if !it.running && (first == nil || it.Due < first.Due) {
			first = it
		}
	}
	return first
}

func (m *model) stats(now int64) IndexStats {
	s := IndexStats{Parked: len(m.items), OldestDue: Never}
	gates := map[string]int{}
	for _, it := range m.items {
		s.Bytes += int64(it.Bytes)
		switch {
		case it.inert:
			s.Inert++
		case it.running:
			s.Running++
		}
		if m.mode == ModeKeyOrdered && !it.inert && !it.NullKey {
			gates[string(it.Key)]++
			s.Deepest = max(s.Deepest, gates[string(it.Key)])
		}
	}
	s.Gates = len(gates)
	for _, it := range m.heads() {
		if !it.running {
			s.OldestDue = min(s.OldestDue, it.Due)
			if it.Due <= now {
				s.Due++
			}
		}
	}
	return s
}

func (m *model) sort() {
	slices.SortFunc(m.items, func(a, b *modelItem) int { return int(a.Seq) - int(b.Seq) })
}

func TestTheIndexIsItsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{ModeKeyOrdered, ModeParallel}).Draw(t, "mode")
		x, m := NewIndex(mode), &model{mode: mode}
		draw := func(offset int64) Entry {
			e := testEntry(offset, fmt.Sprint(rapid.IntRange(0, 4).Draw(t, "key")), rapid.Int64Range(0, 20).Draw(t, "due"))
			if e.NullKey = string(e.Key) == "4"; e.NullKey {
				e.Key = nil
			}
			e.Bytes = rapid.IntRange(0, 9).Draw(t, "bytes")
			return e
		}
		next := int64(0)
		for _, seq := range rapid.Permutation([]uint64{1, 2, 3, 4, 5, 6, 7, 8}).Draw(t, "seqs") {
			e := draw(next)
			next++
			e.Seq = seq
			asleep := rapid.Bool().Draw(t, "inert")
			x.Load(e, asleep)
			m.items = append(m.items, &modelItem{Entry: e, inert: asleep})
			m.seq = 8
		}
		m.sort()
		pick := func(is func(*modelItem) bool) (*modelItem, *Item) {
			var from []*modelItem
			for _, it := range m.items {
				if is(it) {
					from = append(from, it)
				}
			}
			if len(from) == 0 {
				t.Skip("nothing to pick")
			}
			picked := rapid.SampledFrom(from).Draw(t, "picked")
			it, asleep := x.Find(picked.Origin)
			require.Equal(t, picked.inert, asleep)
			return picked, it
		}
		isHead := func(it *modelItem) bool { return !it.inert && m.line(it)[0] == it }
		t.Repeat(map[string]func(*rapid.T){
			"park": func(*rapid.T) {
				e := draw(next)
				next++
				x.Park(e)
				m.seq++
				e.Seq = m.seq
				m.items = append(m.items, &modelItem{Entry: e})
			},
			"start": func(*rapid.T) {
				picked, it := pick(func(it *modelItem) bool { return isHead(it) && !it.running })
				x.Start(it)
				picked.running = true
			},
			"again": func(*rapid.T) {
				picked, it := pick(isHead)
				it.Due = rapid.Int64Range(0, 20).Draw(t, "due")
				x.Again(it)
				picked.Due, picked.running = it.Due, false
			},
			"remove": func(*rapid.T) {
				picked, it := pick(func(*modelItem) bool { return true })
				line := []*modelItem(nil)
				if isHead(picked) {
					line = m.line(picked)[1:]
				}
				m.items = slices.DeleteFunc(m.items, func(it *modelItem) bool { return it == picked })
				after := x.Remove(it, 15)
				if len(line) == 0 {
					require.Nil(t, after)
					return
				}
				line[0].Due = 15
				require.Equal(t, line[0].Origin, after.Origin)
			},
			"activate": func(*rapid.T) {
				picked, it := pick(func(it *modelItem) bool { return it.inert })
				picked.inert = false
				line := m.line(picked)
				behind := line[len(line)-1] == picked
				require.Equal(t, !behind, x.Activate(it))
				if !behind {
					m.seq++
					picked.Seq = m.seq
					m.sort()
				}
			},
			"": func(t *rapid.T) {
				for _, now := range []int64{0, 10, 20} {
					require.Equal(t, m.stats(now), x.Stats(now))
				}
				if due := m.due(); due == nil {
					require.Nil(t, x.Due(20))
				} else {
					require.Equal(t, due.Origin, x.Due(20).Origin)
					require.Equal(t, due.Due, x.NextDue())
				}
				for _, it := range m.items {
					if it.inert {
						continue
					}
					line := m.line(it)
					at, _ := x.Find(it.Origin)
					require.Equal(t, line[0] == it, at.Head())
					require.Equal(t, mode == ModeKeyOrdered && !it.NullKey, x.Closed(it.Key, it.NullKey))
					require.Len(t, x.Followers(at), len(line)-1-slices.Index(line, it))
				}
			},
		})
	})
}
