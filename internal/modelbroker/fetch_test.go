package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// fetch reads at once.
func (w *world) fetch(node int32, parts ...FetchPart) []FetchedPart {
	return do[FetchResponse](w, node, FetchRequest{Parts: parts}).Parts
}

// poll sends a long poll of 10 s for one partition.
func (w *world) poll(node int32, committed bool, parts ...FetchPart) uint64 {
	return w.send(node, FetchRequest{MaxWait: 10 * time.Second, MinBytes: 1, ReadCommitted: committed, Parts: parts})
}

func offsets(p FetchedPart) []int64 {
	out := []int64{}
	for _, r := range p.Records {
		out = append(out, r.Offset)
	}
	return out
}

func fetchWorld(t *testing.T, configs map[string]string) (*world, task.TopicPartition) {
	return newWorld(t, Config{Topics: map[string]TopicConfig{"in": {Configs: configs}, "other": {}}}), tp("in", 0)
}

func TestFetchPositions_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	w.plainly(in, "a", "b", "c", "d")
	w.b.Trim(w.now, in, 2)
	nowhere := FetchedPart{TopicPartition: in, Code: kcode.OffsetOutOfRange, HighWatermark: -1, LastStable: -1, LogStart: -1}
	for _, offset := range []int64{1, 5} {
		want := nowhere
		want.Next = offset
		got := got[FetchResponse](w, w.poll(0, false, FetchPart{TopicPartition: in, Offset: offset}))
		require.Equal(t, []FetchedPart{want}, got.Parts, "out of range is answered at once, without the true offsets")
	}
	require.Equal(t, []int64{2, 3}, offsets(w.fetch(0, FetchPart{TopicPartition: in, Offset: 2})[0]))

	end := w.poll(0, false, FetchPart{TopicPartition: in, Offset: 4})
	w.wait(9999 * time.Millisecond)
	require.True(t, w.parked(end), "a long poll at the end")
	w.wait(time.Millisecond)
	p := got[FetchResponse](w, end).Parts[0]
	require.Equal(t, FetchedPart{TopicPartition: in, Next: 4, HighWatermark: 4, LastStable: 4, LogStart: 2}, p)
	require.Nil(t, p.Batch(4))

	end = w.poll(0, false, FetchPart{TopicPartition: in, Offset: 4})
	w.plainly(in, "e")
	require.Equal(t, []int64{4}, offsets(got[FetchResponse](w, end).Parts[0]), "woken by the produce")
}

func TestFetchOneBadPartitionEndsThePoll_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	r := got[FetchResponse](w, w.poll(0, false, FetchPart{TopicPartition: in}, FetchPart{TopicPartition: tp("other", 0), Offset: 9}))
	require.Equal(t, kcode.None, r.Parts[0].Code)
	require.Equal(t, kcode.OffsetOutOfRange, r.Parts[1].Code)
}

func TestFetchUnknownTopic_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	no := FetchPart{TopicPartition: tp("no", 0)}
	require.Equal(t, kcode.UnknownTopicOrPartition, got[FetchResponse](w, w.poll(0, false, no)).Parts[0].Code, "nothing else to wait for")
	id := w.poll(0, false, FetchPart{TopicPartition: in}, no)
	w.wait(9 * time.Second)
	require.True(t, w.parked(id), "full wait, error then")
	w.wait(time.Second)
	require.Equal(t, kcode.UnknownTopicOrPartition, got[FetchResponse](w, id).Parts[1].Code)

	id = w.poll(0, false, FetchPart{TopicPartition: in}, no)
	do[DeleteTopicsResponse](w, 0, DeleteTopicsRequest{Topics: []string{"in"}})
	require.Equal(t, kcode.UnknownTopicOrPartition, got[FetchResponse](w, id).Parts[0].Code, "realkafka 10: a deleted topic at once")
}

func TestFetchWholeBatches_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	for range 2 {
		w.produce(0, ProduceBatch{TopicPartition: in, ProducerID: -1, Records: outs("a", "b", "c")})
	}
	mid := FetchPart{TopicPartition: in, Offset: 4, LeaderEpoch: -1}
	p := w.fetch(0, mid)[0]
	require.Equal(t, []int64{3, 4, 5}, offsets(p), "the middle of a batch brings the whole")
	b := p.Batch(4)
	require.EqualValues(t, 4, b.Records[0].Offset)
	require.Len(t, b.Records, 2)
	require.EqualValues(t, 6, b.Next)
	require.Equal(t, p.Bytes, b.Bytes)

	first := FetchPart{TopicPartition: in, MaxBytes: 1}
	require.Equal(t, []int64{0, 1, 2}, offsets(w.fetch(0, first)[0]), "a batch larger than MaxBytes is returned whole")
	first.MaxBytes = int32(p.Bytes)
	require.Equal(t, []int64{0, 1, 2}, offsets(w.fetch(0, first)[0]))
	first.MaxBytes++
	require.Len(t, w.fetch(0, first)[0].Records, 3)
	first.MaxBytes = 2 * int32(p.Bytes)
	require.Len(t, w.fetch(0, first)[0].Records, 6)

	w.plainly(tp("other", 0), "x")
	r := do[FetchResponse](w, 0, FetchRequest{MaxBytes: 1, Parts: []FetchPart{{TopicPartition: in}, {TopicPartition: tp("other", 0)}}})
	require.Len(t, r.Parts[0].Records, 3)
	require.Empty(t, r.Parts[1].Records, "only the first partition may exceed the bytes of the answer")
	require.EqualValues(t, 1, r.Parts[1].HighWatermark)
}

func TestFetchMinBytes(t *testing.T) {
	w, in := fetchWorld(t, nil)
	id := w.send(0, FetchRequest{MaxWait: time.Second, MinBytes: 200, Parts: []FetchPart{{TopicPartition: in}, {TopicPartition: tp("other", 0)}}})
	w.plainly(in, "a")
	w.plainly(tp("other", 0), "b")
	require.True(t, w.parked(id))
	w.plainly(tp("other", 0), "c")
	require.False(t, w.parked(id), "bytes of all partitions count")
}

func TestFetchHoldsUpItsConnection_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	c := w.dial(0)
	poll := w.sendOn(c, FetchRequest{MaxWait: 700 * time.Millisecond, MinBytes: 1, Parts: []FetchPart{{TopicPartition: in}}})
	second := w.sendOn(c, MetadataRequest{})
	w.wait(699 * time.Millisecond)
	require.True(t, w.parked(second))
	w.wait(time.Millisecond)
	require.Equal(t, w.when[poll], w.when[second])

	w.sendOn(c, FetchRequest{MaxWait: time.Minute, MinBytes: 1, Parts: []FetchPart{{TopicPartition: in}}})
	lost := w.sendOn(c, MetadataRequest{})
	w.b.Hangup(c)
	w.plainly(in, "a")
	require.True(t, w.parked(lost))
	_, waiting := w.b.Wake()
	require.False(t, waiting, "nothing is left of the poll")
}

func TestReadCommitted_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, nil)
	w.plainly(in, "a")
	w.b.OpenTransaction(w.now, in)
	w.plainly(in, "b", "c")
	p := do[FetchResponse](w, 0, FetchRequest{ReadCommitted: true, Parts: []FetchPart{{TopicPartition: in}}}).Parts[0]
	require.Equal(t, []int64{0}, offsets(p))
	require.EqualValues(t, 3, p.HighWatermark)
	require.EqualValues(t, 1, p.LastStable)
	require.Equal(t, []int64{0, 1, 2}, offsets(w.fetch(0, FetchPart{TopicPartition: in})[0]), "read_uncommitted goes on to the high watermark")

	at := w.poll(0, true, FetchPart{TopicPartition: in, Offset: 1})
	require.True(t, w.parked(at), "at the LSO: parked")
	beyond := got[FetchResponse](w, w.poll(0, true, FetchPart{TopicPartition: in, Offset: 2})).Parts[0]
	require.Equal(t, kcode.None, beyond.Code, "beyond the LSO: at once, empty")
	require.Empty(t, beyond.Records)

	w.b.EndTransaction(w.now, in)
	w.take()
	p = got[FetchResponse](w, at).Parts[0]
	require.Equal(t, []int64{1, 2}, offsets(p), "woken by the marker")
	require.EqualValues(t, 4, p.Next, "which takes an offset and delivers no record")
	only := w.fetch(0, FetchPart{TopicPartition: in, Offset: 3})[0]
	require.Empty(t, only.Records)
	require.Equal(t, &task.Batch{Records: only.Records, Next: 4, Bytes: only.Bytes, HighWatermark: 4}, only.Batch(3))
}

func TestLeaderEpoch_Realkafka9(t *testing.T) {
	w := newWorld(t, Config{Brokers: 2, LeaderSettle: 100 * time.Millisecond, Topics: map[string]TopicConfig{"in": {}}})
	in := tp("in", 0)
	w.plainly(in, "a")
	part := func(offset int64, epoch int32) FetchPart {
		return FetchPart{TopicPartition: in, Offset: offset, LeaderEpoch: epoch}
	}
	blind, knowing := w.poll(0, false, part(1, -1)), w.poll(0, false, part(1, 0))
	w.b.MoveLeader(w.now, in, 1)
	w.take()
	require.Equal(t, kcode.FencedLeaderEpoch, got[FetchResponse](w, knowing).Parts[0].Code, "a parked poll is answered at the election")
	require.True(t, w.parked(blind), "without an epoch it never notices")
	for _, c := range []struct {
		name  string
		node  int32
		epoch int32
		want  kcode.Code
	}{
		{"past", 1, 0, kcode.FencedLeaderEpoch}, {"future", 1, 2, kcode.UnknownLeaderEpoch}, {"present", 1, 1, kcode.None},
		{"none, at the old leader: data", 0, -1, kcode.None}, {"past, at the old leader", 0, 0, kcode.FencedLeaderEpoch},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := w.fetch(c.node, part(0, c.epoch))[0]
			require.Equal(t, c.want, p.Code)
			require.Equal(t, c.want == kcode.None, len(p.Records) == 1)
		})
	}
	list := func(node, epoch int32) kcode.Code {
		return do[ListOffsetsResponse](w, node, ListOffsetsRequest{Parts: []ListOffsetsPart{{TopicPartition: in, At: Latest, LeaderEpoch: epoch}}}).Parts[0].Code
	}
	send := func(node int32) kcode.Code {
		return w.produce(node, ProduceBatch{TopicPartition: in, ProducerID: -1, Records: outs("a")})[0].Code
	}
	require.Equal(t, kcode.NotLeaderOrFollower, send(1), "also for a while at the new leader")
	require.Equal(t, kcode.NotLeaderOrFollower, list(1, -1))
	w.wait(100 * time.Millisecond)
	require.Equal(t, kcode.NotLeaderOrFollower, send(0))
	require.Equal(t, kcode.None, send(1))
	require.Equal(t, kcode.NotLeaderOrFollower, list(0, -1))
	require.Equal(t, kcode.FencedLeaderEpoch, list(0, 0))
	require.Equal(t, kcode.UnknownLeaderEpoch, list(1, 2))
	require.Equal(t, kcode.None, list(1, 1))
}

func TestCompactedHole_Realkafka9(t *testing.T) {
	w, in := fetchWorld(t, map[string]string{"cleanup.policy": "compact"})
	for range 21 {
		w.plainly(in, "k")
	}
	w.b.Compact(w.now, in, false)
	for _, from := range []int64{0, 5} {
		p := w.fetch(0, FetchPart{TopicPartition: in, Offset: from})[0]
		require.Equal(t, []int64{19}, offsets(p), "the log start stays, and an answer holds one segment")
		require.EqualValues(t, 0, p.LogStart)
		require.EqualValues(t, 20, p.Next)
	}
	require.Equal(t, []int64{20}, offsets(w.fetch(0, FetchPart{TopicPartition: in, Offset: 20})[0]))
}

func TestCompaction(t *testing.T) {
	w, in := fetchWorld(t, map[string]string{"cleanup.policy": "compact"})
	put := func(pid int64, seq int32, key, value string) {
		r := task.OutRecord{Key: []byte(key)}
		if value != "" {
			r.Value = []byte(value)
		}
		out := w.produce(0, ProduceBatch{TopicPartition: in, ProducerID: pid, FirstSequence: seq, Records: []task.OutRecord{r}})
		require.Equal(t, kcode.None, out[0].Code)
	}
	w.b.Compact(w.now, in, true)
	put(1, 0, "a", "1")
	put(2, 0, "b", "1")
	put(2, 1, "a", "2")
	put(1, 1, "a", "")
	w.b.EndTransaction(w.now, in)
	put(2, 2, "b", "2")
	w.b.Compact(w.now, in, false)
	log, end := w.b.Log(in)
	require.EqualValues(t, 6, end)
	require.Equal(t, []int64{1, 3, 5}, offsets(FetchedPart{Records: log}), "tombstones stay, the active segment is left alone")
	put(3, 0, "c", "1")
	w.b.Compact(w.now, in, true)
	log, _ = w.b.Log(in)
	require.Equal(t, []int64{5, 6}, offsets(FetchedPart{Records: log}))
	var position int64
	var reads [][2]int64
	for position < 7 {
		p := w.fetch(0, FetchPart{TopicPartition: in, Offset: position})[0]
		reads = append(reads, [2]int64{position, p.Next})
		require.Greater(t, p.Next, position, "every read moves on")
		position = p.Next
	}
	require.Equal(t, [][2]int64{{0, 6}, {6, 7}}, reads)
	put(1, 1, "a", "")
	_, end = w.b.Log(in)
	require.EqualValues(t, 7, end, "the sequence of an emptied batch is remembered")
	other := tp("other", 0)
	w.plainly(other, "a", "a", "a")
	w.b.Compact(w.now, other, true)
	log, _ = w.b.Log(other)
	require.Len(t, log, 3, "not a compacted topic")
}

func TestCompactionLeavesAnOpenTransactionAlone(t *testing.T) {
	w, in := fetchWorld(t, map[string]string{"cleanup.policy": "compact"})
	w.plainly(in, "k", "k")
	w.b.OpenTransaction(w.now, in)
	w.plainly(in, "k", "k", "k")
	w.b.Compact(w.now, in, false)
	log, _ := w.b.Log(in)
	require.Equal(t, []int64{1, 2, 3, 4}, offsets(FetchedPart{Records: log}))
}
