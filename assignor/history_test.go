package assignor

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/task"
)

// history shakes a group at random and holds every plan against the invariants.
type history struct {
	*rapid.T
	*groupModel
	next int
}

// unbounded is more than there are tasks.
const unbounded = 100

func drawHistory(t *rapid.T) *history {
	g := newGroup(drawSubs(t, 4, 6)...)
	g.policy = Policy{
		Standbys: rapid.IntRange(0, 2).Draw(t, "standbys"), LearnersPerMember: rapid.SampledFrom([]int{0, 1, 2, 3, 4, 5, unbounded}).Draw(t, "learners per member"),
		Learners: rapid.SampledFrom([]int{0, 0, 2, unbounded, unbounded}).Draw(t, "learners"),
	}
	if rapid.Bool().Draw(t, "gate") {
		g.gate = always
	}
	if rapid.Bool().Draw(t, "zones") {
		g.policy.SpreadTags = []string{"zone"}
	}
	g.slow = rapid.Bool().Draw(t, "slow")
	h := &history{T: t, groupModel: g}
	h.join()
	return h
}

func (h *history) join() {
	p := h.add(fmt.Sprintf("m%02d", h.next))
	p.Process = [16]byte{byte(h.next + 1)}
	p.Rack = rapid.SampledFrom([]string{"", "r1", "r2"}).Draw(h.T, "rack")
	p.Tags = map[string]string{"zone": rapid.SampledFrom([]string{"z1", "z2", "z3"}).Draw(h.T, "zone")}
	h.next++
}

func (h *history) someone() *player {
	return h.members[rapid.SampledFrom(slices.Sorted(maps.Keys(h.members))).Draw(h.T, "who")]
}

// restart: the process comes back under another member id with what it had on its disk.
func (h *history) restart(p *player) {
	delete(h.members, p.ID)
	q := h.add(fmt.Sprintf("m%02d", h.next))
	h.next++
	q.Process, q.Rack, q.Tags, q.Capacity = p.Process, p.Rack, p.Tags, p.Capacity
	lag := Lag(rapid.SampledFrom([]int64{-1, 0, 500, 700_000}).Draw(h.T, "lag"))
	for _, id := range slices.Concat(sorted(p.run), slices.Collect(maps.Keys(p.copies))) {
		if h.stateful(id) {
			q.copies[id] = Replica{Task: id, Kind: OnDisk, Lag: lag}
		}
	}
}

// progress lets some copies come closer, some reach the end, and some learners stall.
func (h *history) progress(p *player) {
	for _, id := range slices.SortedFunc(maps.Keys(p.copies), task.ID.Compare) {
		c := p.copies[id]
		switch rapid.IntRange(0, 4).Draw(h.T, "progress") {
		case 0, 1:
			p.ready(id)
			continue
		case 2:
			c.Lag = Lag(rapid.Int64Range(0, 50_000).Draw(h.T, "lag"))
		case 3:
			c.Stalled = c.Kind == Learner && !c.Ready
		}
		p.copies[id] = c
	}
	for _, id := range sorted(p.restoring) {
		if rapid.Bool().Draw(h.T, "restored") {
			delete(p.restoring, id)
		}
	}
}

func (h *history) perturb() {
	who := h.someone()
	switch step := rapid.SampledFrom([]string{"join", "join", "kill", "restart", "deaf", "stuck", "unread", "newer", "drain", "grow", "progress", "progress", "progress", "round"}).Draw(h.T, "step"); step {
	case "join":
		if len(h.members) < 8 {
			h.join()
		}
	case "kill":
		if len(h.members) > 1 {
			delete(h.members, who.ID)
		}
	case "restart":
		h.restart(who)
	case "deaf":
		who.deaf = true
	case "stuck":
		for x := range who.run {
			who.stuck[x] = true
		}
	case "unread":
		h.unread[who.ID] = true
	case "newer": // for as long as the others are not as new
		who.Opaque = !who.Opaque
	case "drain":
		who.Draining = !who.Draining
	case "grow":
		h.subs[0].Partitions++
	case "progress":
		h.progress(who)
	}
}

// checkedRound plays a round and holds its plan against the invariants.
func (h *history) checkedRound() bool {
	again := h.round()
	require.NoError(h.T, violation(h.said, h.plan))
	require.Empty(h.T, h.plan.Degraded)
	h.requireSingleOwners(h.T)
	return again
}

// calm ends all that disturbs.
func (h *history) calm() {
	clear(h.unread)
	for _, p := range h.members {
		clear(p.stuck)
		p.deaf, p.Draining, p.Opaque = false, false, false
		for id, c := range p.copies {
			c.Stalled = false
			p.copies[id] = c
		}
	}
}

// settleChecked plays until nobody asks for another round and nobody learns. batches is how often learners became ready.
func (h *history) settleChecked(most int) (rounds, batches int) {
	asked := false
	for rounds = 1; ; rounds++ {
		before, frozen := h.plan, len(h.plan.Frozen) > 0
		again := h.checkedRound()
		if h.foundReady(before) {
			batches++
		}
		if asked && !frozen {
			moved := func(m Move) bool { return m.Kind != Marked }
			require.True(h.T, slices.ContainsFunc(h.plan.Moves, moved), "somebody asked for this round, and nothing came of it\n%s", h.print())
		}
		asked = again
		if !again && !h.busy() {
			return rounds, batches
		}
		if rounds >= most {
			require.Failf(h.T, "does not settle", "after %d rounds and %d batches\n%s", rounds, batches, h.print())
		}
		if !again {
			h.catchUp()
			batches++
		}
	}
}

// foundReady says that the leader has found a learner close enough to the end in a round that was for something else.
func (h *history) foundReady(before Plan) bool {
	for _, m := range h.plan.Members {
		was := before.Member(m.ID)
		for _, in := range m.Learners {
			learns := func(x Incoming) bool { return x.Task == in.Task && !x.Instant }
			if in.Instant && was != nil && slices.ContainsFunc(was.Learners, learns) {
				return true
			}
		}
	}
	return false
}

// Whatever happens, every plan keeps I1 to I8. After it the group comes to rest, balanced, with all the standbys there can be, and stays so
// (I9, I11, S5, S9): each batch of learners costs a round, the moves of caught up tasks one, and one more where the bounds put some of them off.
// Nobody asks for a round of which nothing comes.
func TestHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := drawHistory(t)
		for range rapid.IntRange(1, 14).Draw(t, "steps") {
			h.perturb()
			h.checkedRound()
		}
		h.calm()
		tasks := 0
		for _, s := range h.subs {
			tasks += int(s.Partitions)
		}
		rounds, batches := h.settleChecked(4 + 2*(tasks+tasks*h.policy.Standbys))
		most := 2 // the round of the last change itself, and one for what moves at once
		if h.policy.LearnersPerMember < unbounded || h.policy.Learners < unbounded {
			most += 2 // what is put off may lead to other moves at once
		}
		require.LessOrEqual(t, rounds, most+batches, h.print())
		requireBalanced(t, h.subs, h.runs())
		h.requireStandbys()
		before := h.plan
		for range 2 {
			h.catchUp()
			require.False(t, h.checkedRound())
			require.Empty(t, h.plan.Moves)
			require.Equal(t, rest(before), rest(h.plan), "what is stable must stay as it is")
			before = h.plan
		}
	})
}

// rest is a plan without what it says of moves.
func rest(p Plan) []MemberPlan {
	out := slices.Clone(p.Members)
	for i := range out {
		out[i].Moves = nil
	}
	return out
}

// requireStandbys: every stateful task has as many copies as asked for, or as there are other members.
func (h *history) requireStandbys() {
	copies := map[task.ID]int{}
	for _, m := range h.plan.Members {
		for _, c := range m.Standbys {
			copies[c.Task]++
		}
	}
	want := min(h.policy.Standbys, len(h.members)-1)
	for _, s := range h.subs {
		for n := range s.Partitions {
			if s.Stateful {
				require.Equal(h.T, want, copies[id(s.ID, n)], "standbys of %s\n%s", id(s.ID, n), h.print())
			}
		}
	}
}
