package assignor

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// spoilable is a state with something of everything, and its plan: a runs six tasks and has released one more; b learns one; c shares a process
// with a, and claims a task that d claims too.
func spoilable() State {
	hashes := []Hash{{0, 1}, {1, 1}}
	return State{
		Subtopologies: []Subtopology{{ID: 0, Partitions: 6, Stateful: true}, {ID: 1, Partitions: 3}},
		Policy:        Policy{Standbys: 1, LearnersPerMember: 2, Learners: 3},
		Members: []Member{
			{ID: "a", Process: [16]byte{1}, Generation: 3, Hashes: hashes, Claims: []task.ID{id(0, 0), id(0, 1), id(0, 2), id(0, 3), id(1, 0), id(1, 1)}, Released: []task.ID{id(0, 4)}},
			{ID: "b", Process: [16]byte{2}, Generation: 3, Hashes: hashes, Replicas: []Replica{{Task: id(0, 0), Kind: Learner, Lag: 90_000}}},
			{ID: "c", Process: [16]byte{1}, Generation: 3, Hashes: hashes, Claims: []task.ID{id(0, 5)}, Unfit: []task.ID{id(1, 0)}},
			{ID: "d", Process: [16]byte{3}, Generation: 3, Hashes: hashes, Claims: []task.ID{id(0, 5)}},
			{ID: "e", Process: [16]byte{4}, Generation: 3, Opaque: true},
		},
	}
}

// The check finds every way to break a rule; nothing but this test can show that, for the plans that are made break none.
func TestCheckFindsWhatIsWrong(t *testing.T) {
	v := newView(spoilable())
	good := v.plan()
	require.NoError(t, check(v, good))
	require.Equal(t, []task.ID{id(0, 5)}, good.Frozen)

	learned := func(p *Plan, member string) *Incoming { return &p.Member(member).Learners[0] }
	cases := []struct {
		name, want string
		spoil      func(p *Plan)
	}{
		{"a task twice", "given to a and b", func(p *Plan) { p.Member("b").Active = append(p.Member("b").Active, id(0, 0)) }},
		{"a task not at its claimer", "is claimed by a and was not given to it", func(p *Plan) { p.Member("a").Active = slices.Delete(p.Member("a").Active, 1, 2) }},
		{"a frozen task that runs", "claimed twice and not frozen", func(p *Plan) { p.Member("c").Active = []task.ID{id(0, 5)} }},
		{"a double claim that is not frozen", "claimed twice and not frozen", func(p *Plan) { p.Frozen = nil }},
		{"a task that nobody runs", "has no owner", func(p *Plan) {
			for i := range p.Members {
				p.Members[i].Active = slices.DeleteFunc(p.Members[i].Active, func(x task.ID) bool { return x == id(1, 2) })
			}
		}},
		{"a standby at a member that is not understood", "which cannot be read", func(p *Plan) { keep(p, id(0, 3), "e") }},
		{"a released task at a third", "neither released it nor is ready for it", func(p *Plan) {
			p.Member("a").Active = slices.DeleteFunc(slices.Clone(p.Member("a").Active), func(x task.ID) bool { return x == id(0, 4) })
			p.Member("b").Active = []task.ID{id(0, 4)}
		}},
		{"a task that does not exist", "which does not exist", func(p *Plan) { p.Member("b").Active = []task.ID{id(7, 7)} }},
		{"a member that does not exist", "which is none", func(p *Plan) { p.Members = append(p.Members, MemberPlan{ID: "f"}) }},
		{"two learners", "was promised to b and d", func(p *Plan) { p.Member("d").Learners = []Incoming{*learned(p, "b")} }},
		{"a learner without a mark", "does not fit its receiver", func(p *Plan) { p.Member("a").Marks = p.Member("a").Marks[1:] }},
		{"a mark without a learner", "does not fit its receiver", func(p *Plan) { p.Member("b").Learners = nil }},
		{"a mark twice", "or two", func(p *Plan) { p.Member("a").Marks = append(p.Member("a").Marks, p.Member("a").Marks[0]) }},
		{"a mark where the task does not run", "which it does not run", func(p *Plan) { p.Member("d").Marks = p.Member("a").Marks[:1] }},
		{"a mark that is ready for a learner that is not", "does not fit its receiver", func(p *Plan) { p.Member("a").Marks[0].Ready = !p.Member("a").Marks[0].Ready }},
		{"a learner told of another owner", "does not fit its receiver", func(p *Plan) { learned(p, "b").Owner = "d" }},
		{"a learner in the owner's process", "in whose process it runs", func(p *Plan) { move(p, id(0, 0), "c", false) }},
		{"a learner that must not run the task", "which cannot run it", func(p *Plan) { move(p, id(1, 0), "c", true) }},
		{"nothing to learn", "has no state", func(p *Plan) { move(p, id(1, 1), "b", false) }},
		{"too many learners at a member", "3 tasks to learn, and 2 are allowed", func(p *Plan) {
			for i := range int32(3) {
				move(p, id(0, i), "b", false)
			}
		}},
		{"too many learners in all", "4 tasks to learn, and 3 are allowed", func(p *Plan) {
			for i := range int32(4) {
				move(p, id(0, i), []string{"b", "d"}[i/2], false)
			}
		}},
		{"too many standbys", "has 2 standbys", func(p *Plan) { keep(p, id(0, 0), "b", "d") }},
		{"standbys without state", "has 1 standbys", func(p *Plan) { keep(p, id(1, 1), "b") }},
		{"a standby in the owner's process", "in a process that has the task already", func(p *Plan) { keep(p, id(0, 3), "c") }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			p := newView(spoilable()).plan()
			c.spoil(&p)
			require.ErrorContains(t, check(v, p), c.want)
		})
	}
}

// move promises a task of a's to a member, and to nobody else.
func move(p *Plan, id task.ID, to string, instant bool) {
	a := p.Member("a")
	a.Marks = slices.DeleteFunc(a.Marks, func(k Mark) bool { return k.Task == id })
	a.Marks = append(a.Marks, Mark{Task: id, Receiver: to, Ready: instant})
	for i := range p.Members {
		m := &p.Members[i]
		m.Learners = slices.DeleteFunc(m.Learners, func(in Incoming) bool { return in.Task == id })
		m.Standbys = slices.DeleteFunc(m.Standbys, func(c Copy) bool { return c.Task == id })
	}
	m := p.Member(to)
	m.Learners = append(m.Learners, Incoming{Task: id, Owner: "a", Instant: instant})
}

// keep puts the copies of a task at these members and nowhere else, and lets it stay.
func keep(p *Plan, id task.ID, at ...string) {
	for i := range p.Members {
		m := &p.Members[i]
		m.Marks = slices.DeleteFunc(m.Marks, func(k Mark) bool { return k.Task == id })
		m.Learners = slices.DeleteFunc(m.Learners, func(in Incoming) bool { return in.Task == id })
		m.Standbys = slices.DeleteFunc(m.Standbys, func(c Copy) bool { return c.Task == id })
		if slices.Contains(at, m.ID) {
			m.Standbys = append(m.Standbys, Copy{Task: id, Owner: "a"})
		}
	}
}
