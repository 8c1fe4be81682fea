package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// A promise is declared at the next join beside the copy that the member has of the same task, and the leader takes it as one.
func TestPromiseIsDeclaredBesideTheCopy(t *testing.T) {
	for _, kind := range []assignor.Kind{assignor.Standby, assignor.OnDisk, assignor.Learner} {
		r := newRig(t).syncing().syncDone(assignor.PlanData{
			Active: []task.ID{id(0, 0)}, Learners: []assignor.Incoming{{Task: id(0, 1), Instant: true, Owner: "a"}, {Task: id(0, 2)}},
		})
		require.Len(t, want[Assigned](r).Learners, 2)
		r.step(Rejoin{Reason: "test"})
		own := assignor.Replica{Task: id(0, 1), Kind: kind, Lag: 77}
		r.step(Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 0)}, Replicas: []assignor.Replica{own}})
		join := want[SendJoin](r)
		d := decode(t, join.Metadata)
		require.ElementsMatch(t, []assignor.Replica{own, {Task: id(0, 1), Kind: assignor.Promised, Ready: true, Lag: assignor.LagUnknown}}, d.Replicas,
			"and no promise of what is still to be learned")

		topo := smallTopology()
		topo.Subtopologies[0].Stateful = true
		_, plans, _ := leads(t, topo,
			JoinedMember{ID: "a", Metadata: word(assignor.Subscription{Generation: 1}, assignor.MemberData{Released: []task.ID{id(0, 1)}})},
			JoinedMember{ID: "me", Metadata: join.Metadata})
		require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, plans["me"].Active, "kind %d", kind)
	}
}

// A round that a member is told to begin and that changes nothing comes later and later: a member that misses every answer would never learn
// of its marks otherwise (S9).
func TestFollowUpsThatChangeNothingComeLater(t *testing.T) {
	plan := assignor.PlanData{Learners: []assignor.Incoming{{Task: id(0, 1), Instant: true}}, FollowUp: assignor.FollowUp{Kind: assignor.Now}}
	r := newRig(t).syncing().syncDone(plan)
	generation := int32(1)
	again := func(p assignor.PlanData, pause time.Duration) {
		t.Helper()
		require.False(t, has[Prepare](r.after(pause-time.Millisecond)))
		require.True(t, has[Prepare](r.after(time.Millisecond+beatMargin)), "or as soon as it does not fall between two beats")
		generation++
		r.prepared().joinDone(generation).syncDone(p)
	}
	for _, pause := range []time.Duration{50, 100, 200, 400, 800, 1600, 3200} {
		again(plan, pause*time.Millisecond)
	}
	other := plan
	other.Learners = []assignor.Incoming{{Task: id(0, 0), Instant: true}}
	again(other, 5*time.Second)
	again(other, followUpDelay)
	again(assignor.PlanData{Learners: other.Learners}, 2*followUpDelay)
	require.False(t, has[Prepare](r.after(time.Minute)), "nothing to wait for")
}

// Who asks for a round while one is under way gets it when that is over (KAFKA-14382).
func TestNoRoundInsideARound(t *testing.T) {
	at := map[string]func(*rig) *rig{
		"joining": func(r *rig) *rig { return r.step(Rejoin{Reason: "first"}).prepared(id(0, 0)) },
		"syncing": func(r *rig) *rig { return r.step(Rejoin{Reason: "first"}).prepared(id(0, 0)).joinDone(2) },
	}
	for name, bring := range at {
		t.Run(name, func(t *testing.T) {
			r := bring(newRig(t).joined())
			acts := append([]Action(nil), r.acts...)
			require.Empty(t, r.step(Rejoin{Reason: "learned"}).acts)
			r.acts = acts
			if name == "joining" {
				r.joinDone(2)
			}
			r.syncDone(assignor.PlanData{Active: []task.ID{id(0, 0)}, FollowUp: assignor.FollowUp{Kind: assignor.Now}}).in(Joined)
			require.Equal(t, "learned", want[Prepare](r.after(followUpDelay)).Reason)
			r.prepared(id(0, 0)).joinDone(3).syncDone(assignor.PlanData{})
			require.False(t, has[Prepare](r.after(followUpMost)), "one round is enough for both")
		})
	}
	t.Run("the coordinator is looked for meanwhile", func(t *testing.T) {
		r := newRig(t).syncing().syncDone(assignor.PlanData{FollowUp: assignor.FollowUp{Kind: assignor.At, AtMs: 700}})
		r.beats(0, errCut).in(Discovering)
		require.False(t, has[Prepare](r.after(250*time.Millisecond)))
		r.acts = append(r.acts, FindCoordinator{Req: r.m.finding})
		r.found("b:1")
		require.Equal(t, "the plan goes on", want[Prepare](r.after(beatMargin)).Reason, "and what was asked for is not forgotten")
	})
}
