package group

import (
	"hash/fnv"
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// lead makes the plan of a generation from what the members declared. It asks nobody anything: released tasks wait for it.
func (m *Machine) lead(members []JoinedMember) ([]SyncAssignment, assignor.Plan) {
	state := assignor.State{Subtopologies: m.topo.shape(), Policy: m.cfg.Policy}
	foreign := foreigners{}
	clear(m.numbers)
	taken := memberOverhead * len(members)
	for _, j := range members {
		taken += len(j.Metadata)
		state.Members = append(state.Members, m.read(j, foreign))
	}
	slices.Sort(m.others)
	m.others = slices.Compact(m.others)
	kept := foreign.kept()
	if out, plan, ok := m.fit(assignor.Assign(state), kept, taken); ok {
		return out, plan
	}
	plan := noMarks.of(assignor.NoMoves(state, tooLarge))
	out, _ := m.encode(plan, kept, noMarks)
	return out, plan
}

// read turns a member's bytes into what the plan is made from. What cannot be read must never look like a member that runs nothing.
func (m *Machine) read(j JoinedMember, foreign foreigners) assignor.Member {
	s, err := assignor.DecodeSubscription(j.Metadata)
	if err != nil {
		return assignor.Member{ID: j.ID, Generation: -1, Opaque: true, Hidden: true}
	}
	d, err := assignor.DecodeMemberData(s.UserData)
	if err != nil {
		d = assignor.MemberData{}
	}
	m.numbers[j.ID] = m.topo.numbersOf(d.Inputs)
	m.numbers[j.ID].read(&d)
	out := assignor.Member{
		ID: j.ID, Process: d.Process, Generation: s.Generation, Claims: slices.Clone(d.Claims), Released: d.Released, Learned: d.Learned,
		Unfit: d.Unfit, Replicas: d.Replicas, Hashes: d.Hashes, TopologyVersion: d.TopologyVersion, Capacity: d.Capacity, Rack: s.Rack, Tags: d.Tags,
		Draining: d.Draining, Opaque: err != nil, Hidden: err != nil && slices.Contains(s.Topics, elided),
	}
	for _, topic := range s.Topics {
		if topic != elided && !m.topo.own(topic) {
			m.others = append(m.others, topic)
		}
	}
	for _, tp := range s.Owned {
		if id, ok := m.topo.taskOf(tp); ok {
			out.Claims = append(out.Claims, id)
		} else {
			foreign.add(tp, j.ID, s.Generation)
		}
	}
	slices.SortFunc(out.Claims, task.ID.Compare)
	out.Claims = slices.Compact(out.Claims)
	return out
}

// encode writes the plan for every member and says how large it is in all.
func (m *Machine) encode(plan assignor.Plan, foreign map[string][]task.TopicPartition, c cut) ([]SyncAssignment, int) {
	digest := fnv.New64a()
	data := make([]assignor.PlanData, len(plan.Members))
	for i, p := range plan.Members {
		data[i] = assignor.PlanData{
			Generation: m.round, Members: len(plan.Members), Draining: plan.Draining, Active: p.Active, Marks: p.Marks, Learners: p.Learners, Standbys: p.Standbys, Moves: p.Moves,
			Counts: m.topo.counts(), Hashes: plan.Forms, FollowUp: p.FollowUp, Code: p.Code,
		}
		data[i] = m.numbers[p.ID].write(data[i])
		digest.Write([]byte(p.ID))
		digest.Write(data[i].Append(nil))
	}
	size := 0
	out := make([]SyncAssignment, len(plan.Members))
	for i, p := range plan.Members {
		data[i].Digest = digest.Sum64()
		a := assignor.Assignment{UserData: data[i].Append(nil)}
		if c < noLists {
			a.Partitions = append(m.topo.ofTasks(p.Active), foreign[p.ID]...)
		}
		out[i] = SyncAssignment{MemberID: p.ID, Bytes: a.Append(nil)}
		size += len(out[i].Bytes)
	}
	return out, size
}

// foreigners are partitions that members run and the leader's topology does not have: in a rolling upgrade their tasks stay where they are.
type foreigners map[task.TopicPartition]claim

type claim struct {
	member     string
	generation int32
	tied       bool
}

func (f foreigners) add(tp task.TopicPartition, member string, generation int32) {
	switch c, has := f[tp]; {
	case !has || generation > c.generation:
		f[tp] = claim{member: member, generation: generation}
	case generation == c.generation:
		c.tied = true
		f[tp] = c
	}
}

// kept are the partitions that their claimers keep, by member: those that one has the better right to.
func (f foreigners) kept() map[string][]task.TopicPartition {
	out := map[string][]task.TopicPartition{}
	for tp, c := range f { // the order does not matter: partitions are written sorted
		if !c.tied {
			out[c.member] = append(out[c.member], tp)
		}
	}
	return out
}
