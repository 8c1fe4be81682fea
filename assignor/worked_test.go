package assignor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// step is one round of the worked example: what happens before it, what members say, and what they are told.
type step struct {
	what string
	do   func(g *groupModel)
	// joins are the members as "name claims/released/learning", a learner that is ready with an exclamation mark.
	joins string
	// plan are the members as "name[active]", marked tasks with a star, and who learns what.
	plan string
	// paused are the tasks that did not run during the round; those that came back to their owner in brackets.
	paused string
	// again: somebody asks for another round.
	again bool
	// lost: the leader dies before anybody has its plan.
	lost bool
}

func joins(names ...string) func(*groupModel) {
	return func(g *groupModel) {
		for _, n := range names {
			g.add(n)
		}
	}
}

func ready(words ...string) func(*groupModel) { // "S4 T1"
	return func(g *groupModel) {
		for _, w := range words {
			name, t, _ := strings.Cut(w, " ")
			g.members[name].ready(workedTask(t))
		}
	}
}

func dies(name string) func(*groupModel) { return func(g *groupModel) { delete(g.members, name) } }

func all(fs ...func(*groupModel)) func(*groupModel) {
	return func(g *groupModel) {
		for _, f := range fs {
			f(g)
		}
	}
}

func nothing(*groupModel) {}

func workedTask(name string) task.ID { return id(0, int32(name[1]-'1')) }

func workedName(t task.ID) string { return fmt.Sprintf("T%d", t.Partition+1) }

func workedNames(ids []task.ID) string {
	out := make([]string, len(ids))
	for i, t := range ids {
		out[i] = workedName(t)
	}
	return orDash(strings.Join(out, ","))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// The first rounds of the example, from which the variants branch off.
var (
	round0 = step{what: "stable", do: nothing, joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-", plan: "S1[T1 T2] S2[T3 T4] S3[T5]"}
	round1 = step{what: "S4 joins", do: joins("S4"), joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/-",
		plan: "S1[T1* T2] S2[T3 T4] S3[T5] S4[]; S4 learns T1"}
	round2 = step{what: "S5 joins, S4 is not ready", do: joins("S5"), joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1; S5 -/-/-",
		plan: "S1[T1* T2] S2[T3* T4] S3[T5] S4[] S5[]; S4 learns T1; S5 learns T3", paused: "(T1)"}
	round2Board = step{what: "S5 joins, S4 is not ready", do: joins("S5"), joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1; S5 -/-/-",
		plan: "S1[T1* T2] S2[T3* T4] S3[T5] S4[] S5[]; S4 learns T1; S5 learns T3"}
)

const done = "S1[T2] S2[T4] S3[T5] S4[T1] S5[T3]"

// The example of the protocol's description and what can go wrong in it, once with owners that give up every marked task and once with those
// that ask the readiness board first.
var worked = []struct {
	name          string
	always, board []step
}{
	{"as it goes", []step{
		round0, round1, round2,
		{what: "S4 is ready, S5 is not", do: ready("S4 T1"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1 (T3)"},
		{what: "S5 is ready", do: ready("S5 T3"), joins: "S1 T2/-/-; S2 T4/T3/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!", plan: done, paused: "T3"},
		{what: "stable", do: nothing, joins: "S1 T2/-/-; S2 T4/-/-; S3 T5/-/-; S4 T1/-/-; S5 T3/-/-", plan: done},
	}, []step{
		round0, round1, round2Board,
		{what: "S4 is ready, S5 is not", do: ready("S4 T1"), joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1"},
		{what: "S5 is ready", do: ready("S5 T3"), joins: "S1 T2/-/-; S2 T4/T3/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!", plan: done, paused: "T3"},
		{what: "stable", do: nothing, joins: "S1 T2/-/-; S2 T4/-/-; S3 T5/-/-; S4 T1/-/-; S5 T3/-/-", plan: done},
	}},
	{"S4 dies before it joins", []step{
		round0, round1, round2,
		{what: "S4 is gone", do: dies("S4"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S5 -/-/T3",
			plan: "S1[T1 T2] S2[T3* T4] S3[T5] S5[]; S5 learns T3", paused: "(T1) (T3)"},
		{what: "S5 is ready", do: ready("S5 T3"), joins: "S1 T1,T2/-/-; S2 T4/T3/-; S3 T5/-/-; S5 -/-/T3!", plan: "S1[T1 T2] S2[T4] S3[T5] S5[T3]", paused: "T3"},
	}, []step{
		round0, round1, round2Board,
		{what: "S4 is gone", do: dies("S4"), joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S5 -/-/T3",
			plan: "S1[T1 T2] S2[T3* T4] S3[T5] S5[]; S5 learns T3"},
		{what: "S5 is ready", do: ready("S5 T3"), joins: "S1 T1,T2/-/-; S2 T4/T3/-; S3 T5/-/-; S5 -/-/T3!", plan: "S1[T1 T2] S2[T4] S3[T5] S5[T3]", paused: "T3"},
	}},
	{"S4 dies after it got its task", []step{
		round0, round1, round2,
		{what: "S4 is ready, and dies", do: all(ready("S4 T1"), func(g *groupModel) { g.members["S4"].deaf = true }),
			joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan:  "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1 (T3)", again: true},
		{what: "S4 is gone, S1 has the freshest state", do: dies("S4"), joins: "S1 T2/-/-; S2 T4/T3/-; S3 T5/-/-; S5 -/-/T3",
			plan: "S1[T1 T2] S2[T3* T4] S3[T5] S5[]; S5 learns T3", paused: "(T3)"},
	}, []step{
		round0, round1, round2Board,
		{what: "S4 is ready, and dies", do: all(ready("S4 T1"), func(g *groupModel) { g.members["S4"].deaf = true }),
			joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan:  "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1", again: true},
		{what: "S4 is gone, S1 has the freshest state", do: dies("S4"), joins: "S1 T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S5 -/-/T3",
			plan: "S1[T1 T2] S2[T3* T4] S3[T5] S5[]; S5 learns T3"},
	}},
	{"S1 dies while T1 is given up", []step{
		round0, round1, round2,
		{what: "S1 is gone, S4 has the state nearly", do: all(dies("S1"), func(g *groupModel) { g.lag("S4", "T1", 90_000) }),
			joins: "S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1; S5 -/-/T3",
			plan:  "S2[T2 T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "(T3)"},
	}, []step{
		round0, round1, round2Board,
		{what: "S1 is gone, S4 has the state nearly", do: all(dies("S1"), func(g *groupModel) { g.lag("S4", "T1", 90_000) }),
			joins: "S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1; S5 -/-/T3",
			plan:  "S2[T2 T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3"},
	}},
	{"S2 misses two answers", []step{
		round0, round1,
		round2.with(func(g *groupModel) { g.add("S5"); g.members["S2"].deaf = true }),
		{what: "S4 is ready; S2 knows no mark", do: all(ready("S4 T1"), func(g *groupModel) { g.members["S2"].deaf = true }),
			joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan:  "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1", again: true},
		{what: "S5 is ready; S2 knows no mark", do: ready("S5 T3"), joins: "S1 T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 takes T3", again: true},
		{what: "S5 asked again", do: nothing, joins: "S1 T2/-/-; S2 T4/T3/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!", plan: done, paused: "T3"},
	}, []step{
		round0, round1,
		round2Board.with(func(g *groupModel) { g.add("S5"); g.members["S2"].deaf = true }),
		{what: "S4 is ready; S2 knows no mark", do: all(ready("S4 T1"), func(g *groupModel) { g.members["S2"].deaf = true }),
			joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan:  "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "T1", again: true},
		{what: "S5 is ready; S2 knows no mark", do: ready("S5 T3"), joins: "S1 T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 takes T3", again: true},
		{what: "S5 asked again", do: nothing, joins: "S1 T2/-/-; S2 T4/T3/-; S3 T5/-/-; S4 T1/-/-; S5 -/-/T3!", plan: done, paused: "T3"},
	}},
	{"both ready in one round", []step{
		round0, round1, round2,
		{what: "both are ready", do: ready("S4 T1", "S5 T3"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3!", plan: done, paused: "T1 T3"},
	}, []step{
		round0, round1, round2Board,
		{what: "both are ready", do: ready("S4 T1", "S5 T3"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3!", plan: done, paused: "T1 T3"},
	}},
	{"the leader S1 dies between join and sync", []step{
		round0, round1, round2,
		{what: "S4 is ready; nobody gets the plan", do: ready("S4 T1"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", lost: true},
		{what: "S1 is gone", do: dies("S1"), joins: "S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S2[T2 T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", paused: "(T3)"},
	}, []step{
		round0, round1, round2Board,
		{what: "S4 is ready; nobody gets the plan", do: ready("S4 T1"), joins: "S1 T2/T1/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S1[T2] S2[T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3", lost: true},
		{what: "S1 is gone", do: dies("S1"), joins: "S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3",
			plan: "S2[T2 T3* T4] S3[T5] S4[T1] S5[]; S5 learns T3"},
	}},
	{"S4 and S5 join together", []step{
		round0,
		{what: "both join", do: joins("S4", "S5"), joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/-; S5 -/-/-",
			plan: "S1[T1* T2] S2[T3* T4] S3[T5] S4[] S5[]; S4 learns T1; S5 learns T3"},
		{what: "both are ready", do: ready("S4 T1", "S5 T3"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3!", plan: done, paused: "T1 T3"},
	}, []step{
		round0,
		{what: "both join", do: joins("S4", "S5"), joins: "S1 T1,T2/-/-; S2 T3,T4/-/-; S3 T5/-/-; S4 -/-/-; S5 -/-/-",
			plan: "S1[T1* T2] S2[T3* T4] S3[T5] S4[] S5[]; S4 learns T1; S5 learns T3"},
		{what: "both are ready", do: ready("S4 T1", "S5 T3"), joins: "S1 T2/T1/-; S2 T4/T3/-; S3 T5/-/-; S4 -/-/T1!; S5 -/-/T3!", plan: done, paused: "T1 T3"},
	}},
}

// with is the step with something else done before it, after which somebody joins again.
func (s step) with(do func(*groupModel)) step {
	s.do, s.again = do, true
	return s
}

func (g *groupModel) lag(name, t string, lag Lag) {
	p := g.members[name]
	r := p.copies[workedTask(t)]
	r.Lag = lag
	p.copies[workedTask(t)] = r
}

func TestWorkedExample(t *testing.T) {
	for _, c := range worked {
		t.Run(c.name+"/always", func(t *testing.T) { playWorked(t, always, c.always) })
		t.Run(c.name+"/board", func(t *testing.T) { playWorked(t, board, c.board) })
	}
}

func playWorked(t *testing.T, gate func(*groupModel, Mark) bool, steps []step) {
	g := newGroup(Subtopology{ID: 0, Partitions: 5, Stateful: true})
	g.gate = gate
	for name, tasks := range map[string]string{"S1": "T1 T2", "S2": "T3 T4", "S3": "T5"} {
		p := g.add(name)
		p.Generation = 0
		for _, x := range strings.Fields(tasks) {
			p.run[workedTask(x)] = true
		}
	}
	for i, s := range steps {
		what := fmt.Sprintf("round %d: %s", i, s.what)
		s.do(g)
		require.Equal(t, s.joins, g.workedJoins(), what)
		if s.lost {
			g.generation++
			g.plan = Assign(g.state())
		} else {
			require.Equal(t, s.again, g.round(), what)
			require.Equal(t, s.paused, g.workedPaused(), what)
		}
		require.Equal(t, s.plan, workedPlan(g.plan), what)
	}
}

func (g *groupModel) workedJoins() string {
	var out []string
	for _, m := range g.state().Members {
		var learning []string
		for _, r := range m.Replicas {
			switch {
			case r.Kind == Learner && r.Ready:
				learning = append(learning, workedName(r.Task)+"!")
			case r.Kind == Learner:
				learning = append(learning, workedName(r.Task))
			}
		}
		out = append(out, fmt.Sprintf("%s %s/%s/%s", m.ID, workedNames(m.Claims), workedNames(m.Released), orDash(strings.Join(learning, ","))))
	}
	return strings.Join(out, "; ")
}

func (g *groupModel) workedPaused() string {
	slices.SortFunc(g.paused, task.ID.Compare)
	var out []string
	for _, x := range g.paused {
		if slices.Contains(g.needless, x) {
			out = append(out, "("+workedName(x)+")")
		} else {
			out = append(out, workedName(x))
		}
	}
	return strings.Join(out, " ")
}

func workedPlan(p Plan) string {
	var owners, learners []string
	for _, m := range p.Members {
		marks := map[task.ID]bool{}
		for _, k := range m.Marks {
			marks[k.Task] = true
		}
		var tasks []string
		for _, x := range m.Active {
			name := workedName(x)
			if marks[x] {
				name += "*"
			}
			tasks = append(tasks, name)
		}
		owners = append(owners, fmt.Sprintf("%s[%s]", m.ID, strings.Join(tasks, " ")))
		for _, in := range m.Learners {
			verb := map[bool]string{false: "learns", true: "takes"}[in.Instant]
			learners = append(learners, fmt.Sprintf("%s %s %s", m.ID, verb, workedName(in.Task)))
		}
	}
	return strings.Join(append([]string{strings.Join(owners, " ")}, learners...), "; ")
}

// With the board nothing pauses for nothing: what the tables above expect of it says so in every variant.
func TestWorkedExampleBoardPausesOnlyWhatMoves(t *testing.T) {
	for _, c := range worked {
		for _, s := range c.board {
			require.NotContains(t, s.paused, "(", "%s, %s", c.name, s.what)
		}
	}
}
