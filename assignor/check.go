package assignor

import (
	"fmt"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// check holds a plan against the rules that every plan must keep. It reads the members' words afresh and nothing of how the plan was made.
func check(v *view, p Plan) error {
	c := checker{view: v, plan: p, seats: make(map[task.ID]*seats, len(v.tasks)), frozen: setOf(p.Frozen), unassigned: setOf(p.Unassigned)}
	if err := c.read(); err != nil {
		return err
	}
	for _, t := range v.tasks {
		if err := c.task(t); err != nil {
			return err
		}
		delete(c.seats, t.id)
	}
	for id := range c.seats {
		return fmt.Errorf("the plan has task %s, which does not exist", id)
	}
	return c.budgets()
}

type checker struct {
	*view
	plan       Plan
	seats      map[task.ID]*seats
	frozen     map[task.ID]bool
	unassigned map[task.ID]bool
}

// seats are what a plan gives away of one task, as positions of members.
type seats struct {
	active   int
	mark     *Mark
	learner  int
	incoming *Incoming
	standbys []int
}

func (c *checker) seat(id task.ID) *seats {
	s := c.seats[id]
	if s == nil {
		s = &seats{active: nobody, learner: nobody}
		c.seats[id] = s
	}
	return s
}

// read collects the seats: a task runs once (I1), and one member at most shall own it (I5).
func (c *checker) read() error {
	for n := range c.plan.Members {
		m := &c.plan.Members[n]
		if n >= len(c.members) || m.ID != c.name(n) {
			return fmt.Errorf("the plan has %s for a member, which is none", m.ID)
		}
		for _, id := range m.Active {
			s := c.seat(id)
			if s.active != nobody {
				return fmt.Errorf("task %s was given to %s and %s", id, c.name(s.active), m.ID)
			}
			s.active = n
		}
		for i, in := range m.Learners {
			s := c.seat(in.Task)
			if s.learner != nobody {
				return fmt.Errorf("task %s was promised to %s and %s", in.Task, c.name(s.learner), m.ID)
			}
			s.learner, s.incoming = n, &m.Learners[i]
		}
		for _, cp := range m.Standbys {
			s := c.seat(cp.Task)
			s.standbys = append(s.standbys, n)
		}
	}
	return c.readMarks()
}

func (c *checker) readMarks() error {
	for n := range c.plan.Members {
		m := &c.plan.Members[n]
		for i, k := range m.Marks {
			s := c.seat(k.Task)
			if s.active != n || s.mark != nil {
				return fmt.Errorf("%s has a mark on task %s, which it does not run, or two", m.ID, k.Task)
			}
			s.mark = &m.Marks[i]
		}
	}
	return nil
}

func (c *checker) task(t *taskView) error {
	s := c.seat(t.id)
	if err := c.owner(t, s); err != nil {
		return err
	}
	if err := c.move(t, s); err != nil {
		return err
	}
	return c.copies(t, s)
}

func (c *checker) owner(t *taskView, s *seats) error {
	holders := rightful(c.view, t)
	runs := s.active != nobody
	switch {
	case len(holders) > 1: // both drop it
		if runs || !c.frozen[t.id] {
			return fmt.Errorf("task %s is claimed twice and not frozen", t.id)
		}
	case len(holders) == 1: // I2, I3
		if s.active != holders[0] {
			return fmt.Errorf("task %s is claimed by %s and was not given to it", t.id, c.name(holders[0]))
		}
	case len(t.release) > 0: // I4
		if runs && !c.mayGetReleased(t, s.active) {
			return fmt.Errorf("released task %s was given to %s, which neither released it nor is ready for it", t.id, c.name(s.active))
		}
	case !runs && !c.unassigned[t.id]: // I1
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

func (c *checker) mayGetReleased(t *taskView, got int) bool {
	all := true // whoever released it must not have it back: then it is an orphan
	for _, m := range t.release {
		if m == got {
			return true
		}
		all = all && c.members[m].unfit[t.id]
	}
	h := t.at(got)
	return all || h != nil && h.planned() && h.ready
}

// move: a mark has exactly one receiver, which can run the task, in another process if there is state, and the other way round (I5, I6).
func (c *checker) move(t *taskView, s *seats) error {
	if s.mark == nil && s.learner == nobody {
		return nil
	}
	if s.mark == nil || s.learner == nobody || s.mark.Receiver != c.name(s.learner) || s.mark.Ready != s.incoming.Instant || s.incoming.Owner != c.name(s.active) {
		return fmt.Errorf("the mark of task %s does not fit its receiver", t.id)
	}
	if t.sub.form[s.learner] != takes || c.members[s.learner].unfit[t.id] {
		return fmt.Errorf("task %s was promised to %s, which cannot run it", t.id, s.mark.Receiver)
	}
	if s.learner == s.active || t.sub.Stateful && c.sameProcess(s.learner, s.active) {
		return fmt.Errorf("task %s was promised to %s, in whose process it runs", t.id, s.mark.Receiver)
	}
	if !t.sub.Stateful && !s.incoming.Instant { // I7
		return fmt.Errorf("task %s has no state for %s to learn", t.id, s.mark.Receiver)
	}
	return nil
}

// copies: standbys are of stateful tasks (I7), no more than asked for, in processes that neither run nor learn the task (I5).
func (c *checker) copies(t *taskView, s *seats) error {
	if len(s.standbys) > 0 && !t.sub.Stateful || len(s.standbys) > c.policy.Standbys {
		return fmt.Errorf("task %s has %d standbys", t.id, len(s.standbys))
	}
	for i, m := range s.standbys {
		near := func(other int) bool { return other != nobody && c.sameProcess(m, other) }
		if near(s.active) || near(s.learner) || slices.ContainsFunc(s.standbys[:i], near) {
			return fmt.Errorf("the standby of task %s at %s is in a process that has the task already", t.id, c.name(m))
		}
		if c.members[m].Opaque {
			return fmt.Errorf("task %s has a standby at %s, which cannot be read", t.id, c.name(m))
		}
	}
	return nil
}

func (c *checker) sameProcess(a, b int) bool { return c.members[a].process == c.members[b].process }

// budgets: no more is learned at a time than the policy says (I8).
func (c *checker) budgets() error {
	all := 0
	for _, m := range c.plan.Members {
		n := 0
		for _, in := range m.Learners {
			if !in.Instant {
				n++
			}
		}
		if all += n; n > c.policy.LearnersPerMember {
			return fmt.Errorf("%s has %d tasks to learn, and %d are allowed", m.ID, n, c.policy.LearnersPerMember)
		}
	}
	if all > c.policy.Learners {
		return fmt.Errorf("%d tasks to learn, and %d are allowed", all, c.policy.Learners)
	}
	return nil
}
