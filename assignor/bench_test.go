package assignor

import (
	"fmt"
	"testing"

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

// A large group comes to rest as a small one does. How long its leader takes to plan (I17) is BenchmarkAssign's to say.
func TestBigGroupComesToRest(t *testing.T) {
	g := bigGroup(2)
	for range 3 { // the first round places, the next ones show what it placed
		g.round()
		g.catchUp()
	}
	for _, c := range bigChanges {
		c.shape(g)
		for range 30 {
			again := g.round()
			require.Empty(t, g.plan.Degraded, c.name)
			if !again && !g.busy() {
				break
			}
			g.catchUp()
		}
		require.False(t, g.busy(), c.name)
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
