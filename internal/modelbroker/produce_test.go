package modelbroker

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func (w *world) produce(node int32, batches ...ProduceBatch) []ProducedPart {
	return do[ProduceResponse](w, node, ProduceRequest{Batches: batches}).Parts
}

// plainly produces without a producer id, one batch a key.
func (w *world) plainly(p task.TopicPartition, keys ...string) {
	for _, k := range keys {
		node, _ := w.b.Leader(p)
		require.Equal(w.t, kcode.None, w.produce(node, ProduceBatch{TopicPartition: p, ProducerID: -1, Records: outs(k)})[0].Code)
	}
}

func TestIdempotence_Realkafka8(t *testing.T) {
	type step struct {
		name   string
		epoch  int16
		seq, n int32
		code   kcode.Code
		offset int64
	}
	for _, c := range []struct {
		name  string
		steps []step
	}{
		{"a gap is out of order and appends nothing", []step{
			{"first", 0, 0, 2, kcode.None, 0}, {"gap", 0, 3, 1, kcode.OutOfOrderSequence, -1}, {"next", 0, 2, 1, kcode.None, 2}}},
		{"the last five are answered with their offset, an older one and another length are not", []step{
			{"0", 0, 0, 1, kcode.None, 0}, {"1", 0, 1, 1, kcode.None, 1}, {"2", 0, 2, 2, kcode.None, 2}, {"3", 0, 4, 1, kcode.None, 4},
			{"4", 0, 5, 1, kcode.None, 5}, {"5", 0, 6, 1, kcode.None, 6}, {"0 again", 0, 0, 1, kcode.OutOfOrderSequence, -1},
			{"1 again", 0, 1, 1, kcode.None, 1}, {"2 again", 0, 2, 2, kcode.None, 2}, {"5 again", 0, 6, 1, kcode.None, 6},
			{"2 shorter", 0, 2, 1, kcode.OutOfOrderSequence, -1}, {"6", 0, 7, 1, kcode.None, 7}}},
		{"the first batch of a producer may have any sequence", []step{{"7", 0, 7, 1, kcode.None, 0}, {"8", 0, 8, 1, kcode.None, 1}}},
		{"the next epoch begins at 0 without InitProducerID, the old one is fenced", []step{
			{"0", 0, 0, 1, kcode.None, 0}, {"not at 0", 1, 1, 1, kcode.OutOfOrderSequence, -1}, {"epoch 1", 1, 0, 1, kcode.None, 1},
			{"epoch 0", 0, 1, 1, kcode.InvalidProducerEpoch, -1}, {"a duplicate of epoch 0", 0, 0, 1, kcode.InvalidProducerEpoch, -1},
			{"epoch 1 again", 1, 0, 1, kcode.None, 1}}},
		{"after the largest sequence comes 0", []step{
			{"max-1", 0, math.MaxInt32 - 1, 3, kcode.None, 0}, {"1", 0, 1, 1, kcode.None, 3}, {"again", 0, math.MaxInt32 - 1, 3, kcode.None, 0}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
			pid := do[InitProducerIDResponse](w, 0, InitProducerIDRequest{})
			require.EqualValues(t, 1, pid.ProducerID)
			for _, s := range c.steps {
				in := ProduceBatch{TopicPartition: tp("in", 0), ProducerID: pid.ProducerID, Epoch: s.epoch, FirstSequence: s.seq, Records: outs(make([]string, s.n)...)}
				out := w.produce(0, in)[0]
				require.Equal(t, ProducedPart{TopicPartition: tp("in", 0), Code: s.code, BaseOffset: s.offset}, out, s.name)
			}
		})
	}
}

func TestProducerIDsDiffer(t *testing.T) {
	w := newWorld(t, Config{Brokers: 2})
	a, b := do[InitProducerIDResponse](w, 0, InitProducerIDRequest{}), do[InitProducerIDResponse](w, 1, InitProducerIDRequest{})
	require.NotEqual(t, a.ProducerID, b.ProducerID)
}

func TestProduceRefused_Realkafka8(t *testing.T) {
	small := map[string]string{"max.message.bytes": "100"}
	compacted := map[string]string{"cleanup.policy": "compact"}
	wide := map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"}
	logTime := map[string]string{"message.timestamp.type": "LogAppendTime"}
	at := func(d time.Duration) task.OutRecord {
		return task.OutRecord{Key: []byte("k"), Timestamp: epoch.Add(d).UnixMilli()}
	}
	for _, c := range []struct {
		name    string
		configs map[string]string
		records []task.OutRecord
		want    kcode.Code
		bad     []int
	}{
		{"null key to a compacted topic", compacted, []task.OutRecord{at(0), {Value: []byte("v")}, at(0), {}}, kcode.InvalidRecord, []int{1, 3}},
		{"null key to another topic", nil, []task.OutRecord{{Value: []byte("v")}}, kcode.None, nil},
		{"an empty key is a key", compacted, []task.OutRecord{{Key: []byte{}}}, kcode.None, nil},
		{"timestamp an hour ahead", nil, []task.OutRecord{at(time.Hour)}, kcode.None, nil},
		{"timestamp more than an hour ahead", nil, []task.OutRecord{at(0), at(time.Hour + time.Millisecond)}, kcode.InvalidTimestamp, []int{1}},
		{"timestamp far ahead under the widest bound", wide, []task.OutRecord{at(1 << 60)}, kcode.None, nil},
		{"timestamp ahead under LogAppendTime", logTime, []task.OutRecord{at(1 << 60)}, kcode.None, nil},
		{"negative timestamp", nil, []task.OutRecord{{Timestamp: -2}}, kcode.InvalidTimestamp, []int{0}},
		{"exactly max.message.bytes", small, []task.OutRecord{{Value: make([]byte, 100-61-7)}}, kcode.None, nil},
		{"one byte more", small, []task.OutRecord{{Value: make([]byte, 101-61-7)}}, kcode.MessageTooLarge, nil},
		{"no record", nil, nil, kcode.InvalidRecord, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {Configs: c.configs}}})
			w.b.Advance(epoch)
			out := w.produce(0, ProduceBatch{TopicPartition: tp("in", 0), ProducerID: 5, Records: c.records})[0]
			require.Equal(t, c.want, out.Code)
			require.Equal(t, c.bad, out.BadRecords)
			log, end := w.b.Log(tp("in", 0))
			if c.want != kcode.None {
				require.Zero(t, end, "the whole batch fails")
				return
			}
			require.Len(t, log, len(c.records))
			if c.configs["message.timestamp.type"] != "" {
				require.Equal(t, epoch.UnixMilli(), log[0].Timestamp)
			}
		})
	}
}

func TestTooLargeLeavesItsSequenceFree_Realkafka8(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {Configs: map[string]string{"max.message.bytes": "200"}}}})
	c := w.dial(0)
	var ids []uint64
	for i := range int32(6) {
		in := ProduceBatch{TopicPartition: tp("in", 0), ProducerID: 1, FirstSequence: i, Records: outs("k")}
		if i == 2 {
			in.Records[0].Value = make([]byte, 300)
		}
		ids = append(ids, w.sendOn(c, ProduceRequest{Batches: []ProduceBatch{in}}))
	}
	var codes []kcode.Code
	for _, id := range ids {
		codes = append(codes, got[ProduceResponse](w, id).Parts[0].Code)
	}
	late := kcode.OutOfOrderSequence
	require.Equal(t, []kcode.Code{kcode.None, kcode.None, kcode.MessageTooLarge, late, late, late}, codes)
	out := w.produce(0, ProduceBatch{TopicPartition: tp("in", 0), ProducerID: 1, FirstSequence: 2, Records: outs("k")})
	require.EqualValues(t, 2, out[0].BaseOffset)
}

func TestProduceErrorsPerPartition_Realkafka8(t *testing.T) {
	w := newWorld(t, Config{Brokers: 2, Topics: map[string]TopicConfig{"in": {Partitions: 2}}})
	var codes []kcode.Code
	for _, p := range w.produce(0,
		ProduceBatch{TopicPartition: tp("in", 0), ProducerID: -1, Records: outs("a")},
		ProduceBatch{TopicPartition: tp("in", 1), ProducerID: -1, Records: outs("a")},
		ProduceBatch{TopicPartition: tp("in", 2), ProducerID: -1, Records: outs("a")},
		ProduceBatch{TopicPartition: tp("no", 0), ProducerID: -1, Records: outs("a")},
	) {
		codes = append(codes, p.Code)
	}
	require.Equal(t, []kcode.Code{kcode.None, kcode.NotLeaderOrFollower, kcode.UnknownTopicOrPartition, kcode.UnknownTopicOrPartition}, codes)
}

func TestRecordsAreCopied(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
	rs := []task.OutRecord{{Key: []byte("k"), Value: []byte{}, Headers: []task.Header{{Key: "h", Value: []byte("x")}, {Key: "nil"}}, Timestamp: 3}}
	req := ProduceRequest{Batches: []ProduceBatch{{TopicPartition: tp("in", 0), ProducerID: -1, Records: rs}}}
	clone := req.Clone()
	mangle := func(key []byte, hs []task.Header) { key[0], hs[0].Value[0] = '!', '!' }
	want := []task.Record{{Key: []byte("k"), Value: []byte{}, Headers: []task.Header{{Key: "h", Value: []byte("x")}, {Key: "nil"}}, Timestamp: 3}}
	mangle(rs[0].Key, rs[0].Headers)
	do[ProduceResponse](w, 0, clone)
	mangle(clone.Batches[0].Records[0].Key, clone.Batches[0].Records[0].Headers)
	got := w.fetch(0, FetchPart{TopicPartition: tp("in", 0)})[0]
	require.Equal(t, want, got.Records)
	mangle(got.Records[0].Key, got.Records[0].Headers)
	log, end := w.b.Log(tp("in", 0))
	require.Equal(t, want, log)
	require.EqualValues(t, 1, end)
}
