package assignor

import (
	"cmp"
	"slices"
)

// balance finds where every task shall run in the end, with the fewest moves, and places the tasks that nobody runs there at once.
func (v *view) balance() {
	d := demand{tasks: make([]int, len(v.subs)), stateful: make([]bool, len(v.subs)), have: make([][]int, len(v.subs)), fresh: make([][]int, len(v.subs)), form: make([][]form, len(v.subs))}
	for _, m := range v.members {
		d.weights, d.slow = append(d.weights, m.weight), append(d.slow, m.slow)
	}
	orphans := make([][]*taskView, len(v.subs))
	for s, sub := range v.subs {
		d.have[s], d.fresh[s] = make([]int, len(v.members)), make([]int, len(v.members))
		d.form[s], d.stateful[s] = sub.form, sub.Stateful
		for _, t := range sub.tasks {
			switch {
			case t.frozen || t.pinned:
			case t.home != nobody:
				d.have[s][t.home]++
				d.fresh[s][t.home] += order(t)
				d.tasks[s]++
			case v.anyCanTake(t):
				orphans[s] = append(orphans[s], t)
				d.tasks[s]++
			}
		}
	}
	d.caughtUp = v.holders
	want := share(d).want
	v.noteShares(want)
	for s, sub := range v.subs {
		room := make([]int, len(v.members))
		for m := range room {
			room[m] = want[s][m] - d.have[s][m]
		}
		dl := &deal{view: v, sub: sub, room: room}
		dl.place(orphans[s])
		dl.move()
	}
}

// holders are the members that could take over a task of those who have too many in the next round.
func (v *view) holders(s int, over []bool) []bool {
	out := make([]bool, len(v.members))
	if !v.subs[s].Stateful {
		return out
	}
	for _, t := range v.subs[s].tasks {
		if t.home == nobody || t.pinned || t.home != t.owner || !over[t.home] {
			continue
		}
		for _, h := range t.copies {
			if h.ready && v.canLearn(t, h.member) {
				out[h.member] = true
			}
		}
	}
	return out
}

// noteShares keeps how many states each member shall hold in the end for the tasks it runs: standbys are dealt with a view to that.
func (v *view) noteShares(want [][]int) {
	v.shares = make([]int, len(v.members))
	for s, sub := range v.subs {
		for m, n := range want[s] {
			if sub.Stateful {
				v.shares[m] += n
			}
		}
		for _, t := range sub.tasks {
			if sub.Stateful && t.pinned && t.home != nobody {
				v.shares[t.home]++
			}
		}
	}
}

func (v *view) anyCanTake(t *taskView) bool {
	for m := range v.members {
		if v.canTake(t, m) {
			return true
		}
	}
	return false
}

// deal evens one subtopology out: members whose room is negative have too many tasks, those whose room is positive too few.
type deal struct {
	*view
	sub  *subtopology
	room []int
}

func (d *deal) place(orphans []*taskView) {
	for _, t := range orphans {
		to := d.roomiest(t)
		if to == nobody {
			d.placeLightest(t)
			to = t.owner
		} else {
			d.view.place(t, to, d.name(to)+" has room for it")
		}
		d.room[to]--
	}
}

// roomiest is the member that lacks most tasks, of those that can be given this one.
func (d *deal) roomiest(t *taskView) int {
	best := nobody
	for m, r := range d.room {
		if r <= 0 || !d.mayGo(t, m) {
			continue
		}
		if best == nobody || r > d.room[best] || r == d.room[best] && d.lighter(m, best) {
			best = m
		}
	}
	return best
}

func (d *deal) mayGo(t *taskView, m int) bool {
	if t.owner == nobody {
		return d.canTake(t, m)
	}
	return m != t.shunned && d.canLearn(t, m)
}

// move takes tasks from those who have too many, in this order: moves that were begun and no longer help, tasks of which a member that lacks
// one has a copy, caught up or not, any others; of equal ones a task that changed its owner just now comes last, then the lowest number decides.
// Only where nothing else is left does a learner that was given up go on.
//
// Nothing moves while there are frozen tasks: they find an owner in the next round, and only then is it known who has too many.
func (d *deal) move() {
	if len(d.frozen) > 0 {
		return
	}
	movable := slices.Clone(d.sub.tasks)
	movable = slices.DeleteFunc(movable, func(t *taskView) bool { return t.home == nobody || t.pinned || d.room[t.home] >= 0 })
	slices.SortStableFunc(movable, func(a, b *taskView) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), a.id.Compare(b.id))
	})
	d.each(d.begun(movable), d.back)
	d.each(movable, func(t *taskView) int { return d.copyHolder(t, true) })
	d.each(movable, func(t *taskView) int { return d.copyHolder(t, false) })
	d.each(movable, d.roomiest)
	d.each(movable, d.resume)
}

// each moves those tasks whose home still has too many to where the function says.
func (d *deal) each(tasks []*taskView, where func(*taskView) int) {
	for _, t := range tasks {
		if d.room[t.home] < 0 {
			if to := where(t); to != nobody {
				d.take(t, to)
			}
		}
	}
}

// order says which tasks are better left alone: those that changed their owner just now, and those of moves that were begun.
func order(t *taskView) int {
	if t.fresh || t.home != t.owner {
		return 1
	}
	return 0
}

// begun are the moves that an earlier plan began, those that have come least far first.
func (d *deal) begun(movable []*taskView) []*taskView {
	out := slices.DeleteFunc(slices.Clone(movable), func(t *taskView) bool { return t.home == t.owner })
	slices.SortStableFunc(out, func(a, b *taskView) int {
		x, y := a.learner(), b.learner()
		return cmp.Or(yesFirst(y.ready, x.ready), -compareLag(x.lag, y.lag))
	})
	return out
}

// back is where a task goes whose move has lost its purpose: it stays with its owner if that has room.
func (d *deal) back(t *taskView) int {
	if d.room[t.owner] > 0 {
		return t.owner
	}
	return d.roomiest(t)
}

// copyHolder is the member that lacks a task and has the best copy of this one.
func (d *deal) copyHolder(t *taskView, ready bool) int {
	for _, h := range t.copies {
		if h.copied && (h.ready || !ready) && d.room[h.member] > 0 && d.mayGo(t, h.member) {
			return h.member
		}
	}
	return nobody
}

// resume is the member that learned the task in vain, if it still lacks one.
func (d *deal) resume(t *taskView) int {
	if t.shunned != nobody && d.room[t.shunned] > 0 && d.canLearn(t, t.shunned) {
		return t.shunned
	}
	return nobody
}

func (d *deal) take(t *taskView, to int) {
	from := t.home
	t.reason = d.why(t, from, to)
	d.rehome(t, to)
	d.room[from]++
	d.room[to]--
}
