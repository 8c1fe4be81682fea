package assignor

import (
	"cmp"
	"slices"
)

// readPlans takes up the moves that an earlier plan began: the task counts as moved, so that no other is moved in its place. Of two members
// that learn one task the one that is ready goes on, else the one that is closest to the end.
func (v *view) readPlans() {
	for _, t := range v.tasks {
		if t.owner != nobody && !t.pinned && !t.fresh {
			v.readPlan(t)
		}
	}
}

func (v *view) readPlan(t *taskView) {
	h := v.plannedAt(t)
	switch {
	case h == nil:
	case h.stalled && !h.ready && v.othersCanLearn(t, h.member):
		t.shunned = h.member
		v.members[h.member].slow = true
	default:
		v.rehome(t, h.member)
	}
}

func (v *view) plannedAt(t *taskView) *held {
	var best *held
	for i := range t.copies {
		h := &t.copies[i]
		if h.planned() && v.canLearn(t, h.member) && (best == nil || h.ready && !best.ready) {
			best = h
		}
	}
	return best
}

func (v *view) othersCanLearn(t *taskView, but int) bool {
	for m := range v.members {
		if m != but && v.canLearn(t, m) {
			return true
		}
	}
	return false
}

// budget puts off what would be learned beyond the bounds. Learners that have begun come first, those closest to the end before others, then
// the tasks of members that want to leave.
func (v *view) budget() {
	var cold []*taskView
	for _, t := range v.tasks {
		if t.owner != nobody && t.home != t.owner && !t.instant(t.home) {
			cold = append(cold, t)
		}
	}
	slices.SortStableFunc(cold, v.compareLearners)
	per, all := make([]int, len(v.members)), 0
	for _, t := range cold {
		if per[t.home] == v.policy.LearnersPerMember || all == v.policy.Learners {
			v.rehome(t, t.owner)
			t.reason = ""
			continue
		}
		per[t.home]++
		all++
	}
}

func (v *view) compareLearners(a, b *taskView) int {
	x, y := a.learner(), b.learner()
	return cmp.Or(yesFirst(x.planned(), y.planned()), compareLag(x.lag, y.lag), yesFirst(v.members[a.owner].Draining, v.members[b.owner].Draining))
}

// learner is what the task's next owner holds of it, if only nothing.
func (t *taskView) learner() held {
	if h := t.at(t.home); h != nil {
		return *h
	}
	return held{member: t.home, lag: LagUnknown}
}
