package consume

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

var recovers = Config{RecoverAbove: 10, NoOffset: engine.ResetLatest}

// died leaves a commit behind of a consumer that was reading a topic of this id.
func died(t *testing.T, id retry.TopicID) *world {
	w := newWorld(t, recovers)
	w.id = id
	w.ends[at(0)] = 70
	cfg := recovers
	cfg.NoOffset = engine.ResetEarliest
	w.begin(cfg, at(0))
	w.settle()
	w.deliver(w.source(at(0), engine.Input), 100)
	require.Len(t, w.take(100), 70)
	w.commit(nil)
	w.settle()
	w.keeps(70, 70, true)
	_, m := w.committed(at(0))
	require.Equal(t, id, m.Topic)
	return w
}

// What is committed of a topic skips nothing of another one that was made under its name, which is longer by now.
func TestACommitOfATopicThatWasMadeAnewIsNotOneOfThePresentOne(t *testing.T) {
	w := died(t, retry.TopicID{1})
	w.id, w.ends[at(0)] = retry.TopicID{2}, 200
	w.begin(recovers, at(0))
	w.settle()
	w.later(time.Second)
	w.settle()
	src := w.source(at(0), engine.Input)
	require.Zero(t, w.sources[src])
	w.deliver(src, 200)
	replayed, fresh := split(w.take(300))
	require.Empty(t, replayed, "nobody has left anything of this one behind")
	require.Equal(t, offsets(0, 200), fresh)
	w.commit(nil)
	w.settle()
	w.keeps(200, 200, true)
	_, m := w.committed(at(0))
	require.Equal(t, w.id, m.Topic)
}

// Whoever has committed it may have seen the topic that was made anew before this consumer has.
func TestACommitOfATopicThatIsNotKnownYet(t *testing.T) {
	w := died(t, retry.TopicID{2})
	w.id = retry.TopicID{1}
	w.begin(recovers, at(0))
	for asked := false; !asked; { // what is known is old, and what is committed is asked for
		_, asked = w.pending[0].(FetchOffsets)
		w.answer()
	}
	require.Empty(t, w.sources)
	w.id = retry.TopicID{2}
	w.later(time.Second)
	w.settle()
	w.later(time.Second)
	w.settle()
	require.EqualValues(t, 70, w.sources[w.source(at(0), engine.Input)])
}

func TestACommitWhereNoIDIsKnown(t *testing.T) {
	for _, c := range []struct{ before, after retry.TopicID }{{}, {before: retry.TopicID{1}}, {after: retry.TopicID{1}}, {retry.TopicID{1}, retry.TopicID{1}}} {
		w := died(t, c.before)
		w.id = c.after
		w.begin(recovers, at(0))
		w.settle()
		require.EqualValues(t, 70, w.sources[w.source(at(0), engine.Input)])
	}
}

// A topic is made anew while it is read: what was returned of the former one moves no offset of the present one.
func TestATopicIsMadeAnewWhileItIsRead(t *testing.T) {
	for _, cfg := range []Config{{NoOffset: engine.ResetEarliest}, {NoOffset: engine.ResetEarliest, RecoverAbove: 10}} {
		cfg.Refresh = time.Minute
		w := newWorld(t, cfg)
		w.id, w.ends[at(0)] = retry.TopicID{1}, 70
		w.begin(cfg, at(0))
		w.settle()
		w.deliver(w.source(at(0), engine.Input), 50)
		took := w.take(100)
		require.Len(t, took, 50)
		w.id, w.ends[at(0)] = retry.TopicID{2}, 90
		w.later(2 * time.Minute)
		w.settle()
		src := w.source(at(0), engine.Input)
		require.Zero(t, w.sources[src])
		w.ids++
		w.step(Commit{ID: w.ids, Offsets: map[task.TopicPartition]int64{at(0): 50}, Lives: map[task.TopicPartition]uint64{at(0): took[0].life}})
		w.settle()
		require.ErrorContains(t, w.answers[w.ids], "earlier assignment")
		require.NotContains(t, w.kept, at(0))
		w.deliver(src, 90)
		_, fresh := split(w.take(100))
		require.Equal(t, offsets(0, 90), fresh)
		w.commit(nil)
		w.settle()
		require.NoError(t, w.answers[w.ids])
		require.EqualValues(t, 90, w.kept[at(0)])
	}
}

// A commit that waits when the topic is made anew is refused, and not made.
func TestACommitThatWaitsWhenItsTopicIsMadeAnew(t *testing.T) {
	cfg := Config{NoOffset: engine.ResetEarliest, Refresh: time.Minute}
	w := newWorld(t, cfg)
	w.id, w.ends[at(0)] = retry.TopicID{1}, 70
	w.begin(cfg, at(0))
	w.settle()
	w.deliver(w.source(at(0), engine.Input), 50)
	w.take(100)
	w.now = w.now.Add(2 * time.Minute)
	w.step(Tick{})
	id := w.commit(nil)
	w.id = retry.TopicID{2}
	for len(w.pending) > 0 {
		if _, commits := w.pending[0].(CommitOffsets); commits {
			w.pending = append(w.pending[1:], w.pending[0])
		}
		if _, is := w.pending[0].(CommitOffsets); is {
			break
		}
		w.answer()
	}
	require.ErrorContains(t, w.answers[id], "made anew")
}

// What is being handed over when its topic is made anew commits nothing of the former one, whose offsets would skip records of the present one.
func TestATopicIsMadeAnewWhileItIsHandedOver(t *testing.T) {
	for _, recoverAbove := range []int64{0, 10} {
		w := newWorld(t, Config{})
		w.id = retry.TopicID{1}
		w.ends[at(0)] = 70
		w.begin(Config{RecoverAbove: recoverAbove, NoOffset: engine.ResetEarliest, CommitInterval: time.Second, Listens: true}, at(0))
		w.settle()
		w.deliver(w.source(at(0), engine.Input), 50)
		require.Len(t, w.take(50), 50)
		w.m.revoke(w.m.order)
		w.id = retry.TopicID{2}
		w.step(Metadata{Topics: map[string]Topic{"t": {ID: w.id, Leaders: make([]engine.Leader, 1)}}})
		w.step(Polled{})
		for tell := w.m.NextTell(); tell != nil; tell = w.m.NextTell() {
			if revoked, is := tell.(TellRevoked); is {
				w.step(Told{Revocation: revoked.Revocation})
			}
		}
		w.settle()
		require.Equal(t, released, w.m.parts[at(0)].phase)
		require.NotContains(t, w.kept, at(0))
	}
}
