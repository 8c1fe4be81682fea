package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// commit takes a commit of the task with the store through all its phases, with a record of its changelog at base, and returns the position
// that it wrote. The task has done so many rewrites by then.
func (w *world) commit(seq uint64, base int64, rewrites uint64) int64 {
	w.t.Helper()
	w.step(TaskSealed{&task.Sealed{
		Task: id10, Epoch: w.epoch(id10), Seq: seq, Rewrites: rewrites, Offsets: []task.InputOffset{{TopicPartition: words0, Offset: 100 + int64(seq)}},
		Stores: []task.SealedStore{{Store: 0, Changelog: log0, Changes: []statestore.Change{{Key: []byte("k"), Value: []byte("v")}}}},
	}})
	w.acked(id10, seq, GroupOffset{log0, base, 1})
	w.metadataIfAsked()
	w.answerCommit(w.lastCommit(), kcode.None)
	position := only[Apply](w).Batch.Stores[0].Position
	w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
	return position
}

func (w *world) metadataIfAsked() {
	if w.e.routes.asked {
		w.metadata()
	}
}

// holed is a task that has found out that somebody else wrote the offsets 10 to 12 of its changelog, before its own at 13.
func holed(t *testing.T) *world {
	w := restoring(t, nil, 10, 0, 10)
	w.metadata()
	require.Equal(t, int64(10), w.commit(1, 13, 0), "the position stays before what is not ours")
	require.Len(t, w.notices(NoticeForeignWriter), 1)
	return w
}

// hole is the source under which the last hole is read.
func (w *world) hole(from int64) FetchSource {
	w.t.Helper()
	all := ever[Fetch](w)
	for i := len(all) - 1; i >= 0; i-- {
		if add, ok := all[i].Event.(FetchAdd); ok && all[i].Purpose == Restore {
			require.Equal(w.t, from, add.Offset)
			require.NotZero(w.t, add.Source.Hole)
			return add.Source
		}
	}
	w.t.Fatal("no hole is read")
	return FetchSource{}
}

func TestHoleIsReadAndItsKeysWrittenAgain(t *testing.T) {
	w := holed(t)
	src := w.hole(10)
	w.step(Restored{Source: src, Batch: changelog(11, 10)})
	require.Empty(t, w.told(id10), "not all of it is read")
	b := changelog(14, 10, 11, 12, 13)
	b.Records[2].Key = nil
	w.step(Restored{Source: src, Batch: b})
	require.Equal(t, []task.Event{task.Rewrite{Store: 0, Keys: [][]byte{{10}, {11}}}}, w.told(id10), "each key once; ours at 13 is none of it")
	fetch := acted[Fetch](w)
	require.Equal(t, FetchRemove{src}, fetch[len(fetch)-1].Event)

	require.Equal(t, int64(10), w.commit(2, 14, 0), "a commit that was cut before the rewrite")
	require.Equal(t, int64(16), w.commit(3, 15, 1), "our rows are behind everything that is not ours")
	require.Equal(t, int64(17), w.commit(4, 16, 1))
}

func TestHoleThatGrowsWhileItIsRepaired(t *testing.T) {
	cases := []struct {
		name string
		read bool // the first part of it
		from int64
		keys [][]byte
	}{
		{"while it is read", false, 10, [][]byte{{10}, {14}}},
		{"when it is read", true, 13, [][]byte{{10}, {14}}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := holed(t)
			old := w.hole(10)
			rewrites := uint64(0)
			if c.read {
				w.step(Restored{Source: old, Batch: changelog(13, 10)})
				require.Len(t, w.told(id10), 1)
				rewrites++
			}
			require.Equal(t, int64(10), w.commit(2, 15, rewrites), "somebody wrote offset 14, before our rewrite or behind it")
			src := w.hole(c.from)
			require.Equal(t, c.read, src != old)
			if c.read {
				w.step(Restored{Source: old, Batch: changelog(15, 14)})
				require.Empty(t, w.acts, "an answer to what was asked for before")
			} else {
				w.step(Restored{Source: src, Batch: changelog(13, 10)})
			}
			w.step(Restored{Source: src, Batch: changelog(16, 14, 15)})
			require.Equal(t, []task.Event{task.Rewrite{Store: 0, Keys: c.keys}}, w.told(id10))
			require.Equal(t, int64(10), w.commit(3, 16, rewrites))
			require.Equal(t, int64(18), w.commit(4, 17, rewrites+1))
		})
	}
}

func TestHoleWhoseBeginningIsNotInTheLogAnyMore(t *testing.T) {
	cases := []struct {
		name  string
		first int64
		keys  [][]byte // of what is read
	}{
		{"in part", 12, [][]byte{{12}}},
		{"whole", 40, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := holed(t)
			w.step(PartStopped{PartFailed{Source: w.hole(10), Offset: 10, Code: kcode.OffsetOutOfRange}})
			w.after(time.Second)
			lists := ever[ListOffsets](w)
			w.listed(lists[len(lists)-1], c.first, 50)
			rewrites := uint64(0)
			if c.keys != nil {
				w.step(Restored{Source: w.hole(c.first), Batch: changelog(14, c.first)})
				require.Equal(t, []task.Event{task.Rewrite{Store: 0, Keys: c.keys}}, w.told(id10))
				rewrites++
			}
			require.Equal(t, int64(15), w.commit(2, 14, rewrites))
		})
	}
}

func TestHoleWithoutKeys(t *testing.T) {
	w := holed(t)
	w.step(Restored{Source: w.hole(10), Batch: changelog(14)})
	require.Empty(t, w.told(id10), "a transaction's marker: there is nothing to write again")
	require.Equal(t, int64(15), w.commit(2, 14, 0))
}

func TestHoleOfATaskThatEnds(t *testing.T) {
	w := holed(t)
	src := w.hole(10)
	w.heartbeat(kcode.UnknownMemberID)
	require.Contains(t, w.acts, Action(Fetch{Purpose: Restore, Broker: 1, Event: FetchRemove{src}}))
	w.step(Restored{Source: src, Batch: changelog(14, 10)})
	require.Empty(t, w.told(id10))
}

// A task is not released as long as its changelog says something else than its store.
func TestReleaseWaitsForTheRepair(t *testing.T) {
	cases := []struct {
		name string
		play func(w *world)
	}{
		{"the hole is read after the answer", func(w *world) {
			w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
			require.Empty(w.t, w.told(id10))
			w.step(Restored{Source: w.hole(10), Batch: changelog(13, 10, 11)})
			require.Equal(w.t, []task.Event{task.Rewrite{Store: 0, Keys: [][]byte{{10}, {11}}}, task.Release{}}, w.told(id10), "and says when it is done")
		}},
		{"the hole is read before the answer", func(w *world) {
			w.step(Restored{Source: w.hole(10), Batch: changelog(13, 10, 11)})
			require.Equal(w.t, []task.Event{task.Rewrite{Store: 0, Keys: [][]byte{{10}, {11}}}}, w.told(id10))
			w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
			require.Equal(w.t, []task.Event{task.Release{}}, w.told(id10), "the rewrite may have come after it")
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := holed(t)
			w.step(Close{})
			c.play(w)
			require.Equal(t, "releasing", w.e.lives[id10].state.String())
			require.Equal(t, int64(15), w.commit(2, 14, 1))
			w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
			require.Equal(t, []task.Event{task.Close{}}, w.told(id10))
		})
	}
}

func TestReleaseWithAHoleOfNothing(t *testing.T) {
	w := holed(t)
	w.step(Close{})
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	require.Empty(t, w.told(id10))
	w.step(Restored{Source: w.hole(10), Batch: changelog(13)})
	require.Equal(t, []task.Event{task.Close{}}, w.told(id10))
}

func TestReleaseOfATaskThatRepairsNothingAnyMore(t *testing.T) {
	w := holed(t)
	w.step(Restored{Source: w.hole(10), Batch: changelog(13, 10, 11)})
	w.step(TaskFailed{Task: id10, Epoch: w.epoch(id10), Err: errors.New("a record failed")})
	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	require.Equal(t, []task.Event{task.Close{}}, w.told(id10))
}
