package engine

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

type plannerBench struct {
	p         *Planner
	now       time.Time
	sent      []SendFetch
	delivered []Deliver
	lost      []PartLost
	failed    []PartFailed
	wake      time.Time
}

func newPlannerBench(cfg PlannerConfig) *plannerBench {
	return &plannerBench{p: NewPlanner(cfg), now: t0}
}

func (b *plannerBench) step(ev PlannerEvent) {
	for _, a := range b.p.Step(b.now, ev) {
		switch a := a.(type) {
		case SendFetch:
			b.sent = append(b.sent, a)
		case Deliver:
			b.delivered = append(b.delivered, a)
		case PartLost:
			b.lost = append(b.lost, a)
		case PartFailed:
			b.failed = append(b.failed, a)
		case PlannerWake:
			b.wake = a.At
		}
	}
}

func (b *plannerBench) last() SendFetch { return b.sent[len(b.sent)-1] }

func src(topic string, part int32) FetchSource {
	return FetchSource{TopicPartition: task.TopicPartition{Topic: topic, Partition: part}, Task: task.ID{Partition: part}, Epoch: 1}
}

func answer(s FetchSource, next int64, bytes int) FetchedPart {
	return FetchedPart{TopicPartition: s.TopicPartition, Batch: &task.Batch{Next: next, Bytes: bytes, Records: []task.Record{{Offset: next - 1}}}}
}

func TestPlannerFetchesAndDelivers(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := src("in", 0)
	b.step(FetchAdd{Source: s, Offset: 5, LeaderEpoch: 3, Bound: 1 << 20})
	require.Equal(t, []FetchAsk{{TopicPartition: s.TopicPartition, Offset: 5, LeaderEpoch: 3, MaxBytes: 256 << 10}}, b.last().Parts)
	require.Equal(t, 10*time.Millisecond, b.last().MaxWait)
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 9, 10)}})
	require.Equal(t, 100*time.Millisecond, b.last().MaxWait)
	require.Equal(t, s, b.delivered[0].Source)
	require.Equal(t, int64(9), b.last().Parts[0].Offset, "the next fetch goes on behind the batch")
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: s.TopicPartition, Batch: &task.Batch{Next: 9}}}})
	require.Len(t, b.delivered, 1, "nothing new is no delivery")
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: s.TopicPartition, Batch: &task.Batch{Next: 12}}}})
	require.Len(t, b.delivered, 2, "a gap moves the position without a record")
}

// Partitions come one after the other when tasks begin. Those that come behind the first must not wait until the broker has parked a fetch of that
// one alone for as long as it may: the first new result would come so much later.
func TestPlannerDoesNotLetNewPartitionsWaitForEachOther(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	first, second := src("in", 0), src("in", 1)
	b.step(FetchAdd{Source: first, Bound: 1 << 20})
	b.step(FetchAdd{Source: second, Bound: 1 << 20})
	require.Len(t, b.sent, 1, "one at a time")
	require.Len(t, b.last().Parts, 1)
	require.Equal(t, 10*time.Millisecond, b.last().MaxWait)
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: first.TopicPartition}}})
	require.Len(t, b.last().Parts, 2)
	require.Equal(t, 10*time.Millisecond, b.last().MaxWait, "a third one may come")
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: first.TopicPartition}, {TopicPartition: second.TopicPartition}}})
	require.Equal(t, 100*time.Millisecond, b.last().MaxWait)
}

// A partition is asked for what there is room for, as far as its last answer tells what a byte becomes.
func TestPlannerAsksForWhatThereIsRoomFor(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := src("in", 0)
	b.step(FetchAdd{Source: s, Bound: 40_000})
	require.EqualValues(t, 10_000, b.last().Parts[0].MaxBytes, "nothing is known of it yet")
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 9, 10_000)}})
	require.EqualValues(t, 30_000, b.last().Parts[0].MaxBytes)
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 99, 90_000)}}) // small records: three times the bytes
	b.step(FetchConsumed{Source: s, Bytes: 100_000})
	require.EqualValues(t, 40_000/3, b.last().Parts[0].MaxBytes)
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 199, 39_000)}})
	require.EqualValues(t, leastAsk, b.last().Parts[0].MaxBytes)
}

func TestPlannerBackPressure(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	full, other := src("in", 0), src("in", 1)
	b.step(FetchAdd{Source: full, Bound: 100})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(full, 1, 120)}})
	require.Len(t, b.sent, 1, "nothing is left to ask for")
	b.step(FetchAdd{Source: other, Bound: 100})
	require.Equal(t, other.TopicPartition, b.last().Parts[0].TopicPartition)
	require.Len(t, b.last().Parts, 1)
	require.Equal(t, 10*time.Millisecond, b.last().MaxWait, "short, as room may come back soon")
	b.step(FetchConsumed{Source: full, Bytes: 60})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(other, 1, 10)}})
	require.Len(t, b.last().Parts, 1, "still over half of its bound")
	b.step(FetchConsumed{Source: full, Bytes: 20})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(other, 2, 10)}})
	require.Len(t, b.last().Parts, 2)
	require.Equal(t, 100*time.Millisecond, b.last().MaxWait)
}

func TestPlannerKeepsABoundThatHasChanged(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := src("log", 0)
	b.step(FetchAdd{Source: s, Bound: 1000})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 1, 120)}})
	require.Len(t, b.sent, 2)
	b.step(FetchBound{Source: s, Bound: 100})
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: s.TopicPartition, Batch: &task.Batch{Next: 1}}}})
	require.Len(t, b.sent, 2, "it holds more than that")
	b.step(FetchBound{Source: src("log", 1), Bound: 100})
	b.step(FetchConsumed{Source: s, Bytes: 80})
	require.Len(t, b.sent, 3)
}

func TestPlannerCountsWhatItsConsumerHasAlready(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := src("log", 0)
	b.step(FetchAdd{Source: s, Bound: 1000, Held: 1000})
	require.Empty(t, b.sent)
	b.step(FetchConsumed{Source: s, Bytes: 600})
	require.Len(t, b.sent, 1)
}

func TestPlannerServesInTurns(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := []FetchSource{src("in", 0), src("in", 1), src("in", 2)}
	b.step(FetchAdd{Source: s[0], Bound: 1 << 20})
	b.step(FetchAdd{Source: s[1], Bound: 1 << 20})
	b.step(FetchAdd{Source: s[2], Bound: 1 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s[0], 1, 10)}})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s[1], 1, 10), answer(s[0], 2, 10)}})
	var order []int32
	for _, p := range b.last().Parts {
		order = append(order, p.Partition)
	}
	require.Equal(t, []int32{2, 1, 0}, order, "whoever was served stands at the end")
}

func TestPlannerErrors(t *testing.T) {
	cases := []struct {
		name   string
		part   FetchedPart
		lost   bool
		failed bool
	}{
		{"leader moved", FetchedPart{Code: kcode.NotLeaderOrFollower}, true, false},
		{"fenced epoch", FetchedPart{Code: kcode.FencedLeaderEpoch}, true, false},
		{"unknown epoch", FetchedPart{Code: kcode.UnknownLeaderEpoch}, true, false},
		{"unknown topic", FetchedPart{Code: kcode.UnknownTopicOrPartition}, true, false},
		{"out of range", FetchedPart{Code: kcode.OffsetOutOfRange}, false, true},
		{"not allowed", FetchedPart{Code: kcode.TopicAuthorizationFailed}, false, true},
		{"corrupt", FetchedPart{Err: errors.New("bad crc")}, false, true},
		{"something passing", FetchedPart{Code: kcode.Unknown}, false, false},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := newPlannerBench(PlannerConfig{})
			s := src("in", 0)
			b.step(FetchAdd{Source: s, Offset: 5, Bound: 100})
			c.part.TopicPartition = s.TopicPartition
			b.step(FetchAnswered{Parts: []FetchedPart{c.part}})
			require.Equal(t, c.lost, len(b.lost) == 1)
			require.Equal(t, c.failed, len(b.failed) == 1)
			if c.lost {
				require.Equal(t, int64(5), b.lost[0].Offset)
			}
			require.Equal(t, c.lost || c.failed, b.p.Empty(), "what is given back is not asked for again: no hot loop")
			if !c.lost && !c.failed {
				require.Len(t, b.sent, 1)
				b.now = b.wake
				b.step(PlannerTick{})
				require.Len(t, b.sent, 2)
			}
		})
	}
}

func TestPlannerTransportErrorGivesAllBackAndBacksOff(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	b.step(FetchAdd{Source: src("in", 0), Offset: 5, Bound: 100})
	b.step(FetchAnswered{Err: errors.New("refused")})
	require.Equal(t, kcode.NetworkException, b.lost[0].Code)
	b.step(FetchAdd{Source: src("in", 0), Offset: 5, Bound: 100})
	require.Len(t, b.sent, 1)
	require.Equal(t, t0.Add(50*time.Millisecond), b.wake)
	b.now = b.wake
	b.step(PlannerTick{})
	require.Len(t, b.sent, 2)
}

func TestPlannerDropsWhatWasRemovedOnTheWay(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	s := src("in", 0)
	b.step(FetchAdd{Source: s, Offset: 5, Bound: 100})
	b.step(FetchRemove{Source: s})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 9, 10)}})
	require.Empty(t, b.delivered)
	require.True(t, b.p.Empty())
	// Added again while the old fetch was on the way: the old answer is not its answer.
	b.step(FetchAdd{Source: s, Offset: 5, Bound: 100})
	b.step(FetchRemove{Source: s})
	b.step(FetchAdd{Source: s, Offset: 50, Bound: 100})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 9, 10)}})
	require.Empty(t, b.delivered)
	require.Equal(t, int64(50), b.last().Parts[0].Offset)
}

// Whoever restores would have nothing to write while all changelogs are read alike, and then all at once.
func TestPlannerReadsWhatHasMuchToComeInTurns(t *testing.T) {
	b := newPlannerBench(PlannerConfig{MaxBytes: 8 << 20, PartBytes: 10, TurnBytes: 1 << 20}.For(Restore))
	s := []FetchSource{src("log", 0), src("log", 1), src("log", 2)}
	much := func(i int, next int64) FetchedPart {
		a := answer(s[i], next, 1<<20)
		a.Batch.HighWatermark = 1e6
		return a
	}
	little := func(i int, next int64) FetchedPart { // it is written to meanwhile
		a := answer(s[i], next, 100)
		a.Batch.HighWatermark = next + 1
		return a
	}
	asked := func() (parts []int32) {
		for _, p := range b.last().Parts {
			parts = append(parts, p.Partition)
		}
		return parts
	}
	for i := range s {
		b.step(FetchAdd{Source: s[i], Bound: 8 << 20})
	}
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 1)}})
	require.Equal(t, []int32{0, 1, 2}, asked(), "of the others nothing is known yet")
	require.EqualValues(t, 1<<20, b.last().Parts[0].MaxBytes)
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 2), much(1, 1), little(2, 1)}})
	require.Equal(t, []int32{0, 2}, asked(), "one that has much, and whoever follows its log")
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 3), little(2, 2)}})
	require.Equal(t, []int32{0, 2}, asked())
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 4)}})
	require.Equal(t, []int32{1, 2}, asked(), "half of its bound has come")
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: s[1].TopicPartition, Code: kcode.Unknown}}})
	require.Equal(t, []int32{2, 0}, asked(), "who cannot be read keeps nobody waiting")
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 5)}})
	b.now = b.now.Add(time.Second)
	b.step(FetchAnswered{Parts: []FetchedPart{much(0, 6)}})
	require.Equal(t, []int32{1, 2}, asked(), "its turn was kept")
	b.step(FetchConsumed{Source: s[0], Bytes: 6 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{{TopicPartition: s[1].TopicPartition, Batch: &task.Batch{Next: 1, HighWatermark: 1e6}}}})
	require.Equal(t, []int32{1, 2, 0}, asked(), "who brings nothing does not either")
}

func TestPlannerGivesTheTurnOnWhereSomebodyIsFull(t *testing.T) {
	b := newPlannerBench(PlannerConfig{TurnBytes: 1 << 20}.For(Restore))
	full, other := src("log", 0), src("log", 1)
	much := func(s FetchSource, next int64) FetchedPart {
		a := answer(s, next, 1<<20)
		a.Batch.HighWatermark = 1e6
		return a
	}
	b.step(FetchAdd{Source: full, Bound: 4 << 20, Held: 3 << 20})
	b.step(FetchAdd{Source: other, Bound: 4 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{much(full, 1)}})
	b.step(FetchAnswered{Parts: []FetchedPart{much(other, 1)}})
	b.step(FetchConsumed{Source: full, Bytes: 4 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{much(other, 2)}})
	require.Len(t, b.last().Parts, 1)
	require.Equal(t, full.TopicPartition, b.last().Parts[0].TopicPartition, "the other one has had its turn")
}

func TestPlannerAsksForNothingBeyondAnEnd(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	ends, follows := src("log", 0), src("log", 1)
	b.step(FetchAdd{Source: ends, Offset: 5, End: 9, Bound: 1 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(ends, 8, 10)}})
	require.Len(t, b.sent, 2)
	b.step(FetchAnswered{Parts: []FetchedPart{answer(ends, 9, 10)}})
	require.Len(t, b.sent, 2, "the broker would wait until there is more")
	b.step(FetchAdd{Source: follows, Offset: 5, Bound: 1 << 20})
	require.Len(t, b.sent, 3)
	require.Len(t, b.last().Parts, 1)
	b.step(FetchBound{Source: ends, Bound: 1 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(follows, 6, 10)}})
	require.Len(t, b.last().Parts, 2, "it has no end any more")
}

// Who has little is not left without room by who has much.
func TestPlannerLeavesRoomToThoseBesideATurn(t *testing.T) {
	b := newPlannerBench(PlannerConfig{MaxBytes: 3 << 20}.For(Restore))
	b.step(FetchAdd{Source: src("log", 0), Bound: 64 << 20})
	require.EqualValues(t, 3<<20, b.last().Parts[0].MaxBytes, "all that an answer may have")
	b.step(FetchAdd{Source: src("log", 1), Bound: 64 << 20})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(src("log", 0), 1, 2<<20)}})
	require.Len(t, b.last().Parts, 2)
	require.EqualValues(t, 3<<19, b.last().Parts[0].MaxBytes)
}

// cut is an answer for a partition that has more, of which nothing came whole.
func cut(s FetchSource, at int64) FetchedPart {
	return FetchedPart{TopicPartition: s.TopicPartition, Batch: &task.Batch{Next: at, HighWatermark: at + 1000}}
}

// large is one with a batch that is larger than what was asked for, and more behind it.
func large(s FetchSource, next int64) FetchedPart {
	a := answer(s, next, 100_000)
	a.Batch.HighWatermark = next + 1000
	return a
}

func (b *plannerBench) asks() map[int32]int32 {
	asks := map[int32]int32{}
	for _, p := range b.last().Parts {
		asks[p.Partition] = p.MaxBytes
	}
	return asks
}

// Where batches are larger than the room of a partition a broker sends one of them for all that are asked for. Those that brought nothing are asked
// for enough, as many as there is room for in all of them together, and in turns.
func TestPlannerSharesRoomWhereBatchesAreLarger(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	const parts, bound = 64, 20_000
	sources := make([]FetchSource, parts)
	for i := range sources {
		sources[i] = src("in", int32(i))
		b.p.parts = append(b.p.parts, &fetchPart{src: sources[i], bound: bound, swells: firstSwells})
	}
	b.step(PlannerTick{})
	require.Len(t, b.last().Parts, parts)
	served, at := map[int32]int{}, map[int32]int64{}
	fetches := 0
	for range 2 * parts {
		if fetches++; fetches == parts+2 {
			require.Len(t, served, parts, "few at a time, until it is known what they weigh")
			clear(served)
		}
		whole := false // the first one that has something is sent whole, others if it is not larger than what was asked
		var res []FetchedPart
		held := 0
		for _, p := range b.last().Parts {
			s := sources[p.Partition]
			if whole && p.MaxBytes < 100_000 {
				res = append(res, cut(s, at[p.Partition]))
				continue
			}
			whole = true
			at[p.Partition] += 10
			served[p.Partition]++
			held += 100_000
			res = append(res, large(s, at[p.Partition]))
		}
		require.LessOrEqual(t, held, parts*bound+100_000, "no more is held than all bounds together, and a batch")
		b.step(FetchAnswered{Parts: res})
		for _, d := range b.delivered {
			b.step(FetchConsumed{Source: d.Source, Bytes: d.Batch.Bytes})
		}
		b.delivered = nil
	}
	total := 0
	for _, n := range served {
		total += n
	}
	require.Greater(t, total, 2*parts, "several batches a fetch, and not one")
	for p, n := range served {
		require.InDelta(t, total/parts, n, 2, "partition %d", p)
	}
}

// A partition that brings nothing although it is asked for enough does not keep others waiting, and one that has caught up takes its own room.
func TestPlannerForgetsWhatAPartitionNeeded(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	one, two := src("in", 0), src("in", 1)
	b.step(FetchAdd{Source: one, Bound: 20_000})
	b.step(FetchAnswered{Parts: []FetchedPart{cut(one, 0)}})
	require.Equal(t, map[int32]int32{0: 5000}, b.asks(), "nothing came: it is not for want of room")
	b.step(FetchAdd{Source: two, Bound: 20_000})
	b.step(FetchAnswered{Parts: []FetchedPart{cut(one, 0)}})
	b.step(FetchAnswered{Parts: []FetchedPart{large(one, 10), cut(two, 0)}})
	require.Equal(t, map[int32]int32{1: 256 << 10}, b.asks(), "the other one is full")
	b.step(FetchConsumed{Source: one, Bytes: 100_000})
	done := answer(two, 10, 15_000)
	done.Batch.HighWatermark = 10
	b.step(FetchAnswered{Parts: []FetchedPart{done}})
	require.Equal(t, map[int32]int32{0: leastAsk, 1: 5000}, b.asks(), "it has caught up")
}

// What is on the way when a partition is paused has been paid for, and comes; a paused one hurries nobody.
func TestPlannerLeavesOutWhatIsPaused(t *testing.T) {
	b := newPlannerBench(PlannerConfig{})
	paused, other := src("in", 0), src("in", 1)
	b.step(FetchAdd{Source: paused, Bound: 100}) // which is full then
	b.step(FetchAdd{Source: other, Bound: 1 << 20})
	b.step(FetchPause{Source: paused})
	b.step(FetchAnswered{Parts: []FetchedPart{answer(paused, 5, 100)}})
	require.Len(t, b.delivered, 1)
	b.step(FetchAnswered{Parts: []FetchedPart{answer(other, 3, 100)}})
	require.Len(t, b.last().Parts, 1)
	require.Equal(t, other.TopicPartition, b.last().Parts[0].TopicPartition)
	require.Equal(t, 100*time.Millisecond, b.last().MaxWait)
	b.step(FetchConsumed{Source: paused, Bytes: 100})
	b.step(FetchPause{Source: paused, Off: true})
	b.step(FetchAnswered{})
	require.Len(t, b.last().Parts, 2)
	for _, ask := range b.last().Parts {
		if ask.TopicPartition == paused.TopicPartition {
			require.EqualValues(t, 5, ask.Offset)
		}
	}
}
