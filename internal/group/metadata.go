package group

import (
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// The broker keeps all metadata and the plan of a group in one record of 1 MiB at most. Members take less than half of it in all.
const (
	metadataBudget = 400_000
	planBudget     = 950_000
	memberOverhead = 100
	leastMetadata  = 1_000
)

// elided stands for the list of topics where that would be too long. The tasks are in our own data then, and nowhere else.
const elided = "__understudy_topics_left_out"

// metadata is what the member declares, in as many bytes as it may have: if need be without the copies it has, then without the standard lists.
func (m *Machine) metadata() []byte {
	most := max(leastMetadata, metadataBudget/max(1, m.applied.members)) >> m.shrink
	s, d := m.subscription()
	encode := func() []byte {
		s.UserData = d.Append(nil)
		return s.Append(nil)
	}
	b := encode()
	if len(b) <= most {
		return b
	}
	d.Replicas = slices.DeleteFunc(d.Replicas, func(r assignor.Replica) bool { return r.Kind != assignor.Promised })
	if b = encode(); len(b) <= most {
		return b
	}
	s.Topics, s.Owned = []string{elided}, nil
	return encode()
}

func (m *Machine) subscription() (assignor.Subscription, assignor.MemberData) {
	s := assignor.Subscription{Topics: m.topo.topics(), Owned: m.topo.ofTasks(m.declared.Claims), Generation: m.applied.generation, Rack: m.cfg.Rack}
	d := assignor.MemberData{
		Process: m.cfg.ProcessID, JoinSeq: m.joinSeq, TopologyVersion: m.cfg.TopologyVersion, Capacity: m.cfg.Capacity, Tags: m.cfg.Tags,
		Hashes: m.topo.hashes(), Claims: m.declared.Claims, Released: m.declared.Released, Unfit: m.declared.Unfit,
		Draining: m.draining,
	}
	marked := map[task.ID]bool{}
	for _, k := range m.applied.marks {
		marked[k.Task] = true
	}
	for _, id := range m.declared.Claims {
		if marked[id] {
			d.Learned = append(d.Learned, id)
		}
	}
	d.Replicas = slices.Concat(m.declared.Replicas, promises(m.applied.promised))
	return s, d
}

func promises(ids []task.ID) (out []assignor.Replica) {
	for _, id := range ids {
		out = append(out, assignor.Replica{Task: id, Kind: assignor.Promised, Ready: true, Lag: assignor.LagUnknown})
	}
	return out
}
