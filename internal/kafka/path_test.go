package kafka_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// BenchmarkPath is what a record costs one task from the bytes of a fetch to the bytes of a produce: everything but sockets and goroutines.
// Values are 100 bytes.
func BenchmarkPath(b *testing.B) {
	for _, c := range []struct {
		name  string
		build func(*streams.Builder)
		value func(*rand.Rand) string
	}{
		{"map", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).MapValues(upper).To("out")
		}, hundred},
		{"count", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).GroupByKey().Count("c").ToStream().To("out")
		}, hundred},
		{"words", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).FlatMapValues(func(line string) []string { return strings.Split(line, " ") }).
				GroupBy(func(_, word string) string { return word }).Count("c").ToStream().To("out")
		}, eightWords},
	} {
		b.Run(c.name, func(b *testing.B) { benchmarkPath(b, c.build, c.value) })
	}
}

func hundred(r *rand.Rand) string {
	v := make([]byte, 100)
	for i := range v {
		v[i] = 'a' + byte(r.IntN(26))
	}
	return string(v)
}

func eightWords(r *rand.Rand) string {
	var words []string
	for range 8 {
		words = append(words, fmt.Sprintf("word%d", r.IntN(20_000)))
	}
	return strings.Join(words, " ")
}

func upper(s string) string {
	b := make([]byte, len(s))
	for i := range len(s) {
		c := s[i]
		if 'a' <= c && c <= 'z' {
			c -= 'a' - 'A'
		}
		b[i] = c
	}
	return unsafe.String(unsafe.SliceData(b), len(b))
}

const (
	pathRecords = 2000 // of a fetched batch
	pathKeys    = 12_500
	pathCommit  = 200 // batches
)

func benchmarkPath(b *testing.B, build func(*streams.Builder), value func(*rand.Rand) string) {
	builder := streams.NewBuilder()
	build(builder)
	topology, err := builder.Build("app")
	if err != nil {
		b.Fatal(err)
	}
	spec := topology.Subtopologies[slices.IndexFunc(topology.Subtopologies, func(s *task.Spec) bool { return s.Inputs[0].Topic == "in" })]
	cfg := task.Config{ID: task.ID{Subtopology: spec.Subtopology}, Spec: spec, CommitInterval: 24 * time.Hour, Positions: []int64{0}, StreamTime: -1, Partitions: func(string) int32 { return 8 }, CreditBytes: 16 << 20}
	cfg.Stores = make([]statestore.Reader, len(spec.Stores))
	owner, err := task.New(cfg)
	if err != nil {
		b.Fatal(err)
	}
	sets := make([][]byte, 50)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range sets {
		var records []task.OutRecord
		for j := range pathRecords {
			records = append(records, task.OutRecord{
				Key: fmt.Appendf(nil, "k%07d", r.IntN(pathKeys)), Value: []byte(value(r)), Timestamp: 1_700_000_000_000 + int64(j/10),
			})
		}
		if sets[i], err = kafka.Set(records...); err != nil {
			b.Fatal(err)
		}
	}
	x := &path{b: b, owner: owner, kafka: kafka.NewPath(), now: time.UnixMilli(1_700_000_000_000)}
	b.ReportAllocs()
	start, n := cpu(), 0
	for b.Loop() {
		batch, err := x.kafka.In(sets[n%len(sets)], int64(n*pathRecords))
		if err != nil {
			b.Fatal(err)
		}
		x.step(task.Fetched{Batch: batch})
		x.step(task.Work{Records: pathRecords})
		if n++; n%pathCommit == 0 {
			x.step(task.Commit{})
		}
	}
	if got := owner.Stats().Processed; owner.Err() != nil || got != int64(n)*pathRecords {
		b.Fatalf("%d of %d records were processed: %v", got, n*pathRecords, owner.Err())
	}
	b.ReportMetric(float64(cpu()-start)/float64(n)/pathRecords, "cpu-ns/record")
}

// path drives a task as a process does. Groups are sent when there are 256 KiB for a partition, or with a commit.
type path struct {
	b     *testing.B
	owner *task.Owner
	kafka *kafka.Path
	now   time.Time
	open  [8][]*task.Group
	bytes [8]int
	acks  uint64
}

func (x *path) step(ev task.Event) {
	seal := false
	for _, a := range x.owner.Step(x.now, ev) {
		switch a := a.(type) {
		case task.Consumed:
			x.kafka.Recycle(a.Batches)
		case task.Seal:
			seal = true
		case task.Send:
			x.acks = a.Seq
			for i := range a.Groups {
				g := &a.Groups[i]
				p := g.To.Partition
				x.open[p] = append(x.open[p], g)
				x.bytes[p] += g.Bytes
			}
		}
	}
	most := 0
	for _, n := range x.bytes {
		most = max(most, n)
	}
	if seal || most >= 256<<10 {
		x.flush()
	}
	if seal {
		x.step(task.Committed{})
	}
}

func (x *path) flush() {
	for p, groups := range x.open {
		if len(groups) == 0 {
			continue
		}
		if _, err := x.kafka.Out(groups...); err != nil {
			x.b.Fatal(err)
		}
		clear(groups)
		x.open[p], x.bytes[p] = groups[:0], 0
	}
	x.step(task.Acked{Seq: x.acks})
}
