package sim

import (
	"maps"
	"slices"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// roles is what the oracle knows of the roles of a process.
type roles struct {
	handed       map[int32]assignor.PlanData // by the coordinator, by generation, since the last that was applied
	plan         applied
	assigned     bool                    // in the present step
	paused       map[task.ID]pause       // released, and neither resumed nor ended
	heard        map[int32]bool          // generations whose assignment was applied
	opened       map[task.ID]uint64      // under which key stores are open
	promoting    map[task.ID]uint64      // copies that are being made active: the key that their stores are open under
	was          map[task.ID]engine.Role // followers before the present step
	boardFailed  int                     // requests to the readiness board
	boardWrite   uint64                  // the one on the way that writes to it
	boardDropped uint64                  // the last that was lost on purpose
	told         map[task.ID]bool        // states on disk that the join under way tells of
	lost         bool                    // the membership, in the present step
}

// pause is a task that was released, in a generation, for a member.
type pause struct {
	since      time.Time
	generation int32
	receiver   *process
}

// applied is the assignment that a process has.
type applied struct {
	generation int32
	assignor.PlanData
}

func (r *roles) init() {
	*r = roles{
		handed: map[int32]assignor.PlanData{}, paused: map[task.ID]pause{}, heard: map[int32]bool{}, told: map[task.ID]bool{}, opened: map[task.ID]uint64{}, promoting: map[task.ID]uint64{},
		was: map[task.ID]engine.Role{},
	}
}

// Moves is what became of tasks that moved, and of those that did not, in runs in which nothing but a plan is carried out.
type Moves struct {
	Plans    int
	Rounds   int           // of the plans
	Batches  int           // of learners that were ready, each of which may have a round
	Moved    int           // tasks that were handed over, in all runs
	Needless int           // tasks that were paused and resumed, in all runs
	Idle     int           // rounds that somebody asked for and that changed nothing, in all runs
	Cold     int           // restores of tasks that were to run, in all runs once the group had settled
	Gap      time.Duration // the longest for which a task stood still that was handed over in a plan without deaths
}

// Add adds the figures of another run.
func (m *Moves) Add(o Moves) {
	m.Plans, m.Rounds, m.Batches = m.Plans+o.Plans, m.Rounds+o.Rounds, m.Batches+o.Batches
	m.Moved, m.Needless, m.Idle, m.Cold = m.Moved+o.Moved, m.Needless+o.Needless, m.Idle+o.Idle, m.Cold+o.Cold
	m.Gap = max(m.Gap, o.Gap)
}

// synced notes what the coordinator hands to a member.
func (o *oracle) synced(c *virtual.Call, r modelbroker.SyncGroupResponse) {
	req, ok := c.Req.(modelbroker.SyncGroupRequest)
	if !ok || of(c.Link.Process) == nil {
		return
	}
	plan, ok := virtual.PlanIn(r.Assignment)
	if !ok {
		o.w.violated("%s is handed an assignment that nobody can read", of(c.Link.Process).name)
		return
	}
	of(c.Link.Process).handed[req.Generation] = plan
	if len(req.Plan) > 0 {
		o.rounds.plan()
	}
}

// before notes who follows what, before a step that may bring an assignment.
func (p *process) before(ev engine.Event) {
	p.assigned, p.lost = false, false
	if c, ok := ev.(engine.OffsetsCommitted); ok {
		p.boardWritten(c)
	}
	if m, ok := ev.(engine.Member); !ok || !isSync(m.Event) {
		return
	}
	clear(p.was)
	for _, t := range p.Engine.Tasks() {
		if t.Role != engine.Active && t.State == "following" {
			p.was[t.Task] = t.Role
		}
	}
}

func isSync(ev group.Event) bool {
	_, ok := ev.(group.SyncDone)
	return ok
}

// gets notes that an assignment is applied.
func (o *oracle) gets(p *process, generation int32) {
	plan, ok := p.handed[generation]
	if !ok {
		return // one of the tests of the oracle
	}
	before := p.plan
	clear(p.handed)
	clear(p.told)
	p.plan, p.assigned = applied{generation, plan}, true
	p.heard[generation] = true
	maps.DeleteFunc(p.promoting, func(id task.ID, _ uint64) bool { return !slices.Contains(plan.Active, id) })
	for _, id := range plan.Active {
		role, was := p.was[id]
		if !was {
			continue
		}
		p.promoting[id] = p.opened[id]
		if role == engine.Standby && !slices.ContainsFunc(before.Learners, func(in assignor.Incoming) bool { return in.Task == id }) {
			o.w.saw(StandbyTook)
		}
	}
	for _, s := range plan.Standbys {
		if slices.Contains(before.Active, s.Task) {
			o.w.saw(Demoted)
		}
	}
}

// viewed holds S6 after an assignment was applied: the process has the roles that the plan gives to it, and no others.
func (o *oracle) viewed(p *process) {
	if !p.assigned || p.Dead || o.w.version > 0 || !p.orderly() || !p.Engine.Joined() {
		return
	}
	want := p.plan.roles()
	for _, t := range p.Engine.Tasks() {
		role, has := want[t.Task]
		delete(want, t.Task)
		if t.State != "closing" && (!has || role != t.Role) {
			o.w.violatedTask(t.Task, "%s has task %v as %v in generation %d, whose plan does not say so", p.name, t.Task, t.Role, p.plan.generation)
		}
	}
	for _, id := range slices.SortedFunc(maps.Keys(want), task.ID.Compare) {
		o.w.violatedTask(id, "%s does not have task %v in generation %d, whose plan gives it as %v", p.name, id, p.plan.generation, want[id])
	}
}

// roles are those of a plan; a task without a state is not learned.
func (a *applied) roles() map[task.ID]engine.Role {
	out := map[task.ID]engine.Role{}
	for _, s := range a.Standbys {
		out[s.Task] = engine.Standby
	}
	for _, in := range a.Learners {
		if in.Task.Subtopology == 1 {
			out[in.Task] = engine.Learner
		}
	}
	for _, id := range a.Active {
		out[id] = engine.Active
	}
	return out
}

// orderly says that a process is neither ending nor leaving for want of room.
func (p *process) orderly() bool {
	s := p.Engine.State()
	return s == engine.Running || s == engine.Rebalancing
}

// pauses holds S4: a task that runs is told to let go only if it is to move, and only if its receiver can have it.
func (o *oracle) pauses(p *process, id task.ID) {
	if !p.orderly() {
		return
	}
	p.paused[id] = pause{since: o.w.Now, generation: p.plan.generation}
	i := slices.IndexFunc(p.plan.Marks, func(k assignor.Mark) bool { return k.Task == id })
	if i < 0 {
		o.w.violatedTask(id, "%s pauses task %v, which is to stay", p.name, id)
		return
	}
	k := p.plan.Marks[i]
	p.paused[id] = pause{o.w.Now, p.plan.generation, o.members[k.Receiver]}
	if !k.Ready && (id.Subtopology == 0 || o.rows[counts(id.Partition)].member != k.Receiver) {
		o.w.violatedTask(id, "%s pauses task %v, for which %s is not known to be ready", p.name, id, k.Receiver)
	}
}

// ends holds S4 and S8 when a task is told that it goes on, or that it is over.
func (o *oracle) ends(p *process, id task.ID, resumed, lost bool) {
	was, paused := p.paused[id]
	delete(p.paused, id)
	if paused {
		o.rounds.paused(p, id, was, resumed)
	}
	if !resumed && !paused && p.orderly() && lost && p.plan.generation > 0 {
		o.rounds.taken(p, id)
	}
}

// starts holds that a copy is made active with its stores as they are.
func (o *oracle) starts(p *process, a engine.StartTask) {
	if key, ok := p.promoting[a.Task]; ok && key != a.Stores {
		o.w.violatedTask(a.Task, "%s opens the store of task %v anew to make it active", p.name, a.Task)
	}
	delete(p.promoting, a.Task)
	o.splits(p, a)
}

func (o *oracle) closesStore(p *process, id task.ID) {
	if _, ok := p.promoting[id]; ok && p.orderly() {
		o.w.violatedTask(id, "%s closes the store of task %v, which it is to run", p.name, id)
	}
	if p.lost && p.orderly() {
		for _, t := range p.Engine.Tasks() {
			if t.Task == id && t.Role != engine.Active {
				o.w.violatedTask(id, "%s closes its copy of task %v because its membership is over", p.name, id)
			}
		}
	}
	delete(p.promoting, id)
	delete(p.opened, id)
}

func (o *oracle) wipes(p *process, id task.ID) {
	if _, ok := p.promoting[id]; ok && !o.compacted && !o.cut {
		o.w.violatedTask(id, "%s empties the store of task %v to make it active", p.name, id)
	}
}

// drops holds S10: no state in a plan is deleted, nor one that is open.
func (o *oracle) drops(p *process, id task.ID) {
	if _, ok := p.plan.roles()[id]; ok && p.plan.generation > 0 {
		o.w.violatedTask(id, "%s deletes the state of task %v, which its plan has", p.name, id)
	}
	if p.told[id] {
		o.w.violatedTask(id, "%s deletes the state of task %v, of which the join under way tells", p.name, id)
	}
	if _, ok := p.opened[id]; ok {
		o.w.violatedTask(id, "%s deletes the state of task %v, which is open", p.name, id)
	}
}

// moved follows what a process tells of its tasks.
func (o *oracle) moved(p *process, n engine.Notice) {
	switch n.Kind {
	case engine.NoticeAssigned:
		o.gets(p, n.Generation)
	case engine.NoticeLost:
		p.lost = true
		clear(p.told)
		clear(p.promoting)
		clear(p.paused)
		p.plan = applied{}
	case engine.NoticeLearned:
		o.w.saw(Learned)
	case engine.NoticeStalled:
		o.w.saw(Stalled)
	case engine.NoticePromoted:
		o.w.saw(Promoted)
	case engine.NoticeReleaseOverdue:
		o.w.saw(Overdue)
		o.rounds.late = true
	case engine.NoticeCleaned:
		o.w.saw(Cleaned)
	case engine.NoticeRestoreBegin:
		most := o.w.mood.lag()
		if n.Position > 0 {
			most += staleness
		}
		if n.Part.Topic == topicCounts && n.Role == engine.Active && n.End-max(n.Position, 0) > most {
			o.rounds.restores(p, n)
		}
	}
}

// staleness is how much more than it was said to be a state on disk may be behind: nobody looks all the time.
const staleness = 15

// misplaced says what is not as the plan of a group at rest has it: nothing is to move, all copies are there and at the end of their changelogs.
func (w *world) misplaced(miss func(format string, args ...any)) {
	copies, n := map[task.ID]int{}, w.size()
	for _, h := range w.hosts {
		if h.p == nil {
			continue
		}
		if len(h.p.plan.Marks) > 0 {
			miss("tasks of %s are to move", h.p.name)
		}
		if len(h.p.paused) > 0 {
			miss("%s has paused tasks", h.p.name)
		}
		for _, t := range h.p.Engine.Tasks() {
			switch {
			case t.Role == engine.Learner:
				miss("%s learns task %v", h.p.name, t.Task)
			case t.Role == engine.Standby && t.State == "following" && t.Lag == 0:
				copies[t.Task]++
			case t.Role == engine.Standby:
				miss("the copy of task %v at %s is %s, %d behind", t.Task, h.p.name, t.State, t.Lag)
			}
		}
	}
	for part := range w.cfg.Parts {
		id := task.ID{Subtopology: 1, Partition: part}
		if want := min(w.mood.policy.Standbys, n-1); copies[id] != want {
			miss("task %v has %d standbys, of %d", id, copies[id], want)
		}
	}
	w.unbalanced(miss)
}

// unbalanced says how far the tasks are not shared out evenly, of each subtopology and of all; among members of different capacities, what has
// a state.
func (w *world) unbalanced(miss func(format string, args ...any)) {
	capacity := 0
	for _, h := range w.hosts {
		if h.belongs() {
			capacity += h.capacity()
		}
	}
	for _, c := range []struct {
		name string
		in   func(task.ID) bool
	}{
		{"subtopology 0", func(id task.ID) bool { return id.Subtopology == 0 }},
		{"subtopology 1", func(id task.ID) bool { return id.Subtopology == 1 }},
		{"the topology", func(task.ID) bool { return true }},
	} {
		if w.mood.uneven && c.name != "subtopology 1" {
			continue
		}
		all, by := 0, map[*host]int{}
		for id, ps := range w.oracle.runs {
			if c.in(id) && len(ps) > 0 {
				all++
				by[ps[0].host]++
			}
		}
		for _, h := range w.hosts {
			if n := all * h.capacity(); h.belongs() && (by[h] < n/capacity || by[h] > (n+capacity-1)/capacity) {
				miss("%s runs %d tasks of %s, of %d", h.name(), by[h], c.name, all)
			}
		}
	}
}
