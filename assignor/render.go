package assignor

import (
	"cmp"
	"fmt"
	"slices"
)

// render turns what was decided into the plan. Tasks are visited in order, so every list comes out sorted.
func (v *view) render() Plan {
	p := Plan{Frozen: v.frozen, Forms: v.forms, Members: make([]MemberPlan, len(v.members))}
	for i, m := range v.members {
		p.Members[i] = MemberPlan{ID: m.ID, Code: m.code}
		if m.again {
			p.Members[i].FollowUp.Kind = Now
		}
	}
	for _, t := range v.tasks {
		if t.frozen {
			continue
		}
		if t.owner == nobody {
			p.Unassigned = append(p.Unassigned, t.id)
			continue
		}
		owner := &p.Members[t.owner]
		owner.Active = append(owner.Active, t.id)
		if t.home != t.owner {
			v.mark(t, owner, &p.Members[t.home])
		}
	}
	p.Moves = v.moves
	slices.SortStableFunc(p.Moves, func(a, b Move) int { return cmp.Or(a.Task.Compare(b.Task), cmp.Compare(a.Kind, b.Kind)) })
	return p
}

// mark begins, or goes on with, a move. The receiver asks for the next round at once, except where the owner knows of the mark and could not
// stop the task in time: then the owner asks, when it can.
func (v *view) mark(t *taskView, owner, receiver *MemberPlan) {
	owner.Marks = append(owner.Marks, Mark{Task: t.id, Receiver: receiver.ID, Ready: true})
	receiver.Learners = append(receiver.Learners, Incoming{Task: t.id, Instant: true})
	if !v.members[t.owner].learned[t.id] {
		receiver.FollowUp.Kind = Now
	}
	if t.reason == "" {
		t.reason = fmt.Sprintf("task %s moves to %s: it was promised, and %s still runs it", t.id, receiver.ID, owner.ID)
	}
	v.moves = append(v.moves, Move{Task: t.id, Kind: Marked, From: owner.ID, To: receiver.ID, Reason: t.reason})
}
