package assignor

// Level is how much of a plan is left out so that it fits: what the broker keeps of a group is one record of 1 MiB at most.
type Level uint8

const (
	// WithoutMoves leaves out each member's moves with their reasons, and who owns the tasks that it learns or keeps copies of. Plan.Moves,
	// which the leader reports, stays. Nobody acts on what is lost.
	WithoutMoves Level = 1
	// WithoutStandbys leaves out standbys too. Members drop out of following and keep the states on disk.
	WithoutStandbys Level = 2
	// WithoutLearners leaves out marks and learners too: nothing new moves, and nobody asks for a round that would change nothing.
	WithoutLearners Level = 3
)

// Without returns the plan with what the level says left out; 0 leaves out nothing. The plan itself is not changed. A leader tries one level after
// another until the plan fits, and leaves the standard lists of partitions out before the last. Who runs what is the same at every level.
func (p Plan) Without(l Level) Plan {
	if l == 0 {
		return p
	}
	out := p
	out.Members = make([]MemberPlan, len(p.Members))
	for i, m := range p.Members {
		out.Members[i] = m.without(l, len(p.Frozen) > 0)
	}
	if l >= WithoutStandbys {
		out.Degraded = "the plan is too large with its standbys"
	}
	if l >= WithoutLearners {
		out.Degraded, out.Moves = "the plan is too large with its standbys and learners", nil
		for _, m := range p.Moves {
			if m.Kind != Marked {
				out.Moves = append(out.Moves, m)
			}
		}
	}
	return out
}

func (m MemberPlan) without(l Level, repair bool) MemberPlan {
	m.Moves = nil
	learners := make([]Incoming, len(m.Learners))
	for i, in := range m.Learners {
		in.Owner = ""
		learners[i] = in
	}
	standbys := make([]Copy, len(m.Standbys))
	for i, c := range m.Standbys {
		standbys[i] = Copy{Task: c.Task}
	}
	m.Learners, m.Standbys = learners, standbys
	if l >= WithoutStandbys {
		m.Standbys = nil
	}
	if l >= WithoutLearners {
		m.Marks, m.Learners = nil, nil
		if !repair { // what is frozen is repaired by a round of its own
			m.FollowUp = FollowUp{}
		}
	}
	return m
}
