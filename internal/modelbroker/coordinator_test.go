package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// everyRequest is one of each that goes to the coordinator, with the place of its code.
func everyRequest(p *party) map[string]func(node int32) kcode.Code {
	w := p.w
	return map[string]func(int32) kcode.Code{
		"join": func(n int32) kcode.Code { return do[JoinGroupResponse](w, n, p.request()).Code },
		"sync": func(n int32) kcode.Code { return do[SyncGroupResponse](w, n, p.syncRequest()).Code },
		"heartbeat": func(n int32) kcode.Code {
			return do[HeartbeatResponse](w, n, HeartbeatRequest{Group: "g", MemberID: p.id, Generation: p.gen}).Code
		},
		"leave": func(n int32) kcode.Code {
			return do[LeaveGroupResponse](w, n, LeaveGroupRequest{Group: "g", MemberIDs: []string{p.id}}).Code
		},
		"commit": func(n int32) kcode.Code {
			o := []task.InputOffset{{TopicPartition: tp("in", 0)}}
			return do[OffsetCommitResponse](w, n, OffsetCommitRequest{Group: "g", MemberID: p.id, Generation: p.gen, Offsets: o}).Codes[0]
		},
		"fetch": func(n int32) kcode.Code { return do[OffsetFetchResponse](w, n, OffsetFetchRequest{Group: "g"}).Code },
	}
}

// clusterOnNode0 has three nodes and the coordinator of "g" on the first.
func clusterOnNode0(t *testing.T, load time.Duration) *world {
	w := newWorld(t, Config{Brokers: 3, Load: load, Topics: map[string]TopicConfig{"in": {Partitions: 3}}})
	w.b.MoveCoordinator(w.now, "g", 0)
	w.wait(load)
	return w
}

func TestNotCoordinator_Realkafka4b(t *testing.T) {
	w := clusterOnNode0(t, time.Second)
	a := w.party("a")
	w.settle(a)
	require.EqualValues(t, 0, do[FindCoordinatorResponse](w, 2, FindCoordinatorRequest{Group: "g"}).Node)
	for name, ask := range everyRequest(a) {
		require.Equal(t, kcode.NotCoordinator, ask(1), name)
	}
	w.b.MoveCoordinator(w.now, "g", 1)
	for name, ask := range everyRequest(a) {
		require.Equal(t, kcode.CoordinatorLoadInProgress, ask(1), name)
		require.Equal(t, kcode.NotCoordinator, ask(0), name)
	}
	require.EqualValues(t, 1, do[FindCoordinatorResponse](w, 0, FindCoordinatorRequest{Group: "g"}).Node)
	w.wait(time.Second)
	require.Equal(t, kcode.None, everyRequest(a)["heartbeat"](1))
}

func TestCoordinatorFailure_Realkafka4b(t *testing.T) {
	t.Run("Stable: member id, generation, plan and offsets are valid, sessions start anew", func(t *testing.T) {
		w := clusterOnNode0(t, time.Second)
		a := w.party("a")
		w.settle(a)
		require.Equal(t, kcode.None, a.commitAt(a.gen))
		w.wait(9 * time.Second)
		w.b.MoveCoordinator(w.now, "g", 0)
		w.wait(10 * time.Second)
		require.Equal(t, kcode.None, a.beat())
		require.Equal(t, "for a", string(got[SyncGroupResponse](w, a.sync()).Assignment))
		require.EqualValues(t, 1, w.b.Committed("g", tp("in", 0)))
		w.wait(10 * time.Second)
		require.Equal(t, kcode.UnknownMemberID, a.beat())
	})
	t.Run("parked join: answered NOT_COORDINATOR by a move, the rebalance is forgotten, equal bytes give g back", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		equal := b.bytes
		b.rejoin()
		w.b.MoveCoordinator(w.now, "g", 0)
		w.take()
		require.Equal(t, kcode.NotCoordinator, got[JoinGroupResponse](w, b.join).Code)
		require.Equal(t, kcode.None, a.beat())
		require.Equal(t, kcode.None, b.beat())
		b.bytes = equal
		b.enter()
		require.Equal(t, a.gen, b.joined().Generation)
		require.Equal(t, kcode.None, a.beat(), "no round")
		b.rejoin()
		require.True(t, w.parked(b.join))
		require.Equal(t, kcode.RebalanceInProgress, a.beat())
	})
	t.Run("between join and sync: back at g, g+1 is illegal, and is given again", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		gen := a.gen
		a.rejoin()
		b.rejoin()
		require.Equal(t, gen+1, a.joined().Generation)
		b.joined()
		parked := b.sync()
		w.b.MoveCoordinator(w.now, "g", 0)
		w.take()
		require.Equal(t, kcode.NotCoordinator, got[SyncGroupResponse](w, parked).Code)
		require.Equal(t, kcode.IllegalGeneration, a.beat())
		require.Equal(t, kcode.IllegalGeneration, a.commitAt(gen+1))
		require.Equal(t, kcode.None, a.beatAt(gen))
		require.Equal(t, kcode.None, a.commitAt(gen))
		a.rejoin()
		b.rejoin()
		require.Equal(t, gen+1, a.joined().Generation)
	})
	t.Run("a member that never synced is unknown afterwards", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a := w.party("a").enter()
		a.joined()
		w.b.MoveCoordinator(w.now, "g", 0)
		require.Equal(t, kcode.UnknownMemberID, do[JoinGroupResponse](w, 0, a.request()).Code)
		require.Equal(t, kcode.UnknownMemberID, w.commit(a.id, 1, task.InputOffset{TopicPartition: tp("in", 0)})[0])
	})
	t.Run("kill -9: sockets close, the dead node is named until the failover after 8.3 s", func(t *testing.T) {
		w := clusterOnNode0(t, 100*time.Millisecond)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		c := w.dial(0)
		b.bytes = "b2"
		parked := w.sendOn(c, b.request())
		w.b.Crash(w.now, 0)
		w.take()
		require.True(t, w.closed[c])
		require.True(t, w.parked(parked))
		_, err := w.b.Dial(0)
		require.ErrorContains(t, err, "broker 0 refuses")
		w.wait(8299 * time.Millisecond)
		require.EqualValues(t, 0, do[FindCoordinatorResponse](w, 1, FindCoordinatorRequest{Group: "g"}).Node)
		w.wait(time.Millisecond)
		require.EqualValues(t, 1, do[FindCoordinatorResponse](w, 2, FindCoordinatorRequest{Group: "g"}).Node)
		beat := HeartbeatRequest{Group: "g", MemberID: b.id, Generation: a.gen}
		require.Equal(t, kcode.CoordinatorLoadInProgress, do[HeartbeatResponse](w, 1, beat).Code)
		w.wait(100 * time.Millisecond)
		require.Equal(t, kcode.None, do[HeartbeatResponse](w, 1, beat).Code)
	})
	t.Run("kill -9 and a restart before the failover: the same node goes on", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a := w.party("a")
		w.settle(a)
		w.b.Crash(w.now, 0)
		w.wait(time.Second)
		w.b.Restart(w.now, 0)
		require.Equal(t, kcode.None, a.beat())
		w.wait(9 * time.Second)
		require.EqualValues(t, 0, w.b.Group("g").Coordinator)
	})
	t.Run("SIGTERM: everything moves at once, parked requests are answered first", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		a.rejoin()
		w.b.Shutdown(w.now, 0)
		w.take()
		require.Equal(t, kcode.NotCoordinator, got[JoinGroupResponse](w, a.join).Code)
		require.Equal(t, kcode.None, do[HeartbeatResponse](w, 1, HeartbeatRequest{Group: "g", MemberID: b.id, Generation: b.gen}).Code)
	})
	t.Run("an id given and not used is forgotten", func(t *testing.T) {
		w := clusterOnNode0(t, 0)
		a := w.party("a")
		a.id = do[JoinGroupResponse](w, 0, a.request()).MemberID
		w.b.MoveCoordinator(w.now, "g", 0)
		require.Equal(t, kcode.UnknownMemberID, do[JoinGroupResponse](w, 0, a.request()).Code)
	})
}
