package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// remake deletes a topic and makes another one of its name.
func (b *bed) remake(topic string, partitions int32) {
	b.t.Helper()
	require.NoError(b.t, b.client.DeleteTopic(b.ctx(), topic))
	require.Eventually(b.t, func() bool { return b.partitions(topic) == 0 }, 10*time.Second, 20*time.Millisecond)
	require.NoError(b.t, b.client.CreateTopic(b.ctx(), topic, partitions, nil))
}

// A topic is made anew under its name while records of it are put aside, by an application that is down, runs, or was killed. What was put aside is
// run, and what the new topic has as well, at whatever offsets.
func TestRegressionATopicIsMadeAnewWhileRecordsOfItArePutAside(t *testing.T) {
	for _, mode := range []string{"down", "running"} {
		for _, p := range []retry.Policy{retry.Parallel(quick(retry.Attempts(retry.Forever))...), retry.KeyOrdered(quick(retry.Attempts(retry.Forever), retry.Workers(3))...)} {
			t.Run(mode+" "+p.Settings().Mode.String(), func(t *testing.T) {
				onBrokers(t, func(t *testing.T, b *bed) {
					in, out := b.topic("in", 1), b.topic("out", 1)
					f := newFlaky(map[string]int{"a1": -1, "c2": -1, "c3": 1})
					c := b.config("remade")
					c.MetadataInterval = 300 * time.Millisecond
					r := b.run(through(f, p, in, out), c)
					b.keyed(in, 0, "a1", "b1", "c2")
					r.until("two are put aside", func() bool { return b.offset("remade", in, 0) == 3 })
					if mode == "down" {
						require.NoError(t, r.end())
					}
					b.remake(in, 1)
					b.keyed(in, 0, "d1", "d2", "c3", "e4", "e5")
					if mode == "down" {
						r = b.run(through(f, p, in, out), c)
					}
					r.until("what the new topic has, but for the key that waits", func() bool {
						return b.offset("remade", in, 0) == 5 && contains(b.texts(out), "b1", "d1", "d2", "e4", "e5")
					})
					require.NotContains(t, b.texts(out), "a1")
					f.mend()
					r.until("all", func() bool { return contains(b.texts(out), "a1", "b1", "c2", "c3", "d1", "d2", "e4", "e5") })
					r.until("none is put aside any more", func() bool { return len(b.tolerantlyParked(b.name("remade-"+in+"-retry"))) == 0 })
					require.NoError(t, r.end())
				})
			})
		}
	}
}

func contains(have []string, want ...string) bool {
	found := map[string]bool{}
	for _, v := range have {
		found[v] = true
	}
	for _, v := range want {
		if !found[v] {
			return false
		}
	}
	return true
}

// Who runs while a topic is made anew reads the new one from its beginning, however long that is by then: what it has committed is of the former.
func TestATopicThatIsMadeAnewWhileItIsReadIsReadFromItsBeginning(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		c := b.config("longer")
		c.MetadataInterval = 300 * time.Millisecond
		builder := streams.NewBuilder()
		builder.Stream(in, serde.String, serde.String).To(out)
		r := b.run(builder, c)
		b.keyed(in, 0, "a1", "a2")
		r.until("it to run", func() bool { return b.offset("longer", in, 0) == 2 })
		b.remake(in, 1)
		b.keyed(in, 0, "b1", "b2", "b3", "b4", "b5")
		r.until("all", func() bool {
			return contains(b.texts(out), "b1", "b2", "b3", "b4", "b5") && b.offset("longer", in, 0) == 5
		})
		require.NoError(t, r.end())
	})
}
