//go:build failpoints

package streams_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

var killRecoveries = flag.Int("kill.recoveries", 40, "processes that are killed while they recover in parallel")

// recoveryAims are the steps that a process with two paths comes by, and how often at the least: the first commit is the one that says where the
// second path is.
var recoveryAims = []struct {
	point string
	most  int
}{
	{"offsets.read", 1}, {"ends.read", 1}, {"task.started", 1}, {"fetch.answered", 6}, {"mailbox.put", 6}, {"process.before", 6}, {"process.after", 6},
	{"item.before", 40}, {"item.after", 40}, {"item.told", 40}, {"effects.handed", 6}, {"produce.before", 6}, {"produce.written", 6},
	{"produce.answered", 6}, {"acks.before", 6}, {"acks.after", 6}, {"seal.before", 4}, {"seal.after", 4}, {"commit.before", 4}, {"commit.answered", 4},
	{"commit.told", 4}, {"apply.before", 4}, {"apply.after", 4}, {"applied.told", 4},
}

// A process that recovers in parallel is killed at any step, and the one that takes over as well: what the commits say is done has been
// processed, whenever they are looked at, and in the end every record has been.
func TestKillRecovery(t *testing.T) {
	seed := *killSeed
	if seed == 0 {
		seed = rand.Uint64() >> 32
	}
	t.Logf("seeds from %d on: -kill.seed=<seed> -kill.recoveries=1 plays one again", seed)
	var kills atomic.Int64
	cases := map[string]func(t *testing.T){}
	for i := range uint64(*killRecoveries) {
		cases[strconv.FormatUint(seed+i, 10)] = func(t *testing.T) { kills.Add(embeddedBed(t).killRecovering(seed + i)) }
	}
	atOnce(t, cases)
	t.Logf("%d kills at a point in %d cases", kills.Load(), *killRecoveries)
	if *killRecoveries > 1 && !t.Failed() {
		require.Greater(t, int(kills.Load()), *killRecoveries, "of two in each case")
	}
}

// killRecovering plays one case and returns how many processes have died at the point that they were armed with.
func (b *bed) killRecovering(seed uint64) (kills int64) {
	t := b.t
	rng := rand.New(rand.NewPCG(seed, 0x7265636f))
	in, out, dir := b.topic("in", 1), b.topic("out", 1), t.TempDir()
	results := b.follow(out)
	work := time.Duration(rng.IntN(3)) * time.Millisecond
	b.numbered(in, 0, 0, 10)
	first := b.spawnRecovering(dir, in, out, work).running()
	require.Eventually(t, func() bool { return b.offset("app", in, 0) == 10 }, 20*time.Second, 10*time.Millisecond)
	_ = first.end(syscall.SIGKILL)
	b.died(in, results)
	n := 10 + 60 + rng.IntN(300)
	b.numbered(in, 0, 10, n)

	for i := range 2 {
		aim := recoveryAims[(int(seed)*2+i*7+rng.IntN(3))%len(recoveryAims)]
		armed := fmt.Sprintf("%s:%d", aim.point, 1+rng.IntN(aim.most))
		p := b.spawnRecovering(dir, in, out, work, fail.Env+"="+armed)
		if b.feedUntilEnd(p, in, &n) {
			kills++
		}
		_ = p.end(syscall.SIGKILL) // one that did not come by its point
		t.Logf("killed at %s: replays begun %d", armed, p.said("replaying"))
		b.died(in, results)
	}
	last := b.spawnRecovering(dir, in, out, work).running()
	require.Eventually(t, func() bool { return b.offset("app", in, 0) == int64(n) }, time.Minute, 20*time.Millisecond, "it does not come to the end")
	require.Zero(t, last.said("lost"))
	require.NoError(t, last.end(syscall.SIGTERM))
	require.Eventually(t, func() bool { return results.has(0, n) }, 20*time.Second, 10*time.Millisecond, "a record was lost")
	return kills
}

// feedUntilEnd writes something new now and then while a process runs, and reports whether it has died by itself: it is given until all is
// processed, and a little more.
func (b *bed) feedUntilEnd(p *process, in string, n *int) bool {
	for range 6 {
		select {
		case <-p.ended:
			return true
		case <-time.After(100 * time.Millisecond):
			b.numbered(in, 0, *n, *n+5)
			*n += 5
		}
	}
	end := time.Now().Add(20 * time.Second)
	for caughtUp := false; time.Now().Before(end); {
		select {
		case <-p.ended:
			return true
		case <-time.After(20 * time.Millisecond):
		}
		if !caughtUp && b.offset("app", in, 0) == int64(*n) {
			caughtUp, end = true, time.Now().Add(300*time.Millisecond)
		}
	}
	return false
}

// died looks at what the commits say after a process has died, and takes it out of the group, as its session would.
func (b *bed) died(in string, results *results) {
	b.t.Helper()
	group := b.name("app")
	b.expel(group)
	committed, err := b.client.Committed(b.ctx(), group)
	require.NoError(b.t, err)
	c := committed[task.TopicPartition{Topic: in}]
	m, err := retry.ParseMetadata(c.Metadata, c.Offset, -1)
	require.NoError(b.t, err)
	done := func(from, to int64) {
		b.t.Helper()
		require.Eventually(b.t, func() bool { return results.has(int(from), int(to)) }, 10*time.Second, 5*time.Millisecond,
			"%d to %d are committed as done: %+v at %d", from, to, m, c.Offset)
	}
	done(0, c.Offset)
	at := c.Offset
	for _, hole := range m.Holes {
		done(at, hole.From)
		at = hole.To
	}
	if len(m.Holes) > 0 {
		done(at, m.Main)
	}
}
