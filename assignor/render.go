package assignor

import (
	"cmp"
	"slices"
)

// render turns what was decided into the plan. Tasks are visited in order, so every list comes out sorted.
func (v *view) render() Plan {
	p := Plan{Frozen: v.frozen, Forms: v.forms, Members: make([]MemberPlan, len(v.members))}
	for i, m := range v.members {
		p.Members[i] = MemberPlan{ID: m.ID, Code: m.code}
		if m.Draining {
			p.Draining++
		}
		if m.again {
			p.Members[i].FollowUp.Kind = Now
		}
	}
	for _, t := range v.tasks {
		v.renderTask(t, &p)
	}
	p.Moves = v.moves
	slices.SortStableFunc(p.Moves, func(a, b Move) int { return cmp.Or(a.Task.Compare(b.Task), cmp.Compare(a.Kind, b.Kind)) })
	v.tell(&p)
	return p
}

func (v *view) renderTask(t *taskView, p *Plan) {
	name := ""
	if t.owner != nobody {
		name = v.name(t.owner)
	}
	for _, m := range t.standbys {
		p.Members[m].Standbys = append(p.Members[m].Standbys, Copy{Task: t.id, Owner: name})
	}
	switch {
	case t.frozen:
	case t.owner == nobody:
		p.Unassigned = append(p.Unassigned, t.id)
	default:
		owner := &p.Members[t.owner]
		owner.Active = append(owner.Active, t.id)
		if t.home != t.owner {
			v.mark(t, owner, &p.Members[t.home])
		}
	}
}

// mark begins, or goes on with, a move. A receiver that is ready asks for the next round at once, except where the owner was told that it is
// and could not stop the task in time: then the owner asks, when it can. One that has to learn first asks when it has.
func (v *view) mark(t *taskView, owner, receiver *MemberPlan) {
	ready := t.instant(t.home)
	owner.Marks = append(owner.Marks, Mark{Task: t.id, Receiver: receiver.ID, Ready: ready})
	receiver.Learners = append(receiver.Learners, Incoming{Task: t.id, Owner: owner.ID, Instant: ready})
	late := v.members[t.owner].learned[t.id]
	if ready && !late {
		receiver.FollowUp.Kind = Now
	}
	if t.reason == "" {
		t.reason = v.begunWhy(t)
	}
	v.moves = append(v.moves, Move{Task: t.id, Kind: Marked, From: owner.ID, To: receiver.ID, Reason: t.reason})
}

// tell repeats to each member the moves that begin or end there.
func (v *view) tell(p *Plan) {
	at := make(map[string]*MemberPlan, len(p.Members))
	for i := range p.Members {
		at[p.Members[i].ID] = &p.Members[i]
	}
	for _, m := range p.Moves {
		if from := at[m.From]; from != nil {
			from.Moves = append(from.Moves, m)
		}
		if to := at[m.To]; to != nil && m.To != m.From {
			to.Moves = append(to.Moves, m)
		}
	}
}
