package modelbroker

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func TestSync_Realkafka1(t *testing.T) {
	w := groupWorld(t)
	a, b := w.party("a"), w.party("b")
	w.settle(a, b)
	require.Equal(t, "for b", string(got[SyncGroupResponse](w, b.sync()).Assignment), "a sync in Stable returns the stored plan")
	require.Equal(t, "for a", string(got[SyncGroupResponse](w, a.sync(Assignment{MemberID: a.id, Bytes: []byte("other")})).Assignment))

	old := a.syncRequest()
	old.Generation--
	require.Equal(t, kcode.IllegalGeneration, do[SyncGroupResponse](w, 0, old).Code)
	other := a.syncRequest()
	other.Protocol = "range"
	require.Equal(t, kcode.InconsistentGroupProtocol, do[SyncGroupResponse](w, 0, other).Code)

	a.rejoin()
	require.Equal(t, kcode.RebalanceInProgress, got[SyncGroupResponse](w, b.sync()).Code)
	b.enter()
	a.joined()
	b.joined()
	follower := b.sync()
	require.True(t, w.parked(follower))
	a.sync(Assignment{MemberID: a.id, Bytes: []byte{}}, Assignment{MemberID: "gone", Bytes: []byte("x")})
	require.Equal(t, SyncGroupResponse{Assignment: []byte{}}, got[SyncGroupResponse](w, follower), "left out of the plan: empty bytes")
}

func TestSyncTimers_Realkafka4(t *testing.T) {
	setup := func(t *testing.T) (w *world, leader, follower *party) {
		w = groupWorld(t)
		leader, follower = w.party("a"), w.party("b")
		leader.rebalance, follower.rebalance = 2*time.Second, 2*time.Second
		w.settle(leader, follower)
		leader.rejoin()
		follower.rejoin()
		leader.joined()
		follower.joined()
		return w, leader, follower
	}
	t.Run("joined, beats, never syncs: evicted after the rebalance timeout", func(t *testing.T) {
		w, leader, follower := setup(t)
		leader.sync()
		w.wait(1900 * time.Millisecond)
		require.Equal(t, kcode.None, follower.beat())
		w.wait(100 * time.Millisecond)
		require.Equal(t, kcode.UnknownMemberID, follower.beat())
		require.Equal(t, kcode.RebalanceInProgress, leader.beat())
	})
	t.Run("the leader never syncs: 27 for the followers, another leader", func(t *testing.T) {
		w, leader, follower := setup(t)
		parked := follower.sync()
		w.wait(1900 * time.Millisecond)
		leader.beat()
		require.True(t, w.parked(parked))
		w.wait(100 * time.Millisecond)
		require.Equal(t, kcode.RebalanceInProgress, got[SyncGroupResponse](w, parked).Code)
		require.Equal(t, follower.id, follower.enter().joined().Leader)
		require.Equal(t, kcode.UnknownMemberID, leader.beat())
	})
	t.Run("the leader dies before its sync: 27 after its session", func(t *testing.T) {
		w, leader, follower := setup(t)
		leader.session = 1500 * time.Millisecond
		leader.rejoin()
		follower.rejoin()
		leader.joined()
		follower.joined()
		parked := follower.sync()
		w.wait(1499 * time.Millisecond)
		require.True(t, w.parked(parked))
		w.wait(time.Millisecond)
		require.Equal(t, kcode.RebalanceInProgress, got[SyncGroupResponse](w, parked).Code)
	})
	t.Run("the leader leaves before its sync: 27 at once", func(t *testing.T) {
		w, leader, follower := setup(t)
		parked := follower.sync()
		leader.leave()
		require.Equal(t, kcode.RebalanceInProgress, got[SyncGroupResponse](w, parked).Code)
	})
	t.Run("a sync parked beyond its session is not evicted", func(t *testing.T) {
		w, leader, follower := setup(t)
		follower.session = 500 * time.Millisecond
		follower.rejoin()
		leader.rejoin()
		leader.joined()
		follower.joined()
		parked := follower.sync()
		w.wait(1500 * time.Millisecond)
		leader.sync()
		require.Equal(t, kcode.None, got[SyncGroupResponse](w, parked).Code)
	})
	t.Run("a join meanwhile sends those that are parked back to join", func(t *testing.T) {
		w, leader, follower := setup(t)
		parked := follower.sync()
		w.party("c").enter()
		require.Equal(t, kcode.RebalanceInProgress, got[SyncGroupResponse](w, parked).Code)
		require.Equal(t, kcode.RebalanceInProgress, leader.beat())
	})
}

func TestPlanTooLarge_Realkafka1(t *testing.T) {
	for _, c := range []struct {
		name                 string
		n, metadata, planned int
		want                 kcode.Code
	}{
		{"1 member, 500 kB + 545 kB", 1, 500_000, 545_000, kcode.None},
		{"1 member, 500 kB + 549 kB", 1, 500_000, 549_000, kcode.Unknown},
		{"50 members, 10.4 kB + 10.4 kB", 50, 10_400, 10_400, kcode.None},
		{"50 members, 200 B + 20.8 kB", 50, 200, 20_800, kcode.Unknown},
		{"200 members, 2.5 kB + 2.6 kB", 200, 2500, 2600, kcode.None},
		{"200 members, 2.6 kB + 2.6 kB", 200, 2600, 2600, kcode.Unknown},
		{"2 MB of metadata alone", 1, 2_000_000, 0, kcode.Unknown},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, Config{InitialRebalanceDelay: time.Second})
			var ps []*party
			var plan []Assignment
			for range c.n {
				p := w.party(strings.Repeat("m", c.metadata))
				p.enter()
				ps = append(ps, p)
				plan = append(plan, Assignment{MemberID: p.id, Bytes: bytes.Repeat([]byte{1}, c.planned)})
			}
			w.wait(2 * time.Second)
			ids := make([]uint64, c.n)
			for i := c.n - 1; i >= 0; i-- {
				r := ps[i].joined()
				if r.Leader == ps[i].id {
					ids[i] = ps[i].sync(plan...)
				} else {
					ids[i] = ps[i].sync()
				}
			}
			for i, p := range ps {
				require.Equal(t, c.want, got[SyncGroupResponse](w, ids[i]).Code)
				if c.want != kcode.None {
					require.Equal(t, kcode.RebalanceInProgress, p.beat(), "a new rebalance begins")
				}
			}
		})
	}
}
