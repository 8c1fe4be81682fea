package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// BenchmarkRecord is what a record costs a task, from its queue to the acknowledged output, over 10,000 keys.
func BenchmarkRecord(b *testing.B) {
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
	}{
		{"copy", func(b *streams.Builder) { b.Stream("in", serde.String, serde.Int64).To("out") }},
		{"map values", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).MapValues(func(v int64) int64 { return v + 1 }).To("out")
		}},
		{"new key", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).SelectKey(func(k string, _ int64) string { return k }).To("out")
		}},
		{"count", func(b *streams.Builder) { b.Stream("in", serde.String, serde.Int64).GroupByKey().Count("c") }},
		{"count per update", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).GroupByKey().Count("c", streams.EmitPerUpdate).ToStream().To("out")
		}},
		{"table at commit", func(b *streams.Builder) { b.Table("in", serde.String, serde.Int64).ToStream().To("out") }},
	} {
		b.Run(c.name, func(b *testing.B) {
			builder := streams.NewBuilder()
			c.build(builder)
			topology, err := builder.Build("app")
			if err != nil {
				b.Fatal(err)
			}
			benchmark(b, topology)
		})
	}
}

func benchmark(b *testing.B, topology *streams.Topology) {
	owner, err := newOwner(topology, 0)
	if err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	now, offset := time.UnixMilli(1_000_000), int64(0)
	records := make([]task.Record, batch)
	keys := make([][]byte, 10_000)
	for i := range keys {
		keys[i] = fmt.Appendf(nil, "key-%d", i)
	}
	value := make([]byte, 8)
	step := func(ev task.Event) {
		acks := make([]uint64, 0, 16)
		for _, a := range owner.Step(now, ev) {
			if s, ok := a.(task.Send); ok {
				acks = append(acks, s.Seq)
			}
		}
		for _, seq := range acks {
			owner.Step(now, task.Acked{Seq: seq})
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		for i := range records {
			records[i] = task.Record{Offset: offset, Timestamp: offset, Key: keys[offset*7919%int64(len(keys))], Value: value}
			offset++
		}
		step(task.Fetched{Batch: &task.Batch{Records: records, Next: offset}})
		step(task.Work{Records: batch})
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(offset), "ns/record")
}
