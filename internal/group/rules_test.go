package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// The rules that keep a task from running twice, one by one. M3, that what runs during a round was declared for it, is held at every step of
// the simulation; M4, the lease, has TestLease; M6 and M8 are the engine's.

// marked is a member with two tasks, both marked and due.
func marked(t *testing.T) *rig {
	return newRig(t).syncing().syncDone(assignor.PlanData{
		Active: []task.ID{id(0, 0), id(0, 1)}, Members: 2,
		Marks: []assignor.Mark{{Task: id(0, 0), Receiver: "b", Ready: true}, {Task: id(0, 1), Receiver: "b", Ready: true}},
	})
}

// M1: a task that could not be stopped in time is declared as running, and the leader is told that its owner will ask for the next round.
func TestM1LateTaskStaysClaimed(t *testing.T) {
	r := marked(t).step(Rejoin{Reason: "test"})
	r.step(Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1)}, Late: []task.ID{id(0, 1)}, Released: []task.ID{id(0, 0)}})
	join := want[SendJoin](r)
	d := decode(t, join.Metadata)
	require.Equal(t, []task.ID{id(0, 1)}, d.Claims)
	require.Equal(t, []task.ID{id(0, 0)}, d.Released)
	require.Equal(t, []task.ID{id(0, 1)}, d.Learned)

	promised := []assignor.Replica{{Task: id(0, 0), Kind: assignor.Promised, Ready: true, Lag: assignor.LagUnknown}, {Task: id(0, 1), Kind: assignor.Promised, Ready: true, Lag: assignor.LagUnknown}}
	_, plans, _ := leads(t, smallTopology(),
		JoinedMember{ID: "a", Metadata: join.Metadata},
		JoinedMember{ID: "b", Metadata: word(assignor.Subscription{Generation: 1}, assignor.MemberData{Replicas: promised})},
	)
	require.Contains(t, plans["a"].Active, id(0, 1), "the move waits")
	require.Equal(t, []task.ID{id(0, 0)}, plans["b"].Active)
	require.Equal(t, assignor.None, plans["b"].FollowUp.Kind, "the owner asks, when the task has stopped")
}

// M1: a task that was abandoned is not claimed, and must not come back.
func TestM1AbandonedTaskIsUnfit(t *testing.T) {
	r := marked(t).step(Rejoin{Reason: "test"})
	r.step(Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1)}, Unfit: []task.ID{id(0, 0)}})
	join := want[SendJoin](r)
	_, plans, _ := leads(t, smallTopology(),
		JoinedMember{ID: "a", Metadata: join.Metadata}, JoinedMember{ID: "b", Metadata: word(assignor.Subscription{Generation: -1}, assignor.MemberData{})})
	require.Equal(t, []task.ID{id(0, 1)}, plans["a"].Active)
	require.Equal(t, []task.ID{id(0, 0)}, plans["b"].Active)
	_, plans, _ = leads(t, smallTopology(), JoinedMember{ID: "a", Metadata: join.Metadata})
	require.NotContains(t, plans["a"].Active, id(0, 0), "not even where nobody else is there")
}

// M2: whatever goes wrong with a JoinGroup or SyncGroup, the member declares the same under the same id and another number, and takes nothing
// up until an assignment of a newer generation is there. A plan that was made and not delivered is dropped.
func TestM2DeclaresTheSameUntilAnswered(t *testing.T) {
	faults := []struct {
		name string
		code kcode.Code
		err  error
	}{
		{"the connection breaks", 0, errCut},
		{"14", kcode.CoordinatorLoadInProgress, nil},
		{"15", kcode.CoordinatorNotAvailable, nil},
		{"16", kcode.NotCoordinator, nil},
		{"27", kcode.RebalanceInProgress, nil},
	}
	for _, f := range faults {
		for _, at := range []string{"join", "sync"} {
			t.Run(at+": "+f.name, func(t *testing.T) {
				r := marked(t).step(Rejoin{Reason: "test"})
				r.step(Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1)}, Released: []task.ID{id(0, 0)}})
				first := want[SendJoin](r)
				if at == "join" {
					r.step(JoinDone{Req: first.Req, Sent: r.now, Code: f.code, Err: f.err})
				} else {
					r.step(JoinDone{Req: first.Req, Sent: r.now, MemberID: "me", Generation: 2, Leader: true, Members: []JoinedMember{{ID: "me", Metadata: first.Metadata}}})
					require.NotEmpty(t, want[SendSync](r).Assignments)
					r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Code: f.code, Err: f.err})
				}
				for range 20 { // until the join is sent again
					require.False(t, has[Assigned](r) || has[Prepare](r) || has[Lost](r))
					if has[SendJoin](r) {
						break
					}
					if has[FindCoordinator](r) {
						r.found("a:1")
						continue
					}
					r.after(100 * time.Millisecond)
				}
				again := want[SendJoin](r)
				a, b := decode(t, first.Metadata), decode(t, again.Metadata)
				require.Equal(t, "me", again.MemberID)
				require.NotEqual(t, a.JoinSeq, b.JoinSeq)
				a.JoinSeq, b.JoinSeq = 0, 0
				require.Equal(t, a, b)
				r.step(JoinDone{Req: again.Req, Sent: r.now, MemberID: "me", Generation: 3})
				require.Empty(t, want[SendSync](r).Assignments, "somebody else leads now")
				require.Equal(t, []task.ID{id(0, 1)}, want[Assigned](r.syncDone(assignor.PlanData{Active: []task.ID{id(0, 1)}})).Tasks)
			})
		}
	}
}

// M2: a released task stays released, however long the answer takes and whatever happens meanwhile.
func TestM2ReleasedTaskIsNeverResumed(t *testing.T) {
	r := marked(t).step(Rejoin{Reason: "test"})
	r.step(Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1)}, Released: []task.ID{id(0, 0)}})
	for _, ev := range []Event{Rejoin{Reason: "again"}, TopologyChanged{Topology: smallTopology()}, Drain{}, Tick{}, HeartbeatDone{}} {
		r.step(ev)
		require.False(t, has[Assigned](r), "%T", ev)
	}
	for range 36 {
		r.beats(kcode.RebalanceInProgress, nil)
		require.False(t, has[Assigned](r))
	}
}

// M5: what is committed carries the generation that was applied last, not one that was joined only: that one may be given out again.
func TestM5CommitsCarryTheAppliedGeneration(t *testing.T) {
	is := func(r *rig, member string, generation int32) {
		t.Helper()
		id, g, _ := r.m.Membership()
		require.Equal(t, member, id)
		require.Equal(t, generation, g)
	}
	r := newRig(t)
	is(r, "", -1)
	is(r.syncing(), "me", -1)
	r = newRig(t).joined()
	is(r, "me", 1)
	is(r.step(Rejoin{Reason: "test"}), "me", 1)
	is(r.prepared(id(0, 0)), "me", 1)
	is(r.joinDone(2), "me", 1)
	is(r.syncDone(assignor.PlanData{}), "me", 2)
	is(r.beats(0, errCut), "me", 2)
	r.found("b:1")
	is(r.step(HeartbeatDone{Req: want[SendHeartbeat](r).Req, Code: kcode.UnknownMemberID}), "", -1)
}

// Of two claims the newer one counts, so a member declares the generation that it has applied: one that it only joined may be given out again.
func TestDeclaredGenerationIsTheAppliedOne(t *testing.T) {
	declares := func(r *rig) int32 {
		t.Helper()
		s, err := assignor.DecodeSubscription(want[SendJoin](r).Metadata)
		require.NoError(t, err)
		return s.Generation
	}
	r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	require.Equal(t, int32(1), declares(r))
	r.joinDone(2).step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Code: kcode.RebalanceInProgress})
	for i := 0; !has[SendJoin](r) && i < 20; i++ {
		r.after(100 * time.Millisecond)
	}
	require.Equal(t, int32(1), declares(r), "the second was never applied")
}

// M7: the member leaves when its tasks have stopped, also where it stops by itself.
func TestM7LeavesWhenTasksHaveStopped(t *testing.T) {
	r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, Code: kcode.GroupAuthorizationFailed})
	require.True(t, has[Lost](r))
	require.False(t, has[SendLeave](r))
	p := want[Prepare](r)
	require.False(t, has[SendLeave](r.after(time.Second)))
	r.step(Prepared{Join: p.Join})
	r.step(LeaveDone{Req: want[SendLeave](r).Req})
	require.ErrorIs(t, want[Fatal](r).Err, kcode.GroupAuthorizationFailed)

	r = newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, Code: kcode.GroupAuthorizationFailed})
	r.step(Stop{})
	r.step(LeaveDone{Req: want[SendLeave](r).Req})
	require.True(t, has[Fatal](r), "who stops it then is told all the same")
}

// L1: a claim beats a promise and a ready learner, and the member that has them waits.
func TestL1ClaimBeatsEverything(t *testing.T) {
	for _, kind := range []assignor.Kind{assignor.Promised, assignor.Learner, assignor.Standby, assignor.Restoring} {
		topo := smallTopology()
		topo.Subtopologies[0].Stateful = true
		wants := word(assignor.Subscription{Generation: 4}, assignor.MemberData{
			Released: []task.ID{id(0, 0)},
			Replicas: []assignor.Replica{{Task: id(0, 0), Kind: kind, Ready: true}, {Task: id(0, 1), Kind: kind, Ready: true}},
		})
		_, plans, _ := leads(t, topo,
			JoinedMember{ID: "a", Metadata: word(assignor.Subscription{Owned: owned("in", 0, 1), Generation: 4}, assignor.MemberData{})},
			JoinedMember{ID: "b", Metadata: wants})
		require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, plans["a"].Active, "kind %d", kind)
		require.Empty(t, plans["b"].Active)
	}
}

// L2: whatever members claim, each task has one owner in the plan or none.
func TestL2OneOwnerEach(t *testing.T) {
	for n := range 64 { // each of three members claims each of two tasks, or not
		var members []JoinedMember
		for i := range 3 {
			var parts []int32
			for p := range 2 {
				if n>>(2*i+p)&1 != 0 {
					parts = append(parts, int32(p))
				}
			}
			b := word(assignor.Subscription{Owned: owned("in", parts...), Generation: int32(i / 2)}, assignor.MemberData{})
			members = append(members, JoinedMember{ID: fmt.Sprint(i), Metadata: b})
		}
		_, plans, _ := leads(t, smallTopology(), members...)
		owners := map[task.ID]int{}
		for _, p := range plans {
			for _, id := range p.Active {
				owners[id]++
				require.Equal(t, 1, owners[id], "claims %b", n)
			}
		}
	}
}

// A member that drains says so with every join, also after it was removed from the group; a new start forgets it.
func TestDraining(t *testing.T) {
	says := func(r *rig) bool {
		t.Helper()
		return decode(t, want[SendJoin](r).Metadata).Draining
	}
	r := newRig(t).joined().step(Drain{})
	require.Equal(t, "the member is draining", want[Prepare](r).Reason)
	require.True(t, says(r.prepared(id(0, 0))))
	r.joinDone(2).syncDone(assignor.PlanData{Active: []task.ID{id(0, 0)}})
	require.False(t, has[Prepare](r.step(Drain{})), "once")
	require.True(t, says(r.step(Rejoin{Reason: "test"}).prepared(id(0, 0))))
	r.joinDone(3).syncDone(assignor.PlanData{Active: []task.ID{id(0, 0)}})
	require.True(t, says(r.beats(kcode.UnknownMemberID, nil).prepared()))
	r.joinDone(1).syncDone(assignor.PlanData{}).step(Stop{})
	r.step(LeaveDone{Req: want[SendLeave](r).Req})
	require.True(t, has[Left](r))
	require.False(t, says(r.preparing().prepared()))

	require.False(t, has[Prepare](newRig(t).step(Drain{})))
	r = newRig(t).syncing()
	sync := want[SendSync](r)
	require.Empty(t, r.step(Drain{}).acts)
	r.step(SyncDone{Req: sync.Req, Sent: r.now, Assignment: assignment(assignor.PlanData{})})
	require.True(t, has[Prepare](r.after(followUpDelay)), "what is asked for during a round comes after it")
}

// A member that does not lead knows of the moves that begin or end there, and why.
func TestMovesOfAMemberThatDoesNotLead(t *testing.T) {
	moves := []assignor.Move{{Task: id(0, 0), Kind: assignor.Marked, From: "me", To: "b", Reason: "me has 2 more tasks"}}
	r := newRig(t).syncing().syncDone(assignor.PlanData{Active: []task.ID{id(0, 0)}, Marks: []assignor.Mark{{Task: id(0, 0), Receiver: "b"}}, Moves: moves})
	a := want[Assigned](r)
	require.Equal(t, moves, a.Moves)
	require.False(t, a.Leader)
}

// Who drains is told whether anybody stays.
func TestPlanSaysHowManyDrain(t *testing.T) {
	_, plans, _ := leads(t, smallTopology(),
		JoinedMember{ID: "a", Metadata: word(assignor.Subscription{Generation: -1}, assignor.MemberData{Draining: true})},
		JoinedMember{ID: "b", Metadata: word(assignor.Subscription{Generation: -1}, assignor.MemberData{})},
	)
	require.Equal(t, []int{2, 1}, []int{plans["a"].Members, plans["a"].Draining})
	r := newRig(t).syncing().syncDone(assignor.PlanData{Members: 2, Draining: 1})
	require.Equal(t, 1, want[Assigned](r).Draining)
}
