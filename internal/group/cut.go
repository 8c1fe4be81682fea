package group

import (
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// cut says how much is left out of a plan so that it fits into the group's record together with what the members declared. Each value leaves
// out what the one before does, and one thing more; members can do without any of it, and miss it the more the higher the value.
type cut int

const (
	whole      cut = iota
	noHints        // reasons of moves, and who owns what others learn and copy: for those who look on
	noStandbys     // copies against failures
	noLists        // the standard lists: for Kafka's tools
	noMarks        // moves begin in another round
)

const (
	// planBudget bounds metadata and plan together.
	planBudget = 950_000
	// hintBudget bounds them while there are hints in the plan.
	hintBudget = 450_000
)

const tooLarge = "the plan is too large for the group's record"

// room is how large a plan may be, with so much of the record taken already.
func (m *Machine) room(c cut, taken int) int {
	budget := planBudget
	if c < noHints {
		budget = hintBudget
	}
	return (budget - taken) >> m.shrink
}

// fit leaves out of the plan what has to be left out, with so much of the record taken already, and says whether it fits then.
func (m *Machine) fit(plan assignor.Plan, foreign map[string][]task.TopicPartition, taken int) ([]SyncAssignment, assignor.Plan, bool) {
	for c := whole; c <= noMarks; c++ {
		thin := c.of(plan)
		if out, size := m.encode(thin, foreign, c); size <= m.room(c, taken) {
			return out, thin, true
		}
	}
	return nil, assignor.Plan{}, false
}

// of returns the plan without what is left out.
func (c cut) of(p assignor.Plan) assignor.Plan {
	if c == whole {
		return p
	}
	p.Members = slices.Clone(p.Members)
	for i := range p.Members {
		c.thin(&p.Members[i], p.Frozen)
	}
	if c >= noMarks {
		p.Moves = slices.DeleteFunc(slices.Clone(p.Moves), func(k assignor.Move) bool { return k.Kind == assignor.Marked })
		if p.Degraded == "" {
			p.Degraded = tooLarge
		}
	}
	return p
}

// thin leaves out what a member can do without.
func (c cut) thin(p *assignor.MemberPlan, frozen []task.ID) {
	p.Moves = nil
	p.Learners, p.Standbys = slices.Clone(p.Learners), slices.Clone(p.Standbys)
	for i := range p.Learners {
		p.Learners[i].Owner = ""
	}
	for i := range p.Standbys {
		p.Standbys[i].Owner = ""
	}
	if c >= noStandbys {
		p.Standbys = nil
	}
	if c >= noMarks {
		p.Marks, p.Learners = nil, nil
		if len(frozen) == 0 { // else the round that repairs a double claim is still wanted
			p.FollowUp = assignor.FollowUp{}
		}
	}
}
