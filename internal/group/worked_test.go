package group

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// example is the worked example of the protocol: three members share T1 to T5, a fourth and a fifth join, and learn T1 and T3. Who is who, and
// which task is which, is settled by the plans: ids are the broker's to give.
type example struct {
	*world
	t                  *testing.T
	s1, s2, s3, s4, s5 *process
	t1, t2, t3, t4, t5 task.ID
	generation         int32
}

// gates say what an owner knows of its receivers' readiness: with nothing to go by it releases every marked task at every round.
var gates = map[string]func(*world) func(assignor.Mark) bool{
	"always": func(*world) func(assignor.Mark) bool { return func(assignor.Mark) bool { return true } },
	"board":  func(w *world) func(assignor.Mark) bool { return w.knowsReady },
}

// workedExample plays a case under each gate, from some seeds.
func workedExample(t *testing.T, play func(e *example, gate string)) {
	for gate, board := range gates {
		for seed := range uint64(8) {
			t.Run(fmt.Sprintf("%s/seed=%d", gate, seed), func(t *testing.T) {
				w := newWorld(t, seed, 3)
				w.topo = Topology{Subtopologies: []Subtopology{{ID: 0, Topics: []string{"in"}, Stateful: true, Hash: 1}}, Partitions: map[string]int32{"in": 5}}
				w.board = board(w)
				e := &example{world: w, t: t}
				w.stable(3)
				for _, p := range w.procs { // what is left over from the beginning would be a copy to take over at once
					clear(p.copies)
				}
				w.learns = func(*process, task.ID) time.Duration { return -1 } // when the test says so
				e.generation = w.broker.Group("g").Generation
				e.watch()
				play(e, gate)
				require.Empty(t, w.bad, "%s", w.trace.String())
			})
		}
	}
}

// watch begins to note which tasks stand still.
func (e *example) watch() {
	e.pauses, e.ran = map[task.ID]time.Duration{}, map[task.ID]bool{}
	for p := range int32(5) {
		e.pauses[id(0, p)] = 0
		e.ran[id(0, p)] = true
	}
}

func (e *example) paused() (out []task.ID) {
	for _, id := range sortedIDs(e.pauses) {
		if e.pauses[id] > 0 {
			out = append(out, id)
		}
	}
	return out
}

// round waits for the next generation to be applied by everybody, and holds what stood still in it against what should have.
func (e *example) round(stood ...task.ID) {
	e.t.Helper()
	e.generation++
	e.until(5*time.Second, fmt.Sprintf("generation %d", e.generation), func() bool {
		return !slices.ContainsFunc(e.living(), func(p *process) bool { return p.applied != e.generation || p.m.phase != joined })
	})
	e.run(20 * time.Millisecond) // what was resumed has been seen to run
	slices.SortFunc(stood, task.ID.Compare)
	require.Equal(e.t, stood, e.paused(), "%s", e.trace.String())
	e.watch()
}

// has holds one member's part of the plan against what it should be.
func (e *example) has(p *process, active, marks, learns []task.ID) {
	e.t.Helper()
	sorted := func(in []task.ID) []task.ID {
		in = append([]task.ID{}, in...)
		slices.SortFunc(in, task.ID.Compare)
		return in
	}
	require.Equal(e.t, sorted(active), sorted(sortedIDs(p.run)), "%s", e.trace.String())
	require.Equal(e.t, sorted(marks), sorted(tasksOf(p.m.applied.marks)), "%s", e.trace.String())
	var coming []task.ID
	for _, in := range p.m.applied.coming {
		coming = append(coming, in.Task)
	}
	require.Equal(e.t, sorted(learns), sorted(coming), "%s", e.trace.String())
}

// fourth joins: S1 is who is to give something up to it.
func (e *example) fourth() {
	e.s4 = e.spawn()
	e.round()
	e.s1, e.t1, e.t2 = e.giver(e.s4)
}

func (e *example) fifth(stood ...task.ID) {
	e.s5 = e.spawn()
	e.round(stood...)
	e.s2, e.t3, e.t4 = e.giver(e.s5)
	for _, p := range e.procs {
		if p != e.s1 && p != e.s2 && p != e.s4 && p != e.s5 {
			e.s3, e.t5 = p, sortedIDs(p.run)[0]
		}
	}
}

// giver is who runs the one task that a member learns, which task that is, and which other one it runs.
func (e *example) giver(learner *process) (owner *process, learned, other task.ID) {
	e.t.Helper()
	require.Len(e.t, learner.m.applied.coming, 1, "%s", e.trace.String())
	in := learner.m.applied.coming[0]
	require.False(e.t, in.Instant)
	for _, p := range e.living() {
		if p.member == in.Owner {
			owner = p
		}
	}
	require.NotNil(e.t, owner, "the owner is named")
	require.Len(e.t, owner.run, 2)
	for id := range owner.run {
		if id != in.Task {
			other = id
		}
	}
	return owner, in.Task, other
}

// ready lets a member catch up with what it learns; it asks for a round.
func (e *example) ready(p *process, id task.ID) {
	e.t.Helper()
	require.NotNil(e.t, p.copies[id])
	p.caughtUp(id, p.copies[id])
}

func these(ids ...task.ID) []task.ID { return ids }

// needless are the tasks that stand still for nothing: owners that have nothing to go by release them, and get them back.
func needless(gate string, ids ...task.ID) []task.ID {
	if gate == "board" {
		return nil
	}
	return ids
}

func TestWorkedExample(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.fourth() // round 1
		e.has(e.s1, these(e.t1, e.t2), these(e.t1), nil)
		e.has(e.s4, nil, nil, these(e.t1))

		e.fifth(needless(gate, e.t1)...) // round 2
		e.has(e.s1, these(e.t1, e.t2), these(e.t1), nil)
		e.has(e.s2, these(e.t3, e.t4), these(e.t3), nil)
		e.has(e.s3, these(e.t5), nil, nil)
		e.has(e.s4, nil, nil, these(e.t1))
		e.has(e.s5, nil, nil, these(e.t3))

		e.ready(e.s4, e.t1)
		e.round(append(needless(gate, e.t3), e.t1)...) // round 3
		e.has(e.s1, these(e.t2), nil, nil)
		e.has(e.s2, these(e.t3, e.t4), these(e.t3), nil)
		e.has(e.s4, these(e.t1), nil, nil)
		e.has(e.s5, nil, nil, these(e.t3))

		e.ready(e.s5, e.t3)
		e.round(e.t3) // round 4
		for p, id := range map[*process]task.ID{e.s1: e.t2, e.s2: e.t4, e.s3: e.t5, e.s4: e.t1, e.s5: e.t3} {
			e.has(p, these(id), nil, nil)
		}
		e.requireQuiet(time.Minute)
	})
}

func TestWorkedExampleBothReadyInOneRound(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.fourth()
		e.fifth(needless(gate, e.t1)...)
		e.ready(e.s4, e.t1)
		e.ready(e.s5, e.t3)
		e.round(e.t1, e.t3)
		e.has(e.s4, these(e.t1), nil, nil)
		e.has(e.s5, these(e.t3), nil, nil)
		e.requireConverged()
		e.requireQuiet(time.Minute)
	})
}

func TestWorkedExampleJoinTogether(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.s4, e.s5 = e.spawn(), e.spawn()
		e.run(5 * time.Second)
		require.LessOrEqual(t, e.broker.Group("g").Generation-e.generation, int32(2), "%s", e.trace.String())
		if gate == "board" {
			require.Empty(t, e.paused(), "%s", e.trace.String())
		}
		e.s1, e.t1, _ = e.giver(e.s4)
		e.s2, e.t3, _ = e.giver(e.s5)
		require.NotSame(t, e.s1, e.s2)
		e.generation = e.broker.Group("g").Generation
		e.watch()
		e.ready(e.s4, e.t1)
		e.ready(e.s5, e.t3)
		e.round(e.t1, e.t3)
		e.requireConverged()
		e.requireQuiet(time.Minute)
	})
}

// finish lets every learner catch up, and what is left of the group settle.
func (e *example) finish() {
	e.learns = func(*process, task.ID) time.Duration { return 500 * time.Millisecond }
	for _, p := range e.living() {
		for _, id := range sortedIDs(p.copies) {
			e.at(time.Second, func() { p.caughtUp(id, p.copies[id]) })
		}
	}
	e.world.run(90 * time.Second)
	require.Empty(e.t, e.bad, "%s", e.trace.String())
	e.requireConverged()
	e.requireQuiet(30 * time.Second)
}

// owner is who runs a task.
func (e *example) owner(id task.ID) string { return e.owners()[id] }

func TestWorkedExampleLearnerDies(t *testing.T) {
	t.Run("before it says that it is ready", func(t *testing.T) {
		workedExample(t, func(e *example, gate string) {
			e.fourth()
			e.fifth(needless(gate, e.t1)...)
			e.s4.kill()
			e.run(30 * time.Second)
			require.Equal(e.t, e.s1.name, e.owner(e.t1), "the owner runs it as before\n%s", e.trace.String())
			require.LessOrEqual(e.t, e.pauses[e.t1], 100*time.Millisecond)
			require.Zero(e.t, e.pauses[e.t2])
			e.finish()
			require.Equal(e.t, e.s5.name, e.owner(e.t3))
		})
	})
	t.Run("after its join", func(t *testing.T) {
		workedExample(t, func(e *example, gate string) {
			e.fourth()
			e.fifth(needless(gate, e.t1)...)
			e.ready(e.s4, e.t1)
			e.until(3*time.Second, "its SyncGroup", func() bool { return e.s4.m.phase == syncing })
			e.s4.kill()
			e.run(40 * time.Second)
			require.Equal(e.t, e.s1.name, e.owner(e.t1), "back to the freshest copy\n%s", e.trace.String())
			e.finish()
		})
	})
}

// The owner dies while its task is released: the learner has the best copy that is left, ready or not.
func TestWorkedExampleOwnerDiesWhileReleased(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.fourth()
		e.ready(e.s4, e.t1)
		e.until(3*time.Second, "the release", func() bool { return e.s1.parked[e.t1] && e.s1.m.phase == joining })
		e.s1.kill()
		e.run(40 * time.Second)
		require.Equal(e.t, e.s4.name, e.owner(e.t1), "%s", e.trace.String())
		e.finish()
	})
}

func TestWorkedExampleOwnerMissesASync(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.fourth()
		e.s5 = e.spawn()
		owners := slices.DeleteFunc(e.living(), func(p *process) bool { return p == e.s1 || p == e.s4 || len(p.run) < 2 })
		require.Len(e.t, owners, 1)
		e.s2 = owners[0]
		e.until(3*time.Second, "round 2", func() bool { return e.s2.m.phase == syncing })
		e.s2.cut(onJoin)
		before := sortedIDs(e.s2.run)
		e.run(5 * time.Second)
		require.Equal(e.t, before, sortedIDs(e.s2.run), "it claims what it runs, and runs what it claims\n%s", e.trace.String())
		require.Zero(e.t, e.s2.losses)
		_, e.t3, _ = e.giver(e.s5)
		e.ready(e.s4, e.t1)
		e.ready(e.s5, e.t3)
		e.run(5 * time.Second)
		require.Equal(e.t, e.s4.name, e.owner(e.t1), "%s", e.trace.String())
		require.Equal(e.t, e.s5.name, e.owner(e.t3), "%s", e.trace.String())
		e.requireConverged()
		e.requireQuiet(time.Minute)
	})
}

func TestWorkedExampleLeaderDiesBetweenJoinAndSync(t *testing.T) {
	workedExample(t, func(e *example, gate string) {
		e.fourth()
		e.fifth(needless(gate, e.t1)...)
		e.ready(e.s4, e.t1)
		leader := e.leader()
		e.until(3*time.Second, "the plan", func() bool {
			return leader.m.phase == syncing && e.broker.Group("g").State == modelbroker.CompletingRebalance
		})
		leader.kill()
		e.run(60 * time.Second)
		for _, p := range e.living() {
			require.Zero(e.t, p.losses, "%s", e.trace.String())
		}
		require.Len(e.t, e.owners(), 5, "%s", e.trace.String())
		e.finish()
	})
}
