package streamstest_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

var seeds = flag.Uint64("cluster.seeds", 12, "how many seeds TestClusterGetsThroughAnything plays")

// Whatever is done to members in whatever order, by whatever policy and with workers: nothing is lost, and the group is at rest in the end.
func TestClusterGetsThroughAnything(t *testing.T) {
	for seed := uint64(1); seed <= *seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 7))
			c := collector(t, rng, seed)
			in := streamstest.In(c, "in", serde.String, serde.String)
			for id := range 200 {
				in.Pipe(fmt.Sprint("k", rng.IntN(9)), fmt.Sprint(id))
				c.Run(time.Duration(rng.IntN(600)) * time.Millisecond)
				if rng.IntN(8) == 0 {
					strike(c, rng)
				}
			}
			for _, m := range c.Members() {
				if !m.Running() {
					m.Restart(true)
				}
				m.Slow(1)
				m.SlowDisk(0)
			}
			c.Settle(5 * time.Minute)
			ids := map[string]bool{}
			for _, kv := range streamstest.Store(c, "ids", serde.String, serde.String).All() {
				for _, id := range strings.Fields(kv.Value) {
					ids[id] = true
				}
			}
			require.Len(t, ids, 200)
		})
	}
}

// collector is a cluster that collects the ids of all records by a part of them, behind a step that fails now and then.
func collector(t *testing.T, rng *rand.Rand, seed uint64) *streamstest.Cluster {
	policies := []retry.Policy{retry.Ordered(), retry.KeyOrdered(), retry.KeyOrdered(retry.Workers(4)), retry.Parallel(retry.Workers(3))}
	calls := 0
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		SelectKey(func(_, id string) string { return id[len(id)-1:] }).
		Repartition("by-digit", streams.Partitions(4), streams.OnFailure(policies[rng.IntN(len(policies))])).
		TryPeek("flaky", func(context.Context, streams.Record[string, string]) error {
			if calls++; calls%13 == 0 {
				return errors.New("does not work yet")
			}
			return nil
		}).
		GroupByKey().
		Aggregate("ids", func() string { return "" }, func(_, id, ids string) string { return ids + " " + id }).
		ToStream().
		To("out")
	cfg := streams.Config{Session: 6 * time.Second, CommitInterval: 300 * time.Millisecond, Standbys: rng.IntN(2), Coalesce: time.Second}
	return streamstest.NewCluster(t, b, streamstest.Seed(seed), streamstest.Partitions("in", 3), streamstest.Partitions("out", 4), streamstest.WithConfig(cfg))
}

// strike does something to a member.
func strike(c *streamstest.Cluster, rng *rand.Rand) {
	m := c.Member(rng.IntN(len(c.Members())))
	d := time.Duration(rng.IntN(12_000)+1) * time.Millisecond
	if !m.Running() {
		m.Restart(rng.IntN(3) > 0)
		return
	}
	switch rng.IntN(9) {
	case 0:
		m.Freeze(d)
	case 1:
		m.BlockIO(d)
	case 2:
		m.SlowDisk(d / 20)
	case 3:
		m.Slow(float64(1 + rng.IntN(3000)))
	case 4:
		m.CutOff(d)
	case 5:
		m.Kill()
	case 6:
		m.Restart(rng.IntN(2) == 0)
	case 7:
		m.Leave()
	default:
		if len(c.Members()) < 5 {
			c.Add()
		}
	}
}
