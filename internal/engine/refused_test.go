package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func withProducePolicy(c *Config) {
	for _, s := range c.Specs {
		s.Failure = retry.Ordered(retry.OnProduce(retry.Ordered(retry.ThenSkip())))
	}
}

func refusal(record uint64) *ProduceError {
	return &ProduceError{To: out0, Code: kcode.InvalidRecord, Records: 1, record: record, one: true}
}

// reborn lets the broker refuse a record of the task, and answers until its next life runs.
func (w *world) refuse(err *ProduceError) StartTask {
	old := w.epoch(id00)
	w.step(TaskFailed{Task: id00, Epoch: old, Err: err})
	require.Contains(w.t, w.told(id00), task.Lost{})
	require.Contains(w.t, acted[ToSender](w), ToSender{ForgetTask{Task: id00, Epoch: old}})
	w.step(TaskClosed{Task: id00, Epoch: old})
	f := only[FetchOffsets](w)
	m := retry.NewMetadata(5)
	m.Running = true
	text, _ := m.Encode(5)
	w.step(OffsetsFetched{Request: f.Request, Offsets: map[task.TopicPartition]CommittedOffset{in0: {Offset: 5, Metadata: text}}})
	return only[StartTask](w)
}

// A task of which a broker refuses a record begins again at its last commit, and knows the record then. That is no crash.
func TestTaskWithARefusedRecordBeginsAgain(t *testing.T) {
	w := running(t, withProducePolicy, id00)
	start := w.refuse(refusal(7))
	require.Equal(t, Running, w.e.State())
	require.Equal(t, []int64{5}, start.Positions)
	require.Len(t, start.Refused, 1)
	require.Equal(t, uint64(7), start.Refused[0].Print)
	require.Equal(t, "out", start.Refused[0].Topic)
	require.False(t, start.Committed[0].Running)
	start = w.refuse(refusal(8))
	require.Len(t, start.Refused, 2)
}

// What is refused although it is known gets nowhere, nor what is another record each time.
func TestRefusalsWithoutProgressEndTheApplication(t *testing.T) {
	w := running(t, withProducePolicy, id00)
	w.refuse(refusal(7))
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: refusal(7)})
	require.Equal(t, Closing, w.e.State())

	w = running(t, withProducePolicy, id00)
	for i := range mostRefusals {
		w.refuse(refusal(uint64(i)))
	}
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: refusal(1000)})
	require.Equal(t, Closing, w.e.State())
}

// A record that is refused while tasks are released for want of room is no more than at any other time: the application comes back.
func TestRefusalWhileTheDiskIsFull(t *testing.T) {
	w := running(t, withProducePolicy, id00)
	w.full()
	old := w.epoch(id00)
	w.step(TaskFailed{Task: id00, Epoch: old, Err: refusal(7)})
	require.Equal(t, Suspended, w.e.State())
	require.Contains(t, w.told(id00), task.Lost{})
	w.closed(id00)
	w.goodbye()
	require.Equal(t, Suspended, w.e.State())
	require.NoError(t, w.e.err)
}

func TestRefusalsAreForgotten(t *testing.T) {
	w := running(t, withProducePolicy, id00)
	w.refuse(refusal(7))
	w.alive(task.RefusalHolds + time.Second)
	require.Len(t, w.refuse(refusal(7)).Refused, 1)
}

// Without a policy for produce, or where it is a row of a store, a refusal ends the application.
func TestRefusalThatNoPolicyIsAbout(t *testing.T) {
	w := running(t, nil, id00)
	w.step(TaskFailed{Task: id00, Epoch: w.epoch(id00), Err: refusal(7)})
	require.Equal(t, Closing, w.e.State())
	w = running(t, withProducePolicy, id10)
	row := refusal(7)
	row.To = log0
	w.step(TaskFailed{Task: id10, Epoch: w.epoch(id10), Err: row})
	require.Equal(t, Closing, w.e.State())
}

// Of a batch with a record that the broker does not take that one is refused, and nobody else's.
func TestSenderFindsTheRecordThatIsRefused(t *testing.T) {
	for _, code := range []kcode.Code{kcode.InvalidRecord, kcode.InvalidTimestamp} {
		b := newSenderBench(t, SenderConfig{})
		b.step(EffectsMade{effects(id00, 1, 1, 3, 10, out0)})
		b.step(EffectsMade{effects(id01, 1, 1, 1, 20, out0)})
		b.ready(map[task.TopicPartition]int32{out0: 1})
		b.after(5 * time.Millisecond)
		for offset, i := int64(0), 0; len(b.bad) == 0; i++ {
			require.Less(t, i, 20)
			batch := b.last().Batches[0]
			of, records := false, int64(0)
			for _, g := range batch.Groups {
				for i := range g.Refs {
					of = of || len(g.Record(i).Value) == 20
					records++
				}
			}
			if of {
				b.answer(b.last(), code, -1)
				continue
			}
			b.answer(b.last(), kcode.None, offset)
			offset += records
			b.after(10 * time.Millisecond)
		}
		require.Len(t, b.bad, 1)
		require.Equal(t, id01, b.bad[0].Task)
		require.True(t, b.bad[0].Err.one)
		require.Equal(t, effects(id01, 1, 1, 1, 20, out0).Groups[0].Print(0), b.bad[0].Err.record)
		require.Equal(t, uint64(1), b.acks[len(b.acks)-1].Seq)
		require.Equal(t, id00, b.acks[len(b.acks)-1].Task)
	}
}
