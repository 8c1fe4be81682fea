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
	policy  Policy
	// shares are how many stateful tasks each member shall run in the end.
	shares []int
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
	slow    bool  // learned in vain
	again   bool  // asks for the next round, to repair a double claim
	load    int   // tasks that have their home here
	process int   // the same number for members of one process
	places  []int // where it runs, by the rack and each tag over which copies are spread; 0 is not known
}

type subtopology struct {
	Subtopology
	// known: it is in the leader's topology. What others claim beyond that stays where it is.
	known bool
	// form is how each member stands to it.
	form []form
	// leaving: all who can run it are on their way out.
	leaving bool
	tasks   []*taskView
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
	copies  []held // what others hold of it, best first
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
	// shunned is a member that has tried to learn the task in vain, nobody if there is none.
	shunned  int
	standbys []int // members
}

func newView(s State) *view {
	v := &view{byID: map[task.ID]*taskView{}, policy: s.Policy.withDefaults(len(s.Members))}
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
	v.settlePlaces()
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
	t := &taskView{id: id, sub: sub, owner: nobody, home: nobody, shunned: nobody}
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

// canTake says whether the task may be given to the member.
func (v *view) canTake(t *taskView, m int) bool {
	return t.sub.form[m] == takes && (len(v.members[m].unfit) == 0 || !v.members[m].unfit[t.id])
}

// canLearn says whether the task may move to the member while its owner runs it. The members of one process share a state directory, and from
// one member that leaves to another there is nothing to gain.
func (v *view) canLearn(t *taskView, m int) bool {
	return m != t.owner && !t.sub.leaving && v.canTake(t, m) && (!t.sub.Stateful || v.members[m].process != v.members[t.owner].process)
}

func (v *view) name(m int) string { return v.members[m].ID }
