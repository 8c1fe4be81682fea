package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func (w *world) inputOf(id task.ID) FetchSource {
	return FetchSource{TopicPartition: w.e.lives[id].inputs()[0], Task: id, Epoch: w.epoch(id)}
}

func TestLeaderMoves(t *testing.T) {
	w := running(t, nil, id00, id01)
	w.step(PartMoved{PartLost{Source: w.inputOf(id00), Offset: 130, Code: kcode.NotLeaderOrFollower}})
	if len(acted[RefreshMetadata](w)) == 0 {
		w.after(100 * time.Millisecond)
	}
	require.Len(t, acted[RefreshMetadata](w), 1)
	require.Empty(t, acted[Fetch](w), "what is known of its leader is old")
	w.step(MetadataKnown{Leaders: map[task.TopicPartition]Leader{in0: {2, 6}, in1: {1, 5}}, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}})
	require.Equal(t, Fetch{Purpose: Input, Broker: 2, Event: FetchAdd{Source: w.inputOf(id00), Offset: 130, LeaderEpoch: 6, Bound: 4 << 20}}, only[Fetch](w))
}

func TestPartitionWithoutALeader(t *testing.T) {
	w := running(t, nil, id00)
	w.step(PartMoved{PartLost{Source: w.inputOf(id00), Offset: 130}})
	asked := 0
	for range 20 {
		if len(acted[RefreshMetadata](w)) > 0 {
			asked++
			w.step(MetadataKnown{Leaders: map[task.TopicPartition]Leader{in0: {-1, 6}}, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}})
			require.Empty(t, acted[Fetch](w))
		}
		w.after(100 * time.Millisecond)
	}
	require.GreaterOrEqual(t, asked, 3, "it is asked for again and again")
	require.LessOrEqual(t, asked, 10, "and ever more rarely")
}

func TestMetadataThatDoesNotCome(t *testing.T) {
	w := newWorld(t, nil)
	w.joinGroup()
	w.assign([]task.ID{id00})
	w.openAll()
	require.Len(t, ever[RefreshMetadata](w), 1)
	w.step(MetadataKnown{Err: errDown})
	require.NotEmpty(t, w.notices(NoticeRetry))
	require.Empty(t, acted[RefreshMetadata](w))
	w.after(100 * time.Millisecond)
	require.Len(t, acted[RefreshMetadata](w), 1)
	w.metadata()
	require.Len(t, acted[Fetch](w), 1)
}

func TestInputOutOfRange(t *testing.T) {
	cases := []struct {
		name   string
		policy Reset
		at     int64
	}{
		{"stop", ResetStop, -1},
		{"earliest", ResetEarliest, 500},
		{"latest", ResetLatest, 900},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, func(cfg *Config) { cfg.OutOfRange = func(string) Reset { return c.policy } }, id00)
			w.step(PartStopped{PartFailed{Source: w.inputOf(id00), Offset: 100, Code: kcode.OffsetOutOfRange}})
			w.after(w.e.cfg.Backoff)
			lists := ever[ListOffsets](w)
			require.Equal(t, []task.TopicPartition{in0}, lists[len(lists)-1].Parts)
			w.step(OffsetsListed{Request: lists[len(lists)-1].Request, Err: errDown})
			require.NotEmpty(t, w.notices(NoticeRetry))
			w.after(2 * time.Second)
			w.listed(latest[ListOffsets](w), 500, 900)
			if c.at < 0 {
				var out *OffsetOutOfRangeError
				require.ErrorAs(t, w.e.err, &out)
				require.Equal(t, OffsetOutOfRangeError{Part: in0, Offset: 100, Earliest: 500, End: 900}, *out)
				require.ErrorContains(t, out, "the log holds 500 to 900")
				return
			}
			require.Equal(t, c.at, only[Fetch](w).Event.(FetchAdd).Offset)
			require.Equal(t, []task.Event{task.Fetched{Batch: &task.Batch{From: 100, Next: c.at, HighWatermark: 900}}}, w.told(id00), "or it commits nothing until a record comes")
			n := w.notices(NoticeReset)
			require.Len(t, n, 1, "never silently")
			require.Equal(t, int64(100), n[0].Position)
			require.Equal(t, c.at, n[0].End)
		})
	}
}

// A log that was cut off gives its offsets to other records: a task must not take these for done, so it begins anew.
func TestInputOfALogThatWasCutOff(t *testing.T) {
	for policy, at := range map[Reset]int64{ResetStop: -1, ResetEarliest: 5, ResetLatest: 60} {
		w := running(t, func(cfg *Config) { cfg.OutOfRange = func(string) Reset { return policy } }, id00)
		old := w.epoch(id00)
		w.step(PartStopped{PartFailed{Source: w.inputOf(id00), Offset: 100, Code: kcode.OffsetOutOfRange}})
		w.after(w.e.cfg.Backoff)
		w.listed(latest[ListOffsets](w), 5, 60)
		if policy == ResetStop {
			require.ErrorAs(t, w.e.err, new(*OffsetOutOfRangeError))
			continue
		}
		require.Equal(t, []Notice{{Kind: NoticeReset, Task: id00, Part: in0, Position: 100, End: at}}, w.notices(NoticeReset))
		require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
		w.step(TaskReleased{Task: id00, Epoch: old})
		w.step(TaskClosed{Task: id00, Epoch: old})
		w.committedIn0(CommittedOffset{Offset: 100})
		w.listed(latest[ListOffsets](w), 5, 60)
		require.Equal(t, []int64{at}, only[StartTask](w).Positions)
		require.Nil(t, w.e.lives[id00].restarts, "that was for once")
	}
}

// A broker that has just become the leader may not know of an offset that is there.
func TestInputThatIsInRangeAfterAll(t *testing.T) {
	w := running(t, nil, id00)
	w.step(PartStopped{PartFailed{Source: w.inputOf(id00), Offset: 100, Code: kcode.OffsetOutOfRange}})
	w.after(w.e.cfg.Backoff)
	w.listed(latest[ListOffsets](w), 5, 100)
	require.NoError(t, w.e.err)
	require.EqualValues(t, 100, only[Fetch](w).Event.(FetchAdd).Offset)
	require.Empty(t, w.notices(NoticeReset))
}

func TestPartitionThatCannotBeRead(t *testing.T) {
	w := running(t, nil, id00)
	w.step(PartStopped{PartFailed{Source: w.inputOf(id00), Offset: 100, Code: kcode.CorruptMessage, Err: errDown}})
	var failed *FetchError
	require.ErrorAs(t, w.e.err, &failed)
	require.ErrorIs(t, failed, errDown)
	require.Equal(t, in0, failed.Part)
}

func TestWordOfAPartitionThatIsNotFetchedAnyMore(t *testing.T) {
	w := running(t, nil, id00)
	old := w.inputOf(id00)
	old.Epoch = 99
	w.step(PartMoved{PartLost{Source: old, Offset: 3}})
	w.step(PartStopped{PartFailed{Source: old, Offset: 3, Code: kcode.CorruptMessage}})
	require.Empty(t, w.acts)
	require.Equal(t, Running, w.e.State())
}

// counts answers metadata requests with these partition counts for a while.
func (w *world) counts(d time.Duration, counts map[string]int32) {
	for end := w.now.Add(d); w.now.Before(end) && w.e.State() != Closed; {
		w.beat = 0
		w.after(250 * time.Millisecond)
		asked := len(acted[RefreshMetadata](w)) > 0
		if w.beat != 0 {
			w.heartbeatAnswered()
		}
		if asked {
			w.step(MetadataKnown{Leaders: map[task.TopicPartition]Leader{in0: {1, 5}, in1: {1, 5}, words0: {1, 5}, log0: {1, 5}}, Counts: counts})
		}
	}
}

func TestTopicThatGoesMissing(t *testing.T) {
	all := map[string]int32{"in": 2, "words": 1, "log": 1}
	without := map[string]int32{"in": 2, "words": 1}
	cases := []struct {
		name  string
		gone  time.Duration
		fails bool
	}{
		{"it comes back", 5 * time.Second, false},
		{"it stays away", 12 * time.Second, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			w := running(t, nil, id00)
			w.counts(30*time.Second, without) // the periodic refresh notices within this time
			require.Equal(t, Running, w.e.State())
			w.counts(c.gone, without)
			if c.fails {
				var missing *MissingTopicError
				require.ErrorAs(t, w.e.err, &missing)
				require.Equal(t, "log", missing.Topic)
				require.Equal(t, Closing, w.e.State())
				return
			}
			w.counts(30*time.Second, all)
			w.counts(5*time.Second, without)
			require.Equal(t, Running, w.e.State(), "the time begins anew")
		})
	}
}

func TestTopicThatIsMissingUnderACommit(t *testing.T) {
	w := running(t, nil, id00)
	w.seal(id00, 0, 101)
	c := only[CommitOffsets](w)
	w.answerCommit(c, kcode.UnknownTopicOrPartition)
	require.Equal(t, Running, w.e.State(), "it may be back soon")
	w.alive(time.Second)
	w.answerCommit(w.lastCommit(), kcode.None)
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00))
}

func TestPartitionGrowth(t *testing.T) {
	w := running(t, nil, id00)
	grown := map[string]int32{"in": 3, "words": 1, "log": 1}
	w.join = 0
	w.counts(31*time.Second, grown)
	require.Len(t, ever[EnsureTopics](w), 2, "internal topics follow, once")
	w.step(TopicsReady{Partitions: grown})
	if w.join == 0 {
		w.counts(time.Second, grown)
	}
	require.NotZero(t, w.join, "the group plans with the new counts")
	w.assign([]task.ID{id00, {Subtopology: 0, Partition: 2}})
	require.Contains(t, w.e.lives, task.ID{Subtopology: 0, Partition: 2})
}

func TestHeardIsPassedOn(t *testing.T) {
	w := running(t, nil)
	w.step(Heard{Notice{Kind: NoticeRetry, What: "purge"}})
	require.Equal(t, "purge", only[Note](w).Note.What)
}
