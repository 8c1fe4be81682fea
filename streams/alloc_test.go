package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// In steady state a record costs no allocation of ours: nodes, items, keys, rows and outputs lie in memory that is used again.
func TestARecordAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	two := []string{"to", "be"}
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
		sub   int
	}{
		{"stateless steps", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).
				Filter(func(_ string, v int64) bool { return v >= 0 }).
				MapValues(func(v int64) int64 { return v + 1 }).
				Map(func(k string, v int64) (int64, string) { return v, k }).
				FlatMapValues(func(string) []string { return two }).
				To("out")
		}, 0},
		{"a count", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).GroupByKey().Count("c", streams.EmitPerUpdate).ToStream().To("out")
		}, 0},
		{"a filtered reduce", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).GroupByKey().
				Reduce("r", func(a, v int64) int64 { return a + v }, streams.EmitPerUpdate).
				Filter(func(_ string, v int64) bool { return v%2 == 0 }).
				MapValues(func(v int64) int64 { return -v }).
				ToStream().To("out")
		}, 0},
		{"a table", func(b *streams.Builder) {
			b.Table("in", serde.String, serde.Int64, streams.EmitPerUpdate).ToStream().To("out")
		}, 0},
		{"a processor with a store", func(b *streams.Builder) {
			store := streams.NewStore("s", serde.String, serde.Int64)
			b.Stream("in", serde.String, serde.Int64).
				Process("p", func(init *streams.Init) streams.Processor[string, int64, string, int64] {
					return &summer{store.Open(init)}
				}, streams.WithStores(store)).To("out")
		}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			require.Less(t, recordAllocs(t, build(t, b), c.sub), 0.1)
		})
	}
}

type summer struct {
	store *streams.StoreHandle[string, int64]
}

func (p *summer) Process(c *streams.Context[string, int64], r streams.Record[string, int64]) error {
	sum, _ := p.store.Get(r.Key)
	r.Value += sum
	p.store.Put(r.Key, r.Value)
	c.Forward(r)
	return nil
}

// recordAllocs is how many allocations a record costs a task that has warmed up. What a turn of the task costs, and a chunk for some hundred
// strings, are shared by many records.
func recordAllocs(t *testing.T, topology *streams.Topology, subtopology int) float64 {
	owner, err := newOwner(topology, subtopology)
	require.NoError(t, err)
	now := time.UnixMilli(1_000_000)
	const perRun, runs = 500, 20
	const most = perRun * (runs + 3)
	records := make([]task.Record, 0, most)
	for i := range int64(most) {
		value, err := serde.Int64.Append(nil, i)
		require.NoError(t, err)
		records = append(records, task.Record{Offset: i, Timestamp: i, Key: fmt.Appendf(nil, "key-%d", i%50), Value: value})
	}
	step := func(ev task.Event) {
		acks := make([]uint64, 0, 8)
		for _, a := range owner.Step(now, ev) {
			switch a := a.(type) {
			case task.Send:
				acks = append(acks, a.Seq)
			case task.Failed:
				t.Fatal(a.Err)
			}
		}
		for _, seq := range acks {
			owner.Step(now, task.Acked{Seq: seq})
		}
	}
	step(task.Fetched{Batch: &task.Batch{Records: records, Next: most}})
	work := task.Event(task.Work{Records: perRun})
	step(work)
	step(work)
	return testing.AllocsPerRun(runs, func() { step(work) }) / perRun
}
