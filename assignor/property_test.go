package assignor

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/task"
)

func drawSubs(t *rapid.T, subs, partitions int) (out []Subtopology) {
	for i := range rapid.IntRange(1, subs).Draw(t, "subtopologies") {
		out = append(out, Subtopology{ID: int32(i), Partitions: int32(rapid.IntRange(0, partitions).Draw(t, "partitions")), Stateful: rapid.Bool().Draw(t, "stateful")})
	}
	return out
}

// settle plays rounds until nobody asks for another, and holds every one of them against the rule that no task runs twice.
func (g *groupModel) settle(t require.TestingT, most int) (rounds int) {
	for rounds = 1; ; rounds++ {
		again := g.round()
		g.requireSingleOwners(t)
		if !again && !g.busy() {
			return rounds
		}
		if !again {
			g.catchUp()
		}
		if rounds >= most {
			require.Failf(t, "does not settle", "%s", g.print())
		}
	}
}

func (g *groupModel) requireSingleOwners(t require.TestingT) {
	runs := map[task.ID]string{}
	for _, name := range slices.Sorted(maps.Keys(g.members)) {
		for x := range g.members[name].run {
			if runs[x] != "" {
				require.Failf(t, "two owners", "task %s runs at %s and %s\n%s", x, runs[x], name, g.print())
			}
			runs[x] = name
		}
	}
}

// requireBalanced: per subtopology, over all stateful tasks, and over all tasks, two members differ by one at most (I9).
func requireBalanced(t require.TestingT, subs []Subtopology, runs map[string][]task.ID) {
	require.NoError(t, unbalanced(subs, runs))
}

func unbalanced(subs []Subtopology, runs map[string][]task.ID) error {
	for _, s := range sharedOut(subs) {
		low, high := math.MaxInt, 0
		for _, ids := range runs {
			n := s.among(ids)
			low, high = min(low, n), max(high, n)
		}
		if len(runs) > 0 && high-low > 1 {
			return fmt.Errorf("%s: %d to %d a member", s.name, low, high)
		}
	}
	return nil
}

// outOfShare: of each of these a member has its exact share by capacity, rounded up or down.
func outOfShare(subs []Subtopology, runs map[string][]task.ID, capacity map[string]int) error {
	sum := 0
	for _, c := range capacity {
		sum += c
	}
	for _, s := range sharedOut(subs) {
		all := 0
		for _, ids := range runs {
			all += s.among(ids)
		}
		for name, ids := range runs {
			share := all * capacity[name]
			if n := s.among(ids); n < share/sum || n > (share+sum-1)/sum {
				return fmt.Errorf("%s: %s has %d of %d, with a capacity of %d of %d", s.name, name, n, all, capacity[name], sum)
			}
		}
	}
	return nil
}

// shared is a set of tasks that is to be shared out evenly.
type shared struct {
	name string
	in   func(task.ID) bool
}

func (s shared) among(ids []task.ID) (n int) {
	for _, x := range ids {
		if s.in(x) {
			n++
		}
	}
	return n
}

func sharedOut(subs []Subtopology) []shared {
	all := []shared{
		{"all tasks", func(task.ID) bool { return true }},
		{"stateful tasks", func(x task.ID) bool {
			return slices.ContainsFunc(subs, func(s Subtopology) bool { return s.ID == x.Subtopology && s.Stateful })
		}},
	}
	for _, s := range subs {
		all = append(all, shared{fmt.Sprintf("subtopology %d", s.ID), func(x task.ID) bool { return x.Subtopology == s.ID }})
	}
	return all
}

func (g *groupModel) runs() map[string][]task.ID {
	out := map[string][]task.ID{}
	for name, p := range g.members {
		out[name] = sorted(p.run)
	}
	return out
}

// A group that is shaken at random settles soon, balanced, with every task running once; and then nothing moves any more.
func TestGroupsConverge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup(drawSubs(t, 4, 7)...)
		g.policy.LearnersPerMember, g.policy.Learners = 100, 100
		next := 0
		g.add("m0")
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			names := slices.Sorted(maps.Keys(g.members))
			who := g.members[rapid.SampledFrom(names).Draw(t, "who")]
			switch rapid.SampledFrom([]string{"join", "join", "kill", "deaf", "stuck", "grow", "round", "settle"}).Draw(t, "step") {
			case "join":
				next++
				g.add(fmt.Sprintf("m%d", next))
			case "kill":
				if len(names) > 1 {
					delete(g.members, who.ID)
				}
			case "deaf":
				who.deaf = true
			case "stuck":
				for x := range who.run {
					who.stuck[x] = true
				}
			case "grow":
				g.subs[0].Partitions++
			case "settle":
				g.settle(t, 8)
			}
			g.round()
			require.Empty(t, g.plan.Degraded)
			g.requireSingleOwners(t)
		}
		for _, p := range g.members {
			clear(p.stuck)
			p.deaf = false
		}
		g.settle(t, 4)
		g.settle(t, 4) // an owner that had been stuck asks once more when it can
		requireBalanced(t, g.subs, g.runs())
		require.Empty(t, g.plan.Unassigned)
		before := g.runs()
		require.Equal(t, 1, g.settle(t, 1))
		require.Equal(t, before, g.runs(), "a stable group must not move")
		require.Empty(t, g.plan.Moves)
	})
}

// One member joins, or one dies: each task changes its owner once at most, two rounds do, and only what moves is given up (I12).
func TestEachTaskMovesOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup(drawSubs(t, 4, 9)...)
		g.policy = Policy{LearnersPerMember: 100, Learners: 100, Standbys: rapid.IntRange(0, 2).Draw(t, "standbys")}
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			g.add(fmt.Sprintf("m%d", i))
			if rapid.Bool().Draw(t, "together") {
				continue
			}
			g.settle(t, 4)
		}
		g.settle(t, 4)
		owner := func() map[task.ID]string {
			out := map[task.ID]string{}
			for name, ids := range g.runs() {
				for _, x := range ids {
					out[x] = name
				}
			}
			return out
		}
		was := owner()
		if len(g.members) > 1 && rapid.Bool().Draw(t, "kill") {
			delete(g.members, "m0")
		} else {
			g.add("new")
		}
		orphans := maps.Clone(was)
		maps.DeleteFunc(orphans, func(_ task.ID, m string) bool { return g.members[m] != nil })
		changes := map[task.ID]int{}
		for again, rounds := true, 0; again; rounds++ {
			require.Less(t, rounds, 3, g.print())
			again = g.round() || g.busy()
			g.catchUp()
			now := owner()
			for x, m := range now {
				if m != was[x] {
					changes[x]++
				}
			}
			was = now
		}
		for x, n := range changes {
			most := 1
			if _, orphan := orphans[x]; orphan && g.policy.Standbys > 0 {
				most = 2 // it goes to the best copy at once, wherever that is
			}
			require.LessOrEqual(t, n, most, "task %s", x)
		}
		requireBalanced(t, g.subs, g.runs())
	})
}

// The plan of shuffled words is the same plan (I10).
func TestOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		want := Assign(s)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		shuffled := State{Policy: s.Policy, Subtopologies: shuffle(rng, s.Subtopologies), Members: shuffle(rng, s.Members)}
		for i := range shuffled.Members {
			m := &shuffled.Members[i]
			m.Claims, m.Released, m.Replicas, m.Hashes = shuffle(rng, m.Claims), shuffle(rng, m.Released), shuffle(rng, m.Replicas), shuffle(rng, m.Hashes)
		}
		require.Equal(t, want, Assign(shuffled))
	})
}

func shuffle[T any](rng *rand.Rand, in []T) []T {
	out := slices.Clone(in)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// drawState is anything that members could say, sense or nonsense.
func drawState(t *rapid.T) State {
	s := State{Subtopologies: drawSubs(t, 3, 4), Policy: Policy{
		Standbys: rapid.IntRange(0, 3).Draw(t, "standbys"), LearnersPerMember: rapid.IntRange(0, 2).Draw(t, "learners per member"),
		AcceptableLag: rapid.Int64Range(0, 2).Draw(t, "acceptable"), SpreadTags: []string{"zone"},
	}}
	var all []task.ID
	for _, sub := range s.Subtopologies {
		for p := range sub.Partitions + 1 { // one that does not exist, too
			all = append(all, id(sub.ID, p))
		}
	}
	all = append(all, id(9, 1))
	some := func(name string) (out []task.ID) {
		for _, x := range all {
			if rapid.IntRange(0, 3).Draw(t, name) == 0 {
				out = append(out, x)
			}
		}
		return out
	}
	for i := range rapid.IntRange(1, 5).Draw(t, "members") {
		m := Member{
			ID: fmt.Sprintf("m%d", i), Generation: rapid.Int32Range(-1, 3).Draw(t, "generation"), Capacity: rapid.IntRange(0, 3).Draw(t, "capacity"),
			Claims: some("claims"), Released: some("released"), Learned: some("learned"), Unfit: some("unfit"),
			TopologyVersion: rapid.Int32Range(0, 1).Draw(t, "version"), Draining: rapid.IntRange(0, 5).Draw(t, "draining") == 0, Opaque: rapid.IntRange(0, 7).Draw(t, "opaque") == 0,
		}
		m.Process = [16]byte{byte(rapid.IntRange(0, 3).Draw(t, "process"))}
		m.Rack, m.Tags = rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "rack"), map[string]string{"zone": rapid.SampledFrom([]string{"", "x", "y"}).Draw(t, "zone")}
		m.Released = slices.DeleteFunc(m.Released, func(x task.ID) bool { return slices.Contains(m.Claims, x) })
		for _, sub := range s.Subtopologies {
			if n := rapid.Uint64Range(0, 5).Draw(t, "hash"); n > 0 {
				m.Hashes = append(m.Hashes, Hash{sub.ID, n / 5})
			}
		}
		for _, x := range append(some("replicas"), some("more replicas")...) {
			m.Replicas = append(m.Replicas, Replica{Task: x, Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), Ready: rapid.Bool().Draw(t, "ready"),
				Lag: Lag(rapid.Int64Range(-2, 3).Draw(t, "lag")), Stalled: rapid.Bool().Draw(t, "stalled")})
		}
		s.Members = append(s.Members, m)
	}
	return s
}

// Whatever the members say, the plan passes the check: it never has to fall back.
func TestPlansPassTheirCheck(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawState(t)
		p, back := Assign(s), NoMoves(s, "test")
		require.Empty(t, p.Degraded)
		for _, m := range s.Members {
			if m.Opaque {
				require.Empty(t, p.Member(m.ID).Marks)
				require.Empty(t, p.Member(m.ID).Learners)
				for _, x := range p.Member(m.ID).Active {
					require.True(t, slices.Contains(m.Claims, x) || slices.Contains(m.Released, x), "%s is new to a member that cannot be read", x)
				}
			}
			for _, x := range slices.Concat(p.Member(m.ID).Active, back.Member(m.ID).Active) {
				require.False(t, slices.Contains(m.Unfit, x) && !slices.Contains(m.Claims, x), "%s is unfit", x)
			}
		}
		require.NoError(t, check(newView(s), back), "what it falls back to passes too")
	})
}

// No plan that is balanced, by the members' capacities, has fewer moves than ours; all of them are tried (I13).
func TestMovesAreMinimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := State{Subtopologies: drawSubs(t, 3, 3)}
		names := []string{"a", "b", "c"}[:rapid.IntRange(2, 3).Draw(t, "members")]
		capacity := map[string]int{}
		alike := rapid.Bool().Draw(t, "alike")
		for _, name := range names {
			if capacity[name] = 1; !alike {
				capacity[name] = rapid.IntRange(1, 4).Draw(t, "capacity")
			}
		}
		claims := map[string][]task.ID{}
		var all []task.ID
		for _, sub := range s.Subtopologies {
			for p := range sub.Partitions {
				if len(all) == 7 {
					break
				}
				all = append(all, id(sub.ID, p))
			}
		}
		for i := range s.Subtopologies { // what did not fit does not exist
			s.Subtopologies[i].Partitions = 0
			for _, x := range all {
				if x.Subtopology == s.Subtopologies[i].ID {
					s.Subtopologies[i].Partitions++
				}
			}
		}
		owner := map[task.ID]string{}
		for _, x := range all {
			if owned := rapid.IntRange(0, 4).Draw(t, "owned"); owned > 0 {
				owner[x] = rapid.SampledFrom(names).Draw(t, "owner")
				claims[owner[x]] = append(claims[owner[x]], x)
			}
		}
		for _, name := range names {
			m := Member{ID: name, Claims: claims[name], Capacity: capacity[name]}
			for _, sub := range s.Subtopologies {
				m.Hashes = append(m.Hashes, Hash{sub.ID, 1})
			}
			s.Members = append(s.Members, m)
		}
		p := Assign(s)
		require.Empty(t, p.Degraded)
		moves, final := 0, map[string][]task.ID{}
		for _, name := range names {
			final[name] = nil
		}
		for _, m := range p.Members {
			marked := map[task.ID]string{}
			for _, k := range m.Marks {
				marked[k.Task] = k.Receiver
				moves++
			}
			for _, x := range m.Active {
				home := m.ID
				if to, ok := marked[x]; ok {
					home = to
				}
				final[home] = append(final[home], x)
			}
		}
		require.NoError(t, outOfShare(s.Subtopologies, final, capacity))
		require.Equal(t, fewestMoves(s.Subtopologies, names, all, owner, capacity), moves)
	})
}

// fewestMoves tries every way to deal the tasks.
func fewestMoves(subs []Subtopology, names []string, all []task.ID, owner map[task.ID]string, capacity map[string]int) int {
	best := math.MaxInt
	runs := map[string][]task.ID{}
	for _, name := range names {
		runs[name] = nil
	}
	var deal func(i, moves int)
	deal = func(i, moves int) {
		if moves >= best {
			return
		}
		if i == len(all) {
			if outOfShare(subs, runs, capacity) == nil {
				best = moves
			}
			return
		}
		for _, name := range names {
			runs[name] = append(runs[name], all[i])
			cost := 0
			if was, ok := owner[all[i]]; ok && was != name {
				cost = 1
			}
			deal(i+1, moves+cost)
			runs[name] = runs[name][:len(runs[name])-1]
		}
	}
	deal(0, 0)
	return best
}

// With unequal capacities every member has its share, rounded up or down, of each subtopology and of all.
func TestSharesFollowCapacity(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup(drawSubs(t, 4, 12)...)
		g.policy.LearnersPerMember, g.policy.Learners = 100, 100
		total, capacity := 0, 0
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			p := g.add(fmt.Sprintf("m%d", i))
			p.Capacity = rapid.IntRange(1, 6).Draw(t, "capacity")
			capacity += p.Capacity
			g.settle(t, 4)
		}
		near := func(n, tasks, weight int) {
			require.GreaterOrEqual(t, n, tasks*weight/capacity)
			require.LessOrEqual(t, n, (tasks*weight+capacity-1)/capacity)
		}
		for _, s := range g.subs {
			total += int(s.Partitions)
			for _, p := range g.members {
				n := 0
				for x := range p.run {
					if x.Subtopology == s.ID {
						n++
					}
				}
				near(n, int(s.Partitions), p.Capacity)
			}
		}
		for _, p := range g.members {
			near(len(p.run), total, p.Capacity)
		}
	})
}

// Many partitions over few members: even, and at rest at once.
func TestManyPartitions(t *testing.T) {
	g := newGroup(Subtopology{ID: 0, Partitions: 64, Stateful: true})
	g.add("a")
	g.add("b")
	require.Equal(t, 1, g.settle(t, 1))
	require.Len(t, g.runs()["a"], 32)
	require.Equal(t, 1, g.settle(t, 1))
	g.add("c")
	g.policy.LearnersPerMember, g.policy.Learners = 21, 21
	require.Equal(t, 2, g.settle(t, 2))
	require.Len(t, g.runs()["c"], 21)
}

// A member that drains ends with nothing, and the others share its tasks evenly. Those that drain while nobody else is there keep going.
func TestDraining(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := newGroup(drawSubs(t, 3, 8)...)
		g.policy.LearnersPerMember, g.policy.Learners = 100, 100
		for i := range rapid.IntRange(1, 5).Draw(t, "members") {
			g.add(fmt.Sprintf("m%d", i))
		}
		g.settle(t, 4)
		stay := map[string][]task.ID{}
		for name, p := range g.members {
			if p.Draining = rapid.Bool().Draw(t, "drains"); !p.Draining {
				stay[name] = nil
			}
		}
		g.settle(t, 4)
		require.Empty(t, g.plan.Unassigned)
		if len(stay) == 0 {
			stay = g.runs()
		}
		for name, p := range g.members {
			_, counts := stay[name]
			switch {
			case !counts:
				require.Empty(t, p.run, "%s drains", name)
			default:
				stay[name] = sorted(p.run)
			}
		}
		requireBalanced(t, g.subs, stay)
	})
}

// A plan in progress outlives the join or the death of somebody else: as many of its learners go on as still help (I14).
func TestPlansGoOn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.IntRange(2, 30).Draw(t, "tasks")
		g := newGroup(Subtopology{ID: 0, Partitions: int32(tasks), Stateful: true})
		g.policy = Policy{LearnersPerMember: 100, Learners: 100, Standbys: rapid.IntRange(0, 1).Draw(t, "standbys")}
		for i := range rapid.IntRange(2, 5).Draw(t, "members") {
			g.add(fmt.Sprintf("m%d", i))
		}
		g.settle(t, 4)
		g.add("learner")
		g.round()
		if rapid.Bool().Draw(t, "join") {
			g.add(rapid.SampledFrom([]string{"a", "z"}).Draw(t, "name"))
		} else {
			delete(g.members, "m1")
		}
		claimed := map[task.ID]bool{}
		for _, p := range g.members {
			for x := range p.run {
				claimed[x] = true
			}
		}
		began := 0
		for _, x := range g.learning() {
			var name, id string
			fmt.Sscanf(x, "%s %s", &name, &id)
			began++
			if x, err := task.ParseID(id); err != nil || !claimed[x] {
				began--
			}
		}
		g.round()
		goOn := len(g.plan.Member("learner").Learners)
		most := (tasks + len(g.members) - 1) / len(g.members)
		require.GreaterOrEqual(t, goOn, min(began, most-len(g.plan.Member("learner").Active)), g.print())
	})
}
