package kafka

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/understudy-streams/understudy/task"
)

// typical are records of 100 bytes with a short key.
func typical(n int) []task.OutRecord {
	out := make([]task.OutRecord, n)
	for i := range out {
		value := make([]byte, 100)
		copy(value, fmt.Sprint("value ", i))
		out[i] = task.OutRecord{Key: fmt.Append(nil, "key-", i%100), Value: value, Timestamp: 1_700_000_000_000 + int64(i)}
	}
	return out
}

func withHeaders(n int) []task.OutRecord {
	out := typical(n)
	for i := range out {
		out[i].Headers = []task.Header{{Key: "trace", Value: []byte("0123456789abcdef")}, {Key: "attempt", Value: []byte{1}}}
	}
	return out
}

var perRecord = []struct {
	name    string
	codec   Codec
	records func(int) []task.OutRecord
}{
	{name: "plain", records: typical},
	{name: "headers", records: withHeaders},
	{name: "lz4", codec: LZ4, records: typical},
	{name: "zstd", codec: Zstd, records: typical},
	{name: "snappy", codec: Snappy, records: typical},
	{name: "gzip", codec: Gzip, records: typical},
}

func BenchmarkDecode(b *testing.B) {
	for _, v := range perRecord {
		b.Run(v.name, func(b *testing.B) {
			const n = 1000
			set := encoded(b, 0, v.codec, v.records(n)...)
			var p batchPool
			d := decoder{pool: &p}
			var in task.Reader
			var r task.Record
			b.ReportAllocs()
			for b.Loop() {
				buf := p.get(len(set)) // as a fetch does, with the copy out of the socket
				copy(buf, set)
				got, err := d.decode(someTP, buf, 0, false, nil)
				if err != nil {
					b.Fatal(err)
				}
				for in.Reset(got, 0); in.Next(&r); {
				}
				p.recycle(got)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, v := range perRecord {
		b.Run(v.name, func(b *testing.B) {
			const n = 1000
			batch := plainBatch(someTP, v.records(n)...)
			batch.Codec = v.codec
			var e encoder
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = e.appendBatch(buf[:0], &batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/record")
		})
	}
}

// A batch costs a few allocations (its own slabs), a record none.
func TestARecordCostsNoAllocation(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, v := range perRecord {
		t.Run(v.name, func(t *testing.T) {
			const n = 1000
			records := v.records(n)
			set := encoded(t, 0, v.codec, records...)
			var p batchPool
			d := decoder{pool: &p}
			var in task.Reader
			var r task.Record
			decode := func() {
				buf := p.get(len(set))
				copy(buf, set)
				got, err := d.decode(someTP, buf, 0, false, nil)
				if err != nil {
					t.Fatal(err)
				}
				for in.Reset(got, 0); in.Next(&r); {
				}
				p.recycle(got)
			}
			decode()
			require.LessOrEqual(t, testing.AllocsPerRun(20, decode), 15.0, "of a batch of %d records", n)

			batch := plainBatch(someTP, records...)
			batch.Codec = v.codec
			var e encoder
			buf := make([]byte, 0, 1<<20)
			encode := func() {
				if _, err := e.appendBatch(buf[:0], &batch); err != nil {
					t.Fatal(err)
				}
			}
			encode()
			require.LessOrEqual(t, testing.AllocsPerRun(20, encode), 1.0, "of a batch of %d records", n)
		})
	}
}

// The numbers of these two are of client and broker together, which share the process.
func BenchmarkFetchFromABroker(b *testing.B) {
	cluster := kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "t"), kfake.SyntheticFetch(kfake.SyntheticBatch{Records: 2000}))
	defer cluster.Close()
	c, err := Open(Config{Brokers: cluster.ListenAddrs()})
	require.NoError(b, err)
	defer c.Close()
	m, err := c.Metadata(b.Context(), []string{"t"})
	require.NoError(b, err)
	f, err := c.DialFetch(b.Context(), m.Topics["t"].Partitions[0].Leader)
	require.NoError(b, err)
	defer f.Close()
	req := FetchRequest{MaxWait: time.Second, MinBytes: 1, MaxBytes: 4 << 20}
	for p := range int32(4) {
		req.Parts = append(req.Parts, FetchPart{TopicPartition: task.TopicPartition{Topic: "t", Partition: p}, LeaderEpoch: -1, MaxBytes: 256 << 10})
	}
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		res, err := f.Fetch(req)
		if err != nil {
			b.Fatal(err)
		}
		for _, p := range res.Parts {
			for _, run := range p.Batch.Runs {
				n += run.Count
			}
			c.Recycle([]*task.Batch{p.Batch})
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/record")
}

func BenchmarkProduceToABroker(b *testing.B) {
	cluster := kfake.MustCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "t"), kfake.BlackholeProduce())
	defer cluster.Close()
	c, err := Open(Config{Brokers: cluster.ListenAddrs()})
	require.NoError(b, err)
	defer c.Close()
	m, err := c.Metadata(b.Context(), []string{"t"})
	require.NoError(b, err)
	p, err := c.DialProduce(b.Context(), m.Topics["t"].Partitions[0].Leader)
	require.NoError(b, err)
	const n = 1000
	records := typical(n)
	req := ProduceRequest{Acks: -1, Timeout: time.Second}
	for i := range int32(4) {
		req.Batches = append(req.Batches, plainBatch(task.TopicPartition{Topic: "t", Partition: i}, records...))
	}
	window := make(chan struct{}, 5)
	done := func(_ ProduceResponse, err error) {
		if err != nil {
			b.Error(err)
		}
		<-window
	}
	b.ReportAllocs()
	for b.Loop() {
		window <- struct{}{}
		if err := p.Produce(req, done); err != nil {
			b.Fatal(err)
		}
	}
	for range cap(window) {
		window <- struct{}{}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(4*n), "ns/record")
	p.Close()
}
