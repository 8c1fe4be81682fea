package streams_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/streams"
)

// comesTrue waits for a condition.
func comesTrue(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 20*time.Second, 20*time.Millisecond, what)
}

func TestConsumersShareAndHandOver(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 6)
		var all []string
		put := func(n int) {
			for p := range int32(6) {
				v := fmt.Sprintf("%d-%d", p, n)
				all = append(all, v)
				b.values(topic, p, v)
			}
		}
		var ps []*poller
		got := func() (out []string) {
			for _, p := range ps {
				out = append(out, p.values()...)
			}
			slices.Sort(out)
			return out
		}
		for n := range 3 {
			c := b.consumer(b.consumerConfig("g", topic))
			ps = append(ps, inBackground(t, c, true))
			comesTrue(t, "the group is in balance", func() bool {
				for _, p := range ps {
					if len(p.c.Assignment()) != 6/len(ps) {
						return false
					}
				}
				return true
			})
			put(n)
			comesTrue(t, "all is read", func() bool { return len(slices.Compact(got())) == len(all) })
		}
		require.NoError(t, ps[0].c.Close(b.ctx()))
		ps[0].end()
		put(3)
		comesTrue(t, "all is read by those who are left", func() bool { return len(slices.Compact(got())) == len(all) })
		slices.Sort(all)
		require.Equal(t, all, got(), "nothing is missing, and nothing came twice, as each handed over what it had committed")
		for _, p := range ps[1:] {
			require.Empty(t, p.errors())
		}
	})
}

func TestConsumerListenerIsToldOfPartitions(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 2)
	b.values(topic, 0, "a")
	b.values(topic, 1, "b")
	var mu sync.Mutex
	var log []string
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, fmt.Sprintf(format, args...))
	}
	said := func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(log)
	}
	cfg := b.consumerConfig("g", topic)
	var c *streams.Consumer
	cfg.Listener = streams.ConsumerListener{
		Assigned: func(_ int32, parts []streams.TopicPartition) {
			say("assigned %d", len(parts))
			require.NoError(t, c.Seek(parts[0], 0), "a Seek in it comes before the first record")
		},
		Revoked: func(_ int32, parts []streams.TopicPartition) {
			err := c.Commit(b.ctx())
			say("revoked %d, committed %v", len(parts), err == nil)
		},
		State: func(s streams.MemberChange) {
			require.NotEmpty(t, s.Reason)
			if s.From != s.To && s.To == streams.MemberJoined {
				say("joined in %d", s.Generation)
			}
		},
	}
	c = b.consumer(cfg)
	recs := polls(t, c, 2)
	require.Equal(t, []string{"assigned 2", "joined in 1"}, said())
	require.Len(t, recs, 2)

	other := inBackground(t, b.consumer(b.consumerConfig("g", topic)), true)
	time.Sleep(time.Second) // nobody polls here: the partition stays, and nothing is told
	require.Len(t, c.Assignment(), 2)
	require.NotContains(t, said(), "revoked 1, committed true")
	require.Empty(t, other.values())
	comesTrue(t, "the other one has a partition", func() bool {
		_, err := c.Poll(pollFor(10 * time.Millisecond))
		require.NoError(t, err)
		return len(other.c.Assignment()) == 1
	})
	require.Contains(t, said(), "revoked 1, committed true")
	require.Empty(t, other.values(), "it goes on where the commit in Revoked was")
	require.NoError(t, c.Close(b.ctx()))
	require.Equal(t, 2, count(said(), "revoked 1, committed true"), "by Close as well")
	err := c.CommitRecords(b.ctx(), recs...)
	require.ErrorIs(t, err, streams.ErrConsumerClosed)
}

func count(in []string, s string) (n int) {
	for _, x := range in {
		if x == s {
			n++
		}
	}
	return n
}

func TestConsumerDeletesItsGroup(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 1)
		b.values(topic, 0, "a")
		cfg := b.consumerConfig("g", topic)
		cfg.DeleteGroupOnClose = true
		a, c := b.consumer(cfg), b.consumer(cfg)
		polls(t, a, 1)
		require.NoError(t, a.Commit(b.ctx()))
		p := inBackground(t, c, false)
		comesTrue(t, "both are members", func() bool { return c.State() == streams.MemberJoined })
		require.NoError(t, a.Close(b.ctx()))
		require.NotEmpty(t, b.committed(b.name("g")), "somebody is in it")
		require.NoError(t, c.Close(b.ctx()))
		p.end()
		comesTrue(t, "the group is gone", func() bool { return len(b.committed(b.name("g"))) == 0 })
	})
}

func TestConsumerOutlivesItsCoordinator(t *testing.T) {
	t.Parallel()
	br, err := broker.Start(broker.Options{Brokers: 3})
	require.NoError(t, err)
	t.Cleanup(br.Close)
	b := newBed(t, br.Addrs(), br)
	topic := b.topic("in", 3)
	c := b.consumer(b.consumerConfig("g", topic))
	p := inBackground(t, c, true)
	comesTrue(t, "it has joined", func() bool { return len(c.Assignment()) == 3 })
	generation := c.Generation()
	for i := range 5 {
		br.Cluster().RehashCoordinators()
		b.values(topic, int32(i%3), fmt.Sprint(i))
		comesTrue(t, "reading goes on", func() bool { return len(p.values()) == i+1 })
	}
	require.Equal(t, []string{"0", "1", "2", "3", "4"}, p.values())
	require.Equal(t, generation, c.Generation(), "a coordinator that moves is no rebalance")
	comesTrue(t, "and committing", func() bool { return len(b.committed(b.name("g"))) == 3 })
	require.Empty(t, p.errors())
}

func TestConsumerSaysWhichBrokersItHasTried(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	cfg := b.consumerConfig("g", topic)
	cfg.RequestTimeout = 500 * time.Millisecond
	var mu sync.Mutex
	failures := 0
	cfg.Listener.Retry = func(string, error) { mu.Lock(); defer mu.Unlock(); failures++ }
	c := b.consumer(cfg)
	b.values(topic, 0, "a")
	polls(t, c, 1)
	b.embedded.Close()
	var none *streams.BrokersError
	comesTrue(t, "Poll says that no broker answers", func() bool {
		_, err := c.Poll(pollFor(100 * time.Millisecond))
		if err != nil {
			require.ErrorAs(t, err, &none)
		}
		return err != nil
	})
	require.Equal(t, b.addrs, none.Addresses)
	require.ErrorContains(t, none, b.addrs[0])
	quietFor(t, c, 200*time.Millisecond)
	mu.Lock()
	require.Positive(t, failures)
	mu.Unlock()
	var outcome error
	c.CommitAsync(func(err error) { outcome = err })
	require.ErrorContains(t, c.Close(pollFor(200*time.Millisecond)), "not answered in time", "and a Close is bounded")
	require.ErrorIs(t, outcome, streams.ErrConsumerClosed, "no callback is left out")
}
