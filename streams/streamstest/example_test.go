package streamstest_test

import (
	"fmt"
	"testing"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
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

var _ streamstest.TB = (*testing.T)(nil)
