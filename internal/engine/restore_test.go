package engine

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// restoring takes a task with a store to where the bounds of its changelog are known.
func restoring(t *testing.T, change func(*Config), position, first, end int64) *world {
	w := openingWorld(t, change, id10)
	f := latest[FetchOffsets](w)
	w.stores(id10, position)
	w.committedAt(100, f)
	l := latest[ListOffsets](w)
	require.Equal(t, []task.TopicPartition{log0}, l.Parts)
	w.listed(l, first, end)
	return w
}

func (w *world) source() FetchSource {
	return FetchSource{TopicPartition: log0, Task: id10, Epoch: w.epoch(id10), Index: 0}
}

// changelog makes a batch with a record at each offset, up to next. Each weighs 100 bytes.
func changelog(next int64, offsets ...int64) *task.Batch {
	b := &task.Batch{Next: next, Bytes: 100 * len(offsets)}
	for _, o := range offsets {
		b.Records = append(b.Records, task.Record{Offset: o, Key: []byte{byte(o)}, Value: []byte("v"), Timestamp: o})
	}
	return b
}

func keys(b *statestore.Batch) []int {
	var out []int
	for _, c := range b.Stores[0].Changes {
		out = append(out, int(c.Key[0]))
	}
	return out
}

func TestRestoreOfNothing(t *testing.T) {
	cases := []struct {
		name                 string
		position, first, end int64
	}{
		{"an empty changelog", statestore.NoPosition, 0, 0},
		{"an emptied changelog", statestore.NoPosition, 7, 7},
		{"a store that has it all", 9, 3, 9},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := restoring(t, nil, c.position, c.first, c.end)
			require.Equal(t, []int64{100}, only[StartTask](w).Positions)
			require.Empty(t, acted[Apply](w))
			require.Empty(t, w.notices(NoticeRestoreBegin))
			require.Equal(t, []int64{c.end}, w.e.lives[id10].ends, "where the next own record goes")
		})
	}
}

func TestRestoreReadsFromThePosition(t *testing.T) {
	w := restoring(t, nil, 4, 2, 8)
	require.Equal(t, "restoring", w.e.lives[id10].state.String())
	w.metadata()
	add := only[Fetch](w)
	require.Equal(t, Restore, add.Purpose)
	require.Equal(t, FetchAdd{Source: w.source(), Offset: 4, End: 8, LeaderEpoch: 5, Bound: 8 << 20}, add.Event)

	w.step(Restored{Source: w.source(), Batch: changelog(6, 4, 5)})
	require.Empty(t, acted[Apply](w), "it waits for more: bulk writes are large")
	w.step(Restored{Source: w.source(), Batch: changelog(8, 6, 7)})
	a := only[Apply](w)
	require.True(t, a.Bulk)
	require.Equal(t, []int{4, 5, 6, 7}, keys(a.Batch))
	require.Equal(t, int64(8), a.Batch.Stores[0].Position)
	require.Empty(t, ever[StartTask](w))
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []int64{100}, only[StartTask](w).Positions)
	require.Equal(t, FetchRemove{Source: w.source()}, acted[Fetch](w)[1].Event)
	n := w.notices(NoticeRestoreEnd)
	require.Len(t, n, 1)
	require.Equal(t, int64(4), n[0].Records)
}

func TestRestoreEndsOnThePositionNotOnTheLastRecord(t *testing.T) {
	cases := []struct {
		name  string
		batch *task.Batch
		keys  []int
	}{
		{"the last offset is a transaction marker", changelog(8, 0, 6), []int{0, 6}},
		{"compaction has left nothing at the end", changelog(8, 1), []int{1}},
		{"nothing is left at all", changelog(8), nil},
		{"the broker sends records beyond the end", changelog(12, 0, 7, 8, 11), []int{0, 7}},
		{"a record without a key", &task.Batch{Next: 8, Records: []task.Record{{Offset: 0}, {Offset: 1, Key: []byte{1}}}}, []int{1}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := restoring(t, nil, statestore.NoPosition, 0, 8)
			w.metadata()
			w.step(Restored{Source: w.source(), Batch: c.batch})
			a := only[Apply](w)
			require.Equal(t, c.keys, keys(a.Batch))
			require.Equal(t, int64(8), a.Batch.Stores[0].Position)
			w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
			require.Len(t, acted[StartTask](w), 1)
		})
	}
}

func TestRestoreWipesWhatDoesNotFit(t *testing.T) {
	cases := []struct {
		name                 string
		position, first, end int64
	}{
		{"a store ahead of the log", 9, 0, 8},
		{"a store behind the start of the log", 2, 3, 8},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := restoring(t, nil, c.position, c.first, c.end)
			w.metadata()
			require.Empty(t, acted[Fetch](w), "first it is emptied")
			require.Equal(t, Wipe{Task: id10, Epoch: w.epoch(id10), Store: 0}, ever[Wipe](w)[0])
			n := w.notices(NoticeWiped)
			require.Len(t, n, 1)
			require.Equal(t, c.position, n[0].Position)
			w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
			require.Equal(t, c.first, only[Fetch](w).Event.(FetchAdd).Offset)
			w.step(Restored{Source: w.source(), Batch: changelog(8, 5)})
			w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
			require.Len(t, acted[StartTask](w), 1)
		})
	}
}

func TestRestoreInPieces(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 200 }, statestore.NoPosition, 0, 8)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(2, 0, 1)})
	require.Equal(t, []int{0, 1}, keys(only[Apply](w).Batch))
	w.step(Restored{Source: w.source(), Batch: changelog(4, 2, 3)})
	require.Empty(t, acted[Apply](w), "one write at a time")
	w.step(Restored{Source: w.source(), Batch: changelog(5, 4)})
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, FetchConsumed{Source: w.source(), Bytes: 200}, acted[Fetch](w)[0].Event)
	require.Equal(t, []int{2, 3, 4}, keys(only[Apply](w).Batch))
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, FetchConsumed{Source: w.source(), Bytes: 300}, acted[Fetch](w)[0].Event)
	w.step(Restored{Source: w.source(), Batch: changelog(8)})
	require.Equal(t, int64(8), only[Apply](w).Batch.Stores[0].Position, "the end of the log, though small, is written at once")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Len(t, acted[StartTask](w), 1)
}

func TestRestoreOfALogThatIsCutMeanwhile(t *testing.T) {
	cases := []struct {
		name    string
		read    bool // something was read before
		wipes   bool
		offset  int64
		first   int64
		records int
	}{
		{"nothing was read yet: it was empty and stays so", false, false, 6, 6, 0},
		{"rows were read whose deletions may be gone", true, true, 6, 6, 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := restoring(t, nil, statestore.NoPosition, 0, 8)
			w.metadata()
			if c.read {
				w.step(Restored{Source: w.source(), Batch: changelog(2, 0, 1)})
			}
			w.step(PartStopped{PartFailed{Source: w.source(), Offset: 2, Code: kcode.OffsetOutOfRange}})
			w.after(w.e.cfg.Backoff)
			lists := ever[ListOffsets](w)
			l := lists[len(lists)-1]
			require.Equal(t, []task.TopicPartition{log0}, l.Parts)
			w.listed(l, c.first, 8)
			if c.wipes {
				require.Len(t, acted[Wipe](w), 1)
				w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
			} else {
				require.Empty(t, ever[Wipe](w))
			}
			require.Equal(t, c.offset, only[Fetch](w).Event.(FetchAdd).Offset)
			w.step(Restored{Source: w.source(), Batch: changelog(8, 7)})
			require.Equal(t, []int{7}, keys(only[Apply](w).Batch), "what was read before is forgotten")
			w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
			require.Len(t, acted[StartTask](w), 1)
		})
	}
}

func TestRestoreCutUnderAWrite(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 100 }, statestore.NoPosition, 0, 8)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(2, 0, 1)})
	require.Len(t, acted[Apply](w), 1)
	w.step(PartStopped{PartFailed{Source: w.source(), Offset: 2, Code: kcode.OffsetOutOfRange}})
	w.after(w.e.cfg.Backoff)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 6, 8)
	require.Len(t, acted[Wipe](w), 1)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)}) // of the write: it comes before the wipe
	require.Empty(t, acted[Fetch](w))
	require.Empty(t, ever[StartTask](w))
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)}) // of the wipe
	require.Equal(t, int64(6), only[Fetch](w).Event.(FetchAdd).Offset)
}

// What is on its way to the store is not taken for what comes after the cut, also where it holds nothing but a position.
func TestRestoreCutUnderAWriteWithoutRows(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 1 }, statestore.NoPosition, 0, 8)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: &task.Batch{Next: 2, Bytes: 70}})
	require.Len(t, acted[Apply](w), 1)
	w.step(PartStopped{PartFailed{Source: w.source(), Offset: 2, Code: kcode.OffsetOutOfRange}})
	w.after(w.e.cfg.Backoff)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 6, 8)
	w.step(Restored{Source: w.source(), Batch: changelog(8, 7)})
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Empty(t, ever[StartTask](w))
}

func TestRestoreEndsTheApplicationWhereTheStoreFails(t *testing.T) {
	w := restoring(t, nil, statestore.NoPosition, 0, 1)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(1, 0)})
	w.step(Applied{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	require.ErrorIs(t, w.e.err, errDown)
	require.Equal(t, Closing, w.e.State())
	require.Empty(t, ever[StartTask](w))
}

func TestRestoreIgnoresWhatIsNotAskedFor(t *testing.T) {
	w := restoring(t, nil, statestore.NoPosition, 0, 8)
	w.metadata()
	old := w.source()
	old.Epoch--
	other := w.source()
	other.Index = 3
	for _, src := range []FetchSource{old, other} {
		w.step(Restored{Source: src, Batch: changelog(8, 0)})
		require.Empty(t, acted[Apply](w))
	}
}

func TestRestoreProgressIsTold(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 100 }, statestore.NoPosition, 0, 8)
	w.metadata()
	for i := range int64(3) {
		w.now = w.now.Add(600e6)
		w.step(Restored{Source: w.source(), Batch: changelog(i+1, i)})
		w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	}
	require.Len(t, w.notices(NoticeRestore), 1, "once a second at most")
}

func TestWhatARestoreHasWrittenIsUsedAgain(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 250 }, statestore.NoPosition, 0, 8)
	w.metadata()
	first, second, third := changelog(1, 0), changelog(2, 1), changelog(4, 2, 3)
	w.step(Restored{Source: w.source(), Batch: first})
	w.step(Restored{Source: w.source(), Batch: second})
	require.Len(t, acted[Apply](w), 1)
	w.step(Restored{Source: w.source(), Batch: third})
	require.Empty(t, ever[Recycle](w), "it is being written")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []*task.Batch{first, second}, only[Recycle](w).Batches)
	late := changelog(3, 1, 2)
	w.step(Restored{Source: w.source(), Batch: late})
	require.Equal(t, []*task.Batch{late}, only[Recycle](w).Batches, "nothing of it was new")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []*task.Batch{third}, only[Recycle](w).Batches)
}

// A restore that begins anew leaves to the garbage collector what a write still reads.
func TestWhatIsBeingWrittenIsNotUsedAgain(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 100 }, statestore.NoPosition, 0, 8)
	w.metadata()
	w.step(Restored{Source: w.source(), Batch: changelog(2, 0, 1)})
	require.Len(t, acted[Apply](w), 1)
	w.step(PartStopped{PartFailed{Source: w.source(), Offset: 2, Code: kcode.OffsetOutOfRange}})
	w.after(w.e.cfg.Backoff)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 6, 8)
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)}) // of the write
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)}) // of the wipe
	require.Empty(t, ever[Recycle](w))
}

// What a write has read is free before it is durable.
func TestWhatAWriteHasTakenIsUsedAgain(t *testing.T) {
	w := restoring(t, func(c *Config) { c.RestoreBytes = 100 }, statestore.NoPosition, 0, 8)
	w.metadata()
	first := changelog(2, 0, 1)
	w.step(Restored{Source: w.source(), Batch: first})
	require.Len(t, acted[Apply](w), 1)
	w.step(Taken{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []*task.Batch{first}, only[Recycle](w).Batches)
	require.Equal(t, FetchConsumed{Source: w.source(), Bytes: 200}, only[Fetch](w).Event)
	w.step(Restored{Source: w.source(), Batch: changelog(4, 2, 3)})
	require.Empty(t, acted[Apply](w), "one write at a time")
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	require.Len(t, acted[Apply](w), 1)
	require.Empty(t, acted[Recycle](w), "once")
	require.Empty(t, acted[Fetch](w), "once")

	w.step(PartStopped{PartFailed{Source: w.source(), Offset: 4, Code: kcode.OffsetOutOfRange}})
	w.after(w.e.cfg.Backoff)
	lists := ever[ListOffsets](w)
	w.listed(lists[len(lists)-1], 6, 8)
	w.step(Taken{Task: id10, Epoch: w.epoch(id10)})
	require.Empty(t, acted[Recycle](w), "it is begun anew")
}
