package modelbroker

import (
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Crash kills a node: its connections are closed, and what its coordinator had not stored is forgotten. Its partitions and groups move
// after Config.Failover, if it is still down then; meanwhile everybody names the dead node.
func (b *Broker) Crash(now time.Time, node int32) {
	b.Advance(now)
	if !b.up(node) {
		return
	}
	b.nodes[node].up = false
	b.closeConns(node)
	for _, g := range b.groupsOf(node) {
		g.unload(nil)
	}
	b.nodes[node].down = b.after(b.cfg.Failover, func() { b.evacuate(node) })
	b.pump()
}

// Shutdown stops a node cleanly: its partitions and groups move first, then its connections are closed.
func (b *Broker) Shutdown(now time.Time, node int32) {
	b.Advance(now)
	if !b.up(node) {
		return
	}
	b.nodes[node].up = false
	b.evacuate(node)
	b.closeConns(node)
	b.pump()
}

// Restart brings a node back. Partitions without a leader that it is a replica of get it as their leader under a new epoch; so do those
// that it still led, when it comes back before the failover.
func (b *Broker) Restart(now time.Time, node int32) {
	b.Advance(now)
	if node < 0 || int(node) >= len(b.nodes) || b.nodes[node].up {
		return
	}
	b.nodes[node].up = true
	b.nodes[node].down.stop()
	b.eachPartition(func(p *partition) {
		if p.leader == node || p.leader < 0 && slices.Contains(p.replicas, node) {
			b.elect(p, node)
		}
	})
	for _, g := range b.groupsOf(node) {
		g.load()
	}
	b.pump()
}

// MoveLeader makes another node the leader of a partition, under the next leader epoch. The node becomes a replica if it is none.
func (b *Broker) MoveLeader(now time.Time, tp task.TopicPartition, node int32) {
	b.Advance(now)
	p, code := b.partition(tp)
	if code != kcode.None || !b.up(node) {
		return
	}
	if !slices.Contains(p.replicas, node) {
		p.replicas = append(p.replicas, node)
	}
	b.elect(p, node)
	b.pump()
}

// MoveCoordinator makes another node the coordinator of a group. Parked requests are answered NOT_COORDINATOR; a rebalance in flight is
// forgotten, so that the generation that it made is given again; session timers start anew.
func (b *Broker) MoveCoordinator(now time.Time, group string, node int32) {
	b.Advance(now)
	if !b.up(node) {
		return
	}
	b.group(group).moveTo(node)
	b.pump()
}

// OpenTransaction pins the last stable offset of a partition at its present end, as the first batch of a transaction does. One is open at a
// time.
func (b *Broker) OpenTransaction(now time.Time, tp task.TopicPartition) {
	b.Advance(now)
	if p, code := b.partition(tp); code == kcode.None && p.open < 0 {
		p.open = p.end
	}
}

// EndTransaction writes a transaction marker, which takes an offset, and lets the last stable offset move on.
func (b *Broker) EndTransaction(now time.Time, tp task.TopicPartition) {
	b.Advance(now)
	if p, code := b.partition(tp); code == kcode.None {
		p.open = -1
		p.appendControl()
		b.wakeFetches(p)
		b.pump()
	}
}

// Compact cleans a partition: of each key the last record stays, apart from the active segment, which is the last batch. Offsets are left
// out from then on; the start of the log stays. With tombstones, those are removed as well (delete.retention.ms is over).
func (b *Broker) Compact(now time.Time, tp task.TopicPartition, tombstones bool) {
	b.Advance(now)
	if p, code := b.partition(tp); code == kcode.None && p.topic.compact {
		p.compact(tombstones)
	}
}

// Trim moves the start of a log up, whatever the topic's policy, as retention does.
func (b *Broker) Trim(now time.Time, tp task.TopicPartition, start int64) {
	b.Advance(now)
	if p, code := b.partition(tp); code == kcode.None {
		p.trim(min(start, p.end))
		b.wakeFetches(p)
		b.pump()
	}
}

// evacuate moves what a node that is down leads and coordinates to the next nodes that are up.
func (b *Broker) evacuate(node int32) {
	b.eachPartition(func(p *partition) {
		if p.leader == node {
			b.elect(p, b.electable(p, node))
		}
	})
	if to := b.nextUp(node); to >= 0 {
		for _, g := range b.groupsOf(node) {
			g.moveTo(to)
		}
	}
}

// electable is the first replica that is up and is not the given node, -1 if there is none.
func (b *Broker) electable(p *partition, not int32) int32 {
	for _, r := range p.replicas {
		if r != not && b.up(r) {
			return r
		}
	}
	return -1
}

func (b *Broker) elect(p *partition, node int32) {
	p.leader = node
	p.epoch++
	p.settled = b.now.Add(b.cfg.LeaderSettle)
	b.wakeFetches(p)
}

func (b *Broker) closeConns(node int32) {
	for _, id := range slices.Sorted(maps.Keys(b.conns)) {
		if cn := b.conns[id]; cn.node == node {
			b.hangUpOn(cn)
		}
	}
}

func (b *Broker) eachPartition(f func(*partition)) {
	for _, name := range slices.Sorted(maps.Keys(b.topics)) {
		for _, p := range b.topics[name].parts {
			f(p)
		}
	}
}

func (b *Broker) groupsOf(node int32) []*group {
	var gs []*group
	for _, name := range slices.Sorted(maps.Keys(b.groups)) {
		if b.groups[name].node == node {
			gs = append(gs, b.groups[name])
		}
	}
	return gs
}
