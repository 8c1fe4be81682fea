package assignor

// settleForms settles what every member can do with the tasks of every subtopology. A member whose topology is at odds with the others'
// under the same version is told so, will stop, and is given nothing.
func (v *view) settleForms() {
	want := make([]*member, len(v.subs))
	for i, sub := range v.subs {
		want[i] = v.model(sub)
		for _, m := range v.members {
			if sum, has := m.hashes[sub.ID]; has && !m.Opaque && m.TopologyVersion == want[i].TopologyVersion && sum != want[i].hashes[sub.ID] {
				m.code = TopologyConflict
			}
		}
	}
	for i, sub := range v.subs {
		v.formsOf(sub, want[i])
		if want[i] != nil && sub.known {
			v.forms = append(v.forms, Hash{Subtopology: sub.ID, Sum: want[i].hashes[sub.ID]})
		}
	}
}

func (v *view) formsOf(sub *subtopology, want *member) {
	sub.form = make([]form, len(v.members))
	able := false
	for i, m := range v.members {
		sum, has := m.hashes[sub.ID]
		switch {
		case m.Opaque || m.Hidden || !sub.known:
			sub.form[i] = unable
		case want == nil || !has || sum != want.hashes[sub.ID] || m.code != OK:
			sub.form[i] = keeps
		case m.Draining:
			sub.form[i] = drains
		default:
			sub.form[i] = takes
			able = true
		}
	}
	if able {
		for i, m := range v.members {
			if sub.form[i] == keeps && m.Draining { // what it has can go to another form, if that is the newer one
				sub.form[i] = drains
			}
		}
		return
	}
	sub.leaving = true
	for i := range sub.form { // better they than nobody
		if sub.form[i] == drains {
			sub.form[i] = takes
		}
	}
}

// model is a member that has the subtopology in the form in which it shall run: that of the highest topology version, and under equal
// versions that of the members who were here before. It is nil where nobody can run it.
func (v *view) model(sub *subtopology) *member {
	var best *member
	for _, m := range v.members {
		if _, has := m.hashes[sub.ID]; has && !m.Opaque && (best == nil || senior(m, best)) {
			best = m
		}
	}
	return best
}

func senior(a, b *member) bool {
	if a.TopologyVersion != b.TopologyVersion {
		return a.TopologyVersion > b.TopologyVersion
	}
	if x, y := a.Generation >= 0, b.Generation >= 0; x != y {
		return x
	}
	if x, y := len(a.Claims) > 0, len(b.Claims) > 0; x != y {
		return x
	}
	return a.ID < b.ID
}
