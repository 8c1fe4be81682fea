package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/understudy-streams/understudy/streams"
)

// The group's coordinator dies while tasks are being learned, and once more when they are to move: the moves go on at the next one, and nothing
// is counted twice or not at all.
func TestAppLearnsThoughItsCoordinatorDies(t *testing.T) {
	notShort(t)
	t.Parallel()
	cluster := threeBrokers(t)
	b := newBed(t, cluster.Addrs(), nil)
	const partitions, keys = 4, 2000
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	truth := b.preload(in, partitions, keys)
	patient := func(c *streams.Config) { c.Session = 20 * time.Second } // longer than it takes to find the next coordinator
	first, one := b.member("coordinated", "one", in, out, patient)
	first.until("the old keys", func() bool { return len(b.counts(out)) == partitions*keys })
	l := b.load(in, partitions)

	gate := newLearnGate()
	t.Cleanup(gate.open)
	second, two := b.gatedMember(gate, "coordinated", "two", in, out, patient)
	second.until("something to learn", func() bool { return len(second.app.Tasks()) == 2 })
	dead := b.coordinator("coordinated")
	require.NoError(t, cluster.Kill(dead))
	gate.open()
	second.until("its share", func() bool { return len(two.assigned()) == 2 && second.app.Ready() })
	require.NoError(t, cluster.Restart(dead))

	third, three := b.member("coordinated", "three", in, out, patient)
	third.until("a member of the group", func() bool { return third.app.State() == streams.StateRunning })
	dead = b.coordinator("coordinated")
	require.NoError(t, cluster.Kill(dead))
	third.until("its share", func() bool { return len(three.assigned()) == 1 && third.app.Ready() })
	require.NoError(t, cluster.Restart(dead))

	b.countedOnce(out, plus(truth, l))
	for _, w := range []*witness{two, three} {
		require.Zero(t, w.restored(streams.RoleActive), "nothing was restored by an owner")
	}
	require.LessOrEqual(t, len(one.assigned()), 2)
	for _, r := range []*running{third, second, first} {
		require.NoError(t, r.end())
	}
}

// coordinator is the node that coordinates the group of an application.
func (b *bed) coordinator(app string) (node int) {
	b.t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.addrs...))
	require.NoError(b.t, err)
	defer c.Close()
	require.Eventually(b.t, func() bool {
		g := kadm.NewClient(c).FindGroupCoordinators(b.ctx(), b.name(app))[b.name(app)]
		node = int(g.NodeID)
		return g.Err == nil && node > 0
	}, 30*time.Second, 100*time.Millisecond, "the group has no coordinator")
	return node
}
