package assignor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bigGroup is 5000 tasks in 25 subtopologies over 200 members in 3 racks.
func bigGroup(standbys int) *groupModel {
	var subs []Subtopology
	for i := range int32(25) {
		subs = append(subs, Subtopology{ID: i, Partitions: 200, Stateful: i%3 != 0})
	}
	g := newGroup(subs...)
	g.policy.Standbys = standbys
	for i := range 200 {
		g.add(fmt.Sprintf("member-%03d", i)).Rack = fmt.Sprintf("rack-%d", i%3)
	}
	return g
}

var bigChanges = []struct {
	name  string
	shape func(*groupModel)
}{
	{"stable", func(*groupModel) {}},
	{"one joins", func(g *groupModel) { g.add("new").Rack = "rack-0" }},
	{"twenty join", func(g *groupModel) {
		for i := range 20 {
			g.add(fmt.Sprintf("new-%02d", i)).Rack = fmt.Sprintf("rack-%d", i%3)
		}
	}},
	{"one dies", func(g *groupModel) { delete(g.members, "member-007") }},
	{"twenty die", func(g *groupModel) {
		for i := range 20 {
			delete(g.members, fmt.Sprintf("member-%03d", i*7))
		}
	}},
}

// A leader holds up the whole group while it plans (I17). The bound leaves room for a slow machine; the benchmark has the real figure.
func TestPlanningIsFast(t *testing.T) {
	g := bigGroup(2)
	for range 3 { // the first round places, the next ones show what it placed
		g.round()
		g.catchUp()
	}
	for _, c := range bigChanges {
		c.shape(g)
		s := g.state()
		start := time.Now()
		p := Assign(s)
		require.Less(t, time.Since(start), 2*time.Second, c.name)
		require.Empty(t, p.Degraded)
		for range 30 {
			if !g.round() && !g.busy() {
				break
			}
			g.catchUp()
		}
		require.False(t, g.busy())
	}
	requireBalanced(t, g.subs, g.runs())
}

func BenchmarkAssign(b *testing.B) {
	b.Run("cold", func(b *testing.B) { benchmarkAssign(b, bigGroup(2)) })
	for _, c := range bigChanges {
		b.Run(c.name, func(b *testing.B) {
			g := bigGroup(2)
			for range 3 {
				g.round()
				g.catchUp()
			}
			c.shape(g)
			benchmarkAssign(b, g)
		})
	}
}

func benchmarkAssign(b *testing.B, g *groupModel) {
	s := g.state()
	b.ReportAllocs()
	for b.Loop() {
		Assign(s)
	}
}
