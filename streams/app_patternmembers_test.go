package streams_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// topicLoad writes to topics without a pause, which come and go, each record once.
type topicLoad struct {
	b    *bed
	stop context.CancelFunc
	done chan struct{}

	mu     sync.Mutex
	topics map[string]int32 // that are written to, with their partitions
	sent   map[string]int   // by topic
	err    error
}

func (b *bed) writing() *topicLoad {
	ctx, stop := context.WithCancel(context.Background())
	l := &topicLoad{b: b, stop: stop, done: make(chan struct{}), topics: map[string]int32{}, sent: map[string]int{}}
	b.t.Cleanup(func() { stop(); <-l.done })
	go l.run(ctx)
	return l
}

func (l *topicLoad) run(ctx context.Context) {
	defer close(l.done)
	pace := time.NewTicker(10 * time.Millisecond)
	defer pace.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			l.round(n)
		}
	}
}

// round puts a record into one partition of each topic. Its value says from where it is; so does its key, but not alone.
func (l *topicLoad) round(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for topic, partitions := range l.topics {
		key := []byte(fmt.Sprint("k", n%10))
		r := task.OutRecord{Key: key, Value: fmt.Appendf(nil, "%s#%d", topic, l.sent[topic]), Timestamp: time.Now().UnixMilli()}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		err := l.b.client.Produce(ctx, task.TopicPartition{Topic: topic, Partition: task.PartitionFor(key, partitions)}, r)
		cancel()
		if err != nil {
			l.err = err
			continue
		}
		l.sent[topic]++
	}
}

// to begins to write to a topic.
func (l *topicLoad) to(topic string, partitions int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.topics[topic] = partitions
}

// off writes no more to a topic, and returns how many records have been written to it.
func (l *topicLoad) off(topic string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.topics, topic)
	return l.sent[topic]
}

// end writes no more, and returns how many records have been written.
func (l *topicLoad) end() (n int) {
	l.b.t.Helper()
	l.stop()
	<-l.done
	require.NoError(l.b.t, l.err)
	for _, m := range l.sent {
		n += m
	}
	return n
}

// outOf counts the values that have come out from a topic.
func (b *bed) outOf(out, topic string) (n int) {
	for _, r := range b.all(out) {
		if strings.HasPrefix(string(r.Value), topic+"#") {
			n++
		}
	}
	return n
}

// Topics of a pattern come, grow, go and come back under load, while members join and leave: each record comes out once.
func TestTopicsOfAPatternWhileMembersComeAndGo(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		out := b.topic("out", 2)
		config := func() streams.Config {
			c := b.config("app")
			c.MetadataInterval = 500 * time.Millisecond
			return c
		}
		join := func() *running { return b.run(b.copyPattern(out), config()) }
		l := b.writing()
		a, second := b.topic("t.a", 3), b.topic("t.b", 2)
		l.to(a, 3)
		l.to(second, 2)
		one := join()
		one.ready()
		passes := func(topic string) {
			t.Helper()
			before := b.outOf(out, topic)
			one.until("records of "+topic, func() bool { return b.outOf(out, topic) > before+20 })
		}
		passes(a)
		two := join()
		third := b.topic("t.c", 5) // more partitions than there are tasks, while a member joins
		l.to(third, 5)
		passes(third)
		three := join()
		b.grow(second, 4)
		l.to(second, 4)
		passes(second)

		n := l.off(a)
		one.until("all of the topic is out", func() bool { return b.outOf(out, a) == n })
		require.NoError(t, b.client.DeleteTopic(b.ctx(), a))
		require.NoError(t, two.end()) // while the others notice
		passes(third)
		four := join()
		passes(second)
		for _, r := range []*running{one, three, four} {
			r.until("the topic is left out", func() bool { return !slices.Contains(r.app.Topology().Sources, a) && r.app.Ready() })
		}
		l.to(b.topic("t.a", 3), 3)
		one.until("the topic is back", func() bool { return b.outOf(out, a) > n+20 })
		require.NoError(t, three.end())
		passes(third)

		sent := l.end()
		one.until(fmt.Sprintf("%d records", sent), func() bool { return b.distinct(out) >= sent })
		require.NoError(t, four.end())
		require.NoError(t, one.end())
		require.Equal(t, sent, b.distinct(out))
	})
}

// A topic of a pattern is deleted and made anew at once, while tasks read it: what was known of the one before is not taken for the one after,
// which is shorter at first, and longer soon.
func TestATopicOfAPatternIsMadeAnewAtOnce(t *testing.T) {
	for _, more := range []int{3, 40} { // in each partition of the new one; 10 in the one before
		t.Run(fmt.Sprint(more, " records"), func(t *testing.T) {
			onBrokers(t, func(t *testing.T, b *bed) { madeAnewAtOnce(t, b, more) })
		})
	}
}

func madeAnewAtOnce(t *testing.T, b *bed, more int) {
	topic, other, out := b.topic("t.a", 2), b.topic("t.b", 2), b.topic("out", 1)
	var apps []*running
	for range 2 {
		c := b.config("app")
		c.MetadataInterval = 500 * time.Millisecond
		apps = append(apps, b.run(b.copyPattern(out), c))
	}
	put := func(topic string, n int, what string) {
		for p := range int32(2) {
			for i := range n {
				b.values(topic, p, fmt.Sprint(topic, p, i, what))
			}
		}
	}
	settled := func(n int) {
		t.Helper()
		apps[0].until(fmt.Sprintf("%d records", n), func() bool { return b.distinct(out) >= n })
	}
	for _, r := range apps {
		r.until("ready, with a task", func() bool { return r.app.Ready() && owns(r) == 1 })
	}
	put(topic, 10, "first")
	put(other, 10, "first")
	settled(40)
	apps[0].until("the commit", func() bool { return total2(b, "app") == 40 })
	require.NoError(t, b.client.DeleteTopic(b.ctx(), topic))
	for b.client.CreateTopic(b.ctx(), topic, 2, nil) != nil { // a broker may be busy with its end
	}
	put(topic, more, "second")
	put(other, 10, "second")
	settled(60 + 2*more)
	put(topic, 1, "third")
	settled(62 + 2*more)
	for _, r := range apps {
		require.NoError(t, r.end())
	}
	require.Equal(t, 62+2*more, b.distinct(out))
}

// Members with equal topologies but for the pattern are told from each other.
func TestAMemberWithAnotherPattern(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("t.a", 2), b.topic("out", 1)
	one := b.run(b.copyPattern(out), b.config("app"))
	one.ready()
	err := b.run(b.copyPattern(out, regexp.QuoteMeta(b.name("t.z"))), b.config("app")).fails()
	require.ErrorContains(t, err, "other processes run another topology under the same TopologyVersion")

	// One with a higher version takes over, with the topics that it reads.
	c := b.config("app")
	c.TopologyVersion, c.MetadataInterval = 1, 500*time.Millisecond
	next := b.run(b.copyPattern(out, regexp.QuoteMeta(b.name("t.z"))), c)
	next.ready()
	b.some(in, 2)
	next.until("they are passed on", func() bool { return b.distinct(out) == 10 })
	require.NoError(t, one.app.Drain(b.ctx()))
	require.NoError(t, one.fails())
	next.until("it has all tasks", func() bool { return owns(next) == 2 })
	fresh := b.topic("t.b", 2)
	b.some(fresh, 2)
	next.until("a topic that comes later", func() bool { return b.distinct(out) == 20 })
	require.NoError(t, next.end())
}

// State of several members under load: topics come while members join, die away and move tasks; the counts are exact.
func TestStateOfAPatternWhileMembersComeAndGo(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		out := b.topic("out", 2)
		builder := func() *streams.Builder {
			builder := streams.NewBuilder()
			builder.StreamPattern("t", streams.Matching(regexp.QuoteMeta(b.name("t."))+".*"), serde.String, serde.String).
				GroupBy(func(k, _ string) string { return "of " + k }).Count("n").ToStream().To(out)
			return builder
		}
		join := func() *running {
			c := b.config("app")
			c.MetadataInterval = 500 * time.Millisecond
			return b.run(builder(), c)
		}
		l := b.writing()
		a := b.topic("t.a", 2)
		l.to(a, 2)
		one := join()
		one.ready()
		grows := func() {
			t.Helper()
			before := total(b.counts(out))
			one.until("counts", func() bool { return total(b.counts(out)) > before+50 })
		}
		grows()
		two := join()
		second := b.topic("t.b", 4)
		l.to(second, 4)
		grows()
		three := join()
		grows()
		n := l.off(a)
		one.until("all of it is committed", func() bool {
			var done int64
			for tp, at := range b.committed(b.name("app")) {
				if tp.Topic == a {
					done += at
				}
			}
			return done == int64(n)
		})
		require.NoError(t, b.client.DeleteTopic(b.ctx(), a))
		require.NoError(t, one.app.Drain(b.ctx()))
		require.NoError(t, one.fails())
		one = two
		grows()
		third := b.topic("t.c", 3)
		l.to(third, 3)
		grows()
		require.NoError(t, three.end())
		grows()
		sent := int64(l.end())
		two.until(fmt.Sprintf("%d counted", sent), func() bool { return total(b.counts(out)) >= sent })
		require.NoError(t, two.end())
		require.Equal(t, sent, total(b.counts(out)))
	})
}
