package assignor

import "fmt"

// settleClaims leaves every claimed task with its claimer. Of two claimers the one with the higher generation is right: the other has missed
// an assignment. With equal generations nobody can tell, so both drop the task, and the one with the lower id asks for the next round.
func (v *view) settleClaims() {
	for _, t := range v.tasks {
		if len(t.claims) == 0 {
			continue
		}
		best, tied := t.claims[0], false
		for _, m := range t.claims[1:] {
			switch g, h := v.members[m].Generation, v.members[best].Generation; {
			case g > h:
				best, tied = m, false
			case g == h:
				tied = true
			}
		}
		if tied {
			t.frozen = true
			v.frozen = append(v.frozen, t.id)
			v.members[best].again = true
			continue
		}
		v.own(t, best)
		t.claimed = true
		t.pinned = t.pinned || v.members[best].Opaque
	}
}

func (v *view) own(t *taskView, m int) {
	t.owner, t.home = m, m
	v.members[m].load++
}

// settleReleases gives each released task that nobody claims to the member it was promised to, else back. A third member never gets it: the
// releaser's store is the freshest there is.
func (v *view) settleReleases() {
	for _, t := range v.tasks {
		if t.owner != nobody || t.frozen || len(t.release) == 0 {
			continue
		}
		from := v.releaser(t)
		to := v.promisee(t)
		switch {
		case to != nobody && to != from:
			v.own(t, to)
			t.fresh = true
			v.moves = append(v.moves, Move{Task: t.id, Kind: Transferred, From: v.name(from), To: v.name(to),
				Reason: fmt.Sprintf("task %s has moved to %s: %s has handed it over", t.id, v.name(to), v.name(from))})
		case !v.members[from].unfit[t.id]:
			v.own(t, from)
			t.pinned = t.pinned || v.members[from].Opaque
		}
	}
}

func (v *view) returnReleases() {
	for _, t := range v.tasks {
		if t.owner != nobody || t.frozen || len(t.release) == 0 {
			continue
		}
		if from := v.releaser(t); !v.members[from].unfit[t.id] {
			v.own(t, from)
		}
	}
}

// releaser is who can have a released task back, of several the one who had it last.
func (v *view) releaser(t *taskView) int {
	better := func(a, b int) bool {
		if x, y := v.members[a].unfit[t.id], v.members[b].unfit[t.id]; x != y {
			return y
		}
		return v.members[a].Generation > v.members[b].Generation
	}
	best := t.release[0]
	for _, m := range t.release[1:] {
		if better(m, best) {
			best = m
		}
	}
	return best
}

// promisee is the member that shall get the task and is ready for it.
func (v *view) promisee(t *taskView) int {
	for _, h := range t.copies {
		if h.planned() && h.ready && v.canTake(t, h.member) {
			return h.member
		}
	}
	return nobody
}

func (v *view) rehome(t *taskView, m int) {
	if t.home != nobody {
		v.members[t.home].load--
	}
	t.home = m
	v.members[m].load++
}

// placeHeld gives the tasks that nobody runs to the member whose copy of the state is closest to the end, whether that is ready or not. One that
// has not come to run at who was to run it until it moves is there already if its receiver is ready: left where it is, it would have to move in a
// round of its own, and again in another one if that comes too early as well.
func (v *view) placeHeld() {
	for _, t := range v.tasks {
		if t.owner != nobody || t.frozen || !t.sub.Stateful {
			continue
		}
		var best *held
		for i := range t.copies {
			h := &t.copies[i]
			if !h.copied || !v.canTake(t, h.member) {
				continue
			}
			if best == nil {
				best = h
			} else if h.lag == best.lag && h.restoring == best.restoring && h.fed() == best.fed() && v.lighter(h.member, best.member) {
				best = h
			}
		}
		if best != nil && best.restoring {
			if h := t.at(v.promisee(t)); h != nil && h.copied {
				best = h
			}
		}
		if best != nil {
			v.placeAt(t, *best)
		}
	}
}

func (v *view) placeAt(t *taskView, h held) {
	switch {
	case h.restoring: // it was given the task before, so nothing changes, nor for whoever learns it
		v.own(t, h.member)
		v.readPlan(t)
	case h.lag < 0:
		v.place(t, h.member, v.name(h.member)+" has a copy of its state")
	default:
		v.place(t, h.member, fmt.Sprintf("%s has the least lag, %d", v.name(h.member), h.lag))
	}
}

// placePromised gives a task that nobody runs, and of whose state there is no copy, to the member that it was promised to: the owner died, or
// gave it up before it had anything to hand over.
func (v *view) placePromised() {
	for _, t := range v.tasks {
		if t.owner != nobody || t.frozen {
			continue
		}
		for _, h := range t.copies {
			if h.planned() && v.canTake(t, h.member) {
				v.place(t, h.member, "it was promised to "+v.name(h.member))
				break
			}
		}
	}
}

// lighter says whether a has less to do than b, for its capacity.
func (v *view) lighter(a, b int) bool {
	x, y := v.members[a], v.members[b]
	if l, r := x.load*y.weight, y.load*x.weight; l != r {
		return l < r
	}
	return a < b
}

func (v *view) place(t *taskView, m int, why string) {
	v.own(t, m)
	t.fresh = true
	v.moves = append(v.moves, Move{Task: t.id, Kind: Placed, To: v.name(m), Reason: fmt.Sprintf("task %s goes to %s: nobody runs it and %s", t.id, v.name(m), why)})
}

// placeAll gives each task that nobody runs to whoever can take it and has least to do.
func (v *view) placeAll() {
	for _, t := range v.tasks {
		if t.owner == nobody && !t.frozen {
			v.placeLightest(t)
		}
	}
}

func (v *view) placeLightest(t *taskView) {
	best := nobody
	for m := range v.members {
		if v.canTake(t, m) && (best == nobody || v.lighter(m, best)) {
			best = m
		}
	}
	if best != nobody {
		v.place(t, best, v.name(best)+" has the fewest tasks for its capacity")
	}
}
