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

// counted counts the records of "in" by key.
func counted() *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		GroupByKey().
		Count("counts").
		ToStream().
		To("out")
	return b
}

// A cluster shares the tasks, and processes what is piped.
func TestClusterCounts(t *testing.T) {
	c := streamstest.NewCluster(t, counted(), streamstest.Members(3), streamstest.Partitions("in", 6), streamstest.Partitions("out", 6))
	in := streamstest.In(c, "in", serde.String, serde.String)
	counts := streamstest.Store(c, "counts", serde.String, serde.Int64)
	for i := range 60 {
		in.Pipe(fmt.Sprint("k", i%12), "x")
	}
	began := time.Now()
	c.Run(10 * time.Minute)
	t.Log(time.Since(began))
	require.True(t, c.Settled())
	require.Len(t, counts.All(), 12)
	for _, kv := range counts.All() {
		require.Equal(t, int64(5), kv.Value)
	}
	for _, p := range c.Tasks() {
		t.Log(p)
	}
	require.Len(t, c.Tasks(), 6)
	for i, r := range c.Rebalances() {
		t.Log(i, r.At, r.Member, r.Reason, r.Tasks)
	}
}
