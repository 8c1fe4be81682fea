package streams_test

import (
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

// cable is all that a consumer is connected by, until it is cut.
type cable struct {
	mu    sync.Mutex
	cut   bool
	conns []net.Conn
}

func (c *cable) Dial(network, addr string) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.cut {
		return nil, errors.New("the cable is cut")
	}
	conn, err := net.DialTimeout(network, addr, 5*time.Second)
	if err == nil {
		c.conns = append(c.conns, conn)
	}
	return conn, err
}

// recovering is a consumer that recovers in parallel, and what ends it as the death of its process would: nothing of it is heard any more.
func (b *bed) recovering(group, topic string, change ...func(*streams.ConsumerConfig)) (*streams.Consumer, func()) {
	c := &cable{}
	cfg := b.consumerConfig(group, topic)
	cfg.Recovery, cfg.RecoverAbove, cfg.MaxPollRecords = streams.RecoverParallel, 20, 8
	cfg.Client = func(s *streams.ClientConfig) { s.Net.Proxy.Enable, s.Net.Proxy.Dialer = true, c }
	for _, f := range change {
		f(&cfg)
	}
	cons := b.consumer(cfg)
	return cons, func() {
		b.t.Helper()
		c.mu.Lock()
		c.cut = true
		for _, conn := range c.conns {
			_ = conn.Close()
		}
		c.mu.Unlock()
		_ = cons.Close(ended())
		b.expel(cfg.Group) // nobody waits for its session to end
	}
}

func pathsOf(recs []streams.ConsumerRecord) (fresh, replayed []string) {
	for _, r := range recs {
		if r.Replayed {
			replayed = append(replayed, string(r.Value))
		} else {
			fresh = append(fresh, string(r.Value))
		}
	}
	return fresh, replayed
}

func TestConsumerRecoveryAfterACrash(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 1)
		tp := tpOf(topic, 0)
		at := func() int64 { return b.committed(b.name("g"))[tp] }
		b.values(topic, 0, numbered("v", 0, 70)...)
		first, die := b.recovering("g", topic)
		require.Equal(t, numbered("v", 0, 70), valuesOf(polls(t, first, 70)))
		require.NoError(t, first.Commit(b.ctx()))
		require.False(t, first.Recovering())
		die()
		b.values(topic, 0, numbered("v", 70, 270)...)

		second, die := b.recovering("g", topic)
		fresh, replayed := pathsOf(polls(t, second, 8))
		require.Empty(t, fresh)
		require.Equal(t, numbered("v", 70, 78), replayed, "all of it while there is nothing new")
		require.True(t, second.Recovering())
		r := second.Recovery()[0]
		require.Equal(t, []int64{70, 270, 78, 200}, []int64{r.Lo, r.Hi, r.Position, r.Left})
		b.values(topic, 0, numbered("v", 270, 290)...)
		comesTrue(t, "what is new is there", func() bool { return second.Lag()[0].End == 290 })
		require.EqualValues(t, 192+20, second.Lag()[0].Offsets, "both paths")
		gap := 78 // what the end of the log has become may be known before what lies there has been fetched
		var recs []streams.ConsumerRecord
		for fresh = nil; len(fresh) == 0; gap += len(replayed) {
			time.Sleep(100 * time.Millisecond)
			recs = polls(t, second, 8)
			fresh, replayed = pathsOf(recs)
			require.Equal(t, numbered("v", gap, gap+len(replayed)), replayed)
		}
		require.Less(t, gap, 270, "what is new has waited for all of the gap")
		require.Equal(t, numbered("v", 270, 276), fresh, "what is new comes first")
		require.Len(t, replayed, 2, "and a quarter of what is not")
		require.EqualValues(t, 70, at(), "the gap was committed, and nothing of it is done")
		require.NoError(t, second.CommitRecords(b.ctx(), recs[0], recs[len(recs)-1]))
		require.EqualValues(t, gap, at())
		polls(t, second, 24)
		die()

		// A second crash: one gap, of what the first has left and of what was not committed of what was new.
		b.values(topic, 0, numbered("v", 290, 400)...)
		third, _ := b.recovering("g", topic)
		_, replayed = pathsOf(polls(t, third, 40))
		require.Equal(t, numbered("v", gap, gap+40), replayed)
		gap += 40
		require.NoError(t, third.Commit(b.ctx()))
		require.NoError(t, third.Close(b.ctx()))
		require.EqualValues(t, gap, at())

		// A proper end adds nothing to it.
		b.values(topic, 0, numbered("v", 400, 450)...)
		fourth, _ := b.recovering("g", topic)
		fresh, replayed = pathsOf(polls(t, fourth, 270-gap+129+50))
		require.Equal(t, append(numbered("v", gap, 270), numbered("v", 271, 400)...), replayed, "but the one that was committed of what was new")
		require.Equal(t, numbered("v", 400, 450), fresh)
		quietFor(t, fourth, 200*time.Millisecond)
		require.NoError(t, fourth.Commit(b.ctx()))
		require.EqualValues(t, 450, at())
		require.Equal(t, streams.RecoveryDone, fourth.Recovery()[0].State)
		require.False(t, fourth.Recovering())
		require.NoError(t, fourth.Close(b.ctx()))
		fifth, _ := b.recovering("g", topic)
		quietFor(t, fifth, 500*time.Millisecond)
	})
}

func TestConsumerRecoveryGoesOnElsewhere(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		topic := b.topic("in", 2)
		b.values(topic, 0, "a")
		b.values(topic, 1, "b")
		first, die := b.recovering("g", topic)
		polls(t, first, 2)
		require.NoError(t, first.Commit(b.ctx()))
		die()
		want := append(numbered("p", 0, 200), numbered("q", 0, 200)...)
		b.values(topic, 0, want[:200]...)
		b.values(topic, 1, want[200:]...)

		second, _ := b.recovering("g", topic)
		got := valuesOf(polls(t, second, 80))
		require.NoError(t, second.Commit(b.ctx()))
		require.Len(t, second.Recovery(), 2)
		third, _ := b.recovering("g", topic)
		other := inBackground(t, third, true)
		comesTrue(t, "one of them moves", func() bool { // while nothing else is read here
			require.NoError(t, second.Pause(second.Assignment()...))
			recs, err := second.Poll(pollFor(10 * time.Millisecond))
			require.NoError(t, err)
			got = append(got, valuesOf(recs)...)
			require.NoError(t, second.Commit(b.ctx()))
			return len(second.Assignment()) == 1 && len(third.Recovery()) == 1
		})
		require.NoError(t, second.Resume(second.Assignment()...))
		mine := inBackground(t, second, true)
		all := func() []string {
			out := slices.Concat(got, mine.values(), other.values())
			slices.Sort(out)
			return out
		}
		comesTrue(t, "all of both is returned", func() bool { return len(all()) >= 400 })
		slices.Sort(want)
		require.Equal(t, want, all(), "none of it twice: what moves goes on where it was")
		comesTrue(t, "both gaps are closed", func() bool { return !second.Recovering() && !third.Recovering() })
		require.Empty(t, append(mine.errors(), other.errors()...))
	})
}

func TestConsumerRecoveryThatRetentionOvertakes(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, numbered("v", 0, 10)...)
	first, die := b.recovering("g", topic)
	polls(t, first, 10)
	require.NoError(t, first.Commit(b.ctx()))
	die()
	b.values(topic, 0, numbered("v", 10, 100)...)
	b.deleteBelow(topic, 0, 40)
	var lost []streams.OffsetRange
	var told []streams.RecoveryState
	second, _ := b.recovering("g", topic, func(c *streams.ConsumerConfig) {
		c.CommitInterval = time.Millisecond
		c.Listener.Recovery = func(r streams.Recovery) { told = append(told, r.State) }
		c.Listener.RecoveryLost = func(_ streams.TopicPartition, r streams.OffsetRange) { lost = append(lost, r) }
	})
	require.Equal(t, numbered("v", 40, 100), valuesOf(polls(t, second, 60)))
	require.Equal(t, []streams.OffsetRange{{From: 10, To: 40}}, lost)
	comesTrue(t, "it is closed", func() bool {
		quietFor(t, second, 20*time.Millisecond)
		return len(told) == 2
	})
	require.Equal(t, []streams.RecoveryState{streams.RecoveryReplaying, streams.RecoveryLost}, told)
	require.Equal(t, lost, second.Recovery()[0].Lost)
	require.EqualValues(t, 100, b.committed(b.name("g"))[tpOf(topic, 0)])
}

func TestConsumerRecoveryByHand(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	topic := b.topic("in", 1)
	b.values(topic, 0, numbered("v", 0, 10)...)
	byHand := func(c *streams.ConsumerConfig) {
		c.Topics, c.Assign = nil, map[streams.TopicPartition]streams.StartAt{tpOf(topic, 0): streams.FromCommitted()}
	}
	first, _ := b.recovering("g", topic, byHand)
	polls(t, first, 10)
	require.NoError(t, first.Commit(b.ctx()))
	b.values(topic, 0, numbered("v", 10, 40)...)
	second, _ := b.recovering("g", topic, byHand) // the other one says nothing any more
	_, replayed := pathsOf(polls(t, second, 30))
	require.Equal(t, numbered("v", 10, 40), replayed)
	require.NoError(t, second.Commit(b.ctx()))
	require.EqualValues(t, 40, b.committed(b.name("g"))[tpOf(topic, 0)])
}

func TestConsumerRecoveryTakesAGroupAndOffsetsInKafka(t *testing.T) {
	t.Parallel()
	_, err := streams.NewConsumer(streams.ConsumerConfig{
		Brokers: []string{"localhost:1"}, Group: "g", Topics: []string{"t"}, Recovery: streams.RecoverParallel, Offsets: &memoryStore{}, RecoverAbove: -1,
	})
	var faulty *streams.ConfigError
	require.ErrorAs(t, err, &faulty)
	require.ErrorContains(t, err, "more than an offset")
	require.ErrorContains(t, err, "RecoverAbove is -1")
	_, err = streams.NewConsumer(streams.ConsumerConfig{
		Brokers: []string{"localhost:1"}, Assign: map[streams.TopicPartition]streams.StartAt{}, Recovery: streams.RecoverParallel,
	})
	require.ErrorContains(t, err, "there is no Group")
}
