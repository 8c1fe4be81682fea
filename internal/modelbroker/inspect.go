package modelbroker

import (
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// GroupView is what there is to see of a group.
type GroupView struct {
	Coordinator int32
	State       GroupState
	Generation  int32
	Leader      string
	Members     []MemberView // in the order in which they joined
}

// MemberView is what there is to see of a member.
type MemberView struct {
	ID         string
	Metadata   []byte
	Assignment []byte
}

// Group looks into a group. It does not count as a request.
func (b *Broker) Group(name string) GroupView {
	g := b.group(name)
	v := GroupView{Coordinator: g.node, State: g.state, Generation: g.generation, Leader: g.leader}
	for _, m := range g.members {
		v.Members = append(v.Members, MemberView{ID: m.id, Metadata: m.metadata(g.protocol), Assignment: m.assignment})
	}
	return v
}

// Log returns copies of all records of a partition from the start of its log, and the high watermark; -1 if the partition is unknown.
func (b *Broker) Log(tp task.TopicPartition) ([]task.Record, int64) {
	p, code := b.partition(tp)
	if code != kcode.None {
		return nil, -1
	}
	var records []task.Record
	for _, batch := range p.batches {
		for _, r := range batch.records {
			if r.Offset >= p.start {
				records = append(records, copyRecord(r))
			}
		}
	}
	return records, p.end
}

// Tail calls do with each record of a partition from an offset on, and returns the high watermark; -1 if the partition is unknown. What do gets
// is the log's own.
func (b *Broker) Tail(tp task.TopicPartition, from int64, do func(*task.Record)) int64 {
	p, code := b.partition(tp)
	if code != kcode.None {
		return -1
	}
	from = max(from, p.start)
	for _, batch := range p.batches {
		if batch.last < from {
			continue
		}
		for i := range batch.records {
			if r := &batch.records[i]; r.Offset >= from {
				do(r)
			}
		}
	}
	return p.end
}

// End returns the high watermark of a partition, -1 if the partition is unknown.
func (b *Broker) End(tp task.TopicPartition) int64 {
	p, code := b.partition(tp)
	if code != kcode.None {
		return -1
	}
	return p.end
}

// Start returns where the log of a partition begins, -1 if the partition is unknown.
func (b *Broker) Start(tp task.TopicPartition) int64 {
	p, code := b.partition(tp)
	if code != kcode.None {
		return -1
	}
	return p.start
}

// Committed returns the committed offset of a partition, -1 if there is none.
func (b *Broker) Committed(group string, tp task.TopicPartition) int64 {
	if c, ok := b.group(group).offsets[tp]; ok {
		return c.offset
	}
	return -1
}

// Leader returns the leader of a partition and its epoch, -1 if it has none or is unknown.
func (b *Broker) Leader(tp task.TopicPartition) (node, epoch int32) {
	p, code := b.partition(tp)
	if code != kcode.None {
		return -1, -1
	}
	return p.leader, p.epoch
}
