package consume

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// A group that members share takes no commits from outside, however often they are made: whoever has partitions by hand is told so.
func TestCommitByHandInAGroupThatMembersShareIsRefused(t *testing.T) {
	for _, code := range []kcode.Code{kcode.UnknownMemberID, kcode.IllegalGeneration, kcode.RebalanceInProgress} {
		w := newWorld(t, Config{})
		w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
		w.step(Begin{})
		w.settle()
		w.refuse = code
		id := w.commit(map[task.TopicPartition]int64{at(0): 1})
		w.settle()
		var refused *CommitRefusedError
		require.ErrorAs(t, w.answers[id], &refused)
		require.ErrorIs(t, w.answers[id], code)
		require.ErrorContains(t, w.answers[id], "members")
	}
}

// Offsets may be committed by hand before anything is polled.
func TestCommitByHandBeforeTheFirstPoll(t *testing.T) {
	w := newWorld(t, Config{})
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	id := w.commit(map[task.TopicPartition]int64{at(0): 7})
	w.settle()
	require.Contains(t, w.answers, id)
	require.NoError(t, w.answers[id])
	require.EqualValues(t, 7, w.kept[at(0)])
}

// Brokers that do not take a commit do not hold up the end of the consumer for ever.
func TestCloseWithCommitsThatNobodyTakesEnds(t *testing.T) {
	w := newWorld(t, Config{})
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.step(Begin{})
	w.settle()
	w.refuse = kcode.UnknownTopicOrPartition
	id := w.commit(map[task.TopicPartition]int64{at(0): 7})
	w.settle()
	w.step(Close{})
	for range 100 {
		w.refuse = kcode.UnknownTopicOrPartition
		w.later(time.Second)
		w.settle()
	}
	require.True(t, w.ended)
	var refused *CommitRefusedError
	require.ErrorAs(t, w.answers[id], &refused)
}

// A Poll that waits for records for long commits what the one before has returned.
func TestPollThatFindsNothingCommitsWhatIsDone(t *testing.T) {
	w := newWorld(t, Config{CommitInterval: time.Second})
	w.ends[at(0)] = 3
	w.step(Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	w.step(Begin{})
	w.settle()
	for src := range w.sources {
		w.deliver(src, 3)
	}
	require.Len(t, w.take(5), 3)
	require.Empty(t, w.take(5))
	require.Empty(t, w.kept)
	w.later(2 * time.Second) // nobody calls Poll again
	w.settle()
	require.EqualValues(t, 3, w.kept[at(0)])
	before := len(w.pending)
	w.later(2 * time.Second)
	require.Len(t, w.pending, before, "once is enough")
}

// A store of the user's that is down when the consumer ends keeps it from nothing else: offsets that are not needed any more are not asked for.
func TestCloseAsksForNoOffsets(t *testing.T) {
	a := newAlone(t, Config{Own: true})
	a.tell(Close{})
	for tell := a.NextTell(); tell != nil; tell = a.NextTell() {
		_, loads := tell.(TellLoad)
		require.False(t, loads)
	}
}

// What is held of a partition counts after its leader has moved: however often that happens, no more is fetched than fits.
func TestMovesDoNotPileUpWhatIsHeld(t *testing.T) {
	m, now := fetchesOne(t)
	held := 0
	for i := range int64(3) {
		m.Step(now, arrives(m, i))
		held += 1000
		src := m.parts[at(0)].source(&m.parts[at(0)].path)
		m.Step(now, PartMoved{Lost: engine.PartLost{Source: src, Offset: i + 1}})
		now = now.Add(time.Minute)
		adds := fetchEvents[engine.FetchAdd](m.Step(now, Metadata{Topics: map[string]Topic{"t": {Leaders: make([]engine.Leader, 1)}}}))
		require.Len(t, adds, 1)
		require.Equal(t, held, adds[0].Held)
	}
}

// Whoever pauses and resumes more often than a broker answers gets what it has answered all the same, and nothing of it twice.
func TestShortPausesKeepNothingAway(t *testing.T) {
	m, now := fetchesOne(t)
	scratch := make([]task.Record, 10)
	for i := range int64(3) {
		said := m.Step(now, Pause{Parts: []task.TopicPartition{at(0)}})
		require.Equal(t, []engine.FetchPause{{Source: m.parts[at(0)].source(&m.parts[at(0)].path)}}, fetchEvents[engine.FetchPause](said))
		require.Empty(t, fetchEvents[engine.FetchRemove](said))
		m.Step(now, arrives(m, i))
		n, _ := m.Take(now, scratch, func(Chunk) {})
		require.Zero(t, n, "it is paused")
		said = m.Step(now, Pause{Parts: []task.TopicPartition{at(0)}, Off: true})
		require.Equal(t, []engine.FetchPause{{Source: m.parts[at(0)].source(&m.parts[at(0)].path), Off: true}}, fetchEvents[engine.FetchPause](said))
		require.Empty(t, fetchEvents[engine.FetchAdd](said))
		n, _ = m.Take(now, scratch, func(c Chunk) { require.Equal(t, i, c.Records[0].Offset) })
		require.Equal(t, 1, n)
	}
}

// fetchesOne is a machine that fetches a partition by hand.
func fetchesOne(t *testing.T) (*Machine, time.Time) {
	m := New(Config{Manual: true, Group: group.Config{Group: "g"}, Memory: leastBound})
	now := time.Unix(1000, 0)
	m.Step(now, Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}}})
	m.Step(now, Begin{})
	require.Len(t, fetchEvents[engine.FetchAdd](m.Step(now, Metadata{Topics: map[string]Topic{"t": {Leaders: make([]engine.Leader, 1)}}})), 1)
	return m, now
}

// arrives is an answer with one record for the partition.
func arrives(m *Machine, offset int64) Arrived {
	b := &task.Batch{From: offset, Next: offset + 1, Bytes: 1000, Records: []task.Record{{Offset: offset}}}
	return Arrived{engine.Deliver{Source: m.parts[at(0)].source(&m.parts[at(0)].path), Batch: b}}
}

// fetchEvents are those of one kind.
func fetchEvents[E engine.PlannerEvent](actions []Action) (out []E) {
	for _, a := range actions {
		if f, is := a.(Fetch); is {
			if e, is := f.Event.(E); is {
				out = append(out, e)
			}
		}
	}
	return out
}

// The bounds of a log are asked for at once, and not with whatever comes next, where the last of what is held before them was returned exactly.
func TestOutOfRangeBehindAFullTake(t *testing.T) {
	m, now := fetchesOne(t)
	m.Step(now, arrives(m, 0))
	n, _ := m.Take(now, make([]task.Record, 1), func(Chunk) {})
	require.Equal(t, 1, n)
	src := m.parts[at(0)].source(&m.parts[at(0)].path)
	m.Step(now, PartStopped{Failed: engine.PartFailed{Source: src, Offset: 1, Code: kcode.OffsetOutOfRange}})
	m.Step(now, Polled{})
	n, actions := m.Take(now, make([]task.Record, 1), func(Chunk) {})
	require.Zero(t, n)
	require.True(t, slices.ContainsFunc(actions, func(a Action) bool { _, is := a.(ListOffsets); return is }))
}

// A save that was refused before anybody took it holds up none that comes after it.
func TestASaveThatIsRefusedBeforeItIsTaken(t *testing.T) {
	m := New(Config{Manual: true, Own: true})
	now := time.Unix(1000, 0)
	m.Step(now, Assign{Starts: map[task.TopicPartition]Start{at(0): {At: Exact}, at(1): {At: Exact}}})
	m.Step(now, Begin{})
	m.Step(now, Commit{ID: 1, Offsets: map[task.TopicPartition]int64{at(0): 5}})
	m.Step(now, Unassign{Parts: []task.TopicPartition{at(0)}})
	m.Step(now, Commit{ID: 2, Offsets: map[task.TopicPartition]int64{at(1): 7}})
	s := m.TakeSave()
	require.NotNil(t, s)
	require.Equal(t, map[task.TopicPartition]int64{at(1): 7}, s.Offsets)
}
