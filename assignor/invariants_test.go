package assignor

import (
	"fmt"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// violation says which of the invariants I1 to I8 a plan breaks, if any. It reads nothing but what members said and what they are told, and
// looks everything up the slow way.
func violation(s State, p Plan) error {
	for _, id := range tasksIn(s, p) {
		if err := taskViolation(s, p, id); err != nil {
			return fmt.Errorf("%w\nstate %+v\nplan %+v", err, s, p)
		}
	}
	return budgetViolation(s, p)
}

func tasksIn(s State, p Plan) []task.ID {
	set := map[task.ID]bool{}
	for _, sub := range s.Subtopologies {
		for n := range sub.Partitions {
			set[task.ID{Subtopology: sub.ID, Partition: n}] = true
		}
	}
	for _, m := range s.Members {
		for _, id := range slices.Concat(m.Claims, m.Released) {
			set[id] = true
		}
	}
	for _, m := range p.Members {
		for _, id := range m.Active {
			set[id] = true
		}
		for _, c := range m.Standbys {
			set[c.Task] = true
		}
		for _, in := range m.Learners {
			set[in.Task] = true
		}
	}
	return sorted(set)
}

func taskViolation(s State, p Plan, id task.ID) error {
	var active, learners, instants, standbys, marks []string
	for _, m := range p.Members {
		if slices.Contains(m.Active, id) {
			active = append(active, m.ID)
		}
		for _, in := range m.Learners {
			if in.Task == id && in.Instant {
				instants = append(instants, m.ID)
			} else if in.Task == id {
				learners = append(learners, m.ID)
			}
			if in.Task == id && !slices.Contains(p.Member(in.Owner).Active, id) {
				return fmt.Errorf("task %s: %s does not own it", id, in.Owner)
			}
		}
		for _, c := range m.Standbys {
			if c.Task == id {
				standbys = append(standbys, m.ID)
			}
		}
		for _, k := range m.Marks {
			if k.Task == id {
				marks = append(marks, m.ID+">"+k.Receiver)
			}
		}
	}
	claimers := claimersOf(s, id)
	frozen := slices.Contains(p.Frozen, id)
	switch {
	case frozen != (len(claimers) > 1):
		return fmt.Errorf("I1: task %s has claimers %v and is frozen: %v", id, claimers, frozen)
	case frozen && len(active) > 0 || !frozen && len(active) != 1 && !slices.Contains(p.Unassigned, id):
		return fmt.Errorf("I1: task %s is active at %v", id, active)
	case len(claimers) == 1 && active[0] != claimers[0]:
		return fmt.Errorf("I2, I3: task %s is claimed by %v and active at %v", id, claimers, active)
	}
	if len(claimers) == 0 && len(active) == 1 {
		if err := unclaimedViolation(s, id, active[0]); err != nil {
			return err
		}
	}
	receivers := slices.Concat(learners, instants)
	switch {
	case len(receivers) > 1:
		return fmt.Errorf("I5: task %s is learned by %v", id, receivers)
	case len(receivers) == 1 && (len(marks) != 1 || marks[0] != active[0]+">"+receivers[0]) || len(receivers) == 0 && len(marks) > 0:
		return fmt.Errorf("I6: task %s has marks %v and receivers %v", id, marks, receivers)
	case !statefulIn(s, id) && len(learners)+len(standbys) > 0:
		return fmt.Errorf("I7: task %s has no state and learners %v, standbys %v", id, learners, standbys)
	case len(standbys) > s.Policy.Standbys:
		return fmt.Errorf("task %s has standbys %v", id, standbys)
	}
	if statefulIn(s, id) {
		seen := map[string]bool{}
		for _, m := range slices.Concat(active, receivers, standbys) {
			if seen[processIn(s, m)] {
				return fmt.Errorf("I5: task %s is twice in a process: active %v, receivers %v, standbys %v", id, active, receivers, standbys)
			}
			seen[processIn(s, m)] = true
		}
	}
	for _, m := range slices.Concat(receivers, standbys) {
		if in := memberIn(s, m); in.Opaque || in.Draining && !allDrain(s) || slices.Contains(in.Unfit, id) {
			return fmt.Errorf("task %s must not be given to %s", id, m)
		}
	}
	return nil
}

// unclaimedViolation: a released task goes back or to a planned learner that is ready (I4), any other to the copy with the least lag.
func unclaimedViolation(s State, id task.ID, got string) error {
	released, back := false, false
	for _, m := range s.Members {
		if slices.Contains(m.Released, id) && !slices.Contains(m.Unfit, id) {
			released, back = true, back || m.ID == got
		}
	}
	if released {
		if !back && !readyIn(s, id, got) {
			return fmt.Errorf("I4: released task %s goes to %s", id, got)
		}
		return nil
	}
	if !statefulIn(s, id) {
		return nil
	}
	least, at := Lag(-1), Lag(-1)
	for _, m := range s.Members {
		if m.Opaque || m.Draining && !allDrain(s) || slices.Contains(m.Unfit, id) {
			continue
		}
		for _, r := range m.Replicas {
			if r.Task != id || r.Kind == Promised || r.Lag < 0 {
				continue
			}
			if least < 0 || r.Lag < least {
				least = r.Lag
			}
			if m.ID == got && (at < 0 || r.Lag < at) {
				at = r.Lag
			}
		}
	}
	if least >= 0 && at != least {
		return fmt.Errorf("task %s goes to %s with lag %d, and there is one with %d", id, got, at, least)
	}
	return nil
}

func readyIn(s State, id task.ID, member string) bool {
	planned, caught := false, !statefulIn(s, id)
	for _, r := range memberIn(s, member).Replicas {
		if r.Task == id {
			planned = planned || r.Kind == Promised || r.Kind == Learner
			caught = caught || r.Kind == Learner && r.Ready || r.Kind != Promised && r.Lag >= 0 && r.Lag <= 2*acceptable(s)
		}
	}
	return planned && caught
}

func acceptable(s State) Lag {
	if s.Policy.AcceptableLag == 0 {
		return 10_000
	}
	return Lag(s.Policy.AcceptableLag)
}

// claimersOf are those with the best right: the highest generation.
func claimersOf(s State, id task.ID) (out []string) {
	highest := int32(-2)
	for _, m := range s.Members {
		if slices.Contains(m.Claims, id) {
			highest = max(highest, m.Generation)
		}
	}
	for _, m := range s.Members {
		if slices.Contains(m.Claims, id) && m.Generation == highest {
			out = append(out, m.ID)
		}
	}
	return out
}

func memberIn(s State, id string) Member {
	return s.Members[slices.IndexFunc(s.Members, func(m Member) bool { return m.ID == id })]
}

func processIn(s State, id string) string {
	m := memberIn(s, id)
	if m.Process == [16]byte{} {
		return "member " + id
	}
	return string(m.Process[:])
}

func statefulIn(s State, id task.ID) bool {
	return slices.ContainsFunc(s.Subtopologies, func(sub Subtopology) bool { return sub.ID == id.Subtopology && sub.Stateful })
}

// allDrain: nobody is left who could take anything, but for members that are not understood.
func allDrain(s State) bool {
	return !slices.ContainsFunc(s.Members, func(m Member) bool { return !m.Draining && !m.Opaque })
}

func budgetViolation(s State, p Plan) error {
	per, most, all := s.Policy.LearnersPerMember, s.Policy.Learners, 0
	if per == 0 {
		per = 4
	}
	if most == 0 {
		most = 4 * len(s.Members)
	}
	for _, m := range p.Members {
		n := 0
		for _, in := range m.Learners {
			if !in.Instant {
				n++
			}
		}
		if all += n; n > per || all > most {
			return fmt.Errorf("I8: %s learns %d tasks, all %d", m.ID, n, all)
		}
	}
	return nil
}
