package assignor

import (
	"cmp"
	"slices"

	"github.com/understudy-streams/understudy/task"
)

// nobody stands for a member where there is none.
const nobody = -1

// view is a State put in order: everything is sorted and addressed by small numbers, and what the plan decides is noted beside it.
type view struct {
	members []*member
	subs    []*subtopology
	tasks   []*taskView
	byID    map[task.ID]*taskView
	frozen  []task.ID
	moves   []Move
	forms   []Hash
	// hidden: there is a member whose claims are not known.
	hidden bool
}

type member struct {
	Member
	n       int
	weight  int
	learned map[task.ID]bool
	unfit   map[task.ID]bool
	hashes  map[int32]uint64
	code    Code
	again   bool // asks for the next round, to repair a double claim
	load    int  // tasks that have their home here
}

type subtopology struct {
	Subtopology
	// known: it is in the leader's topology. What others claim beyond that stays where it is.
	known bool
	// form is how each member stands to it.
	form  []form
	tasks []*taskView
}

// form is what a member can do with the tasks of a subtopology.
type form uint8

const (
	unable form = iota // gets none, keeps none
	keeps              // keeps what it has, up to its share
	drains             // can run them and shall have none
	takes              // can be given any
)

type taskView struct {
	id      task.ID
	sub     *subtopology
	claims  []int // members, sorted
	release []int
	copies  []held // replicas and promises, best first
	// owner runs the task in this generation, nobody if it has none yet.
	owner int
	// home is where it shall run in the end; a task whose home is not its owner is marked.
	home int
	// claimed: owner runs it already.
	claimed bool
	frozen  bool
	pinned  bool // takes no part in the balance
	fresh   bool // changed its owner in this very plan
	reason  string
}

// held is a copy of a task, or a promise, at a member.
type held struct {
	member int
	Replica
}

func newView(s State) *view {
	v := &view{byID: map[task.ID]*taskView{}}
	v.addMembers(s.Members)
	v.addTopology(s.Subtopologies)
	v.addClaims()
	slices.SortFunc(v.subs, func(a, b *subtopology) int { return cmp.Compare(a.ID, b.ID) })
	v.settleForms()
	for _, sub := range v.subs {
		slices.SortFunc(sub.tasks, func(a, b *taskView) int { return a.id.Compare(b.id) })
		v.tasks = append(v.tasks, sub.tasks...)
	}
	v.addReplicas()
	return v
}

func (v *view) addMembers(in []Member) {
	in = slices.Clone(in)
	slices.SortFunc(in, func(a, b Member) int { return cmp.Compare(a.ID, b.ID) })
	for i, m := range in {
		x := &member{Member: m, n: i, weight: max(1, m.Capacity), learned: setOf(m.Learned), unfit: setOf(m.Unfit), hashes: map[int32]uint64{}}
		for _, h := range m.Hashes {
			x.hashes[h.Subtopology] = h.Sum
		}
		v.hidden = v.hidden || m.Hidden
		v.members = append(v.members, x)
	}
}

func setOf(ids []task.ID) map[task.ID]bool {
	if len(ids) == 0 {
		return nil
	}
	set := make(map[task.ID]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

func (v *view) addTopology(in []Subtopology) {
	for _, s := range in {
		sub := &subtopology{Subtopology: s, known: true}
		v.subs = append(v.subs, sub)
		for p := range s.Partitions {
			v.task(task.ID{Subtopology: s.ID, Partition: p}, sub)
		}
	}
}

// task returns the view of a task, made if need be.
func (v *view) task(id task.ID, sub *subtopology) *taskView {
	if t := v.byID[id]; t != nil {
		return t
	}
	t := &taskView{id: id, sub: sub, owner: nobody, home: nobody}
	v.byID[id] = t
	sub.tasks = append(sub.tasks, t)
	return t
}

// addClaims notes claims and releases. One of a task that the leader's topology does not have is pinned: its owner knows more than the leader.
func (v *view) addClaims() {
	subs := map[int32]*subtopology{}
	for _, s := range v.subs {
		subs[s.ID] = s
	}
	find := func(id task.ID) *taskView {
		if t := v.byID[id]; t != nil {
			return t
		}
		sub := subs[id.Subtopology]
		if sub == nil {
			sub = &subtopology{Subtopology: Subtopology{ID: id.Subtopology}}
			subs[id.Subtopology] = sub
			v.subs = append(v.subs, sub)
		}
		t := v.task(id, sub)
		t.pinned = true
		return t
	}
	for _, m := range v.members {
		for _, id := range m.Claims {
			if t := find(id); !slices.Contains(t.claims, m.n) {
				t.claims = append(t.claims, m.n)
			}
		}
		for _, id := range m.Released {
			if t := find(id); !slices.Contains(t.release, m.n) {
				t.release = append(t.release, m.n)
			}
		}
	}
}

func (v *view) addReplicas() {
	for _, m := range v.members {
		for _, r := range m.Replicas {
			if t := v.byID[r.Task]; t != nil && r.Lag != LagRunning {
				t.copies = append(t.copies, held{m.n, r})
			}
		}
	}
	for _, t := range v.tasks {
		slices.SortStableFunc(t.copies, compareHeld)
	}
}

// compareHeld puts promises first, then ready learners, then the copies that are closest to the end; what is not known comes last.
func compareHeld(a, b held) int {
	if c := cmp.Compare(rank(a), rank(b)); c != 0 {
		return c
	}
	if a.Lag != b.Lag {
		switch {
		case a.Lag < 0:
			return 1
		case b.Lag < 0:
			return -1
		}
		return cmp.Compare(a.Lag, b.Lag)
	}
	return cmp.Compare(a.member, b.member)
}

func rank(h held) int {
	switch {
	case h.Kind == Promised:
		return 0
	case h.Kind == Learner && h.Ready:
		return 1
	}
	return 2
}

// canTake says whether the task may be given to the member.
func (v *view) canTake(t *taskView, m int) bool {
	return t.sub.form[m] == takes && !v.members[m].unfit[t.id]
}

func (v *view) name(m int) string { return v.members[m].ID }
