package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// opening takes the application to where the tasks are assigned and wait for everything.
func openingWorld(t *testing.T, change func(*Config), tasks ...task.ID) *world {
	w := newWorld(t, change)
	w.joinGroup()
	w.assign(tasks)
	return w
}

func TestOpenAsksOnceForAllTasks(t *testing.T) {
	w := openingWorld(t, nil, id00, id01, id10)
	f := latest[FetchOffsets](w)
	require.Equal(t, []task.TopicPartition{in0, in1, words0}, f.Parts)
	require.Equal(t, coordinator, f.Coordinator)
	require.Equal(t, []statestore.Spec{{Name: "counts"}}, only[OpenStores](w).Stores)
	require.Equal(t, Rebalancing, w.e.State())
}

func TestOpenWithACommittedOffset(t *testing.T) {
	w := openingWorld(t, nil, id00)
	f := latest[FetchOffsets](w)
	w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{
		in0: {Offset: 42, Metadata: streamTime(777, 42)},
	}})
	require.Equal(t, StartTask{Task: id00, Epoch: w.epoch(id00), Stores: w.epoch(id00), Spec: w.e.specs[0], Positions: []int64{42}, TopicIDs: make([]retry.TopicID, 1), Committed: []retry.Metadata{{StreamTime: 777, Main: 42, Suspect: -1}}, StreamTime: 777}, only[StartTask](w))
	require.Empty(t, acted[ListOffsets](w), "nothing needs the log's bounds")
	require.Equal(t, Running, w.e.State())
	require.Equal(t, []string{"in", "log", "words"}, only[RefreshMetadata](w).Topics)
	w.metadata()
	add := only[Fetch](w)
	require.Equal(t, int32(1), add.Broker)
	require.Equal(t, Input, add.Purpose)
	require.Equal(t, FetchAdd{
		Source: FetchSource{TopicPartition: in0, Task: id00, Epoch: w.epoch(id00)}, Offset: 42, LeaderEpoch: 5, Bound: 4 << 20,
	}, add.Event)
}

// A log that was cut off, or made anew, holds other records below the main position than those that were done.
func TestRegressionMapOfDoneOffsetsEndsWithTheLog(t *testing.T) {
	said := retry.Metadata{StreamTime: 777, Main: 60, Holes: []retry.Run{{From: 42, To: 43}, {From: 50, To: 55}}, Suspect: -1}
	text, ok := said.Encode(42)
	require.True(t, ok)
	for _, c := range []struct {
		end  int64
		said retry.Metadata
	}{
		{60, said},
		{59, retry.Metadata{StreamTime: 777, Main: 42, Suspect: -1}},
	} {
		w := openingWorld(t, nil, id00)
		w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 42, Metadata: text}}})
		require.Empty(t, acted[StartTask](w))
		l := latest[ListOffsets](w)
		require.Equal(t, []task.TopicPartition{in0}, l.Parts)
		w.listed(l, 5, c.end)
		s := only[StartTask](w)
		require.Equal(t, []int64{42}, s.Positions)
		require.Equal(t, []retry.Metadata{c.said}, s.Committed)
		require.EqualValues(t, 777, s.StreamTime)
	}
}

// Strimzi canary #19: with the latest offset as the beginning, the first record ever was missed where its topic had just been created. What is
// redriven first lies in its topic before anything of that is committed.
func TestRegressionFirstRedriveEverIsNotMissed(t *testing.T) {
	for _, reset := range []Reset{ResetLatest, ResetStop} {
		redrive0 := task.TopicPartition{Topic: "in-redrive"}
		w := newWorld(t, func(cfg *Config) {
			spec := *cfg.Specs[0]
			spec.Inputs = append(slices.Clone(spec.Inputs), task.Input{Topic: redrive0.Topic, Redrives: 1})
			cfg.Specs = append([]*task.Spec{&spec}, cfg.Specs[1:]...)
			cfg.NoOffset = func(string) Reset { return reset }
		})
		w.step(Start{})
		w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "words": 1, "log": 1, redrive0.Topic: 2}})
		w.step(Member{group.CoordinatorFound{Req: w.find(), Addr: coordinator}})
		w.assign([]task.ID{id00})
		w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 42}, redrive0: {Offset: -1}}})
		l := latest[ListOffsets](w)
		require.Equal(t, []task.TopicPartition{redrive0}, l.Parts)
		w.listed(l, 0, 3)
		require.Equal(t, []int64{42, 0}, only[StartTask](w).Positions)
	}
}

func TestOpenWithoutACommittedOffset(t *testing.T) {
	cases := []struct {
		name  string
		id    task.ID
		reset Reset
		start int64
		fails bool
	}{
		{"earliest", id00, ResetEarliest, 5, false},
		{"latest", id00, ResetLatest, 9, false},
		{"stop", id00, ResetStop, 0, true},
		{"a repartition topic begins at its start, whatever the policy", id10, ResetLatest, 5, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := openingWorld(t, func(cfg *Config) { cfg.NoOffset = func(string) Reset { return c.reset } }, c.id)
			f := latest[FetchOffsets](w)
			if c.id == id10 {
				w.stores(c.id, 9)
			}
			w.committedAt(-1, f)
			for w.e.opens.list != 0 {
				w.listed(latest[ListOffsets](w), 5, 9)
			}
			if c.fails {
				require.Empty(t, ever[StartTask](w))
				var out *OffsetOutOfRangeError
				require.ErrorAs(t, w.e.err, &out)
				require.Equal(t, OffsetOutOfRangeError{Part: in0, Offset: -1, Earliest: 5, End: 9}, *out)
				return
			}
			require.Equal(t, []int64{c.start}, only[StartTask](w).Positions)
		})
	}
}

func TestOpenRetries(t *testing.T) {
	cases := []struct {
		name   string
		answer func(w *world, f FetchOffsets)
	}{
		{"a transport error", func(w *world, f FetchOffsets) { w.step(OffsetsFetched{Request: f.Request, Err: errDown}) }},
		{"the coordinator loads", func(w *world, f FetchOffsets) {
			w.step(OffsetsFetched{Request: f.Request, Code: kcode.CoordinatorLoadInProgress})
		}},
		{"a pending transaction", func(w *world, f FetchOffsets) {
			w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: -1, Code: kcode.UnstableOffsetCommit}}})
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := openingWorld(t, nil, id00)
			f := latest[FetchOffsets](w)
			c.answer(w, f)
			require.Empty(t, acted[FetchOffsets](w), "not at once")
			require.NotEmpty(t, w.notices(NoticeRetry))
			w.after(100 * time.Millisecond)
			again := latest[FetchOffsets](w)
			require.Equal(t, f.Parts, again.Parts)
			w.committedAt(1, f)
			require.Empty(t, acted[StartTask](w), "an answer to the request before is old")
			w.committedAt(3, again)
			require.Equal(t, []int64{3}, only[StartTask](w).Positions)
		})
	}
}

func TestOpenRetriesLogBounds(t *testing.T) {
	w := openingWorld(t, nil, id00)
	w.committedAt(-1, latest[FetchOffsets](w))
	l := latest[ListOffsets](w)
	w.step(OffsetsListed{Request: l.Request, Err: kcode.OffsetNotAvailable})
	require.Empty(t, acted[ListOffsets](w))
	w.after(100 * time.Millisecond)
	w.listed(latest[ListOffsets](w), 0, 7)
	require.Equal(t, []int64{7}, only[StartTask](w).Positions)
}

// A partition without a leader holds up nobody else's task.
func TestOpenGoesOnWithTheBoundsThatAreKnown(t *testing.T) {
	w := openingWorld(t, nil, id00, id01)
	w.committedAt(-1, latest[FetchOffsets](w))
	l := latest[ListOffsets](w)
	require.Equal(t, []task.TopicPartition{in0, in1}, l.Parts)
	known := map[task.TopicPartition]int64{in1: 7}
	w.step(OffsetsListed{Request: l.Request, Earliest: known, End: known, Err: kcode.LeaderNotAvailable})
	require.Equal(t, id01, only[StartTask](w).Task)
	require.NotEmpty(t, w.notices(NoticeRetry))
	require.Empty(t, acted[ListOffsets](w), "not at once")
	w.after(100 * time.Millisecond)
	l = latest[ListOffsets](w)
	require.Equal(t, []task.TopicPartition{in0}, l.Parts)
	w.listed(l, 0, 7)
	require.Equal(t, id00, only[StartTask](w).Task)
}

// A task was here, was taken away, and is here again. Meanwhile somebody else may have gone on with it.
func TestOpenTakesNoAnswerToWhatAnEarlierLifeAsked(t *testing.T) {
	again := func(w *world) {
		w.rebalance()
		w.assign(nil)
		w.closed(id10)
		w.rebalance()
		w.assign([]task.ID{id10})
		w.stores(id10, statestore.NoPosition)
	}
	t.Run("committed offsets", func(t *testing.T) {
		w := openingWorld(t, nil, id10)
		f := latest[FetchOffsets](w)
		again(w)
		w.committedAt(1, f)
		w.committedAt(3, latest[FetchOffsets](w))
		for w.e.opens.list != 0 {
			w.listed(latest[ListOffsets](w), 0, 0)
		}
		require.Equal(t, []int64{3}, only[StartTask](w).Positions)
	})
	t.Run("log bounds", func(t *testing.T) {
		w := openingWorld(t, nil, id10)
		f := latest[FetchOffsets](w)
		w.stores(id10, statestore.NoPosition)
		w.committedAt(1, f)
		l := latest[ListOffsets](w)
		again(w)
		w.committedAt(3, ever[FetchOffsets](w)[1])
		w.listed(l, 0, 0)
		require.Empty(t, ever[StartTask](w), "the changelog may have grown")
		w.listed(latest[ListOffsets](w), 0, 7)
		require.Equal(t, int64(7), w.notices(NoticeRestoreBegin)[0].End)
	})
}

func TestOpenWithoutTheRightEnds(t *testing.T) {
	w := openingWorld(t, nil, id00)
	w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Code: kcode.GroupAuthorizationFailed})
	require.ErrorIs(t, w.e.err, kcode.GroupAuthorizationFailed)
	require.Equal(t, Closing, w.e.State())
}

func TestOpenStoresThatFail(t *testing.T) {
	w := openingWorld(t, nil, id10)
	w.step(StoresOpened{Task: id10, Epoch: w.epoch(id10), Err: errDown})
	var failed *StoreError
	require.ErrorAs(t, w.e.err, &failed)
	require.ErrorIs(t, w.e.err, errDown)
	require.Equal(t, "open", failed.Op)
	require.Equal(t, Closing, w.e.State())
	require.Empty(t, w.e.lives)
	said := w.notices(NoticeTask)
	require.Equal(t, []string{"opening", "closing", "closed"}, []string{said[0].Text, said[1].Text, said[2].Text})
	require.Len(t, said, 3)
}

// A store that was of another topic is wiped when it is opened. What is wiped is said, also where the task is taken away meanwhile.
func TestOpenAStaleStore(t *testing.T) {
	log := [16]byte{1, 2, 3}
	open := func(t *testing.T) *world {
		w := newWorld(t, nil)
		w.step(Start{})
		w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"in": {9}, "log": log}})
		w.step(Member{group.CoordinatorFound{Req: w.find(), Addr: coordinator}})
		w.assign([]task.ID{id10})
		require.Equal(t, []statestore.Spec{{Name: "counts", Changelog: log}}, only[OpenStores](w).Stores)
		return w
	}
	wiped := []Notice{{
		Kind: NoticeWiped, Task: id10, Part: log0, Position: statestore.NoPosition,
		Text: "the changelog is another topic now: it was deleted and made anew",
	}}
	stale := func(w *world, epoch uint64) {
		w.step(StoresOpened{Task: id10, Epoch: epoch, Positions: []int64{statestore.NoPosition}, Stale: []bool{true}})
	}
	t.Run("restored from the start", func(t *testing.T) {
		w := open(t)
		f := latest[FetchOffsets](w)
		stale(w, w.epoch(id10))
		w.committedAt(100, f)
		w.listed(latest[ListOffsets](w), 3, 9)
		require.Equal(t, wiped, w.notices(NoticeWiped), "once")
		require.Empty(t, ever[Wipe](w), "it was wiped already")
		require.Equal(t, Notice{Kind: NoticeRestoreBegin, Task: id10, Part: log0, Position: 3, End: 9}, w.notices(NoticeRestoreBegin)[0])
	})
	t.Run("fits", func(t *testing.T) {
		w := open(t)
		w.step(StoresOpened{Task: id10, Epoch: w.epoch(id10), Positions: []int64{5}, Stale: []bool{false}})
		require.Empty(t, w.notices(NoticeWiped))
	})
	t.Run("taken away meanwhile", func(t *testing.T) {
		w := open(t)
		epoch := w.epoch(id10)
		w.rebalance()
		w.assign(nil)
		stale(w, epoch)
		require.Equal(t, wiped, w.notices(NoticeWiped))
	})
}

func TestTakenAwayWhileItOpens(t *testing.T) {
	w := openingWorld(t, nil, id10)
	epoch := w.epoch(id10)
	w.rebalance()
	w.assign(nil)
	require.Len(t, acted[CloseStores](w), 1)
	w.step(StoresOpened{Task: id10, Epoch: epoch, Positions: []int64{-1}})
	require.Empty(t, acted[CloseStores](w), "asked for already: a second answer would come before the first close is done")
	w.step(StoresClosed{Task: id10, Epoch: epoch})
	require.Empty(t, w.e.lives)
	w.step(StoresOpened{Task: id10, Epoch: epoch, Positions: []int64{-1}})
	w.step(StoresClosed{Task: id10, Epoch: epoch})
	require.Empty(t, w.acts, "answers to a life that is gone")
}

func streamTime(ms, offset int64) string {
	m := retry.NewMetadata(offset)
	m.StreamTime = ms
	text, _ := m.Encode(offset)
	return text
}

// A reset that was not finished leaves offsets that do not belong to the state: nobody goes on from there.
func TestHalfResetIsRefused(t *testing.T) {
	w := openingWorld(t, nil, id00)
	f := latest[FetchOffsets](w)
	ev := OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{}}
	for _, tp := range f.Parts {
		ev.Offsets[tp] = CommittedOffset{Offset: 100, Metadata: retry.HalfReset}
	}
	w.step(ev)
	var half *HalfResetError
	require.ErrorAs(t, w.e.err, &half)
	require.Equal(t, in0, half.Part)
	require.ErrorContains(t, half, "understudy group reset")
	require.Empty(t, ever[CommitOffsets](w))
}
