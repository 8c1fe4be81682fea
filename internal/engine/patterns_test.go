package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// withPattern lets subtopology 0 read all topics that begin with "in".
func withPattern(c *Config) {
	c.Matches = func(topic string) bool { return strings.HasPrefix(topic, "in") }
	c.Specs[0].Source = "ins"
}

// reading is what EnsureTopics answers when subtopology 0 reads these topics.
func (w *world) reading(counts map[string]int32, topics ...string) TopicsReady {
	spec := &task.Spec{Subtopology: 0, Source: "ins"}
	for _, topic := range topics {
		spec.Inputs = append(spec.Inputs, task.Input{Topic: topic})
	}
	ev := TopicsReady{Partitions: map[string]int32{"words": 1, "log": 1}, Specs: []*task.Spec{spec, w.e.specs[1]}}
	for topic, n := range counts {
		ev.Partitions[topic] = n
	}
	return ev
}

// seen answers RefreshMetadata with these partitions of topics that match.
func (w *world) seen(counts map[string]int32) {
	all := map[string]int32{"words": 1, "log": 1}
	leaders := map[task.TopicPartition]Leader{words0: {1, 5}, log0: {1, 5}}
	for topic, n := range counts {
		all[topic] = n
		for p := range n {
			leaders[task.TopicPartition{Topic: topic, Partition: p}] = Leader{1, 5}
		}
	}
	w.step(MetadataKnown{Leaders: leaders, Counts: all, All: true})
}

// looks lets time pass until the engine looks at the topics of patterns.
func (w *world) looks() {
	w.t.Helper()
	for range 100 {
		w.beat = 0
		w.after(w.e.cfg.RefreshEvery / 20)
		asked := acted[RefreshMetadata](w)
		if w.beat != 0 {
			w.heartbeatAnswered()
		}
		if len(asked) > 0 {
			require.True(w.t, asked[0].All, "the topics of patterns are among those that are looked at")
			return
		}
	}
	w.t.Fatal("it does not look")
}

func patterned(t *testing.T, tasks ...task.ID) *world {
	w := running(t, func(c *Config) { withPattern(c); c.RefreshEvery = 2 * time.Second }, tasks...)
	require.Empty(t, w.notices(NoticeRetry))
	return w
}

func TestATopicThatAppearsIsAskedForOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		seen map[string]int32
		asks int
	}{
		{"as before", map[string]int32{"in": 2}, 0},
		{"a new one", map[string]int32{"in": 2, "in2": 1}, 1},
		{"one that does not match", map[string]int32{"in": 2, "other": 1}, 0},
		{"one without partitions", map[string]int32{"in": 2, "in2": 0}, 0},
		{"more partitions", map[string]int32{"in": 3}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := patterned(t, id00)
			w.looks()
			w.seen(c.seen)
			require.Len(t, acted[EnsureTopics](w), c.asks)
			w.looks()
			w.seen(c.seen)
			require.Empty(t, acted[EnsureTopics](w), "the first is not answered yet")
		})
	}
}

// A task whose inputs have changed commits and begins anew, with its stores and its place in the group.
func TestATaskBeginsAnewWithTheTopicsThatItHasNow(t *testing.T) {
	w := patterned(t, id00, id10)
	old, other := w.epoch(id00), w.epoch(id10)
	w.step(w.reading(map[string]int32{"in": 2, "in2": 2}, "in", "in2"))
	require.Equal(t, []task.Event{task.Release{}}, w.told(id00))
	require.Empty(t, w.told(id10), "whose inputs are the same")
	w.step(TaskReleased{Task: id00, Epoch: old})
	require.Contains(t, w.told(id00), task.Close{})
	w.step(TaskClosed{Task: id00, Epoch: old})
	f := only[FetchOffsets](w)
	require.ElementsMatch(t, []task.TopicPartition{in0, in20}, f.Parts)
	w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 107}, in20: {Offset: 3}}})
	start := only[StartTask](w)
	require.Equal(t, []int64{107, 3}, start.Positions)
	require.Len(t, start.Spec.Inputs, 2)
	require.NotEqual(t, old, w.epoch(id00))
	require.Equal(t, other, w.epoch(id10))
	require.Empty(t, w.told(id10))
}

func TestATopicWithFewerPartitionsThanTasks(t *testing.T) {
	id01 := task.ID{Subtopology: 0, Partition: 1}
	w := patterned(t, id01)
	old := w.epoch(id01)
	w.step(w.reading(map[string]int32{"in": 2, "in2": 1}, "in", "in2"))
	w.step(TaskReleased{Task: id01, Epoch: old})
	w.step(TaskClosed{Task: id01, Epoch: old})
	f := only[FetchOffsets](w)
	require.Equal(t, []task.TopicPartition{in1}, f.Parts, "in2 has no such partition")
	w.committedAt(100, f)
	require.Equal(t, []int64{100, offsetAbsent}, only[StartTask](w).Positions)
	w.seen(map[string]int32{"in": 2, "in2": 1})
	for _, a := range ever[Fetch](w) {
		if add, ok := a.Event.(FetchAdd); ok {
			require.NotEqual(t, "in2", add.Source.Topic)
		}
	}

	w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "in2": 1, "words": 1, "log": 1}, Specs: w.e.cfg.Specs})
	require.Empty(t, w.told(id01), "nothing has changed")
	w.step(TopicsReady{Partitions: map[string]int32{"in": 2, "in2": 2, "words": 1, "log": 1}, Specs: w.e.cfg.Specs})
	require.Equal(t, []task.Event{task.Release{}}, w.told(id01), "the partition is there now")
}

// anew answers what a task waits for that is stopped to begin anew.
func (w *world) anew(id task.ID) {
	w.t.Helper()
	old := w.epoch(id)
	require.Contains(w.t, w.told(id), task.Release{})
	w.step(TaskReleased{Task: id, Epoch: old})
	w.step(TaskClosed{Task: id, Epoch: old})
	w.committedAt(100, only[FetchOffsets](w))
}

func TestATopicOfAPatternThatIsGone(t *testing.T) {
	w := patterned(t, id00)
	w.step(w.reading(map[string]int32{"in": 2, "in2": 2}, "in", "in2"))
	w.anew(id00)
	w.seen(map[string]int32{"in": 2, "in2": 2})

	w.looks()
	w.seen(map[string]int32{"in": 2})
	require.Empty(t, acted[EnsureTopics](w), "a broker may not have heard of it yet")
	w.looks()
	w.seen(map[string]int32{"in": 2, "in2": 2})
	w.looks()
	w.seen(map[string]int32{"in": 2})
	require.Empty(t, acted[EnsureTopics](w), "it was there meanwhile")
	w.after(goneAfter)
	if len(acted[RefreshMetadata](w)) == 0 {
		w.looks()
	}
	w.seen(map[string]int32{"in": 2})
	require.Len(t, acted[EnsureTopics](w), 1)
	require.NotEqual(t, Closing, w.e.State(), "what it ends for is a topic that is named")

	w.step(w.reading(map[string]int32{"in": 2}, "in"))
	w.anew(id00)
	require.Equal(t, []int64{100}, only[StartTask](w).Positions)
}

// The last commit of a task with a deleted topic is good for all others.
func TestACommitForATopicOfAPatternThatIsGone(t *testing.T) {
	gone := task.TopicPartition{Topic: "in2", Partition: 0}
	w := patterned(t, id00)
	l := w.e.lives[id00]
	l.sealed = &sealedCommit{Sealed: &task.Sealed{Offsets: []task.InputOffset{{TopicPartition: in0}, {TopicPartition: gone}}}}
	ev := OffsetsCommitted{Codes: map[task.TopicPartition]kcode.Code{in0: kcode.None, gone: kcode.UnknownTopicOrPartition}}
	_, code := w.e.worst(l, ev)
	require.Equal(t, kcode.None, code)
	ev.Codes[in0] = kcode.UnknownTopicOrPartition
	tp, code := w.e.worst(l, ev)
	require.Equal(t, in0, tp, "which is read")
	require.Equal(t, kcode.UnknownTopicOrPartition, code)
	w.step(Close{})
	l.sealed = &sealedCommit{Sealed: &task.Sealed{Offsets: []task.InputOffset{{TopicPartition: in0}}}}
	_, code = w.e.worst(l, ev)
	require.Equal(t, kcode.None, code, "nobody looks any more whether it is gone for good, and others must not be done again because of it")
}

// A round that begins looks at the topics of patterns, so that all members see a new one in the round that the first has asked for.
func TestARoundLooksAtTheTopicsOfPatterns(t *testing.T) {
	w := patterned(t, id00)
	w.after(time.Second)
	w.heartbeatAnswered()
	require.Empty(t, acted[RefreshMetadata](w))
	w.rebalance()
	look := ever[RefreshMetadata](w)
	require.True(t, look[len(look)-1].All)
	before := len(look)
	w.seen(map[string]int32{"in": 2, "in2": 1})
	require.Len(t, acted[EnsureTopics](w), 1)
	require.Len(t, ever[RefreshMetadata](w), before)
}

// A task that is being opened when its topics change is opened for those that there are then; what is answered of the ones before is good.
func TestTopicsThatAppearWhileATaskIsOpened(t *testing.T) {
	t.Run("without stores", func(t *testing.T) {
		w := newWorld(t, withPattern)
		w.joinGroup()
		w.assign([]task.ID{id00})
		f := only[FetchOffsets](w)
		w.step(w.reading(map[string]int32{"in": 2, "in2": 2}, "in", "in2"))
		w.committedAt(107, f)
		next := only[FetchOffsets](w)
		require.Equal(t, []task.TopicPartition{in20}, next.Parts)
		w.committedAt(3, next)
		require.Equal(t, []int64{107, 3}, only[StartTask](w).Positions)
	})
	t.Run("while its store is restored", func(t *testing.T) {
		w := restoring(t, func(c *Config) {
			c.Matches = func(topic string) bool { return strings.HasPrefix(topic, "words") }
		}, 4, 2, 8)
		w.metadata()
		more := *w.e.specs[1]
		more.Inputs = []task.Input{{Topic: "words"}, {Topic: "words2"}}
		w.step(TopicsReady{
			Partitions: map[string]int32{"in": 2, "words": 1, "words2": 1, "log": 1}, Specs: []*task.Spec{w.e.specs[0], &more},
		})
		w.step(Restored{Source: w.source(), Batch: changelog(8, 4, 5, 6, 7)})
		w.step(Applied{Task: id10, Epoch: w.epoch(id10)})
		require.Empty(t, ever[StartTask](w), "not with the topics that there were")
		w.assign([]task.ID{id10}) // by the round in which it could have gone to whoever has it restored already
		w.committedAt(3, only[FetchOffsets](w))
		w.listed(latest[ListOffsets](w), 2, 8)
		require.Equal(t, []int64{3, 3}, only[StartTask](w).Positions)
		require.Len(t, ever[Apply](w), 1, "the store is not restored twice")
	})
}
