package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestCreateTopics_Realkafka10(t *testing.T) {
	with := func(configs ...string) TopicConfig {
		c := TopicConfig{Partitions: 1, Replication: -1, Configs: map[string]string{}}
		for i := 0; i < len(configs); i += 2 {
			c.Configs[configs[i]] = configs[i+1]
		}
		return c
	}
	for _, c := range []struct {
		name   string
		topic  string
		config TopicConfig
		want   kcode.Code
	}{
		{"compacted, with what the runtime sets", "x", with("cleanup.policy", "compact,delete", "segment.bytes", "1048576", "min.cleanable.dirty.ratio", "0.1",
			"message.timestamp.type", "CreateTime", "message.timestamp.after.max.ms", "9223372036854775807", "retention.ms", "-1", "compression.type", "zstd", "flush.ms", "1"), kcode.None},
		{"broker defaults", "x", TopicConfig{Partitions: -1, Replication: -1}, kcode.None},
		{"exists", "in", with(), kcode.TopicAlreadyExists},
		{"segment.bytes below 1 MiB", "x", with("segment.bytes", "65536"), kcode.InvalidConfig},
		{"unknown config", "x", with("colour", "red"), kcode.InvalidConfig},
		{"policy", "x", with("cleanup.policy", "burn"), kcode.InvalidConfig},
		{"timestamp type", "x", with("message.timestamp.type", "Sundial"), kcode.InvalidConfig},
		{"ratio", "x", with("min.cleanable.dirty.ratio", "2"), kcode.InvalidConfig},
		{"no number", "x", with("retention.ms", "long"), kcode.InvalidConfig},
		{"bad name", "a b", with(), kcode.InvalidTopic},
		{"dots", "..", with(), kcode.InvalidTopic},
		{"no partitions", "x", TopicConfig{Replication: -1}, kcode.InvalidPartitions},
		{"more replicas than nodes", "x", TopicConfig{Partitions: 1, Replication: 3}, kcode.InvalidReplicationFactor},
		{"no replicas", "x", TopicConfig{Partitions: 1}, kcode.InvalidReplicationFactor},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{Brokers: 2, Topics: map[string]TopicConfig{"in": {}}})
			r := do[CreateTopicsResponse](w, 0, CreateTopicsRequest{Topics: []NewTopic{{Name: c.topic, TopicConfig: c.config}}})
			require.Equal(t, []kcode.Code{c.want}, r.Codes)
			m := do[MetadataResponse](w, 1, MetadataRequest{Topics: []string{"x"}}).Topics[0]
			require.Equal(t, c.want == kcode.None, m.Code == kcode.None)
			if c.want == kcode.None {
				require.Len(t, m.Partitions, 1)
			}
		})
	}
}

func TestMetadata(t *testing.T) {
	w := newWorld(t, Config{Brokers: 3, Topics: map[string]TopicConfig{"b": {Partitions: 3, Replication: 1}, "a": {}}})
	m := do[MetadataResponse](w, 2, MetadataRequest{})
	require.Equal(t, []int32{0, 1, 2}, m.Brokers)
	require.Equal(t, []string{"a", "b"}, []string{m.Topics[0].Name, m.Topics[1].Name})
	require.Equal(t, []PartitionMetadata{{Leader: 0}, {Leader: 1}, {Leader: 2}}, m.Topics[1].Partitions)
	id := m.Topics[0].ID
	require.NotZero(t, id)
	require.Equal(t, kcode.UnknownTopicOrPartition, do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{"c"}}).Topics[0].Code)
	require.Empty(t, do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{}}).Topics)

	do[DeleteTopicsResponse](w, 0, DeleteTopicsRequest{Topics: []string{"a"}})
	do[CreateTopicsResponse](w, 0, CreateTopicsRequest{Topics: []NewTopic{{Name: "a", TopicConfig: TopicConfig{Partitions: 1, Replication: 1}}}})
	require.NotEqual(t, id, do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{"a"}}).Topics[0].ID, "another topic of the same name")

	w.b.Crash(w.now, 2)
	m = do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{"b"}})
	require.Equal(t, []int32{0, 1}, m.Brokers)
	require.Equal(t, PartitionMetadata{Leader: 2}, m.Topics[0].Partitions[2], "the dead leader until the failover")
	w.wait(time.Minute)
	m = do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{"b"}})
	require.Equal(t, PartitionMetadata{Leader: -1, LeaderEpoch: 1, Code: kcode.LeaderNotAvailable}, m.Topics[0].Partitions[2], "no other replica")
	w.b.Restart(w.now, 2)
	m = do[MetadataResponse](w, 0, MetadataRequest{Topics: []string{"b"}})
	require.Equal(t, PartitionMetadata{Leader: 2, LeaderEpoch: 2}, m.Topics[0].Partitions[2])
}

func TestTopicConfigs(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {Configs: map[string]string{"cleanup.policy": "compact"}}}})
	r := do[TopicConfigsResponse](w, 0, TopicConfigsRequest{Topics: []string{"in", "no"}})
	require.Equal(t, []kcode.Code{kcode.None, kcode.UnknownTopicOrPartition}, r.Codes)
	require.Equal(t, "compact", r.Configs[0]["cleanup.policy"])
	require.Equal(t, "1048588", r.Configs[0]["max.message.bytes"])
	require.Nil(t, r.Configs[1])
}

func TestDeletedTopic_Realkafka10(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
	in := tp("in", 0)
	w.plainly(in, "a")
	r := do[DeleteTopicsResponse](w, 0, DeleteTopicsRequest{Topics: []string{"in", "no"}})
	require.Equal(t, []kcode.Code{kcode.None, kcode.UnknownTopicOrPartition}, r.Codes)
	gone := kcode.UnknownTopicOrPartition
	require.Equal(t, gone, w.produce(0, ProduceBatch{TopicPartition: in, ProducerID: -1, Records: outs("a")})[0].Code)
	require.Equal(t, gone, w.fetch(0, FetchPart{TopicPartition: in})[0].Code)
	require.Equal(t, gone, do[ListOffsetsResponse](w, 0, ListOffsetsRequest{Parts: []ListOffsetsPart{{TopicPartition: in}}}).Parts[0].Code)
	require.Equal(t, gone, do[DeleteRecordsResponse](w, 0, DeleteRecordsRequest{Parts: []DeleteRecordsPart{{TopicPartition: in}}}).Parts[0].Code)
	_, end := w.b.Log(in)
	require.EqualValues(t, -1, end)
	leader, epoch := w.b.Leader(in)
	require.Equal(t, [2]int32{-1, -1}, [2]int32{leader, epoch})
}

func TestDeleteRecords_Realkafka10(t *testing.T) {
	configs := func(policy string) TopicConfig {
		return TopicConfig{Configs: map[string]string{"cleanup.policy": policy}}
	}
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}, "compact": configs("compact"), "both": configs("compact,delete")}})
	in := tp("in", 0)
	w.plainly(in, "a", "b", "c", "d")
	del := func(p task.TopicPartition, before int64) (kcode.Code, int64) {
		r := do[DeleteRecordsResponse](w, 0, DeleteRecordsRequest{Parts: []DeleteRecordsPart{{TopicPartition: p, Before: before}}}).Parts[0]
		return r.Code, r.LowWatermark
	}
	for _, c := range []struct {
		name   string
		topic  task.TopicPartition
		before int64
		want   kcode.Code
		low    int64
	}{
		{"forward", in, 2, kcode.None, 2},
		{"below the start: nothing to do", in, 1, kcode.None, 2},
		{"beyond the end", in, 5, kcode.OffsetOutOfRange, -1},
		{"less than -1", in, -2, kcode.OffsetOutOfRange, -1},
		{"-1: to the high watermark", in, -1, kcode.None, 4},
		{"compact only", tp("compact", 0), 0, kcode.PolicyViolation, -1},
		{"compact and delete", tp("both", 0), 0, kcode.None, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, low := del(c.topic, c.before)
			require.Equal(t, c.want, code)
			require.Equal(t, c.low, low)
		})
	}
}

func TestDeleteRecordsIntoOpenTransaction_Realkafka10(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
	in := tp("in", 0)
	w.b.OpenTransaction(w.now, in)
	w.plainly(in, "a", "b", "c")
	poll := w.poll(0, true, FetchPart{TopicPartition: in})
	r := do[DeleteRecordsResponse](w, 0, DeleteRecordsRequest{Parts: []DeleteRecordsPart{{TopicPartition: in, Before: 2}}})
	require.Equal(t, kcode.None, r.Parts[0].Code)
	require.Equal(t, kcode.OffsetOutOfRange, got[FetchResponse](w, poll).Parts[0].Code)
	at := func(which At) int64 {
		p := do[ListOffsetsResponse](w, 0, ListOffsetsRequest{Parts: []ListOffsetsPart{{TopicPartition: in, At: which, LeaderEpoch: -1}}}).Parts[0]
		require.Equal(t, kcode.None, p.Code)
		return p.Offset
	}
	require.Equal(t, []int64{2, 3, 0}, []int64{at(Earliest), at(Latest), at(LastStable)}, "log start 2 > LSO 0")
	w.b.EndTransaction(w.now, in)
	require.Equal(t, []int64{2, 4, 4}, []int64{at(Earliest), at(Latest), at(LastStable)})
	log, _ := w.b.Log(in)
	require.Equal(t, []int64{2}, offsets(FetchedPart{Records: log}))
}
