package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var (
	t0   = time.Unix(1_700_000_000, 0)
	out0 = task.TopicPartition{Topic: "out", Partition: 0}
	out1 = task.TopicPartition{Topic: "out", Partition: 1}
	id00 = task.ID{Subtopology: 0, Partition: 0}
	id01 = task.ID{Subtopology: 0, Partition: 1}
)

// effects makes an Effects with one group of n records of size bytes per partition.
func effects(id task.ID, epoch, seq uint64, n, size int, to ...task.TopicPartition) *task.Effects {
	e := &task.Effects{Task: id, Epoch: epoch, Seq: seq}
	for _, tp := range to {
		records := make([]task.OutRecord, n)
		for i := range records {
			records[i] = task.OutRecord{Key: []byte("k"), Value: make([]byte, size)}
		}
		g := task.NewGroup(tp, records...)
		e.Groups = append(e.Groups, *g)
		e.Bytes += g.Bytes
	}
	return e
}

// senderBench drives a Sender and sorts what it wants.
type senderBench struct {
	t    *testing.T
	s    *Sender
	now  time.Time
	sent []Produce
	acks []EffectsAcked
	bad  []ProduceFailed
	asks int
	md   [][]string
	wake time.Time
	cut  int
}

func newSenderBench(t *testing.T, cfg SenderConfig) *senderBench {
	return &senderBench{t: t, s: NewSender(cfg), now: t0}
}

func (b *senderBench) step(ev SenderEvent) {
	for _, a := range b.s.Step(b.now, ev) {
		switch a := a.(type) {
		case Produce:
			for _, batch := range a.Batches {
				for _, g := range batch.Groups {
					require.NotEmpty(b.t, g.Refs, "a group without a record in a batch for %s", batch.TopicPartition)
				}
			}
			b.sent = append(b.sent, a)
		case EffectsAcked:
			b.acks = append(b.acks, a)
		case ProduceFailed:
			b.bad = append(b.bad, a)
		case AskProducerID:
			b.asks++
		case RefreshLeaders:
			b.md = append(b.md, a.Topics)
		case SenderWake:
			b.wake = a.At
		case DisconnectProduce:
			b.cut++
		}
	}
}

func (b *senderBench) ready(leaders map[task.TopicPartition]int32) {
	b.step(ProducerIDGiven{ID: 7, Epoch: 0})
	b.step(LeadersKnown{Leaders: leaders})
}

func (b *senderBench) after(d time.Duration) {
	b.now = b.now.Add(d)
	b.step(SenderTick{})
}

func (b *senderBench) last() Produce {
	require.NotEmpty(b.t, b.sent)
	return b.sent[len(b.sent)-1]
}

func (b *senderBench) answer(p Produce, code kcode.Code, base int64) {
	ev := Produced{Request: p.Request}
	for _, batch := range p.Batches {
		ev.Parts = append(ev.Parts, ProducedPart{TopicPartition: batch.TopicPartition, Code: code, BaseOffset: base})
	}
	b.step(ev)
}

func TestSenderAsksForProducerIDAndLeadersBeforeItSends(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
	require.Equal(t, 1, b.asks)
	require.Empty(t, b.sent)
	b.step(ProducerIDGiven{ID: 7, Epoch: 3})
	require.Equal(t, [][]string{{"out"}}, b.md)
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 4}})
	require.Empty(t, b.sent, "it lingers")
	b.after(5 * time.Millisecond)
	p := b.last()
	require.Equal(t, int32(4), p.Broker)
	require.Equal(t, int64(7), p.Batches[0].ProducerID)
	require.Equal(t, int16(3), p.Batches[0].Epoch)
	require.Equal(t, int32(0), p.Batches[0].FirstSequence)
	b.answer(p, kcode.None, 40)
	require.Equal(t, []EffectsAcked{{Task: id00, Epoch: 1, Seq: 1, Offsets: []GroupOffset{{out0, 40, 2}}}}, b.acks)
	require.True(t, b.s.Idle())
}

func TestSenderMergesTasksIntoOneBatchAndOneRequest(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0, out1)})
	b.step(EffectsMade{effects(id01, 1, 1, 3, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1, out1: 1})
	b.after(5 * time.Millisecond)
	require.Len(t, b.sent, 1)
	require.Len(t, b.last().Batches, 2)
	require.Len(t, b.last().Batches[0].Groups, 2, "two tasks share the batch of a partition")
	b.answer(b.last(), kcode.None, 100)
	require.ElementsMatch(t, []EffectsAcked{
		{Task: id00, Epoch: 1, Seq: 1, Offsets: []GroupOffset{{out0, 100, 2}, {out1, 100, 2}}},
		{Task: id01, Epoch: 1, Seq: 1, Offsets: []GroupOffset{{out0, 102, 3}}},
	}, b.acks)
}

func TestSenderKeepsOneBatchPerPartitionOnTheWay(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.ready(nil)
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1}})
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out0)})
	require.Len(t, b.sent, 1)
	b.answer(b.sent[0], kcode.None, 0)
	require.Len(t, b.sent, 2)
	require.Equal(t, int32(2), b.last().Batches[0].FirstSequence)
	require.Equal(t, uint64(1), b.acks[0].Seq)
}

func TestSenderRetriesTheSameBatchInOrder(t *testing.T) {
	for name, code := range map[string]kcode.Code{
		"not leader": kcode.NotLeaderOrFollower, "not enough replicas": kcode.NotEnoughReplicas, "timeout": kcode.RequestTimedOut,
		"connection lost": kcode.NetworkException,
	} {
		t.Run(name, func(t *testing.T) {
			b := newSenderBench(t, SenderConfig{BatchBytes: 1})
			b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
			b.ready(map[task.TopicPartition]int32{out0: 1})
			first := b.last()
			b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out0)})
			if code == kcode.NetworkException {
				b.step(Produced{Request: first.Request, Err: errors.New("cut")})
			} else {
				b.answer(first, code, -1)
			}
			b.after(time.Second)
			b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 2}})
			b.after(time.Second)
			again := b.last()
			require.NotEqual(t, first.Request, again.Request)
			require.Equal(t, first.Batches[0].FirstSequence, again.Batches[0].FirstSequence)
			require.Len(t, again.Batches[0].Groups[0].Refs, 2, "the identical batch, not one with what came since")
			b.answer(again, kcode.DuplicateSequence, 5)
			require.Equal(t, int32(2), b.last().Batches[0].FirstSequence)
			b.answer(b.last(), kcode.None, 7)
			require.Equal(t, uint64(2), b.acks[len(b.acks)-1].Seq)
		})
	}
}

func TestSenderTakesANewProducerIDWhenItsSequencesAreLost(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.answer(b.last(), kcode.None, 0)
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out0)})
	require.Equal(t, int32(2), b.last().Batches[0].FirstSequence)
	b.answer(b.last(), kcode.UnknownProducerID, -1)
	require.Equal(t, 2, b.asks)
	b.step(ProducerIDGiven{ID: 8})
	b.after(time.Second)
	require.Equal(t, int64(8), b.last().Batches[0].ProducerID)
	require.Equal(t, int32(0), b.last().Batches[0].FirstSequence)
}

func TestSenderAnAnswerUnderAnOldProducerIDDoesNotMoveTheNewSequence(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
	b.step(EffectsMade{effects(id01, 1, 1, 2, 10, out1)})
	b.ready(map[task.TopicPartition]int32{out0: 1, out1: 2})
	require.Len(t, b.sent, 2)
	b.answer(b.sent[0], kcode.OutOfOrderSequence, -1)
	b.step(ProducerIDGiven{ID: 8})
	b.answer(b.sent[1], kcode.None, 0)
	b.step(EffectsMade{effects(id01, 1, 2, 1, 10, out1)})
	require.Equal(t, int32(0), b.last().Batches[0].FirstSequence)
}

func TestSenderSplitsWhatIsTooLarge(t *testing.T) {
	t.Run("the broker says so", func(t *testing.T) {
		b := newSenderBench(t, SenderConfig{BatchBytes: 1})
		b.step(EffectsMade{effects(id00, 1, 1, 4, 100, out0)})
		b.ready(map[task.TopicPartition]int32{out0: 1})
		b.answer(b.last(), kcode.MessageTooLarge, -1)
		var n, seq int
		for len(b.acks) == 0 {
			p := b.last()
			require.Equal(t, int32(seq), p.Batches[0].FirstSequence)
			for _, g := range p.Batches[0].Groups {
				seq += len(g.Refs)
			}
			n++
			b.answer(p, kcode.None, int64(seq))
			b.after(10 * time.Millisecond)
			require.Less(t, n, 5)
		}
		require.Equal(t, 4, seq)
		require.Greater(t, n, 1)
		require.Equal(t, uint64(1), b.acks[len(b.acks)-1].Seq)
	})
	t.Run("one record", func(t *testing.T) {
		b := newSenderBench(t, SenderConfig{BatchBytes: 1})
		b.step(EffectsMade{effects(id00, 1, 1, 1, 100, out0)})
		b.ready(map[task.TopicPartition]int32{out0: 1})
		b.answer(b.last(), kcode.MessageTooLarge, -1)
		require.Len(t, b.bad, 1)
		require.Equal(t, id00, b.bad[0].Task)
		require.ErrorIs(t, b.bad[0].Err, kcode.MessageTooLarge)
		require.ErrorContains(t, b.bad[0].Err, "max.message.bytes")
	})
	t.Run("by its own bound", func(t *testing.T) {
		b := newSenderBench(t, SenderConfig{BatchBytes: 1, MaxBatch: 300})
		b.step(EffectsMade{effects(id00, 1, 1, 10, 100, out0)})
		b.ready(map[task.TopicPartition]int32{out0: 1})
		total := 0
		for len(b.acks) == 0 {
			p := b.last()
			n := 0
			for _, g := range p.Batches[0].Groups {
				n += len(g.Refs)
			}
			require.LessOrEqual(t, n, 2)
			total += n
			b.answer(p, kcode.None, int64(total))
		}
		require.Equal(t, 10, total)
	})
}

// Each record is larger than a batch may be: they go one by one, and leave nothing behind in the lane.
func TestSenderSendsRecordsLargerThanABatch(t *testing.T) {
	b := newSenderBench(t, SenderConfig{MaxBatch: 50})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	for seq := range uint64(3) {
		b.step(EffectsMade{effects(id00, 1, seq+1, 1, 100, out0)})
	}
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1}})
	b.after(10 * time.Millisecond)
	for seq := range uint64(3) {
		require.Len(t, b.sent, int(seq)+1)
		require.Len(t, b.last().Batches[0].Groups, 1)
		b.answer(b.last(), kcode.None, int64(seq))
		require.Equal(t, seq+1, b.acks[len(b.acks)-1].Seq)
		b.after(10 * time.Millisecond)
	}
	require.True(t, b.s.Idle())
	require.Len(t, b.sent, 3)
}

func TestSenderBoundsARequest(t *testing.T) {
	b := newSenderBench(t, SenderConfig{MaxRequest: 250})
	tps := make([]task.TopicPartition, 5)
	leaders := map[task.TopicPartition]int32{}
	for i := range tps {
		tps[i] = task.TopicPartition{Topic: "out", Partition: int32(i)}
		leaders[tps[i]] = 1
		b.step(EffectsMade{effects(id00, 1, uint64(i+1), 1, 100, tps[i])})
	}
	b.ready(leaders)
	b.after(10 * time.Millisecond)
	seen := map[task.TopicPartition]bool{}
	for _, p := range b.sent {
		require.LessOrEqual(t, len(p.Batches), 2)
		for _, batch := range p.Batches {
			require.False(t, seen[batch.TopicPartition])
			seen[batch.TopicPartition] = true
		}
	}
	require.Len(t, seen, len(tps), "all of them are on the way, in several requests")
}

func TestSenderGivesUpATopicThatStaysAway(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.step(ProducerIDGiven{ID: 7})
	for range 40 {
		b.step(LeadersKnown{})
		b.after(500 * time.Millisecond)
	}
	require.Len(t, b.bad, 1)
	require.ErrorContains(t, b.bad[0].Err, "out-0")
	require.ErrorContains(t, b.bad[0].Err, "create the topic")
	require.Empty(t, b.acks)
}

// What nobody knows to be appended may be: whatever follows in the partition goes under another id, or the broker could take it for that.
func TestSenderAfterABatchThatMayHaveBeenAppended(t *testing.T) {
	b := newSenderBench(t, SenderConfig{Linger: time.Nanosecond})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1}})
	b.after(time.Millisecond)
	b.answer(b.last(), kcode.NetworkException, -1)
	for range 20 { // the topic is gone
		b.step(LeadersKnown{})
		b.after(time.Second)
	}
	require.Len(t, b.bad, 1)

	b.step(EffectsMade{effects(id01, 1, 1, 1, 10, out0)})
	b.step(ProducerIDGiven{ID: 9})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1}})
	b.after(2 * time.Second)
	require.Equal(t, int64(9), b.to(out0).ProducerID)
	require.Zero(t, b.to(out0).FirstSequence)
}

func TestSenderATopicThatOnlyABrokerDoesNotKnowIsNotGivenUp(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	for range 40 {
		b.answer(b.last(), kcode.UnknownTopicOrPartition, -1)
		b.after(time.Second)
		b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1}})
		b.after(time.Second)
	}
	require.Empty(t, b.bad)
	b.answer(b.last(), kcode.None, 0)
	require.Len(t, b.acks, 1)
}

func TestSenderABrokerThatSaysNothingOfUseIsAskedAgainForAWhile(t *testing.T) {
	for _, code := range []kcode.Code{kcode.Unknown, kcode.CorruptMessage} {
		b := newSenderBench(t, SenderConfig{BatchBytes: 1})
		b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
		b.ready(map[task.TopicPartition]int32{out0: 1})
		sequence, began := b.last().Batches[0].FirstSequence, b.now
		for range oddTries {
			b.answer(b.last(), code, -1)
			require.Empty(t, b.bad)
			b.after(time.Second)
			require.Equal(t, sequence, b.last().Batches[0].FirstSequence)
		}
		require.Less(t, b.now.Sub(began), 30*time.Second)
		b.answer(b.last(), code, -1)
		require.Len(t, b.bad, 1)
		require.ErrorIs(t, b.bad[0].Err, code)
	}
}

func TestSenderTakesNothingMoreOfATaskThatWasRefused(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.ready(nil)
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1, out1: 1}})
	b.answer(b.last(), kcode.InvalidRecord, -1)
	require.Len(t, b.bad, 1)
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out1)}) // the task has not heard of it yet
	require.True(t, b.s.Idle())
	require.Empty(t, b.acks, "an ack of the second would count for the first, which is lost")
}

func TestSenderALeaderThatGoesWhileABatchIsOnTheWay(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: unknownLeader}})
	for range 40 {
		b.after(time.Second)
		b.step(LeadersKnown{})
	}
	require.Empty(t, b.bad, "its answer tells more")
	b.answer(b.last(), kcode.None, 0)
	require.Len(t, b.acks, 1)
}

func TestSenderDoesNotSendAgainWhatNobodyWaitsFor(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{effects(id00, 1, 1, 2, 10, out0)})
	b.step(EffectsMade{effects(id01, 1, 1, 2, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.after(5 * time.Millisecond)
	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.answer(b.last(), kcode.MessageTooLarge, -1)
	require.Len(t, b.last().Batches[0].Groups, 1)
	b.step(ForgetTask{Task: id01, Epoch: 1})
	b.answer(b.last(), kcode.MessageTooLarge, -1)
	require.Len(t, b.sent, 2)
	require.True(t, b.s.Idle())
}

// What made the batch too large is gone with its task, and more has come behind it: nothing of that is refused.
func TestSenderSendsAgainWhatWasTooLargeWithSomethingElse(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10_000, out0)})
	b.step(EffectsMade{effects(id01, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.after(5 * time.Millisecond)
	b.step(EffectsMade{effects(id01, 1, 2, 5, 10, out0)})
	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.answer(b.last(), kcode.MessageTooLarge, -1)
	require.Empty(t, b.bad)
	b.answer(b.last(), kcode.None, 7)
	require.Equal(t, EffectsAcked{Task: id01, Epoch: 1, Seq: 2, Offsets: []GroupOffset{{out0, 8, 5}}}, b.acks[len(b.acks)-1])
}

func TestSenderForgetsATask(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out0)})
	b.step(EffectsMade{effects(id00, 2, 1, 1, 10, out0)})
	b.step(ForgetTask{Task: id00, Epoch: 1})
	b.answer(b.last(), kcode.None, 0)
	require.Empty(t, b.acks, "nobody is told of an epoch that is over")
	require.Len(t, b.last().Batches[0].Groups, 1, "what it had queued is gone")
	b.answer(b.last(), kcode.None, 1)
	require.Equal(t, []EffectsAcked{{Task: id00, Epoch: 2, Seq: 1, Offsets: []GroupOffset{{out0, 1, 1}}}}, b.acks)
}

func TestSenderDropAll(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	old := b.last()
	b.step(DropAll{})
	require.Equal(t, 1, b.cut)
	require.True(t, b.s.Idle())
	b.answer(old, kcode.None, 0)
	require.Empty(t, b.acks)
	b.step(EffectsMade{effects(id00, 2, 1, 1, 10, out0)})
	b.step(ProducerIDGiven{ID: 9})
	require.Equal(t, int32(0), b.last().Batches[0].FirstSequence)
	require.Equal(t, int64(9), b.last().Batches[0].ProducerID)
}

func TestSenderAcksAPrefixOnce(t *testing.T) {
	b := newSenderBench(t, SenderConfig{BatchBytes: 1})
	b.ready(nil)
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.step(EffectsMade{effects(id00, 1, 2, 1, 10, out1)})
	b.after(time.Second)
	b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1, out1: 2}})
	require.Len(t, b.sent, 2)
	b.answer(b.sent[1], kcode.None, 0)
	require.Empty(t, b.acks, "the first is still on the way")
	b.answer(b.sent[0], kcode.None, 0)
	require.Equal(t, []EffectsAcked{{Task: id00, Epoch: 1, Seq: 2, Offsets: []GroupOffset{{out1, 0, 1}, {out0, 0, 1}}}}, b.acks)
}

func TestSenderEmptyEffectsAreAckedAtOnce(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(EffectsMade{&task.Effects{Task: id00, Epoch: 1, Seq: 1}})
	require.Equal(t, []EffectsAcked{{Task: id00, Epoch: 1, Seq: 1}}, b.acks)
}

// Whatever a broker answers, each partition's log holds each task's records in order, at least once, and acks come in order of sequence
// and only for what is in the log.
func TestSenderProperty(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		b := newSenderBench(t, SenderConfig{BatchBytes: rapid.IntRange(1, 400).Draw(rt, "batch"), MaxBatch: rapid.IntRange(60, 600).Draw(rt, "max")})
		b.ready(map[task.TopicPartition]int32{out0: 1, out1: 2})
		logs := map[task.TopicPartition][]byte{}
		next := map[task.TopicPartition]map[int64]int32{out0: {}, out1: {}}
		var seq uint64
		var made []*task.Effects
		answered, pid := 0, int64(7)
		appendBatch := func(p ProduceBatch) {
			for _, g := range p.Groups {
				for _, r := range g.Records() {
					logs[p.TopicPartition] = append(logs[p.TopicPartition], r.Value[0])
					next[p.TopicPartition][p.ProducerID]++
				}
			}
		}
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			switch rapid.IntRange(0, 3).Draw(rt, "step") {
			case 0:
				if seq < 120 {
					seq++
					e := effects(id00, 1, seq, rapid.IntRange(1, 5).Draw(rt, "n"), 20, out0, out1)
					for i := range e.Groups {
						for _, r := range e.Groups[i].Records() {
							r.Value[0] = byte(seq)
						}
					}
					made = append(made, e)
					b.step(EffectsMade{e})
				}
			case 1:
				b.after(time.Duration(rapid.IntRange(1, 2000).Draw(rt, "ms")) * time.Millisecond)
			default:
				if answered == len(b.sent) {
					continue
				}
				p := b.sent[answered]
				answered++
				code := rapid.SampledFrom([]kcode.Code{0, 0, 0, kcode.NotLeaderOrFollower, kcode.NetworkException, kcode.OutOfOrderSequence, kcode.RequestTimedOut}).Draw(rt, "code")
				ev := Produced{Request: p.Request}
				for _, batch := range p.Batches {
					c := code
					if batch.FirstSequence != next[batch.TopicPartition][batch.ProducerID] {
						c = kcode.DuplicateSequence // it was appended when the answer was lost
					} else if c == kcode.None || c == kcode.NetworkException && rapid.Bool().Draw(rt, "appended") {
						appendBatch(batch)
					}
					ev.Parts = append(ev.Parts, ProducedPart{TopicPartition: batch.TopicPartition, Code: c, BaseOffset: int64(len(logs[batch.TopicPartition]))})
				}
				b.step(ev)
			}
			if b.s.askedPID {
				pid++
				b.step(ProducerIDGiven{ID: pid})
			}
			if b.s.asked {
				b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1, out1: 2}})
			}
		}
		for i := 0; !b.s.Idle(); i++ {
			require.Less(rt, i, 10_000, "it never gets idle")
			for ; answered < len(b.sent); answered++ {
				p := b.sent[answered]
				ev := Produced{Request: p.Request}
				for _, batch := range p.Batches {
					if batch.FirstSequence == next[batch.TopicPartition][batch.ProducerID] {
						appendBatch(batch)
					}
					ev.Parts = append(ev.Parts, ProducedPart{TopicPartition: batch.TopicPartition})
				}
				b.step(ev)
			}
			if b.s.askedPID {
				pid++
				b.step(ProducerIDGiven{ID: pid})
			}
			if b.s.asked {
				b.step(LeadersKnown{Leaders: map[task.TopicPartition]int32{out0: 1, out1: 2}})
			}
			b.after(time.Second)
		}
		for tp, log := range logs {
			count := map[byte]int{}
			for _, v := range log {
				count[v]++
			}
			for _, e := range made {
				for _, g := range e.Groups {
					if g.To == tp {
						require.GreaterOrEqual(rt, count[byte(e.Seq)], len(g.Refs), "lost from %v", tp)
					}
				}
			}
		}
		var told uint64
		for _, a := range b.acks {
			require.Greater(rt, a.Seq, told)
			told = a.Seq
		}
		require.Equal(rt, seq, told)
	})
}

func TestSenderRefusesEffectsOfALifeThatIsOver(t *testing.T) {
	// The core loop ends a life while its task is at work: what the task hands over before it hears of it comes after the end.
	cases := []struct {
		name string
		end  SenderEvent
		late *task.Effects
		sent bool
	}{
		{"forgotten", ForgetTask{id00, 3}, effects(id00, 3, 2, 1, 10, out0), false},
		{"an older life of the forgotten task", ForgetTask{id00, 3}, effects(id00, 2, 2, 1, 10, out0), false},
		{"its next life", ForgetTask{id00, 3}, effects(id00, 4, 1, 1, 10, out0), true},
		{"another task", ForgetTask{id00, 3}, effects(id01, 2, 1, 1, 10, out0), true},
		{"dropped with all", DropAll{Epoch: 5}, effects(id01, 5, 1, 1, 10, out0), false},
		{"begun after all were dropped", DropAll{Epoch: 5}, effects(id01, 6, 1, 1, 10, out0), true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newSenderBench(t, SenderConfig{})
			b.ready(map[task.TopicPartition]int32{out0: 1})
			b.step(c.end)
			b.step(EffectsMade{c.late})
			require.Equal(t, !c.sent, b.s.Idle())
		})
	}
}

func TestSenderSendsNothingAfterTheLease(t *testing.T) {
	b := newSenderBench(t, SenderConfig{})
	b.step(Leased{Until: t0.Add(time.Second)})
	b.step(EffectsMade{effects(id00, 1, 1, 1, 10, out0)})
	b.ready(map[task.TopicPartition]int32{out0: 1})
	require.Empty(t, b.sent, "it lingers")
	b.after(time.Second) // the process slept
	require.Empty(t, b.sent)
	b.step(Leased{Until: t0.Add(2 * time.Second)})
	require.Len(t, b.last().Batches, 1, "the lease was renewed: nobody else has the task")
}
