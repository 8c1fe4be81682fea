package group

import (
	"hash/fnv"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// numbers translates between the numbers that a member has for its subtopologies and those of the leader. They are the same but for rolling
// upgrades: a version of the program that has one more subtopology, or has them in another order, may number them otherwise. What tells
// subtopologies is their first source topic, as a topic belongs to one of them only. A nil numbers changes nothing.
type numbers struct{ in, out renumbering }

// renumbering leaves alone what is not in it.
type renumbering map[int32]int32

// foreignNumber marks subtopologies that the leader does not have. Their tasks stay where they are.
const foreignNumber = 1 << 30

// identity tells a subtopology across versions of the program.
func (s *Subtopology) identity() uint64 {
	h := fnv.New64a()
	first := s.Source
	for _, t := range s.Topics {
		if first == "" || s.Source == "" && t < first {
			first = t
		}
	}
	h.Write([]byte(first))
	return h.Sum64()
}

func (x index) inputs() (out []assignor.Hash) {
	for _, s := range x.Subtopologies {
		if s.Others {
			continue
		}
		out = append(out, assignor.Hash{Subtopology: s.ID, Sum: s.identity()})
	}
	return out
}

// numbersOf are those of a member that says these first inputs.
func (x index) numbersOf(inputs []assignor.Hash) *numbers {
	n := &numbers{in: renumbering{}, out: renumbering{}}
	same := true
	for _, h := range inputs {
		to, has := x.byInput[h.Sum]
		if !has {
			to = foreignNumber | int32(h.Sum&(foreignNumber-1))
		}
		same = same && to == h.Subtopology
		n.in[h.Subtopology], n.out[to] = to, h.Subtopology
	}
	if same {
		return nil
	}
	return n
}

// read translates what a member says into the leader's numbers.
func (n *numbers) read(d *assignor.MemberData) {
	if n == nil {
		return
	}
	d.Claims, d.Released, d.Learned, d.Unfit = n.in.tasks(d.Claims), n.in.tasks(d.Released), n.in.tasks(d.Learned), n.in.tasks(d.Unfit)
	for i := range d.Replicas {
		d.Replicas[i].Task = n.in.task(d.Replicas[i].Task)
	}
	for i := range d.Hashes {
		d.Hashes[i].Subtopology = n.in.task(task.ID{Subtopology: d.Hashes[i].Subtopology}).Subtopology
	}
}

// write translates what a member is told into its own numbers. What it does not have is left out.
func (n *numbers) write(p assignor.PlanData) assignor.PlanData {
	if n == nil {
		return p
	}
	p.Active = n.out.tasks(p.Active)
	p.Marks = translated(p.Marks, func(k *assignor.Mark) { k.Task = n.out.task(k.Task) })
	p.Learners = translated(p.Learners, func(in *assignor.Incoming) { in.Task = n.out.task(in.Task) })
	p.Standbys = translated(p.Standbys, func(c *assignor.Copy) { c.Task = n.out.task(c.Task) })
	p.Moves = translated(p.Moves, func(v *assignor.Move) { v.Task = n.out.task(v.Task) })
	var counts []Count
	for _, c := range p.Counts {
		if to, has := n.out[c.Subtopology]; has {
			counts = append(counts, Count{Subtopology: to, Partitions: c.Partitions})
		}
	}
	var forms []assignor.Hash
	for _, h := range p.Hashes {
		if to, has := n.out[h.Subtopology]; has {
			forms = append(forms, assignor.Hash{Subtopology: to, Sum: h.Sum})
		}
	}
	p.Counts, p.Hashes = counts, forms
	return p
}

func (r renumbering) tasks(ids []task.ID) []task.ID {
	return translated(ids, func(id *task.ID) { *id = r.task(*id) })
}

func (r renumbering) task(id task.ID) task.ID {
	if other, has := r[id.Subtopology]; has {
		id.Subtopology = other
	}
	return id
}

// translated leaves the list that it is given as it is: it may be part of a plan.
func translated[T any](in []T, f func(*T)) []T {
	if in == nil {
		return nil
	}
	out := append(make([]T, 0, len(in)), in...)
	for i := range out {
		f(&out[i])
	}
	return out
}
