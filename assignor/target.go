package assignor

import (
	"cmp"
	"fmt"
	"slices"
)

// balance finds where every task shall run in the end, with the fewest moves, and places the tasks that nobody runs there at once.
func (v *view) balance() {
	d := demand{tasks: make([]int, len(v.subs)), stateful: make([]bool, len(v.subs)), have: make([][]int, len(v.subs)), fresh: make([][]int, len(v.subs)), form: make([][]form, len(v.subs))}
	for _, m := range v.members {
		d.weights = append(d.weights, m.weight)
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
	want := share(d).want
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

// roomiest is the member that lacks most tasks, of those that can take this one.
func (d *deal) roomiest(t *taskView) int {
	best := nobody
	for m, r := range d.room {
		if r <= 0 || !d.canTake(t, m) {
			continue
		}
		if best == nobody || r > d.room[best] || r == d.room[best] && d.lighter(m, best) {
			best = m
		}
	}
	return best
}

// move takes tasks from those who have too many, in this order: moves that were begun and no longer help, tasks of which a member that lacks
// one has a copy, any others; of equal ones a task that changed its owner just now comes last, then the lowest number decides.
func (d *deal) move() {
	movable := slices.Clone(d.sub.tasks)
	movable = slices.DeleteFunc(movable, func(t *taskView) bool { return t.home == nobody || t.pinned || d.room[t.home] >= 0 })
	slices.SortStableFunc(movable, func(a, b *taskView) int {
		return cmp.Or(cmp.Compare(order(a), order(b)), a.id.Compare(b.id))
	})
	for _, t := range movable {
		if t.home != t.owner {
			d.take(t, d.back(t))
		}
	}
	for _, t := range movable {
		d.take(t, d.copyHolder(t))
	}
	for _, t := range movable {
		d.take(t, d.roomiest(t))
	}
}

func order(t *taskView) int {
	if t.fresh {
		return 1
	}
	return 0
}

// back is where a task goes whose move has lost its purpose: it stays with its owner if that has room.
func (d *deal) back(t *taskView) int {
	if d.room[t.owner] > 0 {
		return t.owner
	}
	return d.roomiest(t)
}

// copyHolder is the member that lacks a task and has the best copy of this one.
func (d *deal) copyHolder(t *taskView) int {
	for _, h := range t.copies {
		if h.Kind != Promised && d.room[h.member] > 0 && d.canTake(t, h.member) {
			return h.member
		}
	}
	return nobody
}

// take moves a task to a member, if there is one and the task's home still has too many.
func (d *deal) take(t *taskView, to int) {
	from := t.home
	if to == nobody || d.room[from] >= 0 {
		return
	}
	t.reason = d.why(t, from, to)
	d.rehome(t, to)
	d.room[from]++
	d.room[to]--
}

// why puts the reason of a move in words. It is asked before the move is noted.
func (d *deal) why(t *taskView, from, to int) string {
	a, b := d.members[from], d.members[to]
	head := fmt.Sprintf("task %s moves to %s: %s ", t.id, b.ID, a.ID)
	if d.sub.form[from] == drains {
		return head + "is draining"
	}
	if a.weight != b.weight {
		return head + fmt.Sprintf("has %d tasks for a capacity of %d, %s has %d for %d", a.load, a.weight, b.ID, b.load, b.weight)
	}
	if more := a.load - b.load; more > 1 {
		return head + fmt.Sprintf("has %d more tasks", more)
	}
	return head + fmt.Sprintf("has %d more tasks of subtopology %d", d.room[to]-d.room[from], d.sub.ID)
}
