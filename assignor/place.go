package assignor

import "slices"

// settlePlaces numbers processes and places, so that they can be told apart without comparing texts.
func (v *view) settlePlaces() {
	processes := map[[16]byte]int{}
	for _, m := range v.members {
		m.process = -1 - m.n // who names no process is one of its own
		if m.Process != [16]byte{} {
			if _, has := processes[m.Process]; !has {
				processes[m.Process] = m.n
			}
			m.process = processes[m.Process]
		}
	}
	v.number(func(m *member) string { return m.Rack })
	for i, key := range v.policy.SpreadTags {
		if !slices.Contains(v.policy.SpreadTags[:i], key) {
			v.number(func(m *member) string { return m.Tags[key] })
		}
	}
}

// number adds one dimension to the members' places, unless there is one place only.
func (v *view) number(where func(*member) string) {
	names := map[string]int{"": 0}
	for _, m := range v.members {
		name := where(m)
		if _, has := names[name]; !has {
			names[name] = len(names)
		}
	}
	if len(names) <= 2 {
		return
	}
	for _, m := range v.members {
		m.places = append(m.places, names[where(m)])
	}
}

// together says how close two members are. To share the first place weighs more than to share all those that come after it, and so on, also where
// the closeness to all who hold a task is added up: it is a number whose digits are the places.
func (v *view) together(a, b int) (n int) {
	x, y := v.members[a].places, v.members[b].places
	for i := range x {
		n *= min(v.policy.Standbys, len(v.members)) + 2
		if x[i] == y[i] && x[i] != 0 {
			n++
		}
	}
	return n
}
