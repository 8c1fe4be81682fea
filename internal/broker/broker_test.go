package broker

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/task"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T, o Options, opts ...kgo.Opt) (*Broker, *Client) {
	t.Helper()
	b, err := Start(o)
	require.NoError(t, err)
	t.Cleanup(b.Close)
	c, err := NewClient(b.Addrs(), opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return b, c
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

var records = []task.OutRecord{
	{Key: []byte("k"), Value: []byte("v"), Timestamp: 5, Headers: []task.Header{{Key: "a", Value: []byte("1")}, {Key: "a"}, {Key: "b", Value: []byte{}}}},
	{Key: nil, Value: []byte{}, Timestamp: 0},
	{Key: []byte{}, Value: nil, Timestamp: -3},
}

func asRead(from int64, records []task.OutRecord) []task.Record {
	var out []task.Record
	for i, r := range records {
		out = append(out, task.Record{Offset: from + int64(i), Timestamp: r.Timestamp, Key: r.Key, Value: r.Value, Headers: r.Headers})
	}
	return out
}

func TestRecordsGoInAndComeOut(t *testing.T) {
	b, c := setup(t, Options{Topics: map[string]int32{"a": 2, "b": 1}, Brokers: 3})
	require.Len(t, b.Addrs(), 3)
	require.NoError(t, c.Produce(within(t), task.TopicPartition{Topic: "a", Partition: 1}, records...))
	got, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, map[int32][]task.Record{0: nil, 1: asRead(0, records)}, got)
	empty, err := c.Consume(within(t), "b")
	require.NoError(t, err)
	require.Equal(t, map[int32][]task.Record{0: nil}, empty)
}

func TestTransactionsAreSeenOrNot(t *testing.T) {
	_, c := setup(t, Options{Topics: map[string]int32{"a": 1}})
	tp := task.TopicPartition{Topic: "a"}
	require.NoError(t, c.Transact(within(t), "x", true, tp, records...))  // 0..2, marker 3
	require.NoError(t, c.Transact(within(t), "y", false, tp, records...)) // 4..6, marker 7
	all, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, append(asRead(0, records), asRead(4, records)...), all[0])
	committed, err := c.ConsumeCommitted(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, asRead(0, records), committed[0])
}

func TestTopicsAndRecordsAreDeleted(t *testing.T) {
	_, c := setup(t, Options{})
	require.NoError(t, c.CreateTopic(within(t), "a", 1, map[string]string{"cleanup.policy": "delete"}))
	require.ErrorIs(t, c.CreateTopic(within(t), "a", 1, nil), ErrTopicExists)
	tp := task.TopicPartition{Topic: "a"}
	require.NoError(t, c.Produce(within(t), tp, records...))
	require.NoError(t, c.DeleteRecords(within(t), tp, 2))
	got, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, asRead(2, records[2:]), got[0])
	require.ErrorIs(t, c.DeleteRecords(within(t), tp, 99), kerr.OffsetOutOfRange)
	require.NoError(t, c.DeleteTopic(within(t), "a"))
	require.ErrorIs(t, c.DeleteTopic(within(t), "a"), kerr.UnknownTopicOrPartition)
	_, err = c.Consume(within(t), "a")
	require.Error(t, err)
}

// Whoever has made a topic may write to it and start applications on it: no broker says any more that there is none.
func TestATopicIsMadeWhenTheBrokersKnowIt(t *testing.T) {
	b, c := setup(t, Options{Brokers: 3})
	late := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "a", Err: kerr.UnknownTopicOrPartition, Count: 5})
	require.NoError(t, c.CreateTopic(within(t), "a", 2, nil))
	require.Equal(t, 5, late.Hits())
}

// Partitions that a topic got are there for whoever asks next, also for a client that wrote to the topic when it had fewer.
func TestAddedPartitionsAreWrittenToAtOnce(t *testing.T) {
	b, c := setup(t, Options{Brokers: 3, Topics: map[string]int32{"a": 1}})
	require.NoError(t, c.Produce(within(t), task.TopicPartition{Topic: "a"}, records...))
	late := b.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "a", Err: kerr.UnknownTopicOrPartition, Count: 5})
	require.NoError(t, c.AddPartitions(within(t), "a", 3))
	require.Equal(t, 5, late.Hits())
	require.NoError(t, c.Produce(within(t), task.TopicPartition{Topic: "a", Partition: 2}, records...))
	got, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, map[int32][]task.Record{0: asRead(0, records), 1: nil, 2: asRead(0, records)}, got)
	require.ErrorIs(t, c.AddPartitions(within(t), "b", 3), kerr.UnknownTopicOrPartition)
}

func TestAnUnknownGroupHasCommittedNothing(t *testing.T) {
	_, c := setup(t, Options{Topics: map[string]int32{"a": 2}})
	for _, version := range []int16{2, 5, 7, 8, 9} {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Group = "nobody"
		req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: "a", Partitions: []int32{0, 1}}}
		req.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "nobody", Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "a", Partitions: []int32{0, 1}}}}}
		k, err := c.open(kgo.MaxVersions(onlyOffsetFetch(version)))
		require.NoError(t, err)
		res, err := req.RequestWith(within(t), k)
		k.Close()
		require.NoError(t, err)
		require.Zero(t, res.ErrorCode)
		if version < 8 {
			require.Len(t, res.Topics[0].Partitions, 2)
			require.Equal(t, int64(-1), res.Topics[0].Partitions[1].Offset)
		} else {
			require.Zero(t, res.Groups[0].ErrorCode)
			require.Equal(t, int64(-1), res.Groups[0].Topics[0].Partitions[1].Offset)
		}
	}
	none, err := c.Committed(within(t), "nobody")
	require.NoError(t, err)
	require.Empty(t, none)
}

func TestCommittedOffsetsAreSeen(t *testing.T) {
	_, c := setup(t, Options{Topics: map[string]int32{"a": 1}})
	os := kadm.Offsets{}
	os.Add(kadm.Offset{Topic: "a", At: 7, LeaderEpoch: -1, Metadata: "m"})
	_, err := c.admin.CommitOffsets(within(t), "g", os)
	require.NoError(t, err)
	tp := task.TopicPartition{Topic: "a"}
	got, err := c.Committed(within(t), "g")
	require.NoError(t, err)
	require.Equal(t, map[task.TopicPartition]task.InputOffset{tp: {TopicPartition: tp, Offset: 7, Metadata: "m"}}, got)
}

func TestADataDirectoryOutlivesTheBroker(t *testing.T) {
	o := Options{DataDir: t.TempDir(), Topics: map[string]int32{"a": 1}}
	b, err := Start(o)
	require.NoError(t, err)
	c, err := NewClient(b.Addrs())
	require.NoError(t, err)
	require.NoError(t, c.Produce(within(t), task.TopicPartition{Topic: "a"}, records...))
	c.Close()
	b.Close()

	o.Topics = map[string]int32{"a": 1, "new": 3}
	_, c = setup(t, o)
	got, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, asRead(0, records), got[0])
	added, err := c.Consume(within(t), "new")
	require.NoError(t, err)
	require.Len(t, added, 3)

	o.DataDir = "/dev/null/no"
	_, err = Start(o)
	require.Error(t, err)
}

func TestAddedTopicsNeedAnOpenDoor(t *testing.T) {
	o := Options{DataDir: t.TempDir(), Topics: map[string]int32{"a": 1}}
	b, err := Start(o)
	require.NoError(t, err)
	b.Close()
	o.Users = []User{{Mechanism: "PLAIN", Name: "u", Password: "p"}}
	_, err = Start(o)
	require.ErrorContains(t, err, "create them with a client")
	o.Topics = nil
	b, err = Start(o)
	require.NoError(t, err)
	b.Close()
}

func TestUsersLogIn(t *testing.T) {
	o := Options{Topics: map[string]int32{"a": 1}, Users: []User{{Mechanism: "PLAIN", Name: "u", Password: "p"}}, Configs: map[string]string{"log.retention.ms": "-1"}}
	_, c := setup(t, o, kgo.SASL(plain.Auth{User: "u", Pass: "p"}.AsMechanism()))
	require.NoError(t, c.Produce(within(t), task.TopicPartition{Topic: "a"}, records...))
}

func TestFaultsAndPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, p, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	port, err := strconv.Atoi(p)
	require.NoError(t, err)

	fault := kfake.Fault{Keys: []kmsg.Key{kmsg.CreateTopics}, Topic: "a", Err: kerr.PolicyViolation}
	b, c := setup(t, Options{Port: port, Faults: []kfake.Fault{fault}})
	require.Equal(t, []string{"127.0.0.1:" + p}, b.Addrs())
	require.ErrorIs(t, c.CreateTopic(within(t), "a", 1, nil), kerr.PolicyViolation)
	require.NoError(t, c.CreateTopic(within(t), "a", 1, nil), "a fault is met once")
	b.Cluster().Fault(fault)
	require.ErrorIs(t, c.CreateTopic(within(t), "a", 1, nil), kerr.PolicyViolation)
}

// A topic that was made anew under its name is another one: whoever produced to the one before produces to it, whoever has made it.
func TestATopicMadeAnewIsWrittenTo(t *testing.T) {
	b, c := setup(t, Options{Brokers: 3, Topics: map[string]int32{"a": 1}})
	other, err := NewClient(b.Addrs())
	require.NoError(t, err)
	t.Cleanup(other.Close)
	tp := task.TopicPartition{Topic: "a"}
	for range 3 {
		require.NoError(t, c.Produce(within(t), tp, records...))
		require.NoError(t, other.Produce(within(t), tp, records...))
		require.NoError(t, c.DeleteTopic(within(t), "a"))
		require.NoError(t, c.CreateTopic(within(t), "a", 1, nil))
		got, err := c.Consume(within(t), "a")
		require.NoError(t, err)
		require.Empty(t, got[0])
	}
	require.NoError(t, other.Produce(within(t), tp, records...))
	got, err := c.Consume(within(t), "a")
	require.NoError(t, err)
	require.Equal(t, asRead(0, records), got[0])
}
