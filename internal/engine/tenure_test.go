package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// tenured is a sender whose task 0_0 was granted in generation 5, when its changelog ended at 10, and has sent its first records.
func tenured(t *testing.T) *senderBench {
	b := newSenderBench(t, SenderConfig{Linger: time.Nanosecond})
	b.ready(map[task.TopicPartition]int32{log0: 1, out0: 1})
	b.step(Leased{Until: b.now.Add(10 * time.Second)})
	b.step(Tenure{TopicPartition: log0, Generation: 5, End: 10})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, log0, out0)})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
	b.after(time.Millisecond)
	require.Len(t, b.sent, 1)
	return b
}

// to is the batch for a partition in the request that was sent last.
func (b *senderBench) to(tp task.TopicPartition) ProduceBatch {
	for _, batch := range b.last().Batches {
		if batch.TopicPartition == tp {
			return batch
		}
	}
	require.Fail(b.t, "nothing was sent", "%v", tp)
	return ProduceBatch{}
}

// answers gives each partition of the last request an answer of its own.
func (b *senderBench) answers(parts ...ProducedPart) {
	b.step(Produced{Request: b.last().Request, Parts: parts})
}

func TestTenureWritesUnderItsGeneration(t *testing.T) {
	b := tenured(t)
	changes, output := b.to(log0), b.to(out0)
	require.Equal(t, int64(7), output.ProducerID)
	require.Equal(t, writerOf(log0, 5), writer{changes.ProducerID, changes.Epoch})
	require.Equal(t, int16(5), changes.Epoch)
	b.answer(b.last(), kcode.None, 10)
	require.Equal(t, uint64(1), b.acks[0].Seq)

	b.step(EffectsMade{effects(id00, 1, 2, 3, 10, log0)})
	b.after(time.Millisecond)
	require.Equal(t, int32(2), b.to(log0).FirstSequence, "it goes on")
	b.answer(b.last(), kcode.None, 12)

	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.step(Tenure{TopicPartition: log0, Generation: 8, End: 15})
	b.step(EffectsMade{effects(id00, 2, 1, 1, 10, log0)})
	b.after(time.Millisecond)
	require.Equal(t, int16(8), b.to(log0).Epoch)
	require.Equal(t, changes.ProducerID, b.to(log0).ProducerID)
	require.Zero(t, b.to(log0).FirstSequence, "an epoch begins at 0")
}

// Other partitions' trouble with the process's producer id is none of a tenure's.
func TestTenureKeepsItsSequenceWhenTheProducerIDChanges(t *testing.T) {
	b := tenured(t)
	b.answers(ProducedPart{TopicPartition: log0, BaseOffset: 10}, ProducedPart{TopicPartition: out0, Code: kcode.OutOfOrderSequence, BaseOffset: -1})
	b.step(ProducerIDGiven{ID: 8})
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, log0)})
	b.after(100 * time.Millisecond)
	require.Equal(t, int64(8), b.to(out0).ProducerID)
	require.Equal(t, writerOf(log0, 5).pid, b.to(log0).ProducerID)
	require.Equal(t, int32(2), b.to(log0).FirstSequence)
}

// What a life that is over has not got through is not sent again: the task may be somebody else's.
func TestTenureEndsWithItsTask(t *testing.T) {
	for name, answer := range map[string]func(b *senderBench){
		"on the way": func(b *senderBench) {
			b.step(ForgetTask{Task: id00, Epoch: 1})
			b.answer(b.last(), kcode.NotLeaderOrFollower, -1)
		},
		"waiting to be resent": func(b *senderBench) {
			b.answer(b.last(), kcode.RequestTimedOut, -1)
			b.step(ForgetTask{Task: id00, Epoch: 1})
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newSenderBench(t, SenderConfig{Linger: time.Nanosecond})
			b.step(Tenure{TopicPartition: log0, Generation: 5, End: 10})
			b.step(EffectsMade{effects(id00, 1, 1, 2, 10, log0)})
			b.ready(map[task.TopicPartition]int32{log0: 1})
			b.after(time.Millisecond)
			require.Len(t, b.sent, 1)
			answer(b)
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1}})
			b.after(5 * time.Second)
			require.Len(t, b.sent, 1)
			require.True(t, b.s.Idle())
		})
	}
}

// The same holds for a life that has become an ordinary writer, also when the next one's tenure begins in between.
func TestForsakenTenureEndsWithItsTask(t *testing.T) {
	over := func(b *senderBench) { b.step(ForgetTask{Task: id00, Epoch: 1}) }
	next := func(b *senderBench) { b.step(Tenure{TopicPartition: log0, Generation: 9, End: 20}) }
	refused := func(b *senderBench) { b.answer(b.last(), kcode.NotLeaderOrFollower, -1) }
	appended := func(b *senderBench) { b.answer(b.last(), kcode.None, 12) }
	for name, steps := range map[string][]func(b *senderBench){
		"refused, over":              {refused, over},
		"over, refused":              {over, refused},
		"refused, over, next":        {refused, over, next},
		"over, next, refused":        {over, next, refused},
		"over, next, told of it now": {over, next, appended},
	} {
		t.Run(name, func(t *testing.T) {
			b := tenured(t)
			b.answers(ProducedPart{TopicPartition: log0, Code: kcode.UnknownProducerID, BaseOffset: -1}, ProducedPart{TopicPartition: out0, BaseOffset: 0})
			b.step(ProducerIDGiven{ID: 9})
			b.after(time.Second)
			require.Equal(t, int64(9), b.to(log0).ProducerID)
			sent := len(b.sent)
			for _, step := range steps {
				step(b)
			}
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
			b.after(2 * time.Second)
			require.Len(t, b.sent, sent)
			require.True(t, b.s.Idle())

			b.step(Tenure{TopicPartition: log0, Generation: 10, End: 20})
			b.step(EffectsMade{effects(id00, 2, 1, 1, 10, log0)})
			b.step(ProducerIDGiven{ID: 11}) // where the batch may have been appended
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
			b.after(2 * time.Second)
			require.Equal(t, writerOf(log0, 10), writer{b.to(log0).ProducerID, b.to(log0).Epoch})
			require.Zero(t, b.to(log0).FirstSequence)
		})
	}
}

// A batch of the tenure before may still be on the way when the task is back.
func TestTenureFollowsAnotherInTheSameProcess(t *testing.T) {
	b := tenured(t)
	first := b.last()
	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.step(Tenure{TopicPartition: log0, Generation: 9, End: 10})
	b.step(EffectsMade{effects(id00, 2, 1, 1, 10, log0)})
	b.answer(first, kcode.None, 10)
	b.after(100 * time.Millisecond)
	require.Equal(t, int16(9), b.to(log0).Epoch)
	require.Zero(t, b.to(log0).FirstSequence)
	require.Len(t, b.to(log0).Groups, 1)
	b.answer(b.last(), kcode.None, 12)
	require.Equal(t, uint64(2), b.acks[len(b.acks)-1].Epoch)
}

// A task that begins anew in the same grant goes on as the same writer. What its former life had on the way counts there: a broker that sees a
// sequence again takes the batch for the one that it has, and says that it is appended.
func TestTenureGoesOnInAnotherLife(t *testing.T) {
	over := func(b *senderBench) { b.step(ForgetTask{Task: id00, Epoch: 1}) }
	next := func(b *senderBench) { b.step(Tenure{TopicPartition: log0, Generation: 5, End: 12}) }
	answer := func(code kcode.Code, at int64) func(b *senderBench) {
		return func(b *senderBench) {
			b.answers(ProducedPart{TopicPartition: log0, Code: code, BaseOffset: at}, ProducedPart{TopicPartition: out0, BaseOffset: 0})
		}
	}
	appended, refused, unknown := answer(kcode.None, 10), answer(kcode.InvalidTimestamp, -1), answer(kcode.RequestTimedOut, -1)
	for name, c := range map[string]struct {
		steps    []func(b *senderBench)
		sequence int32
		ordinary bool // writer: nobody knows whether the first batch was appended
	}{
		"appended before it is over":            {steps: []func(*senderBench){appended, over, next}, sequence: 2},
		"appended between the two":              {steps: []func(*senderBench){over, appended, next}, sequence: 2},
		"appended in the next life":             {steps: []func(*senderBench){over, next, appended}, sequence: 2},
		"refused between the two":               {steps: []func(*senderBench){over, refused, next}},
		"refused in the next life":              {steps: []func(*senderBench){over, next, refused}},
		"nobody knows, before it is over":       {steps: []func(*senderBench){unknown, over, next}, ordinary: true},
		"nobody knows, between the two":         {steps: []func(*senderBench){over, unknown, next}, ordinary: true},
		"nobody knows, and the next life began": {steps: []func(*senderBench){over, next, unknown}, ordinary: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := tenured(t)
			for _, step := range c.steps {
				step(b)
			}
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
			b.step(EffectsMade{effects(id00, 2, 1, 1, 10, log0)})
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
			b.after(2 * time.Second)
			want := writerOf(log0, 5)
			if c.ordinary {
				want = writer{pid: 7} // of which the partition has seen nothing
			}
			require.Len(t, b.sent, 2)
			require.Equal(t, want, writer{b.to(log0).ProducerID, b.to(log0).Epoch})
			require.Equal(t, c.sequence, b.to(log0).FirstSequence)
			require.Len(t, b.to(log0).Groups[0].Refs, 1)
			b.answer(b.last(), kcode.None, 12)
			require.Equal(t, uint64(2), b.acks[len(b.acks)-1].Epoch)
			require.Zero(t, b.asks)
			require.True(t, b.s.Idle())
		})
	}
}

// Whoever has the task next, in a later grant, keeps out what is on its way: nothing is sent again for that.
func TestTenureThatIsOverSendsNothingAgain(t *testing.T) {
	b := tenured(t)
	b.answer(b.last(), kcode.NetworkException, -1)
	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
	b.after(5 * time.Second)
	require.Len(t, b.sent, 2, "to the output, whose sequence is needed")
	require.Len(t, b.last().Batches, 1)
	b.answer(b.last(), kcode.None, 0)
	require.True(t, b.s.Idle())
	b.step(Tenure{TopicPartition: log0, Generation: 9, End: 20})
	b.step(EffectsMade{effects(id00, 2, 1, 1, 10, log0)})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
	b.after(time.Second)
	require.Equal(t, writerOf(log0, 9), writer{b.to(log0).ProducerID, b.to(log0).Epoch})
	require.Zero(t, b.to(log0).FirstSequence)
	require.Zero(t, b.asks)
}

// Whoever is fenced waits for the group's word, and goes on only as long as it stays a member: then it is the group that began anew.
func TestFencedTenureWaitsForTheGroup(t *testing.T) {
	b := tenured(t)
	refuse := func() {
		b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{log0: 1, out0: 1}})
		b.after(2 * time.Second)
		b.answers(ProducedPart{TopicPartition: log0, Code: kcode.InvalidProducerEpoch, BaseOffset: -1})
	}
	b.answers(ProducedPart{TopicPartition: log0, Code: kcode.InvalidProducerEpoch, BaseOffset: -1}, ProducedPart{TopicPartition: out0, BaseOffset: 0})
	for range 3 {
		refuse()
		require.Equal(t, int16(5), b.to(log0).Epoch)
	}
	b.step(Leased{Until: b.now.Add(10 * time.Second)})
	b.step(Leased{Until: b.now.Add(11 * time.Second)})
	refuse()
	require.Zero(t, b.asks)
	b.step(Leased{Until: b.now.Add(12 * time.Second)})
	refuse()
	b.after(2 * time.Second)
	require.Equal(t, int64(7), b.to(log0).ProducerID, "the ordinary id, of which the partition has seen nothing")
	require.Zero(t, b.asks)
	require.Zero(t, b.to(log0).FirstSequence)
	b.answer(b.last(), kcode.None, 44)
	require.Equal(t, uint64(1), b.acks[len(b.acks)-1].Seq)
}

// The batch that fenced us may be lost with its broker: then nobody has, and whoever does later is waited for anew.
func TestTenureThatIsNoLongerFenced(t *testing.T) {
	b := tenured(t)
	b.answers(ProducedPart{TopicPartition: log0, Code: kcode.InvalidProducerEpoch, BaseOffset: -1}, ProducedPart{TopicPartition: out0, BaseOffset: 0})
	b.after(time.Second)
	b.answer(b.last(), kcode.None, 10)
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, log0)})
	for i := range confirmations {
		b.step(Leased{Until: b.now.Add(time.Duration(10+i) * time.Second)})
	}
	b.after(time.Second)
	b.answer(b.last(), kcode.InvalidProducerEpoch, -1)
	b.after(time.Second)
	require.Zero(t, b.asks)
	require.Equal(t, int16(5), b.to(log0).Epoch)
}

func TestFencedTenureEndsWithTheLease(t *testing.T) {
	b := tenured(t)
	b.answer(b.last(), kcode.InvalidProducerEpoch, -1)
	b.step(DropAll{Epoch: 1})
	b.after(time.Minute)
	require.Len(t, b.sent, 1)
}

// A broker that answers with an offset before the tenure takes our batch for one that it has: that of a group which counted the same
// generations. Nothing of ours is there.
func TestTenureTakesNoOldOffsetForItsOwn(t *testing.T) {
	for name, part := range map[string]ProducedPart{
		"an old offset":             {TopicPartition: log0, BaseOffset: 9},
		"an old sequence":           {TopicPartition: log0, Code: kcode.DuplicateSequence, BaseOffset: -1},
		"another's sequence":        {TopicPartition: log0, Code: kcode.OutOfOrderSequence, BaseOffset: -1},
		"an id that is unknown":     {TopicPartition: log0, Code: kcode.UnknownProducerID, BaseOffset: -1},
		"an id that no broker gave": {TopicPartition: log0, Code: kcode.InvalidProducerIDMapping, BaseOffset: -1},
	} {
		t.Run(name, func(t *testing.T) {
			b := tenured(t)
			b.answers(part, ProducedPart{TopicPartition: out0, BaseOffset: 0})
			require.Empty(t, b.acks)
			b.after(time.Second)
			require.Equal(t, int64(7), b.to(log0).ProducerID, "the ordinary id, of which the partition has seen nothing")
			require.Zero(t, b.asks)
			b.answer(b.last(), kcode.None, 10)
			require.Equal(t, uint64(1), b.acks[0].Seq)
		})
	}
}

func TestLaterGenerationsFenceEarlierOnes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := rapid.Int32Range(0, 1<<31-1)
		a, b := g.Draw(t, "one"), g.Draw(t, "another")
		tp := task.TopicPartition{Topic: rapid.String().Draw(t, "topic"), Partition: g.Draw(t, "partition")}
		x, y := writerOf(tp, a), writerOf(tp, b)
		require.GreaterOrEqual(t, x.pid, ownIDs)
		require.GreaterOrEqual(t, x.epoch, int16(0))
		require.Equal(t, a>>epochBits == b>>epochBits, x.pid == y.pid)
		require.Equal(t, a == b, x == y)
		if x.pid == y.pid {
			require.Equal(t, a < b, x.epoch < y.epoch)
		}
		other := tp
		other.Partition++
		require.NotEqual(t, x.pid, writerOf(other, a).pid)
	})
}

// An engine tells its sender of the tenure before the task can hand anything over.
func TestTenureBeginsBeforeTheTask(t *testing.T) {
	w := restoring(t, nil, 10, 0, 10)
	var order []string
	for _, a := range w.all {
		switch a := a.(type) {
		case StartTask:
			if a.Task == id10 {
				order = append(order, "task")
			}
		case ToSender:
			if ev, ok := a.Event.(Tenure); ok {
				require.Equal(t, Tenure{TopicPartition: log0, Generation: w.e.granted, End: 10}, ev)
				order = append(order, "tenure")
			}
		}
	}
	require.Equal(t, []string{"tenure", "task"}, order)
	require.Positive(t, w.e.granted)
}
