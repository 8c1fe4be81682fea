package assignor

import (
	"cmp"
	"slices"
)

// held is what one member has of a task that it does not run: a copy of the state, the plan that it shall own the task, or both.
type held struct {
	member int
	// lag is that of the copy, LagUnknown without one.
	lag Lag
	// copied: there is a state. standby, learner and restoring say what it is.
	copied, standby, learner, restoring bool
	// promised: the member was told to take the task as it is.
	promised bool
	// ready: the member can take over in the next round.
	ready bool
	// stalled: a learner that does not get closer to the end.
	stalled bool
}

// planned says whether an earlier plan meant the member to own the task.
func (h held) planned() bool { return h.learner || h.promised }

// addReplicas notes what members hold. One that lists a task twice is taken by its word in both.
func (v *view) addReplicas() {
	for _, m := range v.members {
		for _, r := range m.Replicas {
			t := v.byID[r.Task]
			if t == nil || r.Lag == LagRunning {
				continue
			}
			if n := len(t.copies); n == 0 || t.copies[n-1].member != m.n {
				t.copies = append(t.copies, held{member: m.n, lag: LagUnknown})
			}
			t.copies[len(t.copies)-1].add(r)
		}
	}
	for _, t := range v.tasks {
		for i := range t.copies {
			t.copies[i].ready = v.caughtUp(t, t.copies[i])
		}
		slices.SortFunc(t.copies, compareHeld)
	}
}

func (h *held) add(r Replica) {
	switch r.Kind {
	case Promised:
		h.promised = true
		return
	case Learner:
		h.learner = true
		h.ready = h.ready || r.Ready
		h.stalled = h.stalled || r.Stalled
	case Standby:
		h.standby = true
	case Restoring:
		h.restoring = true
	}
	h.copied = true
	if r.Lag >= 0 && (h.lag < 0 || r.Lag < h.lag) {
		h.lag = r.Lag
	}
}

// caughtUp says whether a member can take a task over as it is. Who was promised the task may have fallen back somewhat since: to take the
// promise back for that would pause the task for nothing.
func (v *view) caughtUp(t *taskView, h held) bool {
	if !t.sub.Stateful {
		return h.planned()
	}
	most := Lag(v.policy.AcceptableLag)
	if h.promised {
		most *= 2
	}
	return h.learner && h.ready || h.copied && h.lag >= 0 && h.lag <= most
}

// fed says that the copy is kept up to date. How far any other is behind was found out some time ago, and it may be more by now.
func (h held) fed() bool { return h.standby || h.learner || h.restoring }

// compareHeld puts the copy that is closest to the end first; of equal ones, and of all that are close enough, that of a member which was about to
// run the task: for a few records it does not move once more. Copies whose lag is not known come after those, promises without a copy last.
func compareHeld(a, b held) int {
	return cmp.Or(yesFirst(a.copied, b.copied), yesFirst(a.restoring && a.ready, b.restoring && b.ready), compareLag(a.lag, b.lag),
		yesFirst(a.restoring, b.restoring), yesFirst(a.fed(), b.fed()), cmp.Compare(a.member, b.member))
}

func compareLag(a, b Lag) int {
	if c := yesFirst(a >= 0, b >= 0); c != 0 || a < 0 {
		return c
	}
	return cmp.Compare(a, b)
}

func yesFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// at is what a member holds of the task, or nil.
func (t *taskView) at(m int) *held {
	for i := range t.copies {
		if t.copies[i].member == m {
			return &t.copies[i]
		}
	}
	return nil
}

// instant says whether the member can own the task in the next round: there is no state to learn, or it has it.
func (t *taskView) instant(m int) bool {
	if !t.sub.Stateful {
		return true
	}
	h := t.at(m)
	return h != nil && h.ready
}
