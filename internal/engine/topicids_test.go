package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// idsWorld runs a task that reads "in" and "in2" by a pattern, at 100 both. Topics have ids.
func idsWorld(t *testing.T) *world {
	w := newWorld(t, func(c *Config) { withPattern(c); c.RefreshEvery = 2 * time.Second })
	w.joinGroup()
	w.step(w.withIDs(1))
	w.assign([]task.ID{id00})
	w.committedAt(100, only[FetchOffsets](w))
	w.seenWithID(1)
	require.Equal(t, Running, w.e.State())
	return w
}

var in20 = task.TopicPartition{Topic: "in2", Partition: 0}

// withIDs is what EnsureTopics answers where "in2" has this id.
func (w *world) withIDs(id byte) TopicsReady {
	ev := w.reading(map[string]int32{"in": 2, "in2": 2}, "in", "in2")
	if w.e.specs[0] != nil && len(w.e.specs[0].Inputs) == 2 {
		ev.Specs = w.e.cfg.Specs
	}
	ev.IDs = map[string][16]byte{"in": {9}, "in2": {id}}
	return ev
}

func (w *world) seenWithID(id byte) {
	leaders := map[task.TopicPartition]Leader{words0: {1, 5}, log0: {1, 5}, in0: {1, 5}, in1: {1, 5}, in20: {1, 5}}
	w.step(MetadataKnown{
		Leaders: leaders, Counts: map[string]int32{"in": 2, "in2": 2, "words": 1, "log": 1}, IDs: map[string][16]byte{"in": {9}, "in2": {id}},
	})
}

// A topic of a pattern that was deleted and made anew before anybody noticed is read from its beginning, and nothing is committed of it that
// is of the one before.
func TestATopicOfAPatternThatIsMadeAnewAtOnce(t *testing.T) {
	w := idsWorld(t)
	source := FetchSource{TopicPartition: in20, Task: id00, Epoch: w.epoch(id00), Index: 1}
	w.step(PartMoved{Lost: PartLost{Source: source, Offset: 107, Code: kcode.UnknownTopicOrPartition}})
	w.after(w.e.cfg.Backoff)
	only[RefreshMetadata](w)
	w.seenWithID(2)
	require.Len(t, acted[EnsureTopics](w), 1)
	for _, f := range acted[Fetch](w) {
		_, adds := f.Event.(FetchAdd)
		require.False(t, adds, "it is not read on where the one before was read to")
	}
	w.step(w.withIDs(2))
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))

	s := &task.Sealed{Task: id00, Epoch: w.epoch(id00), Offsets: []task.InputOffset{{TopicPartition: in0, Offset: 120}, {TopicPartition: in20, Offset: 107}}}
	w.step(TaskSealed{s})
	c := w.lastCommit()
	require.Len(t, c.Offsets, 1)
	require.Equal(t, in0, c.Offsets[0].TopicPartition)
	w.answerCommit(c, kcode.None)
	require.Equal(t, []task.Event{task.Committed{}}, w.told(id00), "which is all of it")

	w.step(TaskReleased{Task: id00, Epoch: w.epoch(id00)})
	w.step(TaskClosed{Task: id00, Epoch: w.epoch(id00)})
	f := only[FetchOffsets](w)
	w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 120}, in20: {Offset: 107}}})
	w.listed(only[ListOffsets](w), 0, 300)
	require.Equal(t, []int64{120, 0}, only[StartTask](w).Positions, "a commit may have come in between, and the policy for what was there before says nothing of it")

	// From here on it is a topic like others.
	w.step(w.withIDs(2))
	require.Empty(t, w.told(id00))
	s = &task.Sealed{Task: id00, Epoch: w.epoch(id00), Offsets: []task.InputOffset{{TopicPartition: in0, Offset: 130}, {TopicPartition: in20, Offset: 7}}}
	w.step(TaskSealed{s})
	require.Len(t, w.lastCommit().Offsets, 2)
}

// An offset that is not in the log is no matter of a policy before it is known that the topic is the same.
func TestATopicOfAPatternThatIsShorterAnew(t *testing.T) {
	for _, c := range []struct {
		name string
		id   byte
		ends bool
	}{
		{"the same topic", 1, true},
		{"another one", 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := idsWorld(t)
			source := FetchSource{TopicPartition: in20, Task: id00, Epoch: w.epoch(id00), Index: 1}
			w.step(PartStopped{Failed: PartFailed{Source: source, Offset: 107, Code: kcode.OffsetOutOfRange}})
			if len(acted[RefreshMetadata](w)) == 0 {
				w.after(w.e.cfg.Backoff)
			}
			require.Len(t, acted[RefreshMetadata](w), 1)
			require.Empty(t, acted[ListOffsets](w))
			w.seenWithID(c.id)
			w.after(w.e.cfg.Backoff)
			for _, l := range acted[ListOffsets](w) {
				w.listed(l, 0, 5)
			}
			require.Equal(t, c.ends, w.e.State() == Closing)
		})
	}
}

// A broker that is behind may still tell of the topic before.
func TestAnIDOfBeforeIsNotBelieved(t *testing.T) {
	w := idsWorld(t)
	w.seenWithID(2)
	w.step(w.withIDs(2))
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	w.seenWithID(1)
	require.Empty(t, acted[EnsureTopics](w))
	w.step(w.withIDs(1))
	require.Equal(t, topicID{2}, w.e.ids["in2"])
	w.seenWithID(2)
	require.Empty(t, acted[EnsureTopics](w))
}

// Where a topic is gone by the time that its bounds are asked for nothing of it is fetched, so that nobody would notice.
func TestATopicThatIsGoneBeforeATaskIsOpened(t *testing.T) {
	w := newWorld(t, withPattern)
	w.joinGroup()
	w.assign([]task.ID{id00})
	f := only[FetchOffsets](w)
	w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: -1}}})
	l := only[ListOffsets](w)
	w.step(OffsetsListed{Request: l.Request, Err: kcode.UnknownTopicOrPartition})
	w.alive(time.Second)
	var looks int
	for _, r := range ever[RefreshMetadata](w) {
		if r.All {
			looks++
		}
	}
	require.NotZero(t, looks, "long before it would be looked for in any case")
}

// State outlives the topics that it is of: its tasks stay, as records may wait in it.
func TestTasksOfStateThatIsWiderThanItsTopics(t *testing.T) {
	w := newWorld(t, nil)
	w.step(Start{})
	w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "words": 1, "log": 3}})
	subs := w.e.topology().Subtopologies
	require.EqualValues(t, []int32{2, 3}, []int32{subs[0].Tasks, subs[1].Tasks})
}
