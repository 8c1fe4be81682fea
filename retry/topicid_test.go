package retry

import (
	"encoding/hex"
	"testing"

	"github.com/stretchr/testify/require"
)

func originOf(id byte, offset int64) Origin {
	o := Origin{Topic: "t", Partition: 3, Offset: offset}
	if id > 0 {
		o.ID = TopicID{0: id, 15: 1} // a real one has bytes of all kinds, that of the mark and that of the end too
	}
	return o
}

func TestIDsThatAreNotKnownTellNothing(t *testing.T) {
	one, two := originOf(1, 0).ID, originOf(2, 0).ID
	require.True(t, one.Other(two))
	require.False(t, one.Other(one))
	require.False(t, one.Other(TopicID{}))
	require.False(t, TopicID{}.Other(one))
	require.False(t, TopicID{}.Other(TopicID{}))
	require.Equal(t, "AQAAAAAAAAAAAAAAAAAAAQ", one.String())
	require.Empty(t, TopicID{}.String())
}

// Keys lie in topics for ever: those of before there were ids are read, and written where an id is not known.
func TestKeysWithAndWithoutAnID(t *testing.T) {
	for _, c := range []struct {
		o   Origin
		key string
	}{
		{originOf(0, 5), "01" + "74" + "00" + "00000003" + "0000000000000005"},
		{originOf(1, 5), "01" + "74" + "01" + "01000000000000000000000000000001" + "00" + "00000003" + "0000000000000005"},
	} {
		key := AppendEntryKey(nil, c.o)
		require.Equal(t, c.key, hex.EncodeToString(key))
		got, payload, err := ParseKey(key)
		require.NoError(t, err)
		require.False(t, payload)
		require.Equal(t, c.o, got)
		got, payload, err = ParseKey(AppendPayloadKey(nil, c.o))
		require.NoError(t, err)
		require.True(t, payload)
		require.Equal(t, c.o, got)
	}
	for _, bad := range []string{
		"01" + "74" + "01" + "00000000000000000000000000000000" + "00" + "00000003" + "0000000000000005", // no id is written so
		"01" + "74" + "01" + "010000000000000000000000000001" + "00" + "00000003" + "0000000000000005",
		"01" + "74" + "01" + "0100000000000000000000000000000102" + "00" + "00000003" + "0000000000000005",
		"01" + "01" + "01000000000000000000000000000001" + "00" + "00000003" + "0000000000000005",
	} {
		key, err := hex.DecodeString(bad)
		require.NoError(t, err)
		o, _, err := ParseKey(key)
		require.ErrorIs(t, err, errKey, bad)
		require.Zero(t, o)
	}
}

// A row that lies under the key of a record of another topic is damaged.
func TestRowsBelongToTheTopicOfTheirKey(t *testing.T) {
	row := AppendEntry(nil, &Entry{Origin: originOf(1, 5), Key: []byte("k")})
	_, err := DecodeEntry(originOf(1, 5), row)
	require.NoError(t, err)
	_, err = DecodeEntry(originOf(2, 5), row)
	require.ErrorIs(t, err, ErrCorrupt)
}

func TestRecordsOfATopicThatWasMadeAnewAreOthers(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	old := x.Park(Entry{Origin: originOf(1, 5), Key: []byte("k"), Due: 10})
	it, _ := x.Find(originOf(2, 5))
	require.Nil(t, it)
	young := x.Park(Entry{Origin: originOf(2, 5), Key: []byte("k"), Due: 10})
	require.NotSame(t, old, young)
	require.Equal(t, 2, x.Len())
	require.Equal(t, Follows, young.Due, "it came later")
	require.Same(t, young, x.Remove(old, 20))
	it, _ = x.Find(originOf(2, 5))
	require.Same(t, young, it)
	it, _ = x.Find(originOf(1, 5))
	require.Nil(t, it)
}

// Where an id is not known the entry may be the record's; those that are inert are looked at first.
func TestFindWithoutAnID(t *testing.T) {
	x := NewIndex(ModeParallel)
	x.Load(Entry{Origin: originOf(1, 5)}, false)
	x.Load(Entry{Origin: originOf(2, 5)}, true)
	it, inert := x.Find(originOf(0, 5))
	require.True(t, inert)
	require.Equal(t, originOf(2, 5), it.Origin)
	it, inert = x.Find(originOf(1, 5))
	require.False(t, inert)
	require.Equal(t, originOf(1, 5), it.Origin)
	it, _ = x.Find(originOf(3, 5))
	require.Nil(t, it)

	x = NewIndex(ModeParallel)
	x.Load(Entry{Origin: originOf(0, 5)}, true)
	it, inert = x.Find(originOf(3, 5))
	require.True(t, inert)
	require.Equal(t, originOf(0, 5), it.Origin)
}

func TestOverdueOfAllThatAPartitionsNameStandsFor(t *testing.T) {
	x := NewIndex(ModeParallel)
	x.Load(Entry{Origin: originOf(0, 7)}, true)
	x.Load(Entry{Origin: originOf(1, 5)}, true)
	require.Nil(t, x.Overdue("t", 3, 5))
	first := x.Overdue("t", 3, 6)
	require.Equal(t, originOf(1, 5), first.Origin)
	x.Activate(first)
	require.Nil(t, x.Overdue("t", 3, 6))
	require.Equal(t, originOf(0, 7), x.Overdue("t", 3, 8).Origin)
}

func TestRename(t *testing.T) {
	x := NewIndex(ModeKeyOrdered)
	it := x.Park(Entry{Origin: originOf(0, 5), Key: []byte("k"), Due: 10, Bytes: 3})
	x.Rename(it, originOf(9, 5))
	require.Equal(t, originOf(9, 5), it.Origin)
	other := x.Park(Entry{Origin: originOf(0, 5), Key: []byte("k"), Due: 10, Bytes: 4})
	require.NotSame(t, it, other)
	require.Equal(t, Follows, other.Due)
	x.Rename(other, originOf(9, 5))
	require.Equal(t, originOf(0, 5), other.Origin, "that is somebody else's")
	require.Same(t, other, x.Remove(it, 20))
	x.Remove(other, 20)
	require.Equal(t, IndexStats{OldestDue: Never}, x.Stats(30))
}

func TestMetadataSaysWhichTopicItIsOf(t *testing.T) {
	m := NewMetadata(7)
	m.Running, m.Topic = true, originOf(1, 0).ID
	text, fits := m.Encode(7)
	require.True(t, fits)
	got, err := ParseMetadata(text, 7, -1)
	require.NoError(t, err)
	require.Equal(t, m, got)
	require.Contains(t, m.String(), "topic AQAAAAAAAAAAAAAAAAAAAQ")

	m.Running, m.StreamTime = false, 5
	text, _ = m.Encode(7)
	require.False(t, Ours(text), "a clean end has Kafka Streams' form")

	plain := NewMetadata(7)
	plain.Running = true
	without, _ := plain.Encode(7)
	require.Less(t, len(without), 12, "who knows no id says nothing of it")
}
