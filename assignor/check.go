package assignor

import (
	"fmt"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// check holds a plan against the rules that every plan must keep. It reads the members' words afresh and nothing of how the plan was made.
func check(v *view, p Plan) error {
	active, err := actives(p)
	if err != nil {
		return err
	}
	for _, t := range v.tasks {
		got, runs := active[t.id]
		if err := checkTask(v, t, got, runs, p); err != nil {
			return err
		}
		delete(active, t.id)
	}
	for id, m := range active {
		return fmt.Errorf("%s was given task %s, which does not exist", m, id)
	}
	return checkMarks(v, p)
}

// actives: a task runs once (I1).
func actives(p Plan) (map[task.ID]string, error) {
	active := map[task.ID]string{}
	for _, m := range p.Members {
		for _, id := range m.Active {
			if other, twice := active[id]; twice {
				return nil, fmt.Errorf("task %s was given to %s and %s", id, other, m.ID)
			}
			active[id] = m.ID
		}
	}
	return active, nil
}

func checkTask(v *view, t *taskView, got string, runs bool, p Plan) error {
	holders := rightful(v, t)
	switch {
	case len(holders) > 1: // both drop it
		if runs || !slices.Contains(p.Frozen, t.id) {
			return fmt.Errorf("task %s is claimed twice and not frozen", t.id)
		}
	case len(holders) == 1: // I2, I3
		if got != v.name(holders[0]) {
			return fmt.Errorf("task %s is claimed by %s and was given to %q", t.id, v.name(holders[0]), got)
		}
	case len(t.release) > 0: // I4
		if runs && !mayGetReleased(v, t, got) {
			return fmt.Errorf("released task %s was given to %s, which neither released it nor was promised it", t.id, got)
		}
	case !runs && !slices.Contains(p.Unassigned, t.id): // I1
		return fmt.Errorf("task %s has no owner", t.id)
	}
	return nil
}

// rightful are the claimers with the highest generation.
func rightful(v *view, t *taskView) []int {
	var out []int
	for _, m := range t.claims {
		switch {
		case len(out) == 0 || v.members[m].Generation == v.members[out[0]].Generation:
			out = append(out, m)
		case v.members[m].Generation > v.members[out[0]].Generation:
			out = []int{m}
		}
	}
	return out
}

func mayGetReleased(v *view, t *taskView, got string) bool {
	all := true // whoever released it must not have it back: then it is an orphan
	for _, m := range t.release {
		if v.name(m) == got {
			return true
		}
		all = all && v.members[m].unfit[t.id]
	}
	return all || slices.ContainsFunc(t.copies, func(h held) bool { return rank(h) < 2 && v.name(h.member) == got })
}

// checkMarks: a mark has exactly one receiver, which does not run the task, and the other way round (I5, I6).
func checkMarks(v *view, p Plan) error {
	receivers := map[task.ID]string{}
	for _, m := range p.Members {
		for _, in := range m.Learners {
			if other, twice := receivers[in.Task]; twice {
				return fmt.Errorf("task %s was promised to %s and %s", in.Task, other, m.ID)
			}
			receivers[in.Task] = m.ID
		}
	}
	marks := 0
	for _, m := range p.Members {
		for _, k := range m.Marks {
			marks++
			if receivers[k.Task] != k.Receiver || k.Receiver == m.ID || !slices.Contains(m.Active, k.Task) {
				return fmt.Errorf("the mark of task %s at %s for %s does not fit the plan", k.Task, m.ID, k.Receiver)
			}
			if t := v.byID[k.Task]; t == nil || t.sub.form[position(p, k.Receiver)] != takes {
				return fmt.Errorf("task %s was promised to %s, which cannot run it", k.Task, k.Receiver)
			}
		}
	}
	if marks != len(receivers) {
		return fmt.Errorf("%d marks and %d promises", marks, len(receivers))
	}
	return nil
}

func position(p Plan, id string) int {
	return slices.IndexFunc(p.Members, func(m MemberPlan) bool { return m.ID == id })
}
