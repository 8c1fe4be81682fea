package shell

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// A fetch that waits at a broker for records that nobody wants keeps waiting who has come meanwhile.
func TestFetchLoopAsksForWhatIsWantedNow(t *testing.T) {
	source := func(n int32) engine.FetchSource {
		return engine.FetchSource{TopicPartition: task.TopicPartition{Topic: "log", Partition: n}, Epoch: 1}
	}
	f := newFetchers(fetchHost{deliver: func(engine.Purpose, engine.Deliver) { t.Error("of what was removed nothing is delivered") }}, 0)
	l := newFetchLoop(f, loopKey{purpose: engine.Restore})
	defer l.wake.stop()
	require.NotNil(t, l.step(engine.FetchAdd{Source: source(0), Bound: 1 << 20}, nil))
	l.box.put(engine.FetchRemove{Source: source(0)})
	l.box.put(engine.FetchAdd{Source: source(1), Bound: 1 << 20})
	ask := l.answered(engine.FetchAnswered{Parts: []engine.FetchedPart{{TopicPartition: source(0).TopicPartition, Batch: &task.Batch{Next: 7}}}})
	require.NotNil(t, ask)
	require.Len(t, ask.Parts, 1)
	require.Equal(t, source(1).TopicPartition, ask.Parts[0].TopicPartition)
}
