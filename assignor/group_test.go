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
	policy     Policy
	members    map[string]*player
	generation int32
	plan       Plan
	// said is what the last plan was made from.
	said State
	// gate says whether an owner gives up a marked task. The default is the readiness board: it does if the receiver is ready.
	gate func(g *groupModel, k Mark) bool
	// slow: tasks that start without a state take until the next catchUp to restore it.
	slow bool
	// unread: members whose data the leader of the next round cannot read.
	unread map[string]bool
	// paused counts, in the last round, tasks that were given up; needless are those of them that went back.
	paused, needless []task.ID
}

// player is one member: what it runs, what copies it has, what it knows of the plan, and how it was told to misbehave.
type player struct {
	Member
	run       map[task.ID]bool
	restoring map[task.ID]bool
	copies    map[task.ID]Replica
	marks     map[task.ID]Mark
	promised  []task.ID
	released  []task.ID // for the present round
	stuck     map[task.ID]bool
	deaf      bool // misses the answer of the next round
}

func newGroup(subs ...Subtopology) *groupModel {
	return &groupModel{subs: subs, members: map[string]*player{}, gate: board, unread: map[string]bool{}}
}

// always: every marked task is given up, whoever is ready.
func always(*groupModel, Mark) bool { return true }

// board: what the leader or the readiness board says.
func board(g *groupModel, k Mark) bool {
	to := g.members[k.Receiver]
	return k.Ready || to != nil && to.copies[k.Task].Ready
}

func (g *groupModel) add(id string) *player {
	p := &player{
		Member: Member{ID: id, Generation: -1, Capacity: 1}, run: map[task.ID]bool{}, restoring: map[task.ID]bool{},
		copies: map[task.ID]Replica{}, stuck: map[task.ID]bool{},
	}
	for _, s := range g.subs {
		p.Hashes = append(p.Hashes, Hash{Subtopology: s.ID, Sum: 1})
	}
	g.members[id] = p
	return p
}

// word is what the player says when it joins.
func (g *groupModel) word(p *player) Member {
	m := p.Member
	m.Claims, m.Released, m.Learned, m.Replicas = nil, nil, nil, nil
	for _, id := range sorted(p.run) {
		k, marked := p.marks[id]
		switch {
		case p.restoring[id]:
			m.Replicas = append(m.Replicas, Replica{Task: id, Kind: Restoring, Lag: 50_000})
			continue
		case marked && !p.stuck[id] && g.gate(g, k):
			m.Released = append(m.Released, id)
			continue
		case marked && p.stuck[id] && g.gate(g, k):
			m.Learned = append(m.Learned, id)
		}
		m.Claims = append(m.Claims, id)
	}
	for _, id := range slices.SortedFunc(maps.Keys(p.copies), task.ID.Compare) {
		m.Replicas = append(m.Replicas, p.copies[id])
	}
	for _, id := range p.promised {
		m.Replicas = append(m.Replicas, Replica{Task: id, Kind: Promised, Ready: true, Lag: LagUnknown})
	}
	p.released = m.Released
	if g.unread[p.ID] || p.Opaque {
		return Member{ID: m.ID, Generation: m.Generation, Claims: m.Claims, Opaque: true, Hidden: m.Hidden}
	}
	return m
}

func (g *groupModel) state() State {
	s := State{Subtopologies: g.subs, Policy: g.policy}
	for _, id := range slices.Sorted(maps.Keys(g.members)) {
		s.Members = append(s.Members, g.word(g.members[id]))
	}
	return s
}

// round is one generation: all join, the leader plans, all that are not deaf apply. It says whether somebody asks for another.
func (g *groupModel) round() (again bool) {
	g.generation++
	g.said = g.state()
	clear(g.unread)
	g.plan = Assign(g.said)
	g.paused, g.needless = nil, nil
	for _, mp := range g.plan.Members {
		p := g.members[mp.ID]
		released := p.released
		for _, id := range released {
			delete(p.run, id)
			g.paused = append(g.paused, id)
			if slices.Contains(mp.Active, id) {
				g.needless = append(g.needless, id)
			}
		}
		for id := range p.restoring {
			delete(p.run, id)
		}
		if p.deaf {
			p.deaf, again = false, true
			for _, id := range slices.Concat(released, sorted(p.restoring)) {
				p.copies[id] = Replica{Task: id, Kind: OnDisk, Lag: 20}
			}
			clear(p.restoring)
			continue
		}
		p.Generation = g.generation
		g.apply(p, mp, released)
		again = again || mp.FollowUp.Kind != None
	}
	return again
}

// apply takes up a plan: roles change in place, and what is in no plan stays on disk.
func (g *groupModel) apply(p *player, mp MemberPlan, released []task.ID) {
	was, wasRestoring := p.run, p.restoring
	p.run, p.restoring, p.marks, p.promised = map[task.ID]bool{}, map[task.ID]bool{}, map[task.ID]Mark{}, nil
	for _, id := range mp.Active {
		p.run[id] = true
		c, has := p.copies[id]
		warm := has && (c.Ready || c.Lag >= 0 && c.Lag <= acceptable(g.said))
		if cold := !was[id] && !slices.Contains(released, id) && !warm; g.stateful(id) && g.slow && (cold || wasRestoring[id]) {
			p.restoring[id] = true
		}
		delete(p.copies, id)
	}
	for _, k := range mp.Marks {
		p.marks[k.Task] = k
	}
	roles := map[task.ID]Kind{}
	for _, in := range mp.Learners {
		if in.Instant {
			p.promised = append(p.promised, in.Task)
		}
		if g.stateful(in.Task) {
			roles[in.Task] = Learner
		}
	}
	for _, c := range mp.Standbys {
		roles[c.Task] = Standby
	}
	for id := range was { // what it ran until now is on its disk
		if !p.run[id] && g.stateful(id) {
			p.copies[id] = Replica{Task: id, Kind: OnDisk, Lag: 20}
		}
	}
	for _, id := range released {
		if !p.run[id] && g.stateful(id) {
			p.copies[id] = Replica{Task: id, Kind: OnDisk, Lag: 20}
		}
	}
	for id, c := range p.copies {
		if _, has := roles[id]; !has {
			c.Kind, c.Ready, c.Stalled = OnDisk, false, false
			p.copies[id] = c
		}
	}
	for id, kind := range roles {
		c, has := p.copies[id]
		if !has {
			c = Replica{Task: id, Lag: LagUnknown}
		}
		if c.Kind != kind {
			c.Ready = false
		}
		c.Kind = kind
		p.copies[id] = c
	}
}

func (g *groupModel) stateful(id task.ID) bool {
	return slices.ContainsFunc(g.subs, func(s Subtopology) bool { return s.ID == id.Subtopology && s.Stateful })
}

// learning are the learners that are not ready, as member and task.
func (g *groupModel) learning() (out []string) {
	for name, p := range g.members {
		for id, c := range p.copies {
			if c.Kind == Learner && !c.Ready {
				out = append(out, name+" "+id.String())
			}
		}
	}
	slices.Sort(out)
	return out
}

// catchUp lets all learners, standbys and restoring tasks reach the end.
func (g *groupModel) catchUp() {
	for _, p := range g.members {
		clear(p.restoring)
		for id := range p.copies {
			p.ready(id)
		}
	}
}

func (p *player) ready(id task.ID) {
	c := p.copies[id]
	if c.Kind == OnDisk {
		return
	}
	c.Ready, c.Lag = c.Kind == Learner, 0
	p.copies[id] = c
}

// busy says whether somebody learns or restores.
func (g *groupModel) busy() bool {
	for _, p := range g.members {
		if len(p.restoring) > 0 {
			return true
		}
	}
	return len(g.learning()) > 0
}

func sorted(set map[task.ID]bool) []task.ID {
	return slices.SortedFunc(maps.Keys(set), task.ID.Compare)
}

// print is the plan as a trace shows it: who runs what, marked tasks with their receivers ("~>": they still learn), copies, and why.
func (g *groupModel) print() string {
	var b strings.Builder
	fmt.Fprintf(&b, "generation %d\n", g.generation)
	for _, m := range g.plan.Members {
		fmt.Fprintf(&b, "  %s\n", printMember(m))
	}
	list := func(name string, ids []task.ID) {
		if len(ids) > 0 {
			fmt.Fprintf(&b, "  %s: %v\n", name, ids)
		}
	}
	list("frozen", g.plan.Frozen)
	list("unassigned", g.plan.Unassigned)
	list("paused for nothing", g.needless)
	if g.plan.Degraded != "" {
		fmt.Fprintf(&b, "  degraded: %s\n", g.plan.Degraded)
	}
	for _, m := range g.plan.Moves {
		fmt.Fprintf(&b, "  %s\n", m.Reason)
	}
	return b.String()
}

func printMember(m MemberPlan) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:", m.ID)
	marks := map[task.ID]Mark{}
	for _, k := range m.Marks {
		marks[k.Task] = k
	}
	for _, id := range m.Active {
		fmt.Fprintf(&b, " %s", id)
		if k, ok := marks[id]; ok && k.Ready {
			fmt.Fprintf(&b, "->%s", k.Receiver)
		} else if ok {
			fmt.Fprintf(&b, "~>%s", k.Receiver)
		}
	}
	if len(m.Active) == 0 {
		b.WriteString(" -")
	}
	for _, in := range m.Learners {
		if !in.Instant {
			fmt.Fprintf(&b, ", learns %s", in.Task)
		}
	}
	for _, c := range m.Standbys {
		fmt.Fprintf(&b, ", keeps %s", c.Task)
	}
	if m.FollowUp.Kind == Now {
		b.WriteString("  (asks again)")
	}
	if m.Code != OK {
		fmt.Fprintf(&b, "  (code %d)", m.Code)
	}
	return b.String()
}
