package group

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Every code in every state: what happens at once, and after the back-off.
func TestAnswersByState(t *testing.T) {
	find := func(code kcode.Code, err error) func(*rig) {
		return func(r *rig) {
			r.discovering()
			r.step(CoordinatorFound{Req: want[FindCoordinator](r).Req, Code: code, Err: err})
		}
	}
	join := func(code kcode.Code, err error) func(*rig) {
		return func(r *rig) {
			r.joining()
			r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, Code: code, Err: err, MemberID: "new"})
		}
	}
	rejoin := func(code kcode.Code, err error) func(*rig) { // the join of a member that has tasks
		return func(r *rig) {
			r.joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
			r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, Code: code, Err: err, MemberID: "me"})
		}
	}
	sync := func(code kcode.Code, err error) func(*rig) {
		return func(r *rig) {
			r.joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
			r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Code: code, Err: err})
		}
	}
	beat := func(code kcode.Code, err error) func(*rig) { return func(r *rig) { r.joined().beats(code, err) } }
	beatJoining := func(code kcode.Code, err error) func(*rig) {
		return func(r *rig) { r.joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).beats(code, err) }
	}
	beatSyncing := func(code kcode.Code, err error) func(*rig) {
		return func(r *rig) {
			r.joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2).beats(code, err)
		}
	}
	cases := []struct {
		name  string
		do    func(*rig)
		now   string
		later string // after the back-off; empty: nothing
	}{
		{"find: loading", find(kcode.CoordinatorLoadInProgress, nil), "discovering", "discovering FindCoordinator"},
		{"find: not available", find(kcode.CoordinatorNotAvailable, nil), "discovering", "discovering FindCoordinator"},
		{"find: no broker answers", find(0, errCut), "discovering", "discovering FindCoordinator"},
		{"find: not allowed", find(kcode.GroupAuthorizationFailed, nil), "stopped Disconnect Fatal", ""},

		{"join: id given", join(kcode.MemberIDRequired, nil), "joining SendJoin(new)", ""},
		{"join: loading", join(kcode.CoordinatorLoadInProgress, nil), "joining", "joining SendJoin()"},
		{"join: not available", join(kcode.CoordinatorNotAvailable, nil), "discovering", "discovering FindCoordinator"},
		{"join: moved", join(kcode.NotCoordinator, nil), "discovering", "discovering FindCoordinator"},
		{"join: cut", join(0, errCut), "discovering", "discovering FindCoordinator"},
		{"join: unknown member", join(kcode.UnknownMemberID, nil), "joining Prepare[]", ""},
		{"join: rebalance", join(kcode.RebalanceInProgress, nil), "joining", "joining SendJoin()"},
		{"join: server error", join(kcode.Unknown, nil), "joining", "joining SendJoin()"},
		{"join: other protocol", join(kcode.InconsistentGroupProtocol, nil), "stopped Disconnect Fatal", ""},
		{"join: bad session", join(kcode.InvalidSessionTimeout, nil), "stopped Disconnect Fatal", ""},
		{"join: full", join(kcode.GroupMaxSizeReached, nil), "stopped Disconnect Fatal", ""},
		{"join: bad name", join(kcode.InvalidGroupID, nil), "stopped Disconnect Fatal", ""},

		{"rejoin: unknown member", rejoin(kcode.UnknownMemberID, nil), "joining Lost Prepare[]", ""},
		{"rejoin: fenced", rejoin(kcode.FencedInstanceID, nil), "joining Lost Prepare[]", ""},
		{"rejoin: loading", rejoin(kcode.CoordinatorLoadInProgress, nil), "joining", "joining SendJoin(me)"},
		{"rejoin: other protocol", rejoin(kcode.InconsistentGroupProtocol, nil), "joining Lost Prepare[]", ""},

		{"sync: rebalance", sync(kcode.RebalanceInProgress, nil), "joining SendJoin(me)", ""},
		{"sync: generation", sync(kcode.IllegalGeneration, nil), "joining SendJoin(me)", ""},
		{"sync: unknown member", sync(kcode.UnknownMemberID, nil), "joining Lost Prepare[]", ""},
		{"sync: fenced", sync(kcode.FencedInstanceID, nil), "joining Lost Prepare[]", ""},
		{"sync: loading", sync(kcode.CoordinatorLoadInProgress, nil), "joining", "joining SendJoin(me)"},
		{"sync: moved", sync(kcode.NotCoordinator, nil), "discovering", "discovering FindCoordinator"},
		{"sync: not available", sync(kcode.CoordinatorNotAvailable, nil), "discovering", "discovering FindCoordinator"},
		{"sync: cut", sync(0, errCut), "discovering", "discovering FindCoordinator"},
		{"sync: too large", sync(kcode.Unknown, nil), "joining", "joining SendJoin(me)"},
		{"sync: nothing assigned", sync(0, nil), "joined Assigned[]", ""},

		{"beat: fine", beat(0, nil), "joined", ""},
		{"beat: rebalance", beat(kcode.RebalanceInProgress, nil), "joining Prepare[0_1]", ""},
		{"beat: generation", beat(kcode.IllegalGeneration, nil), "joining Prepare[0_1]", ""},
		{"beat: unknown member", beat(kcode.UnknownMemberID, nil), "joining Lost Prepare[]", ""},
		{"beat: fenced", beat(kcode.FencedInstanceID, nil), "joining Lost Prepare[]", ""},
		{"beat: loading", beat(kcode.CoordinatorLoadInProgress, nil), "joined", ""},
		{"beat: moved", beat(kcode.NotCoordinator, nil), "discovering FindCoordinator", ""},
		{"beat: not available", beat(kcode.CoordinatorNotAvailable, nil), "discovering FindCoordinator", ""},
		{"beat: cut", beat(0, errCut), "discovering FindCoordinator", ""},

		{"beat in join: fine", beatJoining(0, nil), "joining", ""},
		{"beat in join: rebalance", beatJoining(kcode.RebalanceInProgress, nil), "joining", ""},
		{"beat in join: generation", beatJoining(kcode.IllegalGeneration, nil), "joining", ""},
		{"beat in join: unknown member", beatJoining(kcode.UnknownMemberID, nil), "joining Lost Disconnect Prepare[]", ""},
		{"beat in join: cut", beatJoining(0, errCut), "joining", ""},
		{"beat in sync: fine", beatSyncing(0, nil), "syncing", ""},
		{"beat in sync: rebalance", beatSyncing(kcode.RebalanceInProgress, nil), "syncing", ""},
		{"beat in sync: generation", beatSyncing(kcode.IllegalGeneration, nil), "joining Disconnect SendJoin(me)", ""},
		{"beat in sync: unknown member", beatSyncing(kcode.UnknownMemberID, nil), "joining Lost Disconnect Prepare[]", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t)
			c.do(r)
			require.Equal(t, c.now, r.outcome())
			if c.later == "" {
				return
			}
			before := r.m.State()
			r.now = r.now.Add(40 * time.Millisecond)
			require.Equal(t, before.String(), r.step(Tick{}).outcome(), "the pause is at least half of 100 ms")
			r.now = r.now.Add(60 * time.Millisecond)
			require.Equal(t, c.later, r.step(Tick{}).outcome())
		})
	}
}

// What is declared after a lost answer is what was declared before, under another number.
func TestRetriesDeclareTheSame(t *testing.T) {
	r := newRig(t).joined()
	r.step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	first := want[SendJoin](r)
	r.step(JoinDone{Req: first.Req, Sent: r.now, Err: errCut})
	r.after(time.Second).found("b:1")
	require.True(t, has[Disconnect](r), "the coordinator has moved")
	second := want[SendJoin](r)
	require.Equal(t, "me", second.MemberID)
	require.Equal(t, "b:1", second.Addr)

	a, b := decode(t, first.Metadata), decode(t, second.Metadata)
	require.NotEqual(t, a.JoinSeq, b.JoinSeq)
	a.JoinSeq, b.JoinSeq = 0, 0
	require.Equal(t, a, b)
	require.Equal(t, []task.ID{id(0, 0)}, b.Claims)
}

func decode(t *testing.T, metadata []byte) assignor.MemberData {
	s, err := assignor.DecodeSubscription(metadata)
	require.NoError(t, err)
	d, err := assignor.DecodeMemberData(s.UserData)
	require.NoError(t, err)
	return d
}

func TestDeclaration(t *testing.T) {
	r := newRig(t)
	r.m.cfg.Rack, r.m.cfg.Tags, r.m.cfg.ProcessID = "r1", map[string]string{"zone": "z"}, [16]byte{9}
	r.syncing().syncDone(assignor.PlanData{
		Active: []task.ID{id(0, 0), id(0, 1)}, Members: 3,
		Marks:    []assignor.Mark{{Task: id(0, 0), Receiver: "b"}, {Task: id(0, 1), Receiver: "b"}},
		Learners: []assignor.Incoming{{Task: id(0, 5), Instant: true}},
	})
	require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, tasksOf(want[Assigned](r).Marks))
	r.step(Rejoin{Reason: "test"})
	p := want[Prepare](r)
	require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, tasksOf(p.Marks))
	copies := []assignor.Replica{{Task: id(0, 1), Kind: assignor.OnDisk, Lag: 7}}
	r.step(Prepared{Join: p.Join, Claims: []task.ID{id(0, 1)}, Released: []task.ID{id(0, 0)}, Late: []task.ID{id(0, 1)}, Unfit: []task.ID{id(0, 2)}, Replicas: copies})

	j := want[SendJoin](r)
	require.Equal(t, "learner-v1", j.Protocol)
	require.Equal(t, 15*time.Second, j.Session)
	require.Equal(t, 20*time.Second, j.Rebalance)
	s, err := assignor.DecodeSubscription(j.Metadata)
	require.NoError(t, err)
	require.Equal(t, []string{"in"}, s.Topics)
	require.Equal(t, []task.TopicPartition{{Topic: "in", Partition: 1}}, s.Owned, "released tasks are not owned")
	require.Equal(t, int32(1), s.Generation)
	require.Equal(t, "r1", s.Rack)
	d := decode(t, j.Metadata)
	require.Equal(t, []task.ID{id(0, 1)}, d.Claims)
	require.Equal(t, []task.ID{id(0, 0)}, d.Released)
	require.Equal(t, []task.ID{id(0, 1)}, d.Learned, "marked, and not stopped in time")
	require.Equal(t, []task.ID{id(0, 2)}, d.Unfit)
	require.Equal(t, append(copies, assignor.Replica{Task: id(0, 5), Kind: assignor.Promised, Ready: true, Lag: assignor.LagUnknown}), d.Replicas)
	require.Equal(t, [16]byte{9}, d.Process)
	require.Equal(t, map[string]string{"zone": "z"}, d.Tags)
}

// An answer counts once, and only for the request that is out.
func TestStaleAnswersChangeNothing(t *testing.T) {
	r := newRig(t).joined()
	state := *r.m
	for _, ev := range []Event{
		CoordinatorFound{Req: 1, Addr: "x:1"},
		JoinDone{Req: 2, Code: kcode.UnknownMemberID}, JoinDone{Req: 2, MemberID: "x", Generation: 9}, JoinDone{Err: errCut},
		SyncDone{Req: 3, Code: kcode.UnknownMemberID}, SyncDone{Req: 3}, SyncDone{Err: errCut},
		HeartbeatDone{Code: kcode.UnknownMemberID}, HeartbeatDone{Req: 77, Code: kcode.RebalanceInProgress},
		Prepared{Join: 1}, Prepared{Join: 99}, LeaveDone{}, Tick{}, Start{Topology: smallTopology()},
	} {
		r.step(ev)
		for _, a := range r.acts {
			require.IsType(t, Wake{}, a, "%T", ev)
		}
		r.in(Joined)
		require.Equal(t, state.applied, r.m.applied)
		require.Equal(t, state.memberID, r.m.memberID)
	}

	r = newRig(t).joining()
	join := want[SendJoin](r)
	r.step(JoinDone{Req: join.Req, Sent: r.now, MemberID: "me", Generation: 1})
	sync := want[SendSync](r)
	r.step(JoinDone{Req: join.Req, Sent: r.now, MemberID: "me", Generation: 1}).in(Syncing)
	require.Empty(t, r.acts)
	r.step(SyncDone{Req: sync.Req, Sent: r.now}).in(Joined)
	r.step(SyncDone{Req: sync.Req, Sent: r.now}).in(Joined)
	require.Empty(t, r.acts)
}

// A round was given up and begun again: answers of the first try are not taken for those of the second.
func TestAnswersOfAnEarlierTry(t *testing.T) {
	r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
	sync := want[SendSync](r)
	r.beats(kcode.IllegalGeneration, nil)
	join := want[SendJoin](r)
	require.Empty(t, r.step(SyncDone{Req: sync.Req, Sent: r.now, Assignment: assignment(assignor.PlanData{})}).in(Joining).acts)
	r.acts = append(r.acts, join)
	r.joinDone(2).in(Syncing)
	require.Empty(t, r.step(SyncDone{Req: sync.Req, Sent: r.now, Assignment: assignment(assignor.PlanData{})}).in(Syncing).acts)
	require.Empty(t, r.step(SyncDone{Req: sync.Req, Err: errCut}).in(Syncing).acts)
	require.Empty(t, r.step(JoinDone{Req: join.Req, Code: kcode.UnknownMemberID}).in(Syncing).acts)

	r = newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	join = want[SendJoin](r)
	for range lostBeats {
		r.beats(0, errCut)
	}
	r.after(time.Second).found("a:1").in(Joining)
	again := want[SendJoin](r)
	require.Empty(t, r.step(JoinDone{Req: join.Req, Sent: r.now, MemberID: "me", Generation: 2}).in(Joining).acts)
	r.step(JoinDone{Req: again.Req, Sent: r.now, MemberID: "me", Generation: 2}).in(Syncing)
}

// A heartbeat that was sent in the generation before says nothing about this one.
func TestHeartbeatOfAnOldGeneration(t *testing.T) {
	r := newRig(t).joined()
	r.after(500 * time.Millisecond)
	old := want[SendHeartbeat](r)
	r.after(beatMargin).step(Rejoin{Reason: "test"}).prepared().joinDone(2).syncDone(assignor.PlanData{})
	r.step(HeartbeatDone{Req: old.Req, Sent: r.now, Code: kcode.IllegalGeneration}).in(Joined)
	r.after(500 * time.Millisecond)
	require.Equal(t, int32(2), want[SendHeartbeat](r).Generation)
}

// Heartbeats begin anew with the SyncGroup answer, and go on in every state between.
func TestHeartbeatsArePhased(t *testing.T) {
	r := newRig(t).joined()
	r.after(499 * time.Millisecond)
	require.False(t, has[SendHeartbeat](r))
	r.after(time.Millisecond)
	hb := want[SendHeartbeat](r)
	r.step(HeartbeatDone{Req: hb.Req, Sent: r.now})
	require.Equal(t, r.now.Add(500*time.Millisecond), want[Wake](r).At)

	r.after(beatMargin).step(Rejoin{Reason: "test"}).prepared()
	join := want[SendJoin](r)
	r.beats(kcode.RebalanceInProgress, nil)
	r.step(JoinDone{Req: join.Req, Sent: r.now, MemberID: "me", Generation: 2})
	sync := want[SendSync](r)
	r.after(500 * time.Millisecond)
	require.Equal(t, int32(2), want[SendHeartbeat](r).Generation, "in Syncing with the generation that was joined")
	r.step(HeartbeatDone{Req: want[SendHeartbeat](r).Req, Sent: r.now})
	r.now = r.now.Add(123 * time.Millisecond)
	r.step(SyncDone{Req: sync.Req, Sent: r.now, Assignment: assignment(assignor.PlanData{})})
	require.Equal(t, r.now.Add(500*time.Millisecond), want[Wake](r).At)
}

// A first join has no generation, and so no heartbeat.
func TestNoHeartbeatBeforeTheFirstGeneration(t *testing.T) {
	r := newRig(t).joining()
	for range 5 {
		r.after(time.Second)
		require.False(t, has[SendHeartbeat](r))
	}
}

func TestSilentCoordinatorUnderAParkedJoin(t *testing.T) {
	r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	r.beats(0, errCut).in(Joining)
	r.beats(0, errCut).in(Joining)
	r.beats(0, errCut).in(Discovering)
	require.True(t, has[Disconnect](r), "the parked join is given up with its connection")
	r.after(time.Second).found("a:1")
	require.Equal(t, []task.ID{id(0, 0)}, decode(t, want[SendJoin](r).Metadata).Claims)
}

// The lease ends without any answer: all tasks are lost, whatever state the member is in.
func TestLease(t *testing.T) {
	cases := []struct {
		name string
		do   func(*rig)
		ends time.Duration // after the assignment
		then string
	}{
		{"joined, silent", func(r *rig) {}, 14 * time.Second, "discovering Lost FindCoordinator"},
		{"heartbeats go on", func(r *rig) {
			for range 10 {
				r.beats(0, nil)
			}
		}, 19 * time.Second, "discovering Lost FindCoordinator"},
		{"a rebalance that never ends", func(r *rig) { // heartbeats are answered, but nothing is stable
			r.beats(kcode.RebalanceInProgress, nil).prepared(id(0, 0))
			for range 36 {
				r.beats(kcode.RebalanceInProgress, nil)
			}
		}, 19 * time.Second, "joining Lost"},
		{"a SyncGroup that does not arrive", func(r *rig) { // heartbeats are answered as if nothing were missing, until the member is thrown out
			r.step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
			for range 36 {
				r.beats(kcode.None, nil)
			}
		}, 19 * time.Second, "syncing Lost"},
		{"preparing", func(r *rig) { r.step(Rejoin{Reason: "test"}) }, 14 * time.Second, "joining Lost Prepare[]"},
		{"discovering", func(r *rig) { r.beats(0, errCut) }, 14 * time.Second, "discovering Lost"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t).joined()
			start := r.now
			c.do(r)
			r.now = start.Add(c.ends - time.Millisecond)
			require.False(t, has[Lost](r.step(Tick{})))
			r.now = start.Add(c.ends)
			r.step(Tick{})
			r.acts = slices.DeleteFunc(r.acts, func(a Action) bool { _, beat := a.(SendHeartbeat); return beat })
			require.Equal(t, c.then, r.outcome())
			require.False(t, has[Lost](r.after(time.Minute)), "once")
			_, generation, _ := r.m.Membership()
			require.Equal(t, int32(1), generation)
		})
	}
}

// After the lease nothing is claimed, and a round that was under way may still give tasks back.
func TestLeaseOverUnderAParkedJoin(t *testing.T) {
	r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	join := want[SendJoin](r)
	require.True(t, has[Lost](r.after(time.Minute)))
	r.step(JoinDone{Req: join.Req, Sent: r.now, MemberID: "me", Generation: 2}).syncDone(assignor.PlanData{Active: []task.ID{id(0, 0)}})
	require.Equal(t, []task.ID{id(0, 0)}, want[Assigned](r).Tasks)

	r = newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0))
	join = want[SendJoin](r)
	r.after(time.Minute)
	r.step(JoinDone{Req: join.Req, Sent: r.now, Code: kcode.CoordinatorLoadInProgress})
	r.after(time.Second).prepared()
	require.Empty(t, decode(t, want[SendJoin](r).Metadata).Claims)
}

// Back-offs double from 100 ms to 2 s, with jitter of up to half.
func TestBackOff(t *testing.T) {
	r := newRig(t).discovering()
	for _, most := range []time.Duration{100, 200, 400, 800, 1600, 2000, 2000} {
		r.step(CoordinatorFound{Req: want[FindCoordinator](r).Req, Err: errCut})
		pause := want[Wake](r).At.Sub(r.now)
		require.GreaterOrEqual(t, pause, most*time.Millisecond/2)
		require.Less(t, pause, most*time.Millisecond)
		r.after(pause)
	}
	other := New(Config{Group: "g", Seed: 2})
	other.backOff()
	same := New(Config{Group: "g", Seed: 2})
	same.backOff()
	require.Equal(t, same.retryAt, other.retryAt, "the seed decides")
}

func TestRoundsOnRequest(t *testing.T) {
	grown := smallTopology()
	grown.Partitions = map[string]int32{"in": 5}
	t.Run("joined", func(t *testing.T) {
		r := newRig(t).joined().step(TopologyChanged{Topology: grown}).in(Joining)
		require.Equal(t, []task.ID{id(0, 1)}, tasksOf(want[Prepare](r).Marks))
	})
	t.Run("while a round is under way", func(t *testing.T) {
		r := newRig(t).syncing()
		sync := want[SendSync](r)
		r.step(Rejoin{Reason: "later"})
		require.Empty(t, r.acts)
		r.step(SyncDone{Req: sync.Req, Sent: r.now, Assignment: assignment(assignor.PlanData{})}).in(Joined)
		require.Equal(t, "later", want[Prepare](r.after(followUpDelay)).Reason)
	})
	t.Run("before the round is prepared", func(t *testing.T) {
		r := newRig(t).preparing()
		p := want[Prepare](r)
		r.step(Rejoin{Reason: "covered"})
		r.step(Prepared{Join: p.Join}).joinDone(1).syncDone(assignor.PlanData{})
		require.False(t, has[Prepare](r.after(followUpDelay)), "that round serves for it")
	})
	t.Run("discovering", func(t *testing.T) {
		r := newRig(t).joined().beats(0, errCut)
		find := want[FindCoordinator](r)
		r.step(Rejoin{Reason: "asked"})
		r.step(CoordinatorFound{Req: find.Req, Addr: "a:1"}).in(Joining)
		require.Equal(t, "asked", want[Prepare](r).Reason)
	})
	t.Run("stopped", func(t *testing.T) {
		r := newRig(t).step(Rejoin{Reason: "test"}).in(Stopped)
		require.Empty(t, r.acts)
	})
}

// A coordinator that moved knows the member still: no round is needed.
func TestBackFromDiscovering(t *testing.T) {
	r := newRig(t).joined().beats(kcode.NotCoordinator, nil).found("b:1").in(Joined)
	require.True(t, has[Disconnect](r))
	hb := want[SendHeartbeat](r)
	require.Equal(t, "b:1", hb.Addr)
	require.Equal(t, int32(1), hb.Generation)
	_, _, addr := r.m.Membership()
	require.Equal(t, "b:1", addr)
	require.Empty(t, r.step(HeartbeatDone{Req: hb.Req, Sent: r.now}).in(Joined).acts[:len(r.acts)-1])
}

// While a dead broker, or one that says that it is not the coordinator, is still named as the coordinator, it is asked again after pauses only.
func TestDeadCoordinatorIsNamedAgain(t *testing.T) {
	for _, fault := range []HeartbeatDone{{Err: errCut}, {Code: kcode.NotCoordinator}, {Code: kcode.CoordinatorNotAvailable}} {
		r := newRig(t).joined().beats(fault.Code, fault.Err).found("a:1").in(Joined)
		failed := func() {
			fault.Req = r.m.beat.req
			r.step(fault)
		}
		for range 3 {
			failed()
			r.in(Discovering)
			require.False(t, has[FindCoordinator](r))
			r.after(40 * time.Millisecond)
			require.False(t, has[FindCoordinator](r))
			r.after(time.Second).found("a:1").in(Joined)
		}
		r.step(HeartbeatDone{Req: r.m.beat.req, Sent: r.now}).in(Joined)
		r.after(time.Second)
		failed()
		require.True(t, has[FindCoordinator](r), "it was well again: the next fault is asked about at once")
	}
}

// A round is not begun where the members' heartbeats fall: half of them would see it an interval after the others.
func TestRoundsBeginBetweenBeats(t *testing.T) {
	for _, c := range []struct{ asked, begun time.Duration }{ // after the assignment; a heartbeat is due every 500 ms
		{0, 0}, {300, 300}, {460, 460}, {461, 540}, {499, 540}, {500, 540}, {520, 540}, {540, 540}, {700, 700}, {980, 1040},
	} {
		r := newRig(t).joined()
		start := r.now
		pass := func(until time.Duration) { // as it is woken
			for r.now.Before(start.Add(until*time.Millisecond)) && !has[Prepare](r) {
				r.after(time.Millisecond)
				if has[SendHeartbeat](r) {
					acts := append([]Action(nil), r.acts...)
					r.step(HeartbeatDone{Req: want[SendHeartbeat](r).Req, Sent: r.now})
					r.acts = append(acts, r.acts...)
				}
			}
		}
		pass(c.asked)
		require.False(t, has[Prepare](r))
		r.step(Rejoin{Reason: "asked"})
		pass(5000)
		require.Equal(t, "asked", want[Prepare](r).Reason)
		require.Equal(t, c.begun*time.Millisecond, r.now.Sub(start), "asked for at %d ms", c.asked)
	}
}

func TestFollowUps(t *testing.T) {
	r := newRig(t).syncing().syncDone(assignor.PlanData{FollowUp: assignor.FollowUp{Kind: assignor.Now}}).in(Joined)
	require.False(t, has[Prepare](r.after(followUpDelay-time.Millisecond)))
	require.True(t, has[Prepare](r.after(time.Millisecond)))

	r = newRig(t).syncing().syncDone(assignor.PlanData{FollowUp: assignor.FollowUp{Kind: assignor.At, AtMs: 300}}).in(Joined)
	require.False(t, has[Prepare](r.after(299*time.Millisecond)))
	require.True(t, has[Prepare](r.after(time.Millisecond)))

	r = newRig(t).syncing().syncDone(assignor.PlanData{FollowUp: assignor.FollowUp{Kind: assignor.At, AtMs: 5000}})
	r.beats(kcode.RebalanceInProgress, nil).prepared().joinDone(2).syncDone(assignor.PlanData{}).in(Joined)
	r.beats(0, nil)
	r.now = r.now.Add(6 * time.Second)
	require.False(t, has[Prepare](r.step(Tick{})), "the round that came between serves for it")
}

func TestLeaving(t *testing.T) {
	t.Run("a member", func(t *testing.T) {
		r := newRig(t).joined().step(Stop{}).in(Stopped)
		require.False(t, has[Left](r))
		leave := want[SendLeave](r)
		require.Equal(t, "me", leave.MemberID)
		require.Empty(t, r.step(Stop{}).acts, "it is leaving")
		r.step(LeaveDone{Req: leave.Req})
		require.Equal(t, "stopped Disconnect Left", r.outcome())
		require.Equal(t, "discovering FindCoordinator", r.step(Start{Topology: smallTopology()}).outcome(), "and may come back")
	})
	t.Run("no answer", func(t *testing.T) {
		r := newRig(t).joined().step(Stop{})
		require.Equal(t, "stopped Disconnect Left", r.after(leaveTimeout).outcome())
	})
	t.Run("under a parked join", func(t *testing.T) {
		r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared()
		join := want[SendJoin](r)
		leave := want[SendLeave](r.step(Stop{}))
		require.Empty(t, r.step(JoinDone{Req: join.Req, Code: kcode.UnknownMemberID}).acts)
		require.True(t, has[Left](r.step(LeaveDone{Req: leave.Req, Err: errCut})))
	})
	t.Run("no member yet", func(t *testing.T) {
		require.Equal(t, "stopped Disconnect Left", newRig(t).discovering().step(Stop{}).outcome())
		require.Equal(t, "stopped Left", newRig(t).step(Stop{}).outcome())
	})
}

func TestFaultsNameTheRemedy(t *testing.T) {
	r := newRig(t).joining()
	r.step(JoinDone{Req: want[SendJoin](r).Req, Code: kcode.GroupAuthorizationFailed})
	err := want[Fatal](r).Err
	require.ErrorIs(t, err, kcode.GroupAuthorizationFailed)
	require.ErrorContains(t, err, "group g")
	require.ErrorContains(t, err, "grant this user READ")

	r = newRig(t).syncing().syncDone(assignor.PlanData{Code: assignor.TopologyConflict})
	r.step(LeaveDone{Req: want[SendLeave](r).Req})
	require.ErrorIs(t, want[Fatal](r).Err, ErrTopologyConflict)
}

// Bytes that nobody can read do not stop the member, and never let it run what it did not declare.
func TestOddAssignments(t *testing.T) {
	std := func(parts ...int32) assignor.Assignment {
		a := assignor.Assignment{}
		for _, p := range parts {
			a.Partitions = append(a.Partitions, task.TopicPartition{Topic: "in", Partition: p})
		}
		return a
	}
	with := func(a assignor.Assignment, data []byte) []byte {
		a.UserData = data
		return a.Append(nil)
	}
	foreign := assignor.PlanData{Active: []task.ID{id(0, 0), id(0, 1)}, Hashes: []assignor.Hash{{Subtopology: 0, Sum: 99}}}
	cases := []struct {
		name string
		b    []byte
		want []task.ID
	}{
		{"no bytes", nil, nil},
		{"an empty assignment", std().Append(nil), nil},
		{"the standard part only", std(0, 1).Append(nil), []task.ID{id(0, 0)}},
		{"data of a newer version", with(std(0, 1), []byte{9, 9, 1}), []task.ID{id(0, 0)}},
		{"another form of the subtopology", with(std(0, 1), foreign.Append(nil)), []task.ID{id(0, 0)}},
		{"the same without the standard part", with(std(), foreign.Append(nil)), []task.ID{id(0, 0)}},
		{"taken away", with(std(1), foreign.Append(nil)), nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
			r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Assignment: c.b}).in(Joined)
			require.Equal(t, c.want, want[Assigned](r).Tasks)
		})
	}
	t.Run("garbage", func(t *testing.T) {
		r := newRig(t).joined().step(Rejoin{Reason: "test"}).prepared(id(0, 0)).joinDone(2)
		r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Assignment: []byte{1}}).in(Joining)
		require.Equal(t, []task.ID{id(0, 0)}, decode(t, want[SendJoin](r).Metadata).Claims)
	})
}

func FuzzAssignmentBytes(f *testing.F) {
	f.Add([]byte(nil))
	f.Add(assignment(assignor.PlanData{Active: []task.ID{id(0, 0)}, FollowUp: assignor.FollowUp{Kind: assignor.At, AtMs: 1}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newRig(t).syncing()
		r.step(SyncDone{Req: want[SendSync](r).Req, Sent: r.now, Assignment: b})
		require.NotEqual(t, Syncing, r.m.State())
	})
}
