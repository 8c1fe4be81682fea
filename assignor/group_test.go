package assignor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/understudy-streams/understudy/task"
)

// groupModel plays the members of a group, round by round, as the protocol says they behave.
type groupModel struct {
	subs       []Subtopology
	members    map[string]*player
	generation int32
	plan       Plan
}

// player is one member: what it runs, what it knows of the plan, and how it was told to misbehave.
type player struct {
	Member
	run      map[task.ID]bool
	marks    map[task.ID]string
	promised []task.ID
	stuck    map[task.ID]bool
	deaf     bool // misses the answer of the next round
	again    bool
}

func newGroup(subs ...Subtopology) *groupModel {
	return &groupModel{subs: subs, members: map[string]*player{}}
}

func (g *groupModel) add(id string) *player {
	p := &player{Member: Member{ID: id, Generation: -1, Capacity: 1}, run: map[task.ID]bool{}, stuck: map[task.ID]bool{}}
	for _, s := range g.subs {
		p.Hashes = append(p.Hashes, Hash{Subtopology: s.ID, Sum: 1})
	}
	g.members[id] = p
	return p
}

// word is what the player says when it joins.
func (p *player) word() Member {
	m := p.Member
	m.Claims, m.Released, m.Learned = nil, nil, nil
	for _, id := range sorted(p.run) {
		_, marked := p.marks[id]
		switch {
		case marked && !p.stuck[id]:
			m.Released = append(m.Released, id)
		case marked:
			m.Learned = append(m.Learned, id)
			fallthrough
		default:
			m.Claims = append(m.Claims, id)
		}
	}
	m.Replicas = slices.Clone(m.Replicas)
	for _, id := range p.promised {
		m.Replicas = append(m.Replicas, Replica{Task: id, Kind: Promised, Ready: true})
	}
	return m
}

func (g *groupModel) state() State {
	s := State{Subtopologies: g.subs}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		s.Members = append(s.Members, g.members[id].word())
	}
	return s
}

// round is one generation: all join, the leader plans, all that are not deaf apply. It says whether somebody asks for another.
func (g *groupModel) round() (again bool) {
	g.generation++
	before := g.state()
	g.plan = Assign(before)
	for i, mp := range g.plan.Members {
		p := g.members[mp.ID]
		for _, id := range before.Members[i].Released {
			delete(p.run, id)
		}
		if p.deaf {
			p.deaf, again = false, true
			continue
		}
		p.Generation = g.generation
		p.run, p.marks, p.promised = map[task.ID]bool{}, map[task.ID]string{}, nil
		for _, id := range mp.Active {
			p.run[id] = true
		}
		for _, k := range mp.Marks {
			p.marks[k.Task] = k.Receiver
		}
		for _, in := range mp.Learners {
			p.promised = append(p.promised, in.Task)
		}
		again = again || mp.FollowUp.Kind != None
	}
	return again
}

func sorted(set map[task.ID]bool) []task.ID {
	return slices.SortedFunc(maps.Keys(set), task.ID.Compare)
}

// print is the plan as a trace shows it: who runs what, marked tasks with their receivers, promises, and why.
func (g *groupModel) print() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d\n", g.generation)
	for _, m := range g.plan.Members {
		fmt.Fprintf(&b, "  %s:", m.ID)
		marks := map[task.ID]string{}
		for _, k := range m.Marks {
			marks[k.Task] = k.Receiver
		}
		for _, id := range m.Active {
			fmt.Fprintf(&b, " %s", id)
			if to, ok := marks[id]; ok {
				fmt.Fprintf(&b, "->%s", to)
			}
		}
		if len(m.Active) == 0 {
			b.WriteString(" -")
		}
		if m.FollowUp.Kind == Now {
			b.WriteString("  (asks again)")
		}
		if m.Code != OK {
			fmt.Fprintf(&b, "  (code %d)", m.Code)
		}
		b.WriteString("\n")
	}
	list := func(name string, ids []task.ID) {
		if len(ids) > 0 {
			fmt.Fprintf(&b, "  %s: %v\n", name, ids)
		}
	}
	list("frozen", g.plan.Frozen)
	list("unassigned", g.plan.Unassigned)
	if g.plan.Degraded != "" {
		fmt.Fprintf(&b, "  degraded: %s\n", g.plan.Degraded)
	}
	for _, m := range g.plan.Moves {
		fmt.Fprintf(&b, "  %s\n", m.Reason)
	}
	return b.String()
}
