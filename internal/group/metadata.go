package group

import (
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// The broker keeps all metadata and the plan of a group in one record of 1 MiB at most. Members take less than half of it in all.
const (
	metadataBudget = 400_000
	memberOverhead = 100
	leastMetadata  = 1_000
	// guessedMembers is how many a member takes the group to have before it knows.
	guessedMembers = 20
)

// elided stands for the list of topics where that would be too long. The tasks are in our own data then, and nowhere else.
const elided = "__understudy_topics_left_out"

// metadata is what the member declares, in as many bytes as it may have. What it leaves out if need be, in this order: states that nobody
// feeds, how far its standbys are, standbys, the standard lists, how far everything else is. What it runs and gave up is never left out, nor
// what it must not be given and what it was promised.
func (m *Machine) metadata() []byte {
	most := m.mostMetadata()
	s, d := m.subscription()
	b := encoded(s, d)
	for _, leaveOut := range thinners {
		if len(b) <= most {
			break
		}
		leaveOut(&s, &d)
		b = encoded(s, d)
	}
	return b
}

// mostMetadata is this member's share of the record.
func (m *Machine) mostMetadata() int {
	members := m.applied.members
	if members == 0 {
		members = guessedMembers
	}
	return max(leastMetadata, metadataBudget/members) >> m.shrink
}

// thinners each leave something out, the least missed first.
var thinners = []func(*assignor.Subscription, *assignor.MemberData){
	func(_ *assignor.Subscription, d *assignor.MemberData) { dropCopies(d, assignor.OnDisk) },
	func(_ *assignor.Subscription, d *assignor.MemberData) {
		d.Replicas = slices.Clone(d.Replicas)
		for i, r := range d.Replicas {
			if r.Kind == assignor.Standby {
				d.Replicas[i] = assignor.Replica{Task: r.Task, Kind: r.Kind, Lag: assignor.LagUnknown}
			}
		}
	},
	func(_ *assignor.Subscription, d *assignor.MemberData) { dropCopies(d, assignor.Standby) },
	func(s *assignor.Subscription, _ *assignor.MemberData) { s.Topics, s.Owned = []string{elided}, nil },
	func(_ *assignor.Subscription, d *assignor.MemberData) {
		dropCopies(d, assignor.Learner, assignor.Restoring)
	},
}

func dropCopies(d *assignor.MemberData, kinds ...assignor.Kind) {
	d.Replicas = slices.DeleteFunc(slices.Clone(d.Replicas), func(r assignor.Replica) bool { return slices.Contains(kinds, r.Kind) })
}

func encoded(s assignor.Subscription, d assignor.MemberData) []byte {
	s.UserData = d.Append(nil)
	return s.Append(nil)
}

func (m *Machine) subscription() (assignor.Subscription, assignor.MemberData) {
	s := assignor.Subscription{Topics: m.topo.topics(), Owned: m.topo.ofTasks(m.declared.Claims), Generation: m.applied.generation, Rack: m.cfg.Rack}
	d := assignor.MemberData{
		Process: m.cfg.ProcessID, JoinSeq: m.joinSeq, TopologyVersion: m.cfg.TopologyVersion, Capacity: m.cfg.Capacity, Tags: m.cfg.Tags,
		Hashes: m.topo.hashes(), Inputs: m.topo.inputs(), Claims: m.declared.Claims, Released: m.declared.Released, Unfit: m.declared.Unfit,
		Learned:  m.declared.Late,
		Draining: m.draining,
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
