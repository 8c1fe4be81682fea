package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/statestore"
)

// onDisk takes the application to its first join with a state of 1_0 on disk, at position 6 of 8.
func onDisk(t *testing.T, change func(*Config)) *world {
	w := newWorld(t, change)
	w.disk = true
	w.step(Start{})
	w.topics()
	require.Empty(t, ever[MemberAction](w), "first of all it looks what it has")
	w.step(StoredKnown{Tasks: []statestore.StoredTask{{ID: id10, Stores: []statestore.StoredStore{{Name: "counts", Position: 6}}}}})
	w.listed(latest[ListOffsets](w), 0, 8)
	w.step(Member{group.CoordinatorFound{Req: w.find(), Addr: coordinator}})
	return w
}

func TestWhatIsOnDiskIsSaidInTheFirstJoin(t *testing.T) {
	w := onDisk(t, nil)
	require.Equal(t, []assignor.Replica{{Task: id10, Kind: assignor.OnDisk, Lag: 2}}, w.declared().Replicas)
}

// KAFKA-10651: a copy whose stores are being opened is as good as it was on disk.
func TestCopyThatIsBeingOpenedHasTheLagThatItHadOnDisk(t *testing.T) {
	w := onDisk(t, nil)
	w.assignPlan(copyPlan(Standby))
	require.Equal(t, int64(2), w.e.Tasks()[0].Lag)
	w.rebalance()
	require.Equal(t, []assignor.Replica{{Task: id10, Kind: assignor.Standby, Lag: 2, CatchUp: 1}}, w.declared().Replicas)
}

func TestJoinDoesNotWaitLongForLags(t *testing.T) {
	w := newWorld(t, nil)
	w.disk = true
	w.step(Start{})
	w.topics()
	w.after(storedWait)
	require.NotZero(t, w.find())
}

func TestStateThatNobodyUsesIsCleaned(t *testing.T) {
	w := onDisk(t, func(c *Config) { c.StateCleanup = 5 * time.Minute })
	w.assign(nil)
	w.alive(4 * time.Minute)
	require.Empty(t, ever[DropStored](w))
	w.alive(3 * time.Minute)
	require.Len(t, ever[DropStored](w), 1)
	w.step(StoredDropped{Task: id10})
	require.Len(t, w.notices(NoticeCleaned), 1)
	w.rebalance()
	require.Empty(t, w.declared().Replicas)
}

// S10
func TestStateThatIsInUseIsNotCleaned(t *testing.T) {
	w := onDisk(t, func(c *Config) { c.StateCleanup = 5 * time.Minute })
	w.assignPlan(copyPlan(Standby))
	w.alive(20 * time.Minute)
	require.Empty(t, ever[DropStored](w))
}

// Who was promised a task for what lies on its disk asks for the round at once, before it has looked at the changelog again.
func TestCopyThatIsBeingOpenedIsAsFarAsItWasOnDisk(t *testing.T) {
	w := onDisk(t, nil)
	w.assignPlan(assignor.PlanData{Members: 2, Learners: []assignor.Incoming{{Task: id10, Owner: "other", Instant: true}}})
	w.stores(id10, 6)
	w.rebalance()
	require.Equal(t, assignor.Lag(2), w.declared().Replicas[0].Lag)
}

func TestStateThatAJoinHasToldOfIsNotCleanedInThatRound(t *testing.T) {
	w := onDisk(t, func(c *Config) { c.StateCleanup = 5 * time.Second })
	require.Len(t, w.declared().Replicas, 1)
	w.after(10 * time.Second)
	require.Empty(t, ever[DropStored](w), "the plan that is being made may give the task to this process for it")
	w.assign(nil)
	w.alive(2 * time.Second)
	require.Len(t, ever[DropStored](w), 1)
}

func TestStateOnDiskFallsBehindWhileNobodyLooks(t *testing.T) {
	w := onDisk(t, nil)
	w.assign(nil)
	lag := func() assignor.Lag {
		w.rebalance()
		r := w.declared().Replicas
		w.assign(nil)
		return r[0].Lag
	}
	require.Equal(t, assignor.Lag(2), lag())
	for n := len(ever[ListOffsets](w)); len(ever[ListOffsets](w)) == n; {
		w.alive(100 * time.Millisecond)
	}
	took := w.now.Sub(w.e.stored.copies[id10].at).Seconds()
	w.listed(latest[ListOffsets](w), 0, 108)
	require.InDelta(t, 102+100/took, float64(lag()), 100, "the next heartbeat, and with it the join, is up to a second away")
	w.alive(10 * time.Second)
	require.Greater(t, lag(), assignor.Lag(102+9*100/took))
}
