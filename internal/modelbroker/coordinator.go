package modelbroker

import (
	"slices"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func (b *Broker) findCoordinator(r FindCoordinatorRequest) Response {
	return FindCoordinatorResponse{Node: b.group(r.Group).node}
}

// group is the place that a group has at a coordinator, whether the group exists or not.
func (b *Broker) group(name string) *group {
	g := b.groups[name]
	if g == nil {
		g = &group{
			b: b, name: name, node: b.place(name), state: Empty, before: Empty,
			offsets: map[task.TopicPartition]committed{}, unstable: map[task.TopicPartition]bool{},
		}
		if to := b.nextUp(g.node); to >= 0 {
			g.node = to
		}
		b.groups[name] = g
	}
	return g
}

// coordinate returns the group if the node coordinates it and has loaded it.
func (b *Broker) coordinate(node int32, name string) (*group, kcode.Code) {
	g := b.group(name)
	switch {
	case g.node != node:
		return nil, kcode.NotCoordinator
	case g.loading != nil:
		return nil, kcode.CoordinatorLoadInProgress
	}
	return g, kcode.None
}

// stored is what the coordinator has written of a group: as of its last complete rebalance.
type stored struct {
	exists                         bool
	generation                     int32
	protocolType, protocol, leader string
	members                        []member
}

// store writes the group as it is.
func (g *group) store() {
	g.durable = stored{exists: true, generation: g.generation, protocolType: g.protocolType, protocol: g.protocol, leader: g.leader}
	for _, m := range g.members {
		g.durable.members = append(g.durable.members, member{
			id: m.id, session: m.session, rebalance: m.rebalance, assignment: m.assignment,
			protocols: []Protocol{{Name: g.protocol, Metadata: m.metadata(g.protocol)}},
		})
	}
}

// unload forgets what is not stored. Parked requests are answered if there is an answer to give, else they are dropped.
func (g *group) unload(answer *kcode.Code) {
	for _, t := range []*timer{g.joinTimer, g.syncTimer, g.loading} {
		t.stop()
	}
	for _, p := range g.pending {
		p.expiry.stop()
	}
	for _, m := range g.members {
		m.expiry.stop()
		if answer != nil {
			g.endJoin(m, refusedJoin(*answer, m.id))
			g.endSync(m, SyncGroupResponse{Code: *answer})
		}
	}
	s := g.durable
	g.exists, g.generation, g.protocolType, g.protocol, g.leader = s.exists, s.generation, s.protocolType, s.protocol, s.leader
	g.members, g.pending, g.state, g.before, g.newMember = nil, nil, Empty, Empty, false
	g.joinTimer, g.syncTimer, g.loading = nil, nil, nil
	for _, m := range s.members {
		m.protocols = slices.Clone(m.protocols)
		g.members = append(g.members, &m)
		g.state = Stable
	}
}

// load makes the group answer again, after Config.Load.
func (g *group) load() {
	ready := func() {
		g.loading = nil
		for _, m := range g.members {
			g.beat(m)
		}
	}
	if g.b.cfg.Load <= 0 {
		ready()
		return
	}
	g.loading = g.b.after(g.b.cfg.Load, ready)
}

func (g *group) moveTo(node int32) {
	code := kcode.NotCoordinator
	g.unload(&code)
	g.node = node
	g.load()
}
