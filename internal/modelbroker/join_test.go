package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func TestJoinTwoSteps_Rebalance5(t *testing.T) {
	w := groupWorld(t)
	a := w.party("a")
	a.enter()
	r := a.joined()
	require.Equal(t, JoinGroupResponse{
		Generation: 1, Protocol: "learner-v1", Leader: a.id, MemberID: a.id, Members: []JoinedMember{{ID: a.id, Metadata: []byte("a")}},
	}, r)
	require.Len(t, a.id, 39)
	require.Equal(t, CompletingRebalance, w.b.Group("g").State)
}

func TestJoinRefused(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
	a := w.party("a")
	change := func(f func(*JoinGroupRequest)) JoinGroupRequest {
		r := a.request()
		f(&r)
		return r
	}
	unknown := do[JoinGroupResponse](w, 0, change(func(r *JoinGroupRequest) { r.MemberID = "x" }))
	require.Equal(t, JoinGroupResponse{Code: kcode.UnknownMemberID, Generation: -1, MemberID: "x"}, unknown, "no such group")
	w.settle(a)
	for _, c := range []struct {
		name string
		req  JoinGroupRequest
		want kcode.Code
	}{
		{"realkafka 1: session below the minimum of 6 s", change(func(r *JoinGroupRequest) { r.Session = 5999 * time.Millisecond }), kcode.InvalidSessionTimeout},
		{"session above the maximum", change(func(r *JoinGroupRequest) { r.Session = time.Hour }), kcode.InvalidSessionTimeout},
		{"realkafka 1: other protocol type", change(func(r *JoinGroupRequest) { r.ProtocolType = "connect" }), kcode.InconsistentGroupProtocol},
		{"no protocol in common", change(func(r *JoinGroupRequest) { r.Protocols[0].Name = "range" }), kcode.InconsistentGroupProtocol},
		{"no such member", change(func(r *JoinGroupRequest) { r.MemberID = "x" }), kcode.UnknownMemberID},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.Equal(t, c.want, do[JoinGroupResponse](w, 0, c.req).Code)
		})
	}
	require.Equal(t, Stable, w.b.Group("g").State)
}

func TestRejoin_Realkafka2(t *testing.T) {
	for _, c := range []struct {
		name             string
		leader, changed  bool
		completing, wake bool // sent before the leader's sync; the others must rejoin
	}{
		{name: "follower, equal bytes: the current generation"},
		{name: "follower, equal bytes, in CompletingRebalance: the current generation", completing: true},
		{name: "follower, changed bytes: a rebalance", changed: true, wake: true},
		{name: "follower, changed bytes, in CompletingRebalance: a rebalance", changed: true, completing: true, wake: true},
		{name: "leader, equal bytes: a rebalance", leader: true, wake: true},
		{name: "leader, equal bytes, in CompletingRebalance: generation and members again", leader: true, completing: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := groupWorld(t)
			a, b := w.party("a"), w.party("b")
			w.settle(a, b)
			if c.completing {
				a.rejoin()
				b.rejoin()
				a.joined()
				b.joined()
			}
			gen, p, other := a.gen, b, a
			if c.leader {
				p, other = a, b
			}
			if c.changed {
				p.bytes = "new"
			}
			p.enter()
			require.Equal(t, c.wake, w.parked(p.join))
			if c.wake {
				require.Equal(t, kcode.RebalanceInProgress, other.beat())
				other.enter()
				require.Equal(t, gen+1, p.joined().Generation)
				return
			}
			r := p.joined()
			require.Equal(t, gen, r.Generation)
			require.Equal(t, c.leader, len(r.Members) == 2, "members for the leader only")
			require.Equal(t, kcode.None, other.beat())
		})
	}
}

func TestBarrier_Realkafka4(t *testing.T) {
	t.Run("it lasts the largest rebalance timeout, then who did not join is out", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		a.rebalance, b.rebalance = 5*time.Second, 2*time.Second
		w.settle(a, b)
		a.rejoin()
		for range 4 {
			w.wait(time.Second)
			require.Equal(t, kcode.RebalanceInProgress, b.beat())
		}
		require.True(t, w.parked(a.join))
		w.wait(time.Second)
		require.Len(t, a.joined().Members, 1)
		require.Equal(t, kcode.UnknownMemberID, b.beat())
		require.Equal(t, kcode.UnknownMemberID, got[SyncGroupResponse](w, b.sync()).Code)
		require.Equal(t, kcode.UnknownMemberID, do[JoinGroupResponse](w, 0, b.request()).Code)
	})
	t.Run("a join parked beyond its session is not evicted", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		a.session = time.Second
		w.settle(a, b)
		a.rejoin()
		for range 3 {
			w.wait(time.Second)
			b.beat()
		}
		b.enter()
		require.Equal(t, a.joined().Generation, b.joined().Generation)
	})
	t.Run("a new member that waits longer than five minutes is evicted", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		a.rebalance = 20 * time.Minute
		w.settle(a)
		b.enter()
		for range 301 {
			w.wait(time.Second)
			a.beat()
		}
		require.Equal(t, kcode.UnknownMemberID, got[JoinGroupResponse](w, b.join).Code)
	})
	t.Run("it waits for a member that was given an id, for its session timeout", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a)
		b.session = 2 * time.Second
		b.id = do[JoinGroupResponse](w, 0, b.request()).MemberID
		a.enter()
		require.True(t, w.parked(a.join))
		w.wait(2 * time.Second)
		require.EqualValues(t, 2, a.joined().Generation)
		require.Equal(t, kcode.UnknownMemberID, do[JoinGroupResponse](w, 0, b.request()).Code)
	})
	t.Run("a given id that leaves ends the wait", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a)
		b.id = do[JoinGroupResponse](w, 0, b.request()).MemberID
		a.enter()
		require.Equal(t, kcode.None, b.leave())
		require.EqualValues(t, 2, a.joined().Generation)
		require.Equal(t, kcode.UnknownMemberID, b.leave())
	})
	t.Run("the socket is cut and the same id joins on another: one barrier, no duplicate", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		b.bytes = "b2"
		cut := w.dial(0)
		first := w.sendOn(cut, b.request())
		w.b.Hangup(cut)
		b.enter()
		a.enter()
		require.Len(t, a.joined().Members, 2)
		require.EqualValues(t, 2+1, b.joined().Generation)
		require.True(t, w.parked(first))
	})
	t.Run("heartbeats do not hurt while a join is parked, on another connection", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		a.rejoin()
		require.Equal(t, kcode.RebalanceInProgress, a.beat())
	})
}

func TestInitialRebalanceDelay_Realkafka1(t *testing.T) {
	w := newWorld(t, Config{InitialRebalanceDelay: 3 * time.Second})
	a, b := w.party("a"), w.party("b")
	a.enter()
	w.wait(2 * time.Second)
	require.True(t, w.parked(a.join))
	b.enter()
	w.wait(10 * time.Second)
	for _, p := range []*party{a, b} {
		require.EqualValues(t, 1, p.joined().Generation)
		require.Equal(t, 6*time.Second, w.when[p.join].Sub(epoch))
	}
	w.plan(a, b)
	c := w.party("c")
	c.enter()
	a.enter()
	b.enter()
	require.EqualValues(t, 2, c.joined().Generation, "later joins are not delayed")

	t.Run("a member that leaves meanwhile ends the delay", func(t *testing.T) {
		w := newWorld(t, Config{InitialRebalanceDelay: 3 * time.Second})
		a, b := w.party("a").enter(), w.party("b").enter()
		a.leave()
		require.EqualValues(t, 1, b.joined().Generation)
	})
	t.Run("the last member that leaves meanwhile leaves an empty group", func(t *testing.T) {
		w := newWorld(t, Config{InitialRebalanceDelay: 3 * time.Second})
		a := w.party("a").enter()
		require.Equal(t, kcode.None, a.leave())
		require.Equal(t, kcode.UnknownMemberID, got[JoinGroupResponse](w, a.join).Code)
		require.Equal(t, Empty, w.b.Group("g").State)
		w.wait(3 * time.Second)
		require.EqualValues(t, 1, w.b.Group("g").Generation)
	})
	t.Run("the delay is never longer than the rebalance timeout", func(t *testing.T) {
		w := newWorld(t, Config{InitialRebalanceDelay: 10 * time.Second})
		a := w.party("a").enter()
		for range 4 {
			w.wait(4 * time.Second)
			w.party("b").enter()
		}
		require.Equal(t, 15*time.Second, w.when[a.join].Sub(epoch))
	})
}

func TestProtocolSelection(t *testing.T) {
	w := groupWorld(t)
	join := func(id string, names ...string) (string, uint64) {
		r := JoinGroupRequest{Group: "g", MemberID: id, Session: time.Second, Rebalance: time.Second, ProtocolType: "consumer"}
		for _, n := range names {
			r.Protocols = append(r.Protocols, Protocol{Name: n, Metadata: []byte(n)})
		}
		r.MemberID = do[JoinGroupResponse](w, 0, r).MemberID
		return r.MemberID, w.send(0, r)
	}
	_, first := join("", "v2", "v1")
	require.Equal(t, "v2", got[JoinGroupResponse](w, first).Protocol)
	_, second := join("", "v0", "v1", "v2")
	w.wait(time.Second)
	require.Equal(t, "v0", got[JoinGroupResponse](w, second).Protocol, "the first member is out")
	_, third := join("", "v1", "v0")
	w.wait(time.Second)
	require.Equal(t, "v1", got[JoinGroupResponse](w, third).Protocol)
}

func TestNilBytesCloseTheConnection_Realkafka0(t *testing.T) {
	w := groupWorld(t)
	a := w.party("a")
	c := w.dial(0)
	r := a.request()
	r.Protocols[0].Metadata = nil
	w.sendOn(c, r)
	require.True(t, w.closed[c])
	a.enter()
	a.joined()
	c = w.dial(0)
	w.sendOn(c, a.syncRequest(Assignment{MemberID: a.id}))
	require.True(t, w.closed[c])
	require.True(t, w.parked(w.sendOn(c, MetadataRequest{})), "a closed connection takes nothing")
	require.Equal(t, CompletingRebalance, w.b.Group("g").State)
}
