package sim

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/task"
)

// rounds follows the generations of the group: who asked for one, and what it changed.
type rounds struct {
	o       *oracle
	current *plan            // that is carried out, where nothing else happens
	from    int32            // the generation in which it began
	batches int              // of learners that were ready, since then
	atOnce  int              // rounds for what needs no learning, since the last round that something else caused
	due     bool             // the leader has found learners ready, so the next round is theirs
	orphans int              // tasks whose owner has died, since the plan began
	reasons []string         // why members have joined since the last plan was made
	text    string           // of that plan
	made    int32            // its generation
	missed  int              // plans in a row of which some member had not heard when the next one was made
	members []string         // in it
	cold    map[learner]bool // learners and standbys of that plan whose task is not theirs yet
	late    bool             // a task was not released in time for the next one
	heal    int32            // the generation when the faults were over
	stops   int              // since then, of applications over a record
}

// learner is a task that a member learns.
type learner struct {
	member string
	task   task.ID
}

// begin begins to hold what happens against a plan.
func (r *rounds) begin(p *plan) {
	r.current, r.from, r.batches, r.atOnce = p, r.o.w.Broker.Group(groupName).Generation, 0, 0
	r.o.moves.Plans++
}

// only says that nothing is going on but a plan of which this is not so.
func (r *rounds) only(but func(*plan) bool) bool { return r.current != nil && !but(r.current) }

func kills(p *plan) bool    { return p.kills }
func upgrades(p *plan) bool { return p.version }

func (r *rounds) healed() { r.heal = r.o.w.Broker.Group(groupName).Generation }

// joins notes why a member joins.
func (r *rounds) joins(reason string) {
	if reason != group.OthersAsked {
		r.reasons = append(r.reasons, reason)
	}
}

// voluntary says that a round is asked for by a member that is in the group, and not because anything has happened to another.
func voluntary(reason string) bool {
	return strings.HasSuffix(reason, " is learned") || strings.HasSuffix(reason, " is drained") || reason == "the plan goes on"
}

// plan holds S9 when a plan was made: a round that somebody asked for changes something.
func (r *rounds) plan() {
	g := r.o.w.Broker.Group(groupName)
	text := planText(g)
	members := make([]string, len(g.Members))
	for i, m := range g.Members {
		members[i] = m.ID
	}
	slices.Sort(members)
	missed := r.misses(g)
	if r.missed++; !missed {
		r.missed = 0
	} else if r.current != nil && r.missed > mostMissed {
		r.o.w.violated("%d plans in a row were followed by the next before all members had heard of them", r.missed)
	}
	same := slices.Equal(members, r.members) // who leaves or dies asks for no round
	r.members = members
	asked := same && len(r.reasons) > 0 && !slices.ContainsFunc(r.reasons, func(s string) bool { return !voluntary(s) })
	if asked && text == r.text && !missed {
		r.o.moves.Idle++
		if r.current != nil && !r.late {
			r.o.w.violated("a round changes nothing, and was asked for because %s", strings.Join(r.reasons, ", "))
		}
	}
	if !asked || !missed {
		r.count(asked)
	}
	r.due = r.finds(g)
	r.text, r.reasons, r.late, r.made = text, nil, false, g.Generation
}

// misses says that a member has not heard of the plan before: its answer was an error, or somebody joined before it came. What it was to let go it
// lets go of a round later.
func (r *rounds) misses(g modelbroker.GroupView) bool {
	return slices.ContainsFunc(g.Members, func(m modelbroker.MemberView) bool {
		p := r.o.members[m.ID]
		return p != nil && slices.Contains(r.members, m.ID) && !p.heard[r.made]
	})
}

// mostMissed is how many plans in a row may be missed by somebody: a coordinator that moves costs one or two.
const mostMissed = 3

// count holds S5: after whatever happens to the group there is one round for what moves at once, and one for each batch of learners that are
// ready.
func (r *rounds) count(asked bool) {
	learned := func(s string) bool { return strings.HasSuffix(s, " is learned") || strings.HasSuffix(s, " is drained") }
	switch {
	case !asked:
		r.atOnce = 0
	case r.due || slices.ContainsFunc(r.reasons, learned):
		r.batches++
	default:
		r.atOnce++
		if r.current != nil && !r.current.version && r.atOnce > 1 {
			r.o.w.violated("%d rounds for what needs no learning, the last because %s", r.atOnce, strings.Join(r.reasons, ", "))
		}
	}
}

// finds says whether the leader has found learners, or standbys, close enough to the end in a round that was for something else: it lets them have
// their tasks in the next one.
func (r *rounds) finds(g modelbroker.GroupView) bool {
	cold, found := map[learner]bool{}, false
	for _, m := range g.Members {
		p, _ := virtual.PlanIn(m.Assignment)
		for _, in := range p.Learners {
			l := learner{m.ID, in.Task}
			if !in.Instant {
				cold[l] = true
			}
			found = found || in.Instant && r.cold[l]
		}
		for _, s := range p.Standbys {
			cold[learner{m.ID, s.Task}] = true
		}
	}
	r.cold = cold
	return found
}

func planText(g modelbroker.GroupView) string {
	var b strings.Builder
	for _, m := range g.Members {
		p, _ := virtual.PlanIn(m.Assignment)
		fmt.Fprintln(&b, m.ID, p.Active, p.Marks, p.Learners, p.Standbys)
	}
	return b.String()
}

// whole holds S6 and the bound on rounds when the group is at rest.
func (r *rounds) whole() {
	w := r.o.w
	g := w.Broker.Group(groupName)
	for _, m := range g.Members {
		plan, ok := virtual.PlanIn(m.Assignment)
		if p := r.o.members[m.ID]; !ok || p == nil || p.plan.generation != g.Generation || p.plan.Digest != plan.Digest || plan.Generation != g.Generation {
			w.violated("%s does not have the plan of generation %d", nameOf(p), g.Generation)
		}
	}
	// Who stops over a record leaves, joins again, and has its tasks back.
	if most := int(w.cfg.Parts)*(1+w.mood.policy.Standbys)*2 + 2*len(w.hosts) + 4 + 4*r.stops; int(g.Generation-r.heal) > most {
		w.violated("%d rounds after the faults were over, of at most %d", g.Generation-r.heal, most)
	}
	if r.current == nil {
		return
	}
	r.o.moves.Rounds += int(g.Generation - r.from)
	r.o.moves.Batches += r.batches
}

// died notes that a process has died: what only it had has to be restored.
func (r *rounds) died(p *process) {
	for _, t := range p.Engine.Tasks() {
		if t.Role == engine.Active && t.Task.Subtopology == 1 {
			r.orphans++
		}
	}
}

// restores holds that an owner has something to restore only where nobody else had it.
func (r *rounds) restores(p *process, n engine.Notice) {
	w := r.o.w
	if r.current == nil {
		if w.Now.Sub(epoch) > 5*time.Second {
			w.saw(ColdRestore)
		}
		return
	}
	w.saw(ColdRestore)
	r.o.moves.Cold++
	may := r.orphans
	if w.mood.policy.Standbys > 0 && r.current.kills {
		may = 0
	}
	r.orphans--
	if may <= 0 && !(r.current.closes && w.mood.policy.Standbys == 0) && !r.current.version {
		w.violatedTask(n.Task, "%s restores task %v from %d to %d to run it", p.name, n.Task, n.Position, n.End)
	}
}

// paused holds S4 and S8 for a task that was paused: it comes back only if its receiver has died, and does not stand still for long.
func (r *rounds) paused(p *process, id task.ID, was pause, resumed bool) {
	w := r.o.w
	took := w.Now.Sub(was.since)
	most := session + 3*time.Second
	if r.only(kills) {
		most = 2 * time.Second
		r.o.moves.Gap = max(r.o.moves.Gap, took)
	}
	if r.current != nil && took > most && r.current.name != "the coordinator moves in the middle of a move" {
		w.violatedTask(id, "task %v stood still at %s for %v", id, p.name, took)
	}
	if !resumed {
		w.saw(HandedOver)
		r.o.moves.Moved++
		return
	}
	w.saw(Needless)
	r.o.moves.Needless++
	if q := was.receiver; r.only(kills) && r.only(upgrades) && q != nil && q.heard[was.generation] { // else it never knew that it was to have the task, or cannot run what it is now
		w.violatedTask(id, "%s paused task %v for nothing", p.name, id)
	}
}

// taken holds that nothing is taken from who runs it, unless two claim it.
func (r *rounds) taken(p *process, id task.ID) {
	if r.current != nil {
		r.o.w.violatedTask(id, "task %v is taken from %s, which runs it", id, p.name)
	}
}
