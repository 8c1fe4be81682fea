package assignor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/task"
)

// drawStandbys is a group that came about by joins and deaths, at rest, with room for all the copies that it shall keep.
func drawStandbys(t *rapid.T, standbys int, place func(i int, p *player)) *groupModel {
	g := newGroup(Subtopology{ID: 0, Partitions: rapid.Int32Range(1, 12).Draw(t, "partitions"), Stateful: true},
		Subtopology{ID: 1, Partitions: rapid.Int32Range(0, 7).Draw(t, "more partitions"), Stateful: true}, Subtopology{ID: 2, Partitions: 3})
	g.policy = Policy{Standbys: standbys, LearnersPerMember: 50, Learners: 500, SpreadTags: []string{"zone"}}
	add := func(i int) { place(i, g.add(fmt.Sprintf("m%02d", i))) }
	for i := range 9 {
		add(i)
		if rapid.Bool().Draw(t, "together") {
			continue
		}
		g.settle(t, 8)
		g.catchUp()
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "deaths") {
		delete(g.members, fmt.Sprintf("m%02d", rapid.IntRange(0, 8).Draw(t, "dies")))
		if rapid.Bool().Draw(t, "replaced") {
			add(9 + i)
		}
		g.settle(t, 8)
		g.catchUp()
	}
	g.settle(t, 8)
	return g
}

// Where nothing forbids it, two members hold states that differ by one at most, running tasks and copies together.
func TestStandbysAreEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawStandbys(t, rapid.IntRange(1, 2).Draw(t, "standbys"), func(int, *player) {})
		var held []int
		for _, m := range g.plan.Members {
			n := len(m.Standbys)
			for _, id := range m.Active {
				if g.stateful(id) {
					n++
				}
			}
			held = append(held, n)
		}
		require.LessOrEqual(t, slices.Max(held)-slices.Min(held), 1, g.print())
	})
}

// With three zones and two standbys every zone has each state once, whichever members came and went, as long as each zone has members enough.
func TestStandbysAreSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawStandbys(t, 2, func(i int, p *player) { p.Tags = map[string]string{"zone": fmt.Sprint("z", i%3)} })
		alive := map[string]bool{}
		for _, p := range g.members {
			alive[p.Tags["zone"]] = true
		}
		zones := map[task.ID]map[string]bool{}
		for _, m := range g.plan.Members {
			ids := slices.Clone(m.Active)
			for _, c := range m.Standbys {
				ids = append(ids, c.Task)
			}
			for _, id := range ids {
				if zones[id] == nil {
					zones[id] = map[string]bool{}
				}
				zones[id][g.members[m.ID].Tags["zone"]] = true
			}
		}
		for id, in := range zones {
			if g.stateful(id) {
				require.Len(t, in, len(alive), "task %s is in %v\n%s", id, slices.Sorted(maps.Keys(in)), g.print())
			}
		}
	})
}

// Where copies cannot be spread over everything, racks come before tags, and each tag before the next.
func TestWhatIsSpreadFirst(t *testing.T) {
	for _, c := range []struct {
		name         string
		tags         []string
		owner, b, c  string // "rack zone cluster"
		keepsTheCopy string
	}{
		{"the first tag", []string{"zone", "cluster"}, "- 1 x", "- 1 y", "- 2 x", "c"},
		{"the other way round", []string{"cluster", "zone"}, "- 1 x", "- 1 y", "- 2 x", "b"},
		{"the rack", []string{"zone", "cluster"}, "r 1 x", "r 2 y", "s 1 x", "c"},
		{"the first tag where racks are not known", []string{"cluster", "zone", "cluster"}, "- 1 x", "- 2 x", "- 1 y", "c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(Subtopology{ID: 0, Partitions: 1, Stateful: true})
			g.policy = Policy{Standbys: 1, SpreadTags: c.tags}
			add := func(name, where string) {
				var rack, zone, cluster string
				_, err := fmt.Sscan(where, &rack, &zone, &cluster)
				require.NoError(t, err)
				p := g.add(name)
				p.Rack, p.Tags = strings.Trim(rack, "-"), map[string]string{"zone": zone, "cluster": cluster}
			}
			add("a", c.owner)
			g.settle(t, 1)
			add("b", c.b)
			add("c", c.c)
			g.round()
			require.Equal(t, []Copy{{Task: id(0, 0), Owner: "a"}}, g.plan.Member(c.keepsTheCopy).Standbys, g.print())
		})
	}
}

// Two copies far apart in one tag do not make up for one that shares the first: places are no sum.
func TestOnePlaceOutweighsAllAfterIt(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 1, Stateful: true})
	g.policy = Policy{Standbys: 2, SpreadTags: []string{"zone", "cluster", "row"}}
	add := func(name, zone, cluster, row string) {
		g.add(name).Tags = map[string]string{"zone": zone, "cluster": cluster, "row": row}
	}
	add("a", "1", "x", "p")
	g.settle(t, 1)
	add("b", "1", "y", "q") // shares its zone with a, and nothing else with anybody
	add("c", "2", "x", "p") // shares everything else with a
	add("d", "3", "x", "p") // and so does this one
	g.round()
	require.Empty(t, g.plan.Member("b").Standbys, g.print())
	require.Len(t, g.plan.Member("c").Standbys, 1)
	require.Len(t, g.plan.Member("d").Standbys, 1)
}

// Who dies leaves tasks to everybody: no survivor has more than its part of their copies.
func TestStandbysAreSpreadOverSurvivors(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 60, Stateful: true})
	g.policy.Standbys = 1
	for i := range 6 {
		g.add(fmt.Sprintf("m%d", i))
	}
	g.settle(t, 3)
	for _, dead := range g.plan.Members {
		at := map[string]int{}
		for _, m := range g.plan.Members {
			for _, c := range m.Standbys {
				if c.Owner == dead.ID {
					at[m.ID]++
				}
			}
		}
		require.Len(t, at, 5, "all others have some of %s", dead.ID)
		for name, n := range at {
			require.LessOrEqual(t, n, 4, "%s has %d of the %d tasks of %s", name, n, len(dead.Active), dead.ID)
		}
	}
}

// Copies are not given to members that leave, cannot run the task, or must not have it.
func TestStandbysAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(p *player)
	}{
		{"draining", func(p *player) { p.Draining = true }},
		{"unfit", func(p *player) { p.Unfit = []task.ID{id(0, 0)} }},
		{"another form", func(p *player) { p.Hashes = nil }},
		{"not understood", func(p *player) { p.Opaque = true }},
		{"in the process of the owner", func(p *player) { p.Process = [16]byte{7} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGroup(Subtopology{ID: 0, Partitions: 1, Stateful: true})
			g.policy.Standbys = 1
			g.add("a").Process = [16]byte{7}
			g.settle(t, 1)
			c.do(g.add("b"))
			g.round()
			require.Empty(t, g.plan.Member("b").Standbys)
			g.add("c")
			g.round()
			require.Equal(t, []Copy{{Task: id(0, 0), Owner: "a"}}, g.plan.Member("c").Standbys)
		})
	}
}
