package task

import (
	"encoding/binary"
	"hash/crc32"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// ofNewer makes a row of the retry store one of a version that comes after this one.
func (b *bed) ofNewer(key []byte) (row []byte) {
	was, found, err := b.stores.Reader(1).Get(key)
	require.NoError(b.t, err)
	require.True(b.t, found)
	body := append([]byte{9}, was.Value[1:len(was.Value)-4]...)
	table := crc32.MakeTable(crc32.Castagnoli)
	row = binary.BigEndian.AppendUint32(body, crc32.Update(crc32.Checksum(body, table), table, key))
	changes := []statestore.Change{{Key: key, Value: row, Timestamp: was.Timestamp}}
	require.NoError(b.t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: changes, Position: -1}}}))
	return row
}

func (b *bed) row(key []byte) (value []byte, found bool) {
	r, found, err := b.stores.Reader(1).Get(key)
	require.NoError(b.t, err)
	return append([]byte(nil), r.Value...), found
}

func parkedAt(offset int64) retry.Origin {
	return retry.Origin{Topic: "in", Partition: testID.Partition, Offset: offset}
}

func (b *bed) alarms() (n int) {
	for _, note := range b.owner.t.failure.notes {
		if note.Kind == NoteNewer {
			n++
		}
	}
	return n
}

// What a newer version has put aside stays as it is: an older program neither runs nor ends nor replaces it, and goes on with all others.
func TestRegressionEntryOfANewerVersionStaysParked(t *testing.T) {
	for _, part := range []string{"entry", "payload"} {
		for _, p := range []retry.Policy{retry.Parallel(steady, retry.ThenDeadLetter()), retry.KeyOrdered(steady, retry.ThenDeadLetter())} {
			t.Run(part+" "+p.Settings().Mode.String(), func(t *testing.T) {
				b := newBed(t, p)
				b.fails["x"], b.fails["y"] = 1, 1
				b.bring("a:x", "a:1", "b:y")
				b.commitNow()
				key := retry.AppendEntryKey(nil, parkedAt(0))
				if part == "payload" {
					key = retry.AppendPayloadKey(nil, parkedAt(0))
				}
				row := b.ofNewer(key)
				b.now = b.now.Add(time.Minute)
				b.crash()
				b.until(20)
				b.commitNow()
				require.NoError(t, b.owner.Err())
				require.Zero(t, b.letters())
				require.Equal(t, 1, b.stats().Newer)
				require.Zero(t, b.stats().Parked, "all others have been run")
				require.Equal(t, 1, b.ran["x"])
				require.Equal(t, 2, b.ran["y"])
				require.Equal(t, 1, b.ran["1"])
				kept, found := b.row(key)
				require.True(t, found)
				require.Equal(t, row, kept)
			})
		}
	}
}

// A record that the main path comes to again, as its offset was not committed, is done by its row of a newer version. It is not run beside it.
func TestRegressionEntryOfANewerVersionIsNotReplaced(t *testing.T) {
	for _, missing := range []bool{false, true} {
		b := newBed(t, retry.KeyOrdered(steady, retry.ThenDeadLetter()))
		b.fails["x"] = -1
		b.bring("a:x", "a:1")
		b.commitNow()
		b.committed = map[string]InputOffset{} // the crash came before the offsets
		entry, payload := retry.AppendEntryKey(nil, parkedAt(0)), retry.AppendPayloadKey(nil, parkedAt(0))
		row := b.ofNewer(entry)
		if missing {
			gone := []statestore.Change{{Key: payload}}
			require.NoError(t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: gone, Position: -1}}}))
		}
		b.start(b.cfg)
		require.Equal(t, 1, b.alarms())
		b.bring("a:x", "a:1", "a:2")
		b.until(20)
		b.commitNow()
		require.Equal(t, 1, b.ran["x"])
		require.Equal(t, 1, b.ran["2"], "its key is not known, and holds nothing back")
		require.Equal(t, int64(3), b.committed["in"].Offset)
		kept, found := b.row(entry)
		require.True(t, found)
		require.Equal(t, row, kept)
		_, found = b.row(payload)
		require.True(t, found)
		require.Equal(t, 1, b.stats().Newer)
	}
}

// The same where it is the second path of a gap that comes to it again.
func TestEntryOfANewerVersionInAGapIsNotReplaced(t *testing.T) {
	for _, missing := range []bool{false, true} {
		b := broken(t, steady)
		b.fails["70"] = -1
		b.feed(ofGap, log(70, 72))
		b.commitNow()
		entry, payload := retry.AppendEntryKey(nil, parkedAt(70)), retry.AppendPayloadKey(nil, parkedAt(70))
		row := b.ofNewer(entry)
		if missing {
			gone := []statestore.Change{{Key: payload}}
			require.NoError(t, b.stores.Apply(&statestore.Batch{Stores: []statestore.StoreBatch{{Store: 1, Changes: gone, Position: -1}}}))
		}
		breakOff(b) // the crash came before the offsets
		b.crash()
		require.NotNil(t, b.owner.t.gap(0))
		b.feed(ofGap, log(70, 120))
		b.until(20)
		b.commitNow()
		require.Equal(t, 1, b.ran["70"])
		require.Equal(t, int64(120), b.committed["in"].Offset)
		kept, found := b.row(entry)
		require.True(t, found)
		require.Equal(t, row, kept)
		_, found = b.row(payload)
		require.True(t, found)
		require.Equal(t, 1, b.stats().Newer)
	}
}
