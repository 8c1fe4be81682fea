package kafka

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// strange are records that lose something in a careless codec.
func strange() []task.OutRecord {
	many := make([]task.Header, 200)
	for i := range many {
		many[i] = task.Header{Key: fmt.Sprint("h", i), Value: bytes.Repeat([]byte{byte(i)}, i)}
	}
	return []task.OutRecord{
		{Key: []byte("k"), Value: []byte("v"), Timestamp: 1, Headers: []task.Header{
			{Key: "a", Value: []byte("01")}, {Key: "b", Value: []byte("02")}, {Key: "a", Value: []byte("03")}, {Key: "c"}, {Key: "d", Value: []byte{}},
			{Key: "kafka_x", Value: []byte("31")}, {Key: "", Value: []byte("09")}, {Key: "attempt", Value: []byte{0xff}},
		}},
		{Key: nil, Value: []byte("null key"), Timestamp: 1_700_000_000_000},
		{Key: []byte{}, Value: []byte("empty key"), Timestamp: 1_700_000_000_001},
		{Key: []byte("null value"), Value: nil, Timestamp: 1_600_000_000_000},
		{Key: []byte("empty value"), Value: []byte{}, Timestamp: 1_700_000_000_000},
		{Key: nil, Value: nil, Timestamp: 0},
		{Key: []byte{0, 255, 128}, Value: bytes.Repeat([]byte{0xab}, 70_000), Timestamp: 5},
		{Key: []byte("many headers"), Value: []byte("v"), Timestamp: 7, Headers: many},
		{Key: []byte("long header name"), Value: []byte("v"), Timestamp: 8, Headers: []task.Header{{Key: strings.Repeat("n", 300), Value: []byte("x")}}},
	}
}

func requireSame(t *testing.T, want []task.OutRecord, got []task.Record) {
	t.Helper()
	require.Len(t, got, len(want))
	for i, w := range want {
		g := got[i]
		require.Equal(t, w.Key, g.Key, "key of record %d", i)
		require.Equal(t, w.Value, g.Value, "value of record %d", i)
		require.Equal(t, w.Timestamp, g.Timestamp, "timestamp of record %d", i)
		require.Equal(t, w.Headers, g.Headers, "headers of record %d", i)
	}
}

var allCodecs = []Codec{None, Gzip, Snappy, LZ4, Zstd}

func TestEveryRecordComesBackAsItWasSent(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		p, f := producer(t, c, tp), fetcher(t, c, tp)
		epoch := leader(t, c, tp).LeaderEpoch
		want := strange()
		for i, codec := range allCodecs {
			t.Run(codec.String(), func(t *testing.T) {
				b := plainBatch(tp, want[:4]...)
				b.Codec = codec
				b.Groups = append(b.Groups, task.NewGroup(tp, want[4:]...))
				part := send(t, p, b)[0]
				require.Equal(t, kcode.None, part.Code, part.Message)
				base := int64(i * len(want))
				require.Equal(t, base, part.BaseOffset)

				got := fetchTo(t, f, tp, base, base+int64(len(want)), epoch, false)
				requireSame(t, want, got)
				require.Equal(t, base, got[0].Offset)
			})
		}
		t.Run("as another client reads it", func(t *testing.T) {
			all, err := k.tools.Consume(within(t), tp.Topic)
			require.NoError(t, err)
			for i := range allCodecs {
				requireSame(t, want, all[0][i*len(want):(i+1)*len(want)])
			}
		})
		t.Run("from another client", func(t *testing.T) {
			from := int64(len(allCodecs) * len(want))
			require.NoError(t, k.tools.Produce(within(t), tp, want...))
			requireSame(t, want, fetchTo(t, f, tp, from, from+int64(len(want)), epoch, false))
		})
	})
}

func TestTimestampsBeforeTheEpochAndFarOff(t *testing.T) {
	for _, times := range [][]int64{
		{-1}, {-62135596800000, -1, -5}, {5, -5, 0}, {0, 253402300799999, -253402300799999},
	} {
		t.Run(fmt.Sprint(times), func(t *testing.T) {
			k := embedded(t, broker0)
			c := k.client(t)
			tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
			var want []task.OutRecord
			for _, ts := range times {
				want = append(want, task.OutRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: ts})
			}
			mustSend(t, producer(t, c, tp), tp, want...)
			requireSame(t, want, fetchTo(t, fetcher(t, c, tp), tp, 0, int64(len(want)), -1, false))
		})
	}
}

func TestTimestampsOnARealBroker(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"message.timestamp.after.max.ms": "9223372036854775807"})}
		want := []task.OutRecord{{Value: []byte("far"), Timestamp: 4_102_444_800_000}, {Value: []byte("near"), Timestamp: 1}, {Value: []byte("before"), Timestamp: -7}}
		mustSend(t, producer(t, c, tp), tp, want...)
		requireSame(t, want, fetchTo(t, fetcher(t, c, tp), tp, 0, 3, leader(t, c, tp).LeaderEpoch, false))
	})
}

func TestLogAppendTimeIsTheBrokersTime(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		if !k.real {
			t.Skip("the embedded broker ignores the setting")
		}
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"message.timestamp.type": "LogAppendTime"})}
		mustSend(t, producer(t, c, tp), tp, task.OutRecord{Value: []byte("a"), Timestamp: 1}, task.OutRecord{Value: []byte("b"), Timestamp: 2})
		got := fetchTo(t, fetcher(t, c, tp), tp, 0, 2, -1, false)
		require.Greater(t, got[0].Timestamp, int64(1_600_000_000_000))
		require.Equal(t, got[0].Timestamp, got[1].Timestamp)
	})
}

func TestALargeRecord(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, map[string]string{"max.message.bytes": "8000000"})}
		value := make([]byte, 5<<20)
		r := rand.NewChaCha8([32]byte{1})
		_, _ = r.Read(value)
		for i, codec := range allCodecs {
			b := plainBatch(tp, task.OutRecord{Key: []byte("big"), Value: value, Timestamp: 3})
			b.Codec = codec
			require.Equal(t, kcode.None, send(t, producer(t, c, tp), b)[0].Code)
			// It comes whole, although it is larger than what is asked for.
			part := fetchOnce(t, fetcher(t, c, tp), FetchPart{TopicPartition: tp, Offset: int64(i), LeaderEpoch: -1, MaxBytes: 1000}, false)
			require.NoError(t, part.Err)
			require.Len(t, records(part.Batch), 1)
			require.True(t, bytes.Equal(value, records(part.Batch)[0].Value), codec)
			require.GreaterOrEqual(t, part.Batch.Bytes, len(value))
		}
	})
}

func TestSeveralTopicsAndPartitionsInOneRequest(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		a, b := k.topic(t, c, 3, nil), k.topic(t, c, 1, nil)
		tps := []task.TopicPartition{{Topic: a, Partition: 2}, {Topic: b}, {Topic: a, Partition: 0}}
		p, f := producer(t, c, tps[0]), fetcher(t, c, tps[0])
		var batches []ProduceBatch
		var asked []FetchPart
		for _, tp := range tps {
			batches = append(batches, plainBatch(tp, task.OutRecord{Value: []byte(tp.String())}))
			asked = append(asked, FetchPart{TopicPartition: tp, LeaderEpoch: -1, MaxBytes: 1000})
		}
		for i, part := range send(t, p, batches...) {
			require.Equal(t, tps[i], part.TopicPartition, "answers come in the order of the request")
			require.Equal(t, kcode.None, part.Code)
		}
		res, err := f.Fetch(FetchRequest{MaxBytes: 1 << 20, MinBytes: 1, Parts: asked})
		require.NoError(t, err)
		require.Len(t, res.Parts, 3)
		for _, part := range res.Parts {
			require.Equal(t, part.TopicPartition.String(), string(records(part.Batch)[0].Value))
			require.Equal(t, int64(1), part.Batch.HighWatermark)
			require.Equal(t, int64(1), part.LastStable)
		}
	})
}
