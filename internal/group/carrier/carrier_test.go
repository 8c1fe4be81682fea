package carrier

import (
	"context"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/task"
)

// Members come, leave and die; each time every task runs once soon after, and what need not move does not.
func TestMembersShareTheTasks(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		name := t.Name()
		a := newMember(t, addrs, name)
		requireSettled(t, 15*time.Second, 8, a)

		b := newMember(t, addrs, name)
		requireSettled(t, 10*time.Second, 8, a, b)
		hadA, hadB := a.now().running, b.now().running

		c := newMember(t, addrs, name)
		requireSettled(t, 10*time.Second, 8, a, b, c)
		requireSubset(t, hadA, a.now().running)
		requireSubset(t, hadB, b.now().running)
		require.Zero(t, a.now().lost+b.now().lost+c.now().lost)

		rounds := a.now().rounds
		time.Sleep(300 * time.Millisecond) // some heartbeats: nothing happens in a stable group
		require.Equal(t, rounds, a.now().rounds)

		b.box <- group.Stop{}
		require.Eventually(t, func() bool { return b.now().left }, 5*time.Second, 5*time.Millisecond)
		requireSettled(t, 10*time.Second, 8, a, c)

		c.kill()
		requireSettled(t, 20*time.Second, 8, a)

		a.box <- group.TopologyChanged{Topology: topology(9)}
		requireSettled(t, 10*time.Second, 11, a)
	})
}

// requireSubset: who gave tasks away got none.
func requireSubset(t *testing.T, before, after []task.ID) {
	t.Helper()
	for _, id := range after {
		require.True(t, slices.Contains(before, id), "%s is new: %v, then %v", id, before, after)
	}
}

// Kafka's tools read the group: subscriptions and assignments are in the standard format.
func TestToolsReadTheGroup(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		name := t.Name()
		a, b := newMember(t, addrs, name), newMember(t, addrs, name)
		requireSettled(t, 15*time.Second, 8, a, b)
		rounds := a.now().rounds
		a.box <- group.Rejoin{Reason: "so that claims are declared"}
		require.Eventually(t, func() bool { return a.now().rounds > rounds && settled(8, a, b) == nil }, 10*time.Second, 5*time.Millisecond)

		admin, err := sarama.NewClusterAdmin(addrs, sarama.NewConfig())
		require.NoError(t, err)
		defer func() { require.NoError(t, admin.Close()) }()
		groups, err := admin.DescribeConsumerGroups([]string{name})
		require.NoError(t, err)
		require.Equal(t, "consumer", groups[0].ProtocolType)
		require.Equal(t, group.Protocol, groups[0].Protocol)
		require.Len(t, groups[0].Members, 2)
		for _, m := range []*member{a, b} {
			d := groups[0].Members[m.now().id]
			require.NotNil(t, d)
			sub, err := d.GetMemberMetadata()
			require.NoError(t, err)
			require.Equal(t, []string{"in", "side"}, sub.Topics)
			got, err := d.GetMemberAssignment()
			require.NoError(t, err)
			var ids []task.ID
			for topic, parts := range got.Topics {
				for _, p := range parts {
					ids = append(ids, task.ID{Subtopology: map[string]int32{"in": 0, "side": 1}[topic], Partition: p})
				}
			}
			require.ElementsMatch(t, m.now().running, ids)
		}
	})
}

// A member that was removed learns of it, stops its tasks, and comes back as a new one.
func TestRemovedMemberComesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, addrs []string) {
		a := newMember(t, addrs, t.Name())
		requireSettled(t, 15*time.Second, 8, a)
		old := a.now().id
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		addr, code, err := a.client.Coordinator(ctx, t.Name())
		require.NoError(t, err)
		require.Equal(t, kcode.None, code)
		conn, err := a.client.DialGroup(ctx, addr, time.Second)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Leave(kafka.LeaveRequest{Group: t.Name(), MemberID: old})
		require.NoError(t, err)

		require.Eventually(t, func() bool { return a.now().lost == 1 }, 5*time.Second, 5*time.Millisecond)
		requireSettled(t, 10*time.Second, 8, a)
		require.NotEqual(t, old, a.now().id)
	})
}

// The coordinator moves: the membership goes on at the new one, and no task stops.
func TestCoordinatorMoves(t *testing.T) {
	b := embedded(t, 3)
	a := newMember(t, b.Addrs(), "g")
	requireSettled(t, 10*time.Second, 8, a)
	node := b.Cluster().CoordinatorFor("g")
	before := a.now().addr
	for b.Cluster().CoordinatorFor("g") == node {
		b.Cluster().RehashCoordinators()
	}
	require.Eventually(t, func() bool { return a.now().addr != before && settled(8, a) == nil }, 10*time.Second, 5*time.Millisecond)
	require.Zero(t, a.now().lost)
}

// The broker that coordinates the group is killed, with a round under way: it takes the others some eight seconds to notice, and no task stops.
func TestCoordinatorIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three brokers")
	}
	brokers := realkafka.Start(t, 3, "offsets.topic.replication.factor=3", "offsets.topic.num.partitions=3")
	long := func(c *group.Config) {
		c.Session, c.Rebalance, c.Heartbeat = 25*time.Second, 30*time.Second, 500*time.Millisecond
	}
	a, b := newMember(t, brokers.Addrs(), "g", long), newMember(t, brokers.Addrs(), "g", long)
	requireSettled(t, 30*time.Second, 8, a, b)
	dead := a.now().addr
	node := slices.Index(brokers.Addrs(), dead) + 1
	require.Positive(t, node, "%s is none of %v", dead, brokers.Addrs())
	a.box <- group.Rejoin{Reason: "a round under way"}
	require.NoError(t, brokers.Kill(node))
	require.Eventually(t, func() bool {
		return a.now().addr != dead && b.now().addr != dead && settled(8, a, b) == nil
	}, 40*time.Second, 20*time.Millisecond)
	require.Zero(t, a.now().lost+b.now().lost)
	rounds := a.now().rounds
	a.box <- group.Rejoin{Reason: "the new coordinator knows both"}
	require.Eventually(t, func() bool { return a.now().rounds > rounds && settled(8, a, b) == nil }, 20*time.Second, 20*time.Millisecond)
}

// Close returns at once while a join is parked, and nothing is posted after it.
func TestCloseUnderAParkedJoin(t *testing.T) {
	addrs := embedded(t, 1).Addrs()
	a := newMember(t, addrs, "g", func(c *group.Config) { c.Rebalance = time.Minute; c.Session = time.Minute })
	requireSettled(t, 10*time.Second, 8, a)
	a.kill() // without a word: the next one's join is parked until the session is over

	b := newMember(t, addrs, "g", func(c *group.Config) { c.Rebalance = time.Minute; c.Session = time.Minute })
	require.Eventually(t, func() bool { return b.now().state == group.Joining }, 5*time.Second, 5*time.Millisecond)
	time.Sleep(100 * time.Millisecond)
	require.Equal(t, group.Joining, b.now().state)
	start := time.Now()
	b.kill()
	require.Less(t, time.Since(start), 10*time.Second)
}

// A broker that takes connections and never answers does not hold Close up, nor a goodbye.
func TestSilentBroker(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	client, err := kafka.Open(kafka.Config{Brokers: []string{l.Addr().String()}, DialTimeout: 30 * time.Second})
	require.NoError(t, err)
	defer client.Close()
	events := make(chan group.Event, 8)
	c := New(Config{Session: 30 * time.Second, Rebalance: 30 * time.Second}, client, func(ev group.Event) { events <- ev })
	addr := l.Addr().String()
	c.Carry(group.FindCoordinator{Req: 1, Group: "g"})
	c.Carry(group.SendJoin{Req: 2, Addr: addr, Group: "g", Session: time.Second, Rebalance: time.Second})
	c.Carry(group.SendHeartbeat{Req: 3, Addr: addr, Group: "g"})
	c.Carry(group.Disconnect{})
	c.Carry(group.SendHeartbeat{Req: 4, Addr: addr, Group: "g"})
	c.Carry(group.Wake{})
	start := time.Now()
	c.Close()
	require.Less(t, time.Since(start), 10*time.Second)
	c.Carry(group.SendHeartbeat{Req: 5, Addr: addr, Group: "g"})
	close(events)
	for ev := range events {
		switch ev := ev.(type) {
		case group.CoordinatorFound:
			require.Error(t, ev.Err)
		case group.JoinDone:
			require.Error(t, ev.Err)
		case group.HeartbeatDone:
			require.Error(t, ev.Err)
			require.NotEqual(t, uint64(5), ev.Req)
		}
	}
}

// Another kind of consumer has the group: the member stops and says what to do.
func TestForeignGroup(t *testing.T) {
	addrs := embedded(t, 1).Addrs()
	client, err := kafka.Open(kafka.Config{Brokers: addrs})
	require.NoError(t, err)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	addr, _, err := client.Coordinator(ctx, "g")
	require.NoError(t, err)
	conn, err := client.DialGroup(ctx, addr, 5*time.Second)
	require.NoError(t, err)
	defer conn.Close()
	req := kafka.JoinRequest{Group: "g", ProtocolType: "consumer", Protocol: "range", Session: 10 * time.Second, Rebalance: 10 * time.Second}
	res, err := conn.Join(req)
	require.NoError(t, err)
	req.MemberID = res.MemberID
	_, err = conn.Join(req)
	require.NoError(t, err)

	a := newMember(t, addrs, "g")
	require.Eventually(t, func() bool { return a.now().fatal != nil }, 5*time.Second, 5*time.Millisecond)
	require.ErrorIs(t, a.now().fatal, kcode.InconsistentGroupProtocol)
	require.ErrorContains(t, a.now().fatal, "application id")
}
