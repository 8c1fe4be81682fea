package assignor

// Assign plans the next generation: claims stay, released tasks go to whom they were promised, tasks without an owner are placed, and what
// is left of the imbalance becomes marks. It is deterministic, and indifferent to the order of members, tasks and lists.
//
// A plan that fails the package's own check is replaced by one that moves nothing, with the reason in Plan.Degraded.
func Assign(s State) Plan {
	v := newView(s)
	if v.hidden {
		return noMoves(v, "a member's claims could not be read")
	}
	p := v.plan()
	if err := check(v, p); err != nil {
		return noMoves(newView(s), err.Error())
	}
	return p
}

// NoMoves plans a generation in which nothing changes its owner: claims stay, and released tasks go back. It is what a leader falls back to
// when a better plan cannot be used; reason goes to Plan.Degraded.
func NoMoves(s State, reason string) Plan { return noMoves(newView(s), reason) }

func (v *view) plan() Plan {
	v.settleClaims()
	v.settleReleases()
	v.readPlans()
	v.placeHeld()
	v.placePromised()
	v.balance()
	v.budget()
	v.placeStandbys()
	return v.render()
}

func noMoves(v *view, reason string) Plan {
	v.settleClaims()
	v.returnReleases()
	if !v.hidden {
		v.placeHeld()
		v.placeAll()
	}
	v.keepStandbys()
	p := v.render()
	p.Degraded = reason
	return p
}
