package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// bench is a task over one reused batch, with effects acknowledged and commits done as they come.
type bench struct {
	t     *Task
	batch *Batch
	rs    []Record
	next  int64
	now   time.Time
}

const benchRecords, benchKeys = 1000, 500

func newBench(t testing.TB, spec *Spec) *bench {
	cfg := Config{
		ID: testID, Spec: spec, Positions: []int64{0}, StreamTime: -1, Partitions: func(string) int32 { return 8 }, CommitInterval: time.Second,
	}
	cfg.Stores = make([]statestore.Reader, len(spec.Stores))
	task, err := NewTask(cfg)
	require.NoError(t, err)
	b := &bench{t: task, now: epoch0, batch: &Batch{}}
	for i := range benchRecords {
		b.rs = append(b.rs, rec(0, fmt.Sprintf("key-%05d", i*7919%benchKeys), "a value of forty bytes, more or less so.", int64(i)))
	}
	for i := range 300 { // warm: arenas, caches, free lists
		b.turn()
		if i%50 < 25 {
			b.commit()
		}
	}
	return b
}

// turn processes one batch.
func (b *bench) turn() {
	for i := range b.rs {
		b.rs[i].Offset = b.next
		b.next++
	}
	b.batch.Records, b.batch.Next = b.rs, b.next
	b.t.Add(0, b.batch)
	if n := b.t.Process(b.now, len(b.rs)); n != len(b.rs) {
		panic(fmt.Sprintf("%d processed: %v", n, b.t.Err()))
	}
	b.drain()
}

func (b *bench) drain() {
	for e := b.t.TakeEffects(); e != nil; e = b.t.TakeEffects() {
		b.t.Acked(e.Seq)
	}
}

func (b *bench) commit() {
	b.t.Seal(b.now)
	b.drain()
	b.t.Committed(nil)
}

func TestARecordAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for _, c := range []struct {
		name string
		spec *Spec
	}{{"map", mapSpec()}, {"count", countSpec(true)}, {"headers", withHeaders(mapSpec())}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, c.spec)
			require.Zero(t, testing.AllocsPerRun(20, b.turn), "of a thousand records")
			b.commit()
			// A commit makes the metadata, a string and what it is made in, and nothing that grows with the records.
			require.LessOrEqual(t, testing.AllocsPerRun(20, func() { b.turn(); b.commit() }), 3.0)
		})
	}
}

// Nor does one of a gap, nor one of the main path beside it.
func TestARecordBesideAGapAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	const lo, hi = 0, int64(1) << 40
	spec := countSpec(true)
	b := newBench(t, spec)
	var err error
	b.t, err = NewTask(Config{
		ID: testID, Spec: spec, Positions: []int64{hi}, StreamTime: -1, Partitions: func(string) int32 { return 8 }, CommitInterval: time.Second,
		Stores: make([]statestore.Reader, len(spec.Stores)), Splits: []retry.Split{{Low: lo, Gap: []retry.Run{{From: lo, To: hi}}, Main: hi}},
	})
	require.NoError(t, err)
	b.next = hi
	gap := int64(lo)
	replayed, replays := &Batch{}, make([]Record, len(b.rs))
	copy(replays, b.rs)
	both := func() {
		for i := range replays {
			replays[i].Offset = gap
			gap++
		}
		replayed.Records, replayed.Next = replays, gap
		b.t.Add(len(spec.Inputs), replayed)
		b.turn() // a quarter of what it runs is of the gap
		for b.t.Runnable() {
			b.t.Process(b.now, 2*len(b.rs))
		}
		b.t.Consumed(0)
		b.t.Consumed(len(spec.Inputs))
		b.drain()
		b.t.closeGaps()
		b.t.TakeReplays()
	}
	for range 300 {
		both()
		b.commit()
	}
	require.Zero(t, testing.AllocsPerRun(20, both), "of two thousand records")
	require.Equal(t, gap, b.t.gap(0).position)
	require.Equal(t, b.next, b.t.in.all[0].position)
	require.LessOrEqual(t, testing.AllocsPerRun(20, func() { both(); b.commit() }), 5.0)
}

// withHeaders passes two headers with each record.
func withHeaders(s *Spec) *Spec {
	build := s.Build
	s.Build = func(e *Env) (*Graph, error) {
		g, err := build(e)
		h := []Header{{"trace", []byte("0123456789abcdef")}, {"null", nil}}
		inner := g.Inputs[0]
		g.Inputs[0] = func(r *Record) {
			r.Headers = h
			inner(r)
		}
		return g, err
	}
	return s
}

func benchmark(b *testing.B, spec *Spec) {
	x := newBench(b, spec)
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		x.turn()
		if n++; n%100 == 0 {
			x.commit()
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/benchRecords, "ns/record")
}

func BenchmarkMap(b *testing.B)   { benchmark(b, mapSpec()) }
func BenchmarkCount(b *testing.B) { benchmark(b, countSpec(true)) }

// TestAnOwnerAllocatesPerStepOnly counts what a fetched batch of a thousand records costs beside its records: events and actions.
func TestAnOwnerAllocatesPerStepOnly(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	b := newBench(t, countSpec(true))
	o := &Owner{t: b.t, budget: firstBudget}
	var acks []uint64
	step := func(ev Event) {
		for _, a := range o.Step(b.now, ev) {
			if s, ok := a.(Send); ok {
				acks = append(acks, s.Seq)
			}
		}
	}
	turn := func() {
		for i := range b.rs {
			b.rs[i].Offset = b.next
			b.next++
		}
		b.batch.Records, b.batch.Next = b.rs, b.next
		step(Fetched{0, b.batch})
		for o.Runnable() {
			step(Work{Records: 250})
		}
		step(Commit{})
		for _, seq := range acks {
			step(Acked{seq})
		}
		acks = acks[:0]
		step(Committed{})
	}
	turn()
	require.LessOrEqual(t, testing.AllocsPerRun(50, turn), 20.0)
	require.EqualValues(t, b.next, o.Stats().Processed)
}
