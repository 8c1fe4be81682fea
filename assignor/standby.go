package assignor

import (
	"cmp"
	"slices"
)

// standbys deals the copies that are kept for the case of a failure. Those that are there stay; what is missing goes where it is spread best
// over racks and tags, then to members that have the state anyway, then to those with least to hold. Last, single copies are moved as long as
// that spreads them better, or evens the load out and spreads them no worse. So a plan that was carried out is planned again as it is.
type standbys struct {
	*view
	// load is how many states each member holds in the end.
	load []int
	// kept are the tasks of which each member keeps a copy.
	kept [][]*taskView
	// pairs counts, by two members, the tasks of the one of which the other keeps a copy: who dies should leave something to everybody.
	pairs []int
	// changes counts, by member, what happened to the copies of the tasks that it keeps; fruitless is that count, by the member and another
	// one, when nothing was found that could be moved between them.
	changes   []int
	fruitless []int
}

func (v *view) placeStandbys() {
	s := v.keepStandbys()
	for _, t := range v.tasks {
		if t.sub.Stateful && t.owner != nobody {
			s.fill(t)
		}
	}
	if len(v.frozen) > 0 { // shares are not known before the tasks have an owner
		return
	}
	for s.spread() || s.even() {
	}
}

// keepStandbys leaves all copies where they are that may be there.
func (v *view) keepStandbys() *standbys {
	n := len(v.members)
	s := &standbys{view: v, load: make([]int, n), kept: make([][]*taskView, n)}
	s.changes, s.fruitless, s.pairs = make([]int, n), make([]int, n*n), make([]int, n*n)
	copy(s.load, v.shares)
	for _, t := range v.tasks {
		if t.sub.Stateful {
			s.keep(t)
		}
	}
	return s
}

// keep leaves the copies where they are, those closest to the end first if there are too many.
func (s *standbys) keep(t *taskView) {
	for _, h := range t.copies {
		if h.standby && len(t.standbys) < s.policy.Standbys && s.canHost(t, h.member, nobody) {
			s.add(t, h.member)
		}
	}
}

// fill adds what is missing. A member that shall own the task holds a copy already.
func (s *standbys) fill(t *taskView) {
	missing := s.policy.Standbys - len(t.standbys)
	if t.home != t.owner {
		missing--
	}
	for ; missing > 0; missing-- {
		m := s.best(t, nobody)
		if m == nobody {
			return
		}
		s.add(t, m)
	}
}

func (s *standbys) add(t *taskView, m int) {
	t.standbys = append(t.standbys, m)
	s.kept[m] = append(s.kept[m], t)
	s.load[m]++
	s.pair(t, m, 1)
	for _, holder := range t.standbys {
		s.changes[holder]++
	}
}

func (s *standbys) shift(t *taskView, from, to int) {
	t.standbys = slices.DeleteFunc(t.standbys, func(m int) bool { return m == from })
	s.kept[from] = slices.DeleteFunc(s.kept[from], func(x *taskView) bool { return x == t })
	s.load[from]--
	s.pair(t, from, -1)
	s.changes[from]++
	s.add(t, to)
}

func (s *standbys) pair(t *taskView, m, n int) {
	if t.home != nobody {
		s.pairs[t.home*len(s.members)+m] += n
	}
}

// shared is how many tasks of the task's home have a copy at the member.
func (s *standbys) shared(t *taskView, m int) int { return s.pairs[t.home*len(s.members)+m] }

// canHost says whether the member may keep a copy, the one at another member aside: never where the task or another copy of it is, nor in the
// same process, which is lost as a whole.
func (s *standbys) canHost(t *taskView, m, aside int) bool {
	if !s.canTake(t, m) || s.members[m].Draining {
		return false
	}
	process := s.members[m].process
	if t.owner != nobody && (s.members[t.owner].process == process || s.members[t.home].process == process) {
		return false
	}
	for _, other := range t.standbys {
		if other != aside && s.members[other].process == process {
			return false
		}
	}
	return true
}

// crowd says how close the member is to the others that hold the task, the one aside; 0 where it shares no place with them.
func (s *standbys) crowd(t *taskView, m, aside int) (n int) {
	if len(s.members[m].places) == 0 {
		return 0
	}
	if t.home != nobody {
		n = s.together(m, t.home)
	}
	for _, other := range t.standbys {
		if other != aside {
			n += s.together(m, other)
		}
	}
	return n
}

// best is the member that should keep a copy in place of the one aside.
func (s *standbys) best(t *taskView, aside int) int {
	best, crowd, effort := nobody, 0, 0
	for m := range s.members {
		if !s.canHost(t, m, aside) || m == aside {
			continue
		}
		c, e := s.crowd(t, m, aside), s.effort(t, m)
		if best == nobody || cmp.Or(cmp.Compare(c, crowd), cmp.Compare(e, effort), s.compareLoad(m, best), cmp.Compare(s.shared(t, m), s.shared(t, best))) < 0 {
			best, crowd, effort = m, c, e
		}
	}
	return best
}

// effort ranks what it takes to make a copy: least at a member that ran the task until now or is caught up, most where there is nothing.
func (s *standbys) effort(t *taskView, m int) int {
	if slices.Contains(t.release, m) {
		return 0
	}
	switch h := t.at(m); {
	case h == nil || !h.copied:
		return 2
	case h.ready:
		return 0
	}
	return 1
}

func (s *standbys) compareLoad(a, b int) int {
	return cmp.Compare(s.load[a]*s.members[b].weight, s.load[b]*s.members[a].weight)
}

// spread moves copies to where they share fewer places.
func (s *standbys) spread() (moved bool) {
	for _, t := range s.tasks {
		for _, m := range slices.Clone(t.standbys) {
			crowd := s.crowd(t, m, m)
			if crowd == 0 {
				continue
			}
			if to := s.best(t, m); to != nobody && s.crowd(t, to, m) < crowd {
				s.shift(t, m, to)
				moved = true
			}
		}
	}
	return moved
}

// even moves copies from members that hold too much to those that hold too little.
func (s *standbys) even() (moved bool) {
	for s.evenOne() {
		moved = true
	}
	return moved
}

func (s *standbys) evenOne() bool {
	order := make([]int, len(s.members))
	for m := range order {
		order[m] = m
	}
	slices.SortStableFunc(order, s.compareLoad)
	for i := len(order) - 1; i > 0; i-- {
		from := order[i]
		for _, to := range order[:i] {
			if !s.evens(from, to) {
				break
			}
			if t := s.movable(from, to); t != nil {
				s.shift(t, from, to)
				return true
			}
		}
	}
	return false
}

// evens says whether the sum of squared loads for the capacity falls when one copy moves.
func (s *standbys) evens(from, to int) bool {
	return (2*s.load[to]+1)*s.members[from].weight < (2*s.load[from]-1)*s.members[to].weight
}

// movable is the copy that is moved at the least effort: one that was not begun yet, then one that the other member has too.
func (s *standbys) movable(from, to int) *taskView {
	fruitless := &s.fruitless[from*len(s.members)+to]
	if *fruitless == s.changes[from] {
		return nil
	}
	var best *taskView
	least := 0
	for _, t := range s.kept[from] {
		if !s.canHost(t, to, from) || s.crowd(t, to, from) > s.crowd(t, from, from) {
			continue
		}
		effort := s.effort(t, to) - 3*s.effort(t, from)
		if best == nil || cmp.Or(cmp.Compare(effort, least), t.id.Compare(best.id)) < 0 {
			best, least = t, effort
		}
	}
	if best == nil {
		*fruitless = s.changes[from]
	}
	return best
}
