package assignor

import (
	"fmt"
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// names are the members that a plan speaks of, written once: their ids are long, and a list would name some again and again. Number 0 is
// nobody. They are written in order, each as what it has in common with the one before and the rest.
type names struct {
	list   []string
	number map[string]uint64
}

// namesOf collects the names in a plan.
func namesOf(p PlanData) names {
	n := names{number: map[string]uint64{}}
	for _, m := range p.Marks {
		n.number[m.Receiver] = 0
	}
	for _, l := range p.Learners {
		n.number[l.Owner] = 0
	}
	for _, s := range p.Standbys {
		n.number[s.Owner] = 0
	}
	for _, m := range p.Moves {
		n.number[m.From], n.number[m.To] = 0, 0
	}
	delete(n.number, "")
	n.list = slices.Sorted(maps.Keys(n.number))
	for i, name := range n.list {
		n.number[name] = uint64(i + 1)
	}
	return n
}

func (w *writer) names(list []string) {
	last := ""
	for _, name := range list {
		common := 0
		for common < len(name) && common < len(last) && name[common] == last[common] {
			common++
		}
		w.number(uint64(common))
		w.text(name[common:])
		last = name
	}
}

func (r *reader) names() (out []string) {
	last := ""
	for r.err == nil && len(r.buf) > 0 {
		common := r.upTo(uint64(len(last)))
		last = last[:common] + r.text()
		out = append(out, last)
	}
	return out
}

// name reads the number of a name.
func (r *reader) name(list []string, number uint64) string {
	switch {
	case number == 0:
		return ""
	case number > uint64(len(list)):
		r.fail(fmt.Errorf("assignor: name %d of %d", number, len(list)))
		return ""
	}
	return list[number-1]
}

func (w *writer) marks(in []Mark, n names) {
	w.list(tasksOf(in, func(m Mark) task.ID { return m.Task }), func(w *writer, i int) {
		w.number(n.number[in[i].Receiver]<<1 | bit(in[i].Ready))
	})
}

func (r *reader) marks(names []string) (out []Mark) {
	r.list(func(id task.ID) {
		n := r.number()
		out = append(out, Mark{Task: id, Receiver: r.name(names, n>>1), Ready: n&1 != 0})
	})
	return out
}

func (w *writer) incoming(in []Incoming, n names) {
	w.list(tasksOf(in, func(x Incoming) task.ID { return x.Task }), func(w *writer, i int) {
		w.number(n.number[in[i].Owner]<<1 | bit(in[i].Instant))
	})
}

func (r *reader) incoming(names []string) (out []Incoming) {
	r.list(func(id task.ID) {
		n := r.number()
		out = append(out, Incoming{Task: id, Owner: r.name(names, n>>1), Instant: n&1 != 0})
	})
	return out
}

func (w *writer) standbys(in []Copy, n names) {
	w.list(tasksOf(in, func(c Copy) task.ID { return c.Task }), func(w *writer, i int) { w.number(n.number[in[i].Owner]) })
}

func (r *reader) standbys(names []string) (out []Copy) {
	r.list(func(id task.ID) { out = append(out, Copy{Task: id, Owner: r.name(names, r.number())}) })
	return out
}

func (w *writer) moves(in []Move, n names) {
	w.list(tasksOf(in, func(m Move) task.ID { return m.Task }), func(w *writer, i int) {
		w.number(uint64(in[i].Kind))
		w.number(n.number[in[i].From])
		w.number(n.number[in[i].To])
		w.text(in[i].Reason)
	})
}

func (r *reader) moves(names []string) (out []Move) {
	r.list(func(id task.ID) {
		m := Move{Task: id, Kind: MoveKind(r.upTo(255))}
		m.From, m.To = r.name(names, r.number()), r.name(names, r.number())
		m.Reason = r.text()
		out = append(out, m)
	})
	return out
}

func tasksOf[T any](in []T, of func(T) task.ID) []task.ID {
	ids := make([]task.ID, len(in))
	for i, x := range in {
		ids[i] = of(x)
	}
	return ids
}

func bit(set bool) uint64 {
	if set {
		return 1
	}
	return 0
}
