package group

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

// What went wrong elsewhere, each with the number of its report, and played against the model of a broker where one is needed.

// onSeeds plays a case from several seeds, so that messages cross in different orders.
func onSeeds(t *testing.T, n uint64, play func(t *testing.T, w *world)) {
	for seed := range n {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 3)
			play(t, w)
			require.Empty(t, w.bad, "%s", w.trace.String())
		})
	}
}

// stable brings up members and waits until they share the tasks.
func (w *world) stable(members int) {
	for range members {
		w.spawn()
	}
	w.run(20 * time.Second)
	w.requireConverged()
}

// until lets time pass until something holds.
func (w *world) until(most time.Duration, what string, holds func() bool) {
	for end := w.now.Add(most); !holds(); {
		require.True(w.t, w.now.Before(end), "%s did not happen\n%s", what, w.trace.String())
		w.run(time.Millisecond)
	}
}

func (w *world) requireQuiet(d time.Duration) {
	before := w.counts()
	w.run(d)
	require.Equal(w.t, before, w.counts(), "a stable group has no rounds\n%s", w.trace.String())
}

// leader is the process that made the plan of the present generation.
func (w *world) leader() *process {
	id := w.broker.Group("g").Leader
	for _, p := range w.living() {
		if p.m.memberID == id {
			return p
		}
	}
	return nil
}

// A follower that joins with the bytes it joined with before gets the old generation back and starts no round; so a member's bytes are never
// the same twice.
func TestKAFKA10455EqualBytes(t *testing.T) {
	onSeeds(t, 5, func(t *testing.T, w *world) {
		w.stable(3)
		leader := w.leader()
		i := slices.IndexFunc(w.procs, func(p *process) bool { return p != leader })
		p := w.procs[i]
		view := w.broker.Group("g")
		k := slices.IndexFunc(view.Members, func(m modelbroker.MemberView) bool { return m.ID == p.member })
		old := view.Members[k].Metadata

		conn, err := w.broker.Dial(view.Coordinator)
		require.NoError(t, err)
		w.broker.Receive(w.now, conn, 1<<40, modelbroker.JoinGroupRequest{
			Group: "g", MemberID: p.member, Session: 15 * time.Second, Rebalance: 20 * time.Second, ProtocolType: "consumer",
			Protocols: []modelbroker.Protocol{{Name: Protocol, Metadata: old}},
		})
		require.Equal(t, modelbroker.Stable, w.broker.Group("g").State, "the broker takes it for a repetition")

		generation := view.Generation
		for range 3 { // nothing of what it has to say has changed
			p.step(Rejoin{Reason: "test"})
			w.run(3 * time.Second)
			generation++
			require.Equal(t, generation, w.broker.Group("g").Generation, "%s", w.trace.String())
		}
	})
}

// The round that a receiver begins at once would always come before a slow owner has its answer, so that it never learns of its marks.
func TestKAFKA14382SlowMemberIsNotOvertakenForEver(t *testing.T) {
	onSeeds(t, 10, func(t *testing.T, w *world) {
		w.stable(2)
		slow := w.procs[0]
		if slow == w.leader() {
			slow = w.procs[1]
		}
		slow.slowBy = map[int]time.Duration{onJoin: 400 * time.Millisecond}
		generation := w.broker.Group("g").Generation
		w.spawn()
		w.run(30 * time.Second)
		w.requireConverged()
		require.LessOrEqual(t, w.broker.Group("g").Generation-generation, 12+2*w.batches, "%s", w.trace.String())
		w.requireQuiet(30 * time.Second)
	})
}

// Of two claims of one task the newer is right; where they are equally old both drop it, and it is given out again in the next round.
func TestKAFKA12984TwoClaims(t *testing.T) {
	claim := func(generation int32) []byte {
		return word(assignor.Subscription{Owned: owned("in", 0), Generation: generation}, assignor.MemberData{Claims: []task.ID{id(0, 0)}})
	}
	_, plans, _ := leads(t, smallTopology(), JoinedMember{ID: "a", Metadata: claim(3)}, JoinedMember{ID: "b", Metadata: claim(4)})
	require.NotContains(t, plans["a"].Active, id(0, 0))
	require.Contains(t, plans["b"].Active, id(0, 0))

	_, plans, _ = leads(t, smallTopology(), JoinedMember{ID: "a", Metadata: claim(4)}, JoinedMember{ID: "b", Metadata: claim(4)})
	require.NotContains(t, plans["a"].Active, id(0, 0))
	require.NotContains(t, plans["b"].Active, id(0, 0))
	require.Equal(t, assignor.Now, plans["a"].FollowUp.Kind, "the lower id repairs it")
	require.Equal(t, assignor.None, plans["b"].FollowUp.Kind)
}

// A member id that is lost takes everything with it: tasks, claims, marks and promises.
func TestKAFKA12983NothingIsClaimedUnderANewID(t *testing.T) {
	has2 := func(t *testing.T) *rig {
		return newRig(t).syncing().syncDone(assignor.PlanData{
			Active: []task.ID{id(0, 0)}, Marks: []assignor.Mark{{Task: id(0, 0), Receiver: "b", Ready: true}},
			Learners: []assignor.Incoming{{Task: id(0, 1), Instant: true}},
		})
	}
	for _, code := range []kcode.Code{kcode.UnknownMemberID, kcode.FencedInstanceID} {
		for name, expel := range map[string]func(*rig){
			"heartbeat": func(r *rig) { r.beats(code, nil) },
			"join": func(r *rig) {
				r.step(Rejoin{Reason: "test"}).prepared(id(0, 0))
				r.step(JoinDone{Req: want[SendJoin](r).Req, Code: code})
			},
			"sync": func(r *rig) {
				r.step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
				r.step(SyncDone{Req: want[SendSync](r).Req, Code: code})
			},
			"heartbeat while discovering": func(r *rig) {
				r.beats(0, errCut).found("b:1")
				r.step(HeartbeatDone{Req: want[SendHeartbeat](r).Req, Code: code})
			},
		} {
			t.Run(fmt.Sprintf("%s: %d", name, code), func(t *testing.T) {
				r := has2(t)
				expel(r)
				require.True(t, has[Lost](r))
				require.Empty(t, want[Prepare](r).Marks)
				r.prepared()
				join := want[SendJoin](r)
				require.Empty(t, join.MemberID)
				s, err := assignor.DecodeSubscription(join.Metadata)
				require.NoError(t, err)
				require.Empty(t, s.Owned)
				require.Equal(t, int32(-1), s.Generation)
				d := decode(t, join.Metadata)
				require.Empty(t, d.Claims)
				require.Empty(t, d.Replicas, "what was promised was promised to another id")
				r.joinDone(9)
				require.Empty(t, want[Assigned](r.syncDone(assignor.PlanData{})).Tasks)
			})
		}
	}
}

// A release that does not end: the member goes on heart-beating, and its lease ends before the coordinator gives its tasks away.
func TestKAFKA14024ReleaseThatHangs(t *testing.T) {
	r := newRig(t).joined()
	start := r.now
	r.beats(kcode.RebalanceInProgress, nil)
	require.True(t, has[Prepare](r))
	for r.now.Before(start.Add(18500 * time.Millisecond)) {
		r.beats(kcode.RebalanceInProgress, nil).in(Joining)
		require.False(t, has[Lost](r))
	}
	require.True(t, has[Lost](r.after(500*time.Millisecond)), "a second before the rebalance timeout")
}

// A follow-up that was due when a process ended is needed no less: whoever comes after it is planned for anew.
func TestKAFKA9821FollowUpSurvivesARestart(t *testing.T) {
	cases := map[string]func(w *world, owner, receiver *process){
		"the receiver dies":     func(w *world, _, receiver *process) { receiver.kill(); w.spawn() },
		"the owner dies":        func(w *world, owner, _ *process) { owner.kill(); w.spawn() },
		"the receiver restarts": func(w *world, _, receiver *process) { receiver.quit(); w.spawn() },
		"the owner restarts":    func(w *world, owner, _ *process) { owner.quit(); w.spawn() },
		"the coordinator moves": func(w *world, _, _ *process) { w.broker.MoveCoordinator(w.now, "g", (w.where()+1)%3) },
		"the receiver's way is cut": func(w *world, _, receiver *process) {
			receiver.cutIf(onJoin)
			receiver.cutIf(onBeat)
		},
	}
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		t.Run(name, func(t *testing.T) {
			onSeeds(t, 5, func(t *testing.T, w *world) {
				w.stable(1)
				owner, receiver := w.procs[0], w.spawn()
				w.until(20*time.Second, "a mark", func() bool { return len(owner.m.applied.marks) > 0 && len(receiver.m.applied.coming) > 0 })
				cases[name](w, owner, receiver)
				w.run(90 * time.Second)
				w.requireConverged()
				w.requireQuiet(30 * time.Second)
			})
		})
	}
}

func (p *process) quit() {
	p.run, p.parked = map[task.ID]bool{}, map[task.ID]bool{}
	p.step(Stop{})
}

// A process that stood still for longer than its session has no tasks from the moment that it moves again, before it is told anything.
func TestKAFKA8972FrozenOwnerStopsFirst(t *testing.T) {
	onSeeds(t, 10, func(t *testing.T, w *world) {
		w.stable(2)
		zombie, other := w.procs[0], w.procs[1]
		require.NotEmpty(t, zombie.run)
		zombie.freeze(30 * time.Second)
		w.run(29 * time.Second)
		require.Len(t, other.run, 9, "%s", w.trace.String())
		require.True(t, zombie.m.lease.over(w.now))
		w.until(2*time.Second, "the end of the freeze", func() bool { return !zombie.frozen })
		require.Empty(t, zombie.run)
		require.Equal(t, 1, zombie.losses)
		w.run(60 * time.Second)
		w.requireConverged()
		w.requireQuiet(30 * time.Second)
	})
}

// A member that could not reach the brokers for a while and comes back makes nothing run twice, and no rounds after it has found its place.
func TestKAFKA9184BackFromTheDead(t *testing.T) {
	onSeeds(t, 10, func(t *testing.T, w *world) {
		w.stable(3)
		p := w.procs[1]
		p.cutOff = true
		p.hangUp()
		w.run(time.Duration(10+w.rng.IntN(30)) * time.Second)
		p.cutOff = false
		w.note("%s can reach the brokers again", p.name)
		w.run(90 * time.Second)
		w.requireConverged()
		w.requireQuiet(60 * time.Second)
	})
}

// Members that join one after the other within seconds: no storm of rounds, and what stays where it is never stops.
func TestKAFKA12495JoinersInQuickSuccession(t *testing.T) {
	onSeeds(t, 10, func(t *testing.T, w *world) {
		w.stable(1)
		was := w.owners()
		_, generation, _ := w.procs[0].m.Membership()
		w.pauses, w.ran = map[task.ID]time.Duration{}, map[task.ID]bool{}
		for id := range was {
			w.pauses[id], w.ran[id] = 0, true
		}
		const joiners = 4
		for range joiners {
			w.spawn()
			w.run(time.Duration(w.rng.IntN(1200)) * time.Millisecond)
		}
		w.run(60 * time.Second)
		w.requireConverged()
		_, after, _ := w.procs[0].m.Membership()
		require.LessOrEqual(t, after-generation, 2*joiners+w.batches, "%s", w.trace.String())
		for id, owner := range w.owners() {
			if owner == was[id] {
				require.Zero(t, w.pauses[id], "task %s stayed and stood still\n%s", id, w.trace.String())
			}
		}
		w.requireQuiet(30 * time.Second)
	})
}

// A member, or the leader, that vanishes between JoinGroup and SyncGroup holds the others up until its session is over; they keep on
// heart-beating under their parked calls, and none loses a task.
func TestKAFKA9752MemberVanishesBetweenJoinAndSync(t *testing.T) {
	for _, who := range []string{"a follower", "the leader"} {
		t.Run(who, func(t *testing.T) {
			onSeeds(t, 5, func(t *testing.T, w *world) {
				w.stable(3)
				leader := w.leader()
				w.procs[0].step(Rejoin{Reason: "test"})
				victim := func(p *process) bool { return p.m.phase == syncing && (p == leader) == (who == "the leader") }
				w.until(5*time.Second, "a member in Syncing", func() bool { return slices.ContainsFunc(w.living(), victim) })
				p := w.living()[slices.IndexFunc(w.living(), victim)]
				p.kill()
				w.run(10 * time.Second)
				for _, o := range w.living() {
					require.NotEmpty(t, o.run, "what was claimed runs on\n%s", w.trace.String())
				}
				w.run(50 * time.Second)
				w.requireConverged()
				for _, o := range w.living() {
					require.Zero(t, o.losses, "%s", w.trace.String())
				}
			})
		})
	}
}

// A member that is parked in JoinGroup for longer than its session, because another does not join, is not removed: its heartbeats go on.
func TestKAFKA10134HeartbeatsUnderAParkedJoin(t *testing.T) {
	onSeeds(t, 5, func(t *testing.T, w *world) {
		w.stable(2)
		a, b := w.procs[0], w.procs[1]
		id := a.member
		b.slowBy = map[int]time.Duration{onJoin: 17 * time.Second} // its JoinGroup is on its way for longer than a session
		a.step(Rejoin{Reason: "test"})
		w.until(2*time.Second, "a parked join", func() bool { return a.m.phase == joining && b.m.phase == joining })
		b.slowBy = nil
		beats := a.m.requests
		w.run(16 * time.Second)
		require.Equal(t, joining, a.m.phase, "%s", w.trace.String())
		require.Greater(t, a.m.requests, beats+25, "it beats twice a second")
		w.run(4 * time.Second)
		require.Equal(t, id, a.member)
		require.Zero(t, a.losses, "%s", w.trace.String())
	})
}

// The coordinator that a member found again knows it by the id that it had.
func TestKAFKA20985SameIDAfterDiscovering(t *testing.T) {
	onSeeds(t, 5, func(t *testing.T, w *world) {
		w.stable(3)
		var before []string
		for _, p := range w.procs {
			before = append(before, p.member)
		}
		generation := w.broker.Group("g").Generation
		for range 3 {
			w.broker.MoveCoordinator(w.now, "g", (w.where()+1)%3)
			w.run(10 * time.Second)
		}
		for i, p := range w.procs {
			id, _, _ := p.m.Membership()
			require.Equal(t, before[i], id)
			require.Zero(t, p.losses)
		}
		require.Equal(t, generation, w.broker.Group("g").Generation)
	})
}
