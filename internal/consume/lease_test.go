package consume

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

var t0 = task.TopicPartition{Topic: "t"}

// alone is the only member of a group that reads one partition, with brokers that answer at once.
type alone struct {
	*Machine
	t          *testing.T
	now        time.Time
	generation int32
	answers    []Answer
	commits    int
}

func newAlone(t *testing.T, cfg Config) *alone {
	cfg.Group, cfg.Topics = group.Config{Group: "g", Session: 10 * time.Second}, []string{"t"}
	a := &alone{Machine: New(cfg), t: t, now: time.Unix(1000, 0)}
	a.tell(Begin{})
	return a
}

// tell steps the machine and lets the brokers answer.
func (a *alone) tell(ev Event) {
	var answers []Event
	for _, act := range a.Step(a.now, ev) {
		switch act := act.(type) {
		case MemberAction:
			if ev := a.coordinate(act.Action); ev != nil {
				answers = append(answers, Member{ev})
			}
		case RefreshMetadata:
			answers = append(answers, Metadata{Topics: map[string]Topic{"t": {Leaders: []engine.Leader{{Broker: 1}}}}})
		case FetchOffsets:
			answers = append(answers, OffsetsFetched{Request: act.Request, Offsets: map[task.TopicPartition]engine.CommittedOffset{t0: {Offset: 100}}})
		case CommitOffsets:
			a.commits++
		case Answer:
			a.answers = append(a.answers, act)
		}
	}
	for _, ev := range answers {
		a.tell(ev)
	}
}

func (a *alone) coordinate(act group.Action) group.Event {
	switch act := act.(type) {
	case group.FindCoordinator:
		return group.CoordinatorFound{Req: act.Req, Addr: "broker"}
	case group.SendJoin:
		a.generation++
		return group.JoinDone{
			Req: act.Req, Sent: a.now, MemberID: "m", Generation: a.generation, Leader: true, Members: []group.JoinedMember{{ID: "m", Metadata: act.Metadata}},
		}
	case group.SendSync:
		return group.SyncDone{Req: act.Req, Sent: a.now, Assignment: act.Assignments[0].Bytes}
	}
	return nil
}

// poll is a Poll: user code is told of what there is, and asked for offsets.
func (a *alone) poll(n int) (got int) {
	a.tell(Polled{})
	for t := a.NextTell(); t != nil; t = a.NextTell() {
		if load, is := t.(TellLoad); is {
			a.tell(Loaded{Request: load.Request, Offsets: map[task.TopicPartition]int64{t0: 100}})
		}
	}
	got, _ = a.Take(a.now, make([]task.Record, n), func(Chunk) {})
	return got
}

// arrive brings what a fetch from 100 on has found.
func (a *alone) arrive() {
	batch := &task.Batch{Records: []task.Record{{Offset: 100}, {Offset: 101}, {Offset: 102}}, From: 100, Next: 600}
	a.tell(Arrived{engine.Deliver{Source: a.parts[t0].source(&a.parts[t0].path), Batch: batch}})
}

// A process that was suspended finds at once that its lease is over, before any timer of its own has told it: what it commits is refused, and
// what it has fetched is not returned. A store of the user's may know nothing of generations.
func TestWhoWasSuspendedNeitherSavesNorReads(t *testing.T) {
	for _, c := range []struct {
		name  string
		wakes func(*alone)
	}{
		{"with a commit", func(*alone) {}},
		{"with a poll", func(a *alone) { require.Zero(a.t, a.poll(5)) }},
		{"within a poll", func(a *alone) {
			n, _ := a.Take(a.now, make([]task.Record, 5), func(Chunk) {})
			require.Zero(a.t, n)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAlone(t, Config{Own: true})
			a.poll(2)
			a.arrive()
			require.Equal(t, 2, a.poll(2))
			life := a.parts[t0].life
			a.now = a.now.Add(20 * time.Second)
			c.wakes(a)
			a.tell(Commit{ID: 7, Offsets: map[task.TopicPartition]int64{t0: 102}, Lives: map[task.TopicPartition]uint64{t0: life}})
			require.Nil(t, a.TakeSave())
			require.Len(t, a.answers, 1)
			var refused *CommitRefusedError
			require.ErrorAs(t, a.answers[0].Err, &refused)
			require.Equal(t, t0, refused.Partition)
		})
	}
}

// What was queued for the store before the process was suspended is not saved after it.
func TestSaveThatWaitedForTooLong(t *testing.T) {
	a := newAlone(t, Config{Own: true})
	a.poll(2)
	a.arrive()
	a.poll(2)
	a.tell(Commit{ID: 7})
	a.now = a.now.Add(20 * time.Second)
	a.tell(Polled{})
	require.Nil(t, a.TakeSave())
	require.Len(t, a.answers, 1)
	require.Error(t, a.answers[0].Err)
}

// A store of one's own is all that is written to, unless it is asked for.
func TestSavesAreCommittedToKafkaOnlyIfAsked(t *testing.T) {
	for _, also := range []bool{false, true} {
		a := newAlone(t, Config{Own: true, AlsoKafka: also, CommitInterval: time.Second, NoOffset: engine.ResetLatest})
		a.poll(2)
		a.arrive()
		a.poll(2)
		a.tell(Commit{ID: 7})
		s := a.TakeSave()
		require.NotNil(t, s)
		require.Equal(t, map[task.TopicPartition]int64{t0: 102}, s.Offsets)
		require.Equal(t, a.generation, s.Generation)
		require.Empty(t, a.answers)
		a.tell(Saved{Request: s.Request})
		require.Equal(t, []Answer{{ID: 7}}, a.answers)
		a.now = a.now.Add(2 * time.Second)
		a.poll(1)
		a.tell(Close{})
		require.Equal(t, also, a.commits > 0)
	}
}

// A save that fails is the answer of its commit, and nothing goes to Kafka instead.
func TestSaveThatFails(t *testing.T) {
	a := newAlone(t, Config{Own: true, AlsoKafka: true})
	a.poll(2)
	a.arrive()
	a.poll(2)
	a.tell(Commit{ID: 7})
	s := a.TakeSave()
	full := errors.New("the disk is full")
	a.tell(Saved{Request: s.Request, Err: full})
	require.ErrorIs(t, a.answers[0].Err, full)
	require.Zero(t, a.commits)
	a.tell(Commit{ID: 8})
	again := a.TakeSave()
	require.NotNil(t, again, "the next commit tries again")
	require.Equal(t, s.Offsets, again.Offsets)
}
