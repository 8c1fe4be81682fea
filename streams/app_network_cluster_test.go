package streams_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/badnet"
	"github.com/understudy-streams/understudy/internal/realkafka"
)

// Three brokers, every partition on all of them, and what can happen to the way to one.
func networkOfThreeBrokers(t *testing.T) {
	cluster := threeBrokers(t)
	play(t, cluster.Addrs(), []scenario{
		{name: "one is silent", session: 15 * time.Second, do: func(s *stage) { s.toOne(4*time.Second, silence(badnet.Both)) }},
		{name: "answers of one vanish", session: 15 * time.Second, do: func(s *stage) { s.toOne(4*time.Second, silence(badnet.Down)) }},
		{name: "requests to one vanish", session: 15 * time.Second, do: func(s *stage) { s.toOne(4*time.Second, silence(badnet.Up)) }},
		{name: "all to and from one arrives late", session: 15 * time.Second, do: func(s *stage) {
			s.toOne(4*time.Second, badnet.Fault{Kind: badnet.Held})
		}},
		{name: "one refuses", session: 15 * time.Second, do: func(s *stage) {
			for _, addr := range s.addrs {
				require.NoError(s.t, s.net.Refuse(addr))
				s.calm(3 * time.Second)
				require.NoError(s.t, s.net.Accept(addr))
				s.progress(10 * time.Second)
			}
		}},
		{name: "connections are cut", session: 10 * time.Second, do: func(s *stage) {
			for end := time.Now().Add(8 * time.Second); time.Now().Before(end); {
				require.NoError(s.t, s.net.Cut(s.addrs[s.rand.IntN(3)]))
				s.pause(20, 400)
			}
		}},
		{name: "connections end within answers", session: 15 * time.Second, do: func(s *stage) { s.limits(badnet.Down) }},
		{name: "the coordinator is out of reach", lapses: true, runs: true, do: func(s *stage) {
			require.NoError(s.t, s.net.Spoil(silence(badnet.Both), cluster.Addr(s.coordinator())))
			s.calm(10 * time.Second)
			require.NoError(s.t, s.net.Heal())
		}},
		{name: "a process whose requests arrive late", lapses: true, do: func(s *stage) {
			s.zombie(cutOff(badnet.Fault{Kind: badnet.Held, Way: badnet.Up}))
		}},
	})
}

// Brokers die under load, one after the other and all at once, and come back.
func TestAppWhoseBrokersDie(t *testing.T) {
	notShort(t)
	t.Parallel()
	cluster := threeBrokers(t)
	play(t, cluster.Addrs(), []scenario{{name: "and come back", session: 2 * time.Minute, gone: true, do: func(s *stage) { s.brokersDie(cluster) }}})
}

// toOne spoils the way to one broker after the other.
func (s *stage) toOne(d time.Duration, f badnet.Fault) {
	s.t.Helper()
	for _, addr := range s.addrs {
		require.NoError(s.t, s.net.Spoil(f, addr))
		s.calm(d)
		require.NoError(s.t, s.net.Heal(addr))
		s.progress(10 * time.Second)
	}
}

// brokersDie kills brokers under load, one after the other, shuts some down cleanly, and takes all away: while it runs, and while it ends.
func (s *stage) brokersDie(c *realkafka.Cluster) {
	s.t.Helper()
	for _, victim := range []func() int{s.leader, s.coordinator, s.controller, s.leader, s.coordinator} {
		s.loses(c, victim(), c.Kill)
	}
	for _, victim := range []func() int{s.coordinator, s.controller} {
		s.loses(c, victim(), c.StopNode)
	}
	s.without(c, func() { s.calm(3 * time.Second) })
	s.progress(60 * time.Second)
	s.end()
	s.finished(60 * time.Second)
	s.without(c, func() { s.app.closes(8 * time.Second) })
}

// loses takes a broker away and brings it back.
func (s *stage) loses(c *realkafka.Cluster, node int, by func(node int) error) {
	s.t.Helper()
	require.NoError(s.t, by(node))
	s.progress(60 * time.Second)
	require.NoError(s.t, c.Restart(node))
	s.whole()
}

func (s *stage) without(c *realkafka.Cluster, do func()) {
	s.t.Helper()
	for node := 1; node <= 3; node++ {
		require.NoError(s.t, c.Kill(node))
	}
	do()
	errs := make(chan error, 3)
	for node := 1; node <= 3; node++ { // at once: one alone has no quorum and does not come up
		go func() { errs <- c.Restart(node) }()
	}
	for range 3 {
		require.NoError(s.t, <-errs)
	}
}

// leader is the node that leads the first partition of the input.
func (s *stage) leader() int {
	s.t.Helper()
	md, err := s.admin.Metadata(s.ctx(), s.in)
	require.NoError(s.t, err)
	return int(md.Topics[s.in].Partitions[0].Leader)
}

func (s *stage) controller() int {
	s.t.Helper()
	md, err := s.admin.BrokerMetadata(s.ctx())
	require.NoError(s.t, err)
	return int(md.Controller)
}

func (s *stage) coordinator() int {
	s.t.Helper()
	found := s.admin.FindGroupCoordinators(s.ctx(), s.ledger.app)
	require.NoError(s.t, found.Error())
	for _, g := range found {
		return int(g.NodeID)
	}
	require.Fail(s.t, "the group has no coordinator")
	return 0
}

// whole waits until all partitions are on all brokers again.
func (s *stage) whole() {
	s.t.Helper()
	s.until(60*time.Second, "all partitions are in sync", func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		md, err := s.admin.Metadata(ctx, s.in, s.copies, s.outs, s.ledger.app+"-counts-changelog", s.ledger.app+"-counts-repartition", "__consumer_offsets")
		if err != nil {
			return false
		}
		for _, topic := range md.Topics {
			for _, p := range topic.Partitions {
				if len(p.ISR) < 3 || !slices.Contains(p.ISR, p.Leader) {
					return false
				}
			}
		}
		return true
	})
}
