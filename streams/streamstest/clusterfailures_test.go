package streamstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// These are tests as a user of the library writes them: an application that counts orders by customer must get through what happens to processes.

const commitInterval = time.Second

// ordersByCustomer counts the orders of each customer.
func ordersByCustomer() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("orders", serde.String, serde.String).
		GroupByKey().
		Count("orders-by-customer").
		ToStream().
		To("totals")
	return b
}

// shop is a cluster that counts orders, and whoever places them.
type shop struct {
	*streamstest.Cluster
	orders *streamstest.Input[string, string]
	counts *streamstest.Rows[string, int64]
	placed map[string]int64
}

func openShop(t *testing.T, cfg streams.Config) *shop {
	cfg.Session, cfg.CommitInterval = 10*time.Second, commitInterval
	c := streamstest.NewCluster(t, ordersByCustomer(), streamstest.Members(3), streamstest.Partitions("orders", 6), streamstest.WithConfig(cfg))
	return &shop{
		Cluster: c, placed: map[string]int64{},
		orders: streamstest.In(c, "orders", serde.String, serde.String),
		counts: streamstest.Store(c, "orders-by-customer", serde.String, serde.Int64),
	}
}

// trade places ten orders a second for a while.
func (s *shop) trade(d time.Duration) {
	for i := range int(d / (100 * time.Millisecond)) {
		customer := fmt.Sprint("customer ", i%30)
		s.orders.Pipe(customer, "a book")
		s.placed[customer]++
		s.Run(100 * time.Millisecond)
	}
}

// committed is how many orders are done in the tasks of a member, and in those of others.
func (s *shop) committed(m *streamstest.Member) (its, others int64) {
	for p := range int32(6) {
		if n := s.Committed("orders", p); s.OwnerOf("orders", p) == m {
			its += n
		} else {
			others += n
		}
	}
	return its, others
}

// excess is how many orders were counted more than once. None may be lost.
func (s *shop) excess(t *testing.T) (n int64) {
	for customer, placed := range s.placed {
		counted, _ := s.counts.Get(customer)
		require.GreaterOrEqual(t, counted, placed, "orders of %s are lost", customer)
		n += counted - placed
	}
	return n
}

// A long garbage collection: the owner of a partition is out for longer than its session. Another member takes its tasks over; when it wakes it believes
// for a moment that they are still its own. What it does in that moment must not count.
func TestLongGarbageCollectionOfAnOwner(t *testing.T) {
	s := openShop(t, streams.Config{})
	s.trade(20 * time.Second)
	zombie := s.OwnerOf("orders", 0)

	zombie.Freeze(30 * time.Second)
	s.trade(25 * time.Second)
	require.True(t, zombie.Frozen())
	require.NotEqual(t, zombie, s.OwnerOf("orders", 0), "somebody else has the task")

	s.trade(2 * time.Minute)
	s.Settle(time.Minute)
	held := 0
	for _, task := range s.Tasks() {
		if task.Member == zombie {
			held++
		}
	}
	require.Equal(t, 2, held, "it has its share again")
	// What it had processed and not committed when it froze is processed again by its successor, and no more than that: of two of six partitions.
	perInterval := int64(10 * commitInterval / time.Second)
	require.LessOrEqual(t, s.excess(t), perInterval)
}

// A disk that does not answer for a while: commits of its member wait, nobody else's do, and nothing is lost or counted twice.
func TestBlockedDisk(t *testing.T) {
	s := openShop(t, streams.Config{})
	s.trade(20 * time.Second)
	slow := s.OwnerOf("orders", 0)
	generation := s.Generation()

	slow.BlockIO(20 * time.Second)
	s.trade(5 * time.Second)
	mine, others := s.committed(slow)
	s.trade(10 * time.Second)
	stand, moved := s.committed(slow)
	require.Equal(t, mine, stand, "its commits wait for the disk")
	require.Greater(t, moved, others+50, "nobody else's do")
	require.Equal(t, generation, s.Generation(), "it is alive, and keeps its tasks")

	s.trade(20 * time.Second)
	s.Settle(time.Minute)
	require.Equal(t, slow, s.OwnerOf("orders", 0))
	require.Zero(t, s.excess(t))
}

// A lost network: the member is alive and cannot tell anybody. A standby goes on with its tasks, with the state that it has, and the one
// that is cut off stops by itself before.
func TestLostNetworkWithAStandby(t *testing.T) {
	s := openShop(t, streams.Config{Standbys: 1})
	s.trade(20 * time.Second)
	s.Settle(time.Minute)
	alone := s.OwnerOf("orders", 0)
	var standby *streamstest.Member
	for _, task := range s.Tasks() {
		if task.ID.Partition == 0 && task.Role == streams.RoleStandby {
			standby = task.Member
		}
	}
	require.NotNil(t, standby)

	cut := s.Now()
	alone.CutOff(time.Minute)
	s.RunUntil(func() bool { return s.OwnerOf("orders", 0) == standby }, 15*time.Second)
	require.Less(t, s.Now().Sub(cut), 13*time.Second, "the session, and a moment: the copy is at hand")
	for _, task := range s.Tasks() {
		require.False(t, task.Member == alone && task.State == "running", "its lease is over, so it has stopped by itself: %v", task)
	}

	s.trade(2 * time.Minute)
	s.Settle(time.Minute)
	require.LessOrEqual(t, s.excess(t), int64(10*commitInterval/time.Second))
}
