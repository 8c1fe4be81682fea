package streams_test

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// What one more process shall have it learns first; meanwhile, and afterwards, nothing stands still but what moves.
func TestAppOneMoreProcessLearnsBeforeItTakesOver(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		const partitions, keys = 4, 2000
		in, out := b.topic("in", partitions), b.topic("out", partitions)
		truth := b.preload(in, partitions, keys)
		first, one := b.member("learn", "one", in, out)
		first.until("the commit of the old keys", func() bool { return len(b.counts(out)) == partitions*keys && b.allCommitted("learn", in) })
		l := b.load(in, partitions)
		second, two := b.member("learn", "two", in, out)
		second.until("its share", func() bool { return len(two.assigned()) == 2 && second.app.Ready() })
		tasks := two.assigned()
		require.Equal(t, tasks, two.heardLearned())
		require.GreaterOrEqual(t, two.restored(streams.RoleLearner), int64(2*keys), "both states were learned")
		require.Zero(t, two.restored(streams.RoleActive), "and nothing was restored by an owner")
		require.Len(t, two.heardPromoted(), 2)
		moved, kept := one.paused()
		require.Empty(t, kept, "no task paused that did not move")
		require.Len(t, moved, 2)
		for _, p := range moved {
			require.Contains(t, tasks, p.Task)
			require.Less(t, p.For, 5*time.Second, "less than a session")
		}
		for _, i := range second.app.Tasks() {
			require.Equal(t, streams.RoleActive, i.Role)
			require.Equal(t, "running", i.State)
			require.Contains(t, i.Reason, "task "+i.ID.String()+" moves to")
			require.NotEmpty(t, i.Owner)
			require.Positive(t, i.Position)
			require.Zero(t, i.Lag)
			require.WithinDuration(t, time.Now(), i.Since, time.Minute)
		}
		b.countedOnce(out, plus(truth, l))
		require.NoError(t, second.end())
		require.NoError(t, first.end())
	})
}

// Standbys are there to be seen, are waited for by nobody, and follow.
func TestAppStandbysFollow(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	const partitions, keys = 2, 500
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	b.preload(in, partitions, keys)
	standby := func(c *streams.Config) { c.Standbys = 1 }
	first, _ := b.member("standby", "one", in, out, standby)
	first.ready()
	second, _ := b.member("standby", "two", in, out, standby)
	copies := func(r *running) (out []streams.TaskInfo) {
		for _, i := range r.app.Tasks() {
			if i.Role == streams.RoleStandby {
				out = append(out, i)
			}
		}
		return out
	}
	first.until("one task and one copy each", func() bool {
		a, b := copies(first), copies(second)
		return len(a) == 1 && len(b) == 1 && len(first.app.Tasks()) == 2 && len(second.app.Tasks()) == 2 && a[0].Lag == 0 && b[0].Lag == 0
	})
	was := copies(second)[0]
	require.Equal(t, "following", was.State)
	require.Contains(t, was.Owner, "one")
	b.put(in, was.ID.Partition, b.one("new", "v"))
	second.until("the copy follows", func() bool { i := copies(second); return len(i) == 1 && i[0].Position > was.Position })
	require.NoError(t, second.end())
	require.NoError(t, first.end())
}

// Whoever is drained goes on until others have learned what it has.
func TestAppDrainUnderLoad(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		const partitions, keys = 4, 1000
		in, out := b.topic("in", partitions), b.topic("out", partitions)
		truth := b.preload(in, partitions, keys)
		first, one := b.member("drain", "one", in, out)
		first.ready()
		second, two := b.member("drain", "two", in, out)
		second.until("its share", func() bool { return len(two.assigned()) == 2 && second.app.Ready() })
		l := b.load(in, partitions)
		time.Sleep(time.Second)
		drained := make(chan error, 2)
		for range 2 {
			go func() { drained <- first.app.Drain(context.Background()) }()
		}
		require.NoError(t, <-drained)
		require.NoError(t, <-drained)
		require.NoError(t, first.fails(), "Run returns nil")
		require.Empty(t, first.app.Tasks())
		require.Equal(t, partitionIDs(partitions), two.assigned())
		require.Zero(t, two.restored(streams.RoleActive), "nothing was restored by an owner")
		_, kept := one.paused()
		require.Empty(t, kept)
		b.countedOnce(out, plus(truth, l))
		require.NoError(t, second.end())
	})
}

func TestAppDrainWithNobodyElse(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	r, _ := b.member("alone", "one", in, out)
	require.Empty(t, r.app.Tasks())
	r.ready()
	b.put(in, 0, b.one("k", "v"))
	r.until("the count", func() bool { return b.counts(out)["k"] == 1 })
	require.NoError(t, r.app.Drain(context.Background()))
	require.NoError(t, r.fails())
	require.EqualValues(t, 1, b.committedAt("alone", in, 0))
	require.NoError(t, r.app.Drain(context.Background()), "it is over already")
}

// Where all processes are to go, nobody waits for anybody.
func TestAppDrainOfAllAtOnce(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 2), b.topic("out", 2)
	b.preload(in, 2, 100)
	first, one := b.member("all", "one", in, out)
	first.ready()
	second, two := b.member("all", "two", in, out)
	second.until("its share", func() bool { return len(one.assigned()) == 1 && len(two.assigned()) == 1 && second.app.Ready() })
	ended := make(chan error, 2)
	began := time.Now()
	for _, r := range []*running{first, second} {
		go func() { ended <- r.app.Drain(context.Background()) }()
	}
	require.NoError(t, <-ended)
	require.NoError(t, <-ended)
	require.Less(t, time.Since(began), 10*time.Second)
	require.NoError(t, first.fails())
	require.NoError(t, second.fails())
	require.Len(t, b.counts(out), 200)
}

func TestAppDrainBeforeRun(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	app, err := streams.New(countKeys(b.topic("in", 1), b.topic("out", 1)), b.config("early"))
	require.NoError(t, err)
	require.Empty(t, app.Tasks())
	require.NoError(t, app.Drain(context.Background()))
	require.NoError(t, app.Run(context.Background()), "it ends at once")
}

// A drain that nobody takes part in ends when its time is over, cleanly all the same.
func TestAppDrainThatTakesTooLong(t *testing.T) {
	b := embeddedBed(t)
	in, out := b.topic("in", 2), b.topic("out", 2)
	b.preload(in, 2, 100)
	first, _ := b.member("slow", "one", in, out)
	first.ready()
	gate := newLearnGate()
	second, _ := b.gatedMember(gate, "slow", "two", in, out)
	defer gate.open()
	first.until("somebody to learn", func() bool { return len(second.app.Tasks()) > 0 })
	b.put(in, 0, b.one("k", "v"))
	first.until("the count", func() bool { return b.counts(out)["k"] == 1 })
	ctx, stop := context.WithTimeout(context.Background(), 3*time.Second)
	defer stop()
	began := time.Now()
	require.NoError(t, first.app.Drain(ctx))
	require.GreaterOrEqual(t, time.Since(began), 2*time.Second)
	require.Less(t, time.Since(began), 8*time.Second)
	require.NoError(t, first.fails())
	gate.open()
	second.until("all there", func() bool { return second.app.Ready() && len(second.app.Tasks()) == 2 })
	require.NoError(t, second.end())
}

// The state of whoever comes back is used as it lies there: only what has come since is restored.
func TestAppComesBackToItsState(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		const partitions, keys = 2, 2000
		in, out := b.topic("in", partitions), b.topic("out", partitions)
		truth := b.preload(in, partitions, keys)
		dir := t.TempDir()
		kept := func(c *streams.Config) { c.StateDir = dir }
		first, _ := b.member("back", "one", in, out)
		first.ready()
		second, two := b.member("back", "two", in, out, kept)
		second.until("its share", func() bool { return len(two.assigned()) == 1 && second.app.Ready() })
		require.NoError(t, second.end())
		first.until("all of it", func() bool { return len(first.app.Tasks()) == partitions && first.app.Ready() })
		for p := range int32(partitions) {
			for _, k := range []string{"new", "newer"} {
				k += strconv.Itoa(int(p))
				truth[k]++
				b.put(in, p, b.one(k, "v"))
			}
		}
		first.until("what has come meanwhile", func() bool { return b.committedAt("back", in, 0) == keys+2 && b.committedAt("back", in, 1) == keys+2 })
		second, two = b.member("back", "two", in, out, kept)
		second.until("its share", func() bool { return len(two.assigned()) == 1 && second.app.Ready() })
		n := two.restored(streams.RoleLearner) + two.restored(streams.RoleActive)
		require.LessOrEqual(t, n, int64(4), "only what it lacked")
		require.NoError(t, second.end())
		require.NoError(t, first.end())
		b.countedOnce(out, truth)
	})
}

// Only a state that no task of the process uses is deleted.
func TestAppStateCleanup(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	const partitions = 2
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	b.preload(in, partitions, 200)
	soon := func(c *streams.Config) { c.StateCleanup = 2 * time.Second }
	first, one := b.member("clean", "one", in, out, soon)
	first.ready()
	second, two := b.member("clean", "two", in, out)
	second.until("its share", func() bool { return len(two.assigned()) == 1 && second.app.Ready() })
	gone := two.assigned()[0]
	first.until("what has gone is deleted", func() bool { one.mu.Lock(); defer one.mu.Unlock(); return len(one.cleaned) > 0 })
	time.Sleep(3 * time.Second)
	one.mu.Lock()
	require.Equal(t, []streams.TaskID{gone}, one.cleaned)
	one.mu.Unlock()
	require.NoError(t, second.end())
	first.until("all of it", func() bool { return len(one.assigned()) == partitions && first.app.Ready() })
	require.GreaterOrEqual(t, one.restored(streams.RoleActive), int64(200), "it is not there any more")
	require.NoError(t, first.end())
	require.Len(t, b.counts(out), 2*200)
}

// In a rolling upgrade a part of the topology that has changed goes to the newer version, as learned or when its owner goes, and never back.
func TestAppRollToAHigherTopologyVersion(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 2)
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.String).GroupByKey().Count("key-counts-2").ToStream().To(out)
		older, one := b.member("roll", "old", in, out)
		older.ready()
		c := b.config("roll")
		c.TopologyVersion, c.ClientID = 2, "new"
		two := &witness{}
		two.listen(&c.Listener)
		newer := b.run(sb, c)
		newer.until("its share", func() bool { return len(two.assigned()) == 1 && len(one.assigned()) == 1 && newer.app.Ready() })
		older.until("the old one goes on", older.app.Ready)
		for i, id := range []streams.TaskID{one.assigned()[0], two.assigned()[0]} {
			k := "k" + strconv.Itoa(i)
			b.put(in, id.Partition, b.one(k, "v"))
			older.until("both count", func() bool { return b.counts(out)[k] == 1 })
		}
		require.NoError(t, older.app.Drain(context.Background()))
		require.NoError(t, older.fails())
		newer.until("all of it", func() bool { return len(two.assigned()) == 2 && newer.app.Ready() })
		back, three := b.member("roll", "old", in, out)
		back.ready()
		b.put(in, 0, b.one("k2", "v"))
		newer.until("the new one goes on", func() bool { return b.counts(out)["k2"] == 1 })
		require.Empty(t, three.assigned(), "an older form gets nothing")
		require.Len(t, two.assigned(), 2)
		require.NoError(t, back.end())
		require.NoError(t, newer.end())
	})
}

// A listener may ask for the tasks, and gets what is so then.
func TestAppTasksFromTheListener(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	var app *streams.App
	states := make(chan string, 100)
	c := b.config("ask")
	c.Listener.Task = func(id streams.TaskID, state string) {
		for _, i := range app.Tasks() {
			if i.ID == id {
				states <- i.State
			}
		}
	}
	app, err := streams.New(countKeys(in, out), c)
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx) }()
	require.Eventually(t, func() bool {
		for len(states) > 0 {
			if <-states == "running" {
				return true
			}
		}
		return false
	}, 20*time.Second, 10*time.Millisecond)
	stop()
	require.NoError(t, <-done)
	require.Empty(t, app.Tasks())
}
