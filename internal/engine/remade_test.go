package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

var formerID, presentID = retry.TopicID{1}, retry.TopicID{2}

// identified takes the application to where tasks are opened. The topic "in" has this id.
func identified(t *testing.T, change func(*Config), id retry.TopicID, tasks ...task.ID) *world {
	w := newWorld(t, change)
	w.step(Start{})
	w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"in": id, "log": {9}}})
	w.step(Member{group.CoordinatorFound{Req: w.find(), Addr: coordinator}})
	w.assign(tasks)
	return w
}

// seenAs answers RefreshMetadata: the topic "in" has this id.
func (w *world) seenAs(id retry.TopicID) {
	w.step(MetadataKnown{
		Leaders: map[task.TopicPartition]Leader{in0: {1, 5}, in1: {1, 5}, words0: {1, 5}, log0: {1, 5}},
		Counts:  map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"in": id, "words": {8}, "log": {9}},
	})
}

// ensuredAs answers EnsureTopics, if it was asked for: the topic "in" has this id.
func (w *world) ensuredAs(id retry.TopicID) {
	if len(acted[EnsureTopics](w)) == 0 {
		return
	}
	w.step(TopicsReady{
		Partitions: map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"in": id, "words": w.e.ids["words"], "log": {9}},
	})
}

// saidOf is what a running task has committed at an offset of a topic.
func saidOf(t *testing.T, offset int64, id retry.TopicID) CommittedOffset {
	m := retry.NewMetadata(offset)
	m.Running, m.StreamTime, m.Topic = true, 777, id
	text, ok := m.Encode(offset)
	require.True(t, ok)
	return CommittedOffset{Offset: offset, Metadata: text}
}

func (w *world) committedIn0(c CommittedOffset) {
	w.step(OffsetsFetched{Request: latest[FetchOffsets](w).Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: c}})
}

// Whoever ran when the topic was made anew has committed once more. Its offset is not one of the topic that has the name now.
func TestACommitOfATopicThatWasMadeAnewIsNotOneOfThePresentOne(t *testing.T) {
	for _, reset := range []Reset{ResetEarliest, ResetLatest, ResetStop} {
		w := identified(t, func(c *Config) { c.NoOffset = func(string) Reset { return reset } }, presentID, id00)
		w.committedIn0(saidOf(t, 42, formerID))
		require.Empty(t, ever[StartTask](w), "what is known of the topic may be older than the commit")
		require.Len(t, acted[RefreshMetadata](w), 1)
		w.seenAs(presentID)
		w.after(time.Second)
		w.committedIn0(saidOf(t, 42, formerID))
		w.listed(latest[ListOffsets](w), 3, 90)
		s := only[StartTask](w)
		require.Equal(t, []int64{3}, s.Positions, "it came after all that was read of the former one")
		require.Equal(t, []retry.TopicID{presentID}, s.TopicIDs)
		require.EqualValues(t, -1, s.StreamTime)
		require.Equal(t, []retry.Metadata{{StreamTime: -1, Suspect: -1}}, s.Committed)
		require.Equal(t, []Notice{{Kind: NoticeAnew, Task: id00, Part: in0, Position: 42}}, w.notices(NoticeAnew))
	}
}

// Another member has seen the topic that was made anew before this one.
func TestACommitOfATopicThatIsNotKnownYet(t *testing.T) {
	w := identified(t, nil, formerID, id00)
	w.committedIn0(saidOf(t, 42, presentID))
	require.Empty(t, ever[StartTask](w))
	w.seenAs(presentID)
	w.ensuredAs(presentID)
	w.after(time.Second)
	w.committedIn0(saidOf(t, 42, presentID))
	s := only[StartTask](w)
	require.Equal(t, []int64{42}, s.Positions)
	require.Equal(t, []retry.TopicID{presentID}, s.TopicIDs)
}

// An id that is not known, or not said, tells nothing.
func TestACommitWithoutAnID(t *testing.T) {
	for _, c := range []struct{ known, said retry.TopicID }{{presentID, retry.TopicID{}}, {retry.TopicID{}, formerID}, {presentID, presentID}} {
		w := identified(t, nil, c.known, id00)
		w.committedIn0(saidOf(t, 42, c.said))
		s := only[StartTask](w)
		require.Equal(t, []int64{42}, s.Positions)
		require.Equal(t, []retry.TopicID{c.known}, s.TopicIDs)
	}
}

// identifiedRunning is running with an id of the topic "in".
func identifiedRunning(t *testing.T, change func(*Config), tasks ...task.ID) *world {
	w := identified(t, change, formerID, tasks...)
	w.openAll()
	w.seenAs(formerID)
	require.Equal(t, Running, w.e.State())
	return w
}

// A task whose topic is made anew commits what it has done of others, and nothing of the former one, and begins anew.
func TestATopicIsMadeAnewWhileItIsRead(t *testing.T) {
	w := identifiedRunning(t, nil, id00, id10)
	old := w.epoch(id00)
	for len(acted[RefreshMetadata](w)) == 0 {
		w.beat = 0
		w.after(w.e.cfg.RefreshEvery / 20)
		if asked := acted[RefreshMetadata](w); w.beat != 0 && len(asked) == 0 {
			w.heartbeatAnswered()
		}
	}
	w.seenAs(presentID)
	w.ensuredAs(presentID)
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	require.Empty(t, w.told(id10), "whose topic is the same")
	require.Equal(t, []Notice{{Kind: NoticeAnew, Task: id00, Part: in0, Position: 100}}, w.notices(NoticeAnew))
	w.seal(id00, 1, 107)
	w.acked(id00, 1)
	w.after(time.Second)
	require.Empty(t, ever[CommitOffsets](w), "nothing is said of offsets of the former one")
	require.Contains(t, ever[ToTask](w), ToTask{Task: id00, Epoch: old, Event: task.Committed{}}, "it is not waited for")
	w.step(TaskReleased{Task: id00, Epoch: old})
	w.step(TaskClosed{Task: id00, Epoch: old})
	require.NotEqual(t, old, w.epoch(id00))
	w.committedIn0(CommittedOffset{Offset: -1}) // brokers delete it with the topic
	w.listed(latest[ListOffsets](w), 0, 5)
	s := only[StartTask](w)
	require.Equal(t, []int64{0}, s.Positions)
	require.Equal(t, []retry.TopicID{presentID}, s.TopicIDs)
	w.seenAs(presentID)
	require.Len(t, w.notices(NoticeAnew), 1)
}

// An offset beyond the end may be that of the former topic: then it is no loss, and no policy is asked.
func TestAnOffsetOutOfRangeOfATopicThatWasMadeAnew(t *testing.T) {
	for _, id := range []retry.TopicID{formerID, presentID} {
		w := identifiedRunning(t, nil, id00)
		w.step(PartStopped{PartFailed{Source: w.e.lives[id00].input(0), Offset: 100, Code: kcode.OffsetOutOfRange}})
		for len(acted[RefreshMetadata](w)) == 0 {
			require.Empty(t, acted[ListOffsets](w), "what topic it is comes first")
			w.after(100 * time.Millisecond)
		}
		w.seenAs(id)
		if id == presentID {
			w.ensuredAs(id)
			require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
			w.after(time.Second)
			for _, l := range ever[ListOffsets](w) {
				w.listed(l, 0, 5)
			}
			require.NoError(t, w.e.err)
			continue
		}
		for len(acted[ListOffsets](w)) == 0 {
			w.after(100 * time.Millisecond)
		}
		w.listed(latest[ListOffsets](w), 0, 5)
		require.ErrorAs(t, w.e.err, new(*OffsetOutOfRangeError), "the log is the same and was cut off")
	}
}

// What was to be deleted of a repartition topic is not deleted of the one that has its name now.
func TestPurgeOfATopicThatWasMadeAnew(t *testing.T) {
	w := identifiedRunning(t, nil, id10)
	w.step(MetadataKnown{Leaders: w.e.routes.leaders, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"words": {7}}})
	require.Empty(t, w.notices(NoticeAnew), "its id was not known")
	w.e.ids["words"], w.e.lives[id10].ids[0] = topicID{7}, topicID{7}
	w.alive(3 * w.e.cfg.PurgeEvery)
	purged := ever[PurgeRecords](w)
	require.NotEmpty(t, purged)
	w.e.purge.told[words0], w.e.purge.due[words0] = 0, 100 // the next is due
	w.step(MetadataKnown{Leaders: w.e.routes.leaders, Counts: map[string]int32{"in": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"words": {8}}})
	w.ensuredAs(formerID)
	require.Len(t, w.notices(NoticeAnew), 1)
	w.alive(3 * w.e.cfg.PurgeEvery)
	require.Len(t, ever[PurgeRecords](w), len(purged))

	w.step(TaskReleased{Task: id10, Epoch: w.epoch(id10)})
	w.step(TaskClosed{Task: id10, Epoch: w.epoch(id10)})
	w.committedAt(100, latest[FetchOffsets](w)) // of the former
	for w.e.opens.list != 0 {
		w.listed(latest[ListOffsets](w), 0, 0)
	}
	require.Equal(t, []int64{0}, latest[StartTask](w).Positions)
	w.e.lives[id10].done[0] = 3
	w.alive(3 * w.e.cfg.PurgeEvery)
	for _, p := range ever[PurgeRecords](w)[len(purged):] {
		require.Equal(t, map[task.TopicPartition]int64{words0: 3}, p.Before)
	}
	require.Greater(t, len(ever[PurgeRecords](w)), len(purged))
}
