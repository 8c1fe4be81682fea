package assignor

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// bigGroup is 5000 tasks in 25 subtopologies over 200 members.
func bigGroup() *groupModel {
	var subs []Subtopology
	for i := range int32(25) {
		subs = append(subs, Subtopology{ID: i, Partitions: 200, Stateful: i%3 != 0})
	}
	g := newGroup(subs...)
	for i := range 200 {
		g.add(fmt.Sprintf("member-%03d", i))
	}
	return g
}

// A leader holds up the whole group while it plans (I17). The bound leaves room for a slow machine; the benchmark has the real figure.
func TestPlanningIsFast(t *testing.T) {
	g := bigGroup()
	for _, change := range []func(){func() {}, func() { g.add("new") }, func() { delete(g.members, "member-007") }} {
		change()
		s := g.state()
		start := time.Now()
		p := Assign(s)
		require.Less(t, time.Since(start), 2*time.Second)
		require.Empty(t, p.Degraded)
		g.settle(t, 12)
	}
	requireBalanced(t, g.subs, g.runs())
}

func BenchmarkAssign(b *testing.B) {
	for _, c := range []struct {
		name  string
		shape func(*groupModel)
	}{
		{"cold", func(*groupModel) {}},
		{"stable", func(g *groupModel) { g.round() }},
		{"one joins", func(g *groupModel) { g.round(); g.add("new") }},
		{"twenty die", func(g *groupModel) {
			g.round()
			for i := range 20 {
				delete(g.members, fmt.Sprintf("member-%03d", i*7))
			}
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			g := bigGroup()
			c.shape(g)
			s := g.state()
			b.ReportAllocs()
			for b.Loop() {
				Assign(s)
			}
		})
	}
}
