package streams_test

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// BenchmarkPolicies is what a policy costs where nothing fails, more than Stop does: nanoseconds and allocations of a record, from a task's queue
// to the acknowledged output. The policies take turns of a few hundred microseconds, and the median of the differences is told, so that the machine's
// drift is no difference.
func BenchmarkPolicies(b *testing.B) {
	policies := []struct {
		name   string
		policy retry.Policy
	}{{"Stop", retry.Stop()}, {"Ordered", retry.Ordered()}, {"KeyOrdered", retry.KeyOrdered()}, {"Parallel", retry.Parallel()}}
	var lanes []*policyLane
	for _, p := range policies {
		builder := streams.NewBuilder()
		builder.Stream("in", serde.String, serde.String, streams.OnFailure(p.policy)).MapValues(func(v string) string { return v + "!" }).To("out")
		topology, err := builder.Build("app")
		if err != nil {
			b.Fatal(err)
		}
		lane, err := newPolicyLane(topology)
		if err != nil {
			b.Fatal(err)
		}
		for range 200 { // arenas, free lists
			lane.turn()
		}
		lanes = append(lanes, lane)
	}
	took := make([][]float64, len(lanes)) // by lane: nanoseconds a record, by turn
	allocations := make([]uint64, len(lanes))
	var before, after runtime.MemStats
	turns := 0
	for b.Loop() {
		for i := range lanes {
			i = (i + turns) % len(lanes) // nobody always comes behind the same one
			began := time.Now()
			lanes[i].turn()
			took[i] = append(took[i], float64(time.Since(began).Nanoseconds())/policyBatch)
		}
		turns++
	}
	const counted = 100
	for i, lane := range lanes {
		runtime.ReadMemStats(&before)
		for range counted {
			lane.turn()
		}
		runtime.ReadMemStats(&after)
		allocations[i] = after.Mallocs - before.Mallocs
	}
	perRecord := func(i int) float64 { return float64(allocations[i]) / counted / policyBatch }
	b.ReportMetric(median(took[0]), "Stop-ns/record")
	b.ReportMetric(perRecord(0), "Stop-allocs/record")
	for i, p := range policies[1:] {
		more := make([]float64, turns)
		for turn := range more {
			more[turn] = took[i+1][turn] - took[0][turn]
		}
		b.ReportMetric(median(more), p.name+"-ns/record")
		// What a turn costs is shared by its records, and may differ by one or two: that is no allocation of a record.
		b.ReportMetric(max(0, float64(int((perRecord(i+1)-perRecord(0))*100))/100), p.name+"-allocs/record")
	}
}

const policyBatch = 1000

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}

// policyLane is a task, and what it is fed with.
type policyLane struct {
	owner   *task.Owner
	records []task.Record
	offset  int64
	now     time.Time
	acks    []uint64
}

func newPolicyLane(topology *streams.Topology) (*policyLane, error) {
	owner, err := newOwner(topology, 0)
	if err != nil {
		return nil, err
	}
	l := &policyLane{owner: owner, now: time.UnixMilli(1_000_000)}
	for i := range policyBatch {
		l.records = append(l.records, task.Record{Key: fmt.Appendf(nil, "key-%d", i*7919%500), Value: []byte("a value of forty bytes, more or less so.")})
	}
	return l, nil
}

// turn takes a batch through the task.
func (l *policyLane) turn() {
	for i := range l.records {
		l.records[i].Offset, l.records[i].Timestamp = l.offset, l.offset
		l.offset++
	}
	l.step(task.Fetched{Batch: &task.Batch{Records: l.records, Next: l.offset}})
	l.step(task.Work{Records: policyBatch})
}

func (l *policyLane) step(ev task.Event) {
	l.acks = l.acks[:0]
	for _, a := range l.owner.Step(l.now, ev) {
		switch a := a.(type) {
		case task.Send:
			l.acks = append(l.acks, a.Seq)
		case task.Failed:
			panic(a.Err)
		}
	}
	for _, seq := range l.acks {
		l.owner.Step(l.now, task.Acked{Seq: seq})
	}
}
