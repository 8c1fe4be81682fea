package assignor

// The defaults of a Policy.
const (
	defaultLearnersPerMember = 4
	defaultAcceptableLag     = 10_000
)

// withDefaults fills in what is not set, for a group of that many members.
func (p Policy) withDefaults(members int) Policy {
	if p.LearnersPerMember <= 0 {
		p.LearnersPerMember = defaultLearnersPerMember
	}
	if p.Learners <= 0 {
		p.Learners = defaultLearnersPerMember * members
	}
	if p.AcceptableLag <= 0 {
		p.AcceptableLag = defaultAcceptableLag
	}
	p.Standbys = max(0, p.Standbys)
	return p
}
