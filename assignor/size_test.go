package assignor

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// sizes are the bytes that the broker keeps of a group in one record, of 1 MiB at most (I16).
type sizes struct{ metadata, assignments, moves int }

func (s sizes) sum() int { return s.metadata + s.assignments }

// measure encodes what members say and what they are told as they travel, with the standard lists.
func (g *groupModel) measure() (out sizes) {
	topics := make([]string, len(g.subs))
	for i, s := range g.subs {
		topics[i] = topicOf(s.ID)
	}
	for _, m := range g.said.Members {
		d := MemberData{
			Process: m.Process, JoinSeq: 77, Capacity: 1, Hashes: m.Hashes, Claims: m.Claims, Released: m.Released, Learned: m.Learned, Replicas: m.Replicas,
		}
		out.metadata += len(m.ID) + len(Subscription{Topics: topics, Owned: partitionsOf(m.Claims), Generation: 5, Rack: m.Rack, UserData: d.Append(nil)}.Append(nil))
	}
	for _, m := range g.plan.Members {
		d := PlanData{
			Generation: g.generation, Members: len(g.plan.Members), Active: m.Active, Marks: m.Marks, Learners: m.Learners, Standbys: m.Standbys,
			Hashes: g.plan.Forms, Digest: 1, Moves: m.Moves,
		}
		for _, s := range g.subs {
			d.Counts = append(d.Counts, Count{s.ID, s.Partitions})
		}
		with := len(d.Append(nil))
		out.assignments += len(m.ID) + len(Assignment{Partitions: partitionsOf(m.Active), UserData: d.Append(nil)}.Append(nil))
		d.Moves = nil
		out.moves += with - len(d.Append(nil))
	}
	return out
}

func topicOf(sub int32) string { return fmt.Sprintf("orders-by-customer-repartition-%d", sub) }

func partitionsOf(ids []task.ID) (out []task.TopicPartition) {
	for _, x := range ids {
		out = append(out, task.TopicPartition{Topic: topicOf(x.Subtopology), Partition: x.Partition})
	}
	return slices.Clip(out)
}

// hundredMembers is 2,000 tasks over 100 members that have come to rest.
func hundredMembers(standbys int) *groupModel {
	var subs []Subtopology
	for i := range int32(10) {
		subs = append(subs, Subtopology{ID: i, Partitions: 200, Stateful: i < 7})
	}
	g := newGroup(subs...)
	g.policy.Standbys = standbys
	for i := range 100 {
		g.addAsBrokersName(i)
	}
	for range 3 {
		g.round()
		g.catchUp()
	}
	return g
}

// tenJoin is the round in which the plan says most.
func (g *groupModel) tenJoin() {
	for i := range 10 {
		g.addAsBrokersName(100 + i)
	}
	g.round()
}

func (g *groupModel) addAsBrokersName(i int) {
	p := g.add(fmt.Sprintf("orders-app-%02d-6ba7b810-9dad-11d1-80b4-00c04fd4%04x", i, i*7919%65536))
	p.Process, p.Rack = [16]byte{1, byte(i)}, fmt.Sprintf("eu-central-1%c", 'a'+i%3)
}

// 2,000 tasks over 100 members with a standby each take less than half of what the broker can keep, at rest and while members join.
func TestGroupFitsItsRecord(t *testing.T) {
	for _, standbys := range []int{1, 2} {
		g := hundredMembers(standbys)
		rest := g.measure()
		g.tenJoin()
		out := g.measure()
		t.Logf("%d standbys: at rest %d B of metadata, %d B of assignments; with 10 more %d B and %d B, of it %d B of moves", standbys,
			rest.metadata, rest.assignments, out.metadata, out.assignments, out.moves)
		require.Less(t, rest.sum(), 500_000)
		require.Less(t, out.sum(), 500_000)
	}
}

// BenchmarkMetadata encodes all that a group's record holds; its size is among the figures of `make bench-rebalance`.
func BenchmarkMetadata(b *testing.B) {
	g := hundredMembers(2)
	rest := g.measure().sum()
	g.tenJoin()
	var out sizes
	for b.Loop() {
		out = g.measure()
	}
	b.ReportMetric(float64(max(rest, out.sum())), "wire-bytes")
}
