package streams_test

import (
	"maps"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/realkafka"
)

// Leaders, coordinators and the controller die while records come in: nothing is lost, and as our process lives and its producer is
// idempotent, nothing counts twice.
func TestAppSurvivesTheDeathOfBrokersUnderLoad(t *testing.T) {
	notShort(t)
	cluster := realkafka.Start(t, 3)
	b := newBed(t, cluster.Addrs(), nil)
	in, out := b.topic("in", 4), b.topic("out", 4)
	c := b.config("count")
	c.Session = 15 * time.Second
	r := b.run(countWords(in, out), c)
	r.ready()
	l := b.load(in, 4)
	for node := 1; node <= 2; node++ {
		before := total(b.counts(out))
		r.until("some counts", func() bool { return total(b.counts(out)) > before+500 })
		require.NoError(t, cluster.Kill(node))
		r.until("counts without the broker", func() bool { return total(b.counts(out)) > before+5000 })
		require.NoError(t, cluster.Restart(node))
	}
	truth := l.end()
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	require.True(t, maps.Equal(truth, got), "%v", diff(truth, got))
	require.NoError(t, r.end())
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// Every broker goes away for a while and comes back.
func TestAppSurvivesARestartOfTheOnlyBroker(t *testing.T) {
	notShort(t)
	cluster := realkafka.Start(t, 1)
	b := newBed(t, cluster.Addrs(), nil)
	in, out := b.topic("in", 2), b.topic("out", 2)
	c := b.config("count")
	c.Session = 45 * time.Second // longer than the outage, so that the lease holds
	r := b.run(countWords(in, out), c)
	r.ready()
	l := b.load(in, 2)
	r.until("some counts", func() bool { return total(b.counts(out)) > 500 })
	require.NoError(t, cluster.Kill(1))
	time.Sleep(2 * time.Second) // an outage has a length
	require.NoError(t, cluster.Restart(1))
	before := total(b.counts(out))
	r.until("counts after it", func() bool { return total(b.counts(out)) > before+1000 })
	truth := l.end()
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	require.True(t, maps.Equal(truth, got), "%v", diff(truth, got))
	require.NoError(t, r.end())
}
