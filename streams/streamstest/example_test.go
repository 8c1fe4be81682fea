package streamstest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
	"github.com/understudy-streams/understudy/task"
)

func Example() {
	test := func(t streamstest.TB) {
		b := streams.NewBuilder()
		b.Stream("numbers", serde.String, serde.Int64).
			GroupByKey().
			Reduce("sums", func(sum, n int64) int64 { return sum + n }).
			ToStream().
			To("sums-out")

		d := streamstest.New(t, b)
		numbers := streamstest.In(d, "numbers", serde.String, serde.Int64)
		sums := streamstest.Out(d, "sums-out", serde.String, serde.Int64)

		numbers.Pipe("a", 1)
		numbers.Pipe("a", 2)
		d.Restart(false) // the store comes back from its changelog
		numbers.Pipe("a", 3)
		for _, r := range sums.ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	}
	test(&recorder{}) // a *testing.T in a test
	// Output:
	// a 1
	// a 3
	// a 6
}

func ExampleNewCluster() {
	test := func(t streamstest.TB) {
		b := streams.NewBuilder()
		b.Stream("orders", serde.String, serde.Int64).
			GroupByKey().
			Reduce("revenue", func(sum, price int64) int64 { return sum + price })

		c := streamstest.NewCluster(t, b, streamstest.Members(3), streamstest.Partitions("orders", 6))
		orders := streamstest.In(c, "orders", serde.String, serde.Int64)
		revenue := streamstest.Store(c, "revenue", serde.String, serde.Int64)

		orders.Pipe("shoes", 50)
		c.Settle(time.Minute)
		owner := c.OwnerOf("orders", task.PartitionFor([]byte("shoes"), 6))
		owner.Freeze(30 * time.Second) // its session is 15 s
		orders.Pipe("shoes", 70)
		c.Run(20 * time.Second)
		sum, _ := revenue.Get("shoes")
		fmt.Println("frozen:", owner.Frozen(), "revenue:", sum)

		c.Settle(2 * time.Minute)
		sum, _ = revenue.Get("shoes")
		fmt.Println("frozen:", owner.Frozen(), "revenue:", sum)
	}
	test(&recorder{}) // a *testing.T in a test
	// Output:
	// frozen: true revenue: 120
	// frozen: false revenue: 120
}

var _ streamstest.TB = (*testing.T)(nil)
