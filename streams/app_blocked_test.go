package streams_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

// owners follows who runs what in several applications of one group.
type owners struct {
	mu  sync.Mutex
	has map[string][]streams.TaskID
}

func (o *owners) listen(name string, c *streams.Config) {
	c.Listener.Assigned = func(tasks []streams.TaskID) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.has[name] = slices.Clone(tasks)
	}
}

// share is how many tasks an application runs, -1 before its first assignment.
func (o *owners) share(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	if tasks, ok := o.has[name]; ok {
		return len(tasks)
	}
	return -1
}

func (o *owners) of(id streams.TaskID) (names []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, tasks := range o.has {
		if slices.Contains(tasks, id) {
			names = append(names, name)
		}
	}
	return names
}

// F19: a call that blocks in one partition holds up neither the others nor a rebalance; after the watchdog somebody else has the partition,
// and the member that had it is in the group still.
func TestAppF19ABlockedCallStopsNobodyElse(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 4), b.topic("out", 4)
		g := newGate(t)
		who := &owners{has: map[string][]streams.TaskID{}}
		start := func(name string) *running {
			c := b.config("f19")
			c.CallTimeout, c.Rebalance = 3*time.Second, 6*time.Second
			who.listen(name, &c)
			return b.run(g.pass(in, to), c)
		}
		x := start("x")
		x.ready()
		y := start("y")
		y.until("two shares", func() bool { return who.share("x") == 2 && who.share("y") == 2 })
		blocked := streams.TaskID{}
		holder := who.of(blocked)
		require.Len(t, holder, 1)
		b.values(in, 0, "block")
		<-g.entered

		began := time.Now()
		z := start("z")
		z.until("its first assignment", func() bool { return who.share("z") >= 0 })
		require.Less(t, time.Since(began), 4*time.Second, "the blocked call holds up no rebalance")
		require.Equal(t, holder, who.of(blocked), "the watchdog has not come yet")
		sent := map[int32]int{}
		for p := int32(1); p < 4; p++ {
			for range 3 {
				at := time.Now()
				b.values(in, p, fmt.Sprint("v", sent[p]))
				sent[p]++
				z.until("a record of another partition", func() bool { return b.committedAt("f19", in, p) >= int64(sent[p]) })
				require.Less(t, time.Since(at), 2*time.Second)
			}
		}
		z.until("another owner of the blocked partition", func() bool {
			now := who.of(blocked)
			return len(now) == 1 && now[0] != holder[0]
		})
		<-g.entered // the record is tried there
		if b.embedded != nil {
			require.Len(t, b.embedded.Cluster().GroupInfo(b.name("f19")).Members, 3)
		}
		g.release()
		z.until("the blocked record", func() bool { return b.committedAt("f19", in, 0) == 1 })
		for _, r := range []*running{x, y, z} {
			require.NoError(t, r.end())
		}
		require.Len(t, b.all(to), 10, "what the late call put out is not there")
	})
}
