package assignor

import "fmt"

// why puts the reason of a planned move in words. It is asked before the move is noted.
func (d *deal) why(t *taskView, from, to int) string {
	if to == t.owner {
		return "" // it stays where it is
	}
	return d.head(t, to) + d.excess(from, to)
}

// head says which task goes where, and what the member has to do for it.
func (v *view) head(t *taskView, to int) string {
	switch {
	case !t.sub.Stateful:
		return fmt.Sprintf("task %s moves to %s: ", t.id, v.name(to))
	case t.instant(to):
		return fmt.Sprintf("task %s moves to %s: it is caught up and ", t.id, v.name(to))
	}
	return fmt.Sprintf("task %s moves to %s when it has learned it: ", t.id, v.name(to))
}

// excess says what one member has too much of.
func (d *deal) excess(from, to int) string {
	a, b := d.members[from], d.members[to]
	if d.sub.form[from] == drains {
		return a.ID + " is draining"
	}
	if a.weight != b.weight {
		return fmt.Sprintf("%s has %d tasks for a capacity of %d, %s has %d for %d", a.ID, a.load, a.weight, b.ID, b.load, b.weight)
	}
	if more := a.load - b.load; more > 1 {
		return fmt.Sprintf("%s has %d more tasks", a.ID, more)
	}
	return fmt.Sprintf("%s has %d more tasks of subtopology %d", a.ID, d.room[to]-d.room[from], d.sub.ID)
}

// begunWhy is the reason of a move that an earlier plan began.
func (v *view) begunWhy(t *taskView) string {
	owner, h := v.name(t.owner), t.learner()
	switch {
	case !t.sub.Stateful:
		return fmt.Sprintf("task %s moves to %s: it was promised, and %s still runs it", t.id, v.name(t.home), owner)
	case h.ready:
		return v.head(t, t.home) + owner + " still runs it"
	case h.lag >= 0:
		return v.head(t, t.home) + fmt.Sprintf("its copy is %d records behind", h.lag)
	}
	return v.head(t, t.home) + "it has begun to"
}
