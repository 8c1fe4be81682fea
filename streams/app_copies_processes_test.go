package streams_test

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
)

// eventually waits for a condition on real brokers.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, 60*time.Second, 50*time.Millisecond, what)
}

// moreThanOnce is by how much counts are too high, in all.
func moreThanOnce(truth, got map[string]int64) (n int64) {
	for _, d := range diff(truth, got) {
		n += d
	}
	return n
}

// A standby takes over from a process that was killed with what it has: nothing is restored but what its owner wrote last.
func TestAppStandbyTakesOverFromAProcessThatWasKilled(t *testing.T) {
	b := realBed(t)
	const partitions, keys = 4, 3000
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	truth := b.preload(in, partitions, keys)
	spec := memberSpec{App: "killed", In: in, Out: out, Standbys: 1}
	start := func(name string) *memberProcess {
		s := spec
		s.Name, s.Dir = name, t.TempDir()
		return b.start(s)
	}
	first, second := start("one"), start("two")
	eventually(t, "two tasks and two copies each", func() bool {
		for _, m := range []*memberProcess{first, second} {
			running, caught := m.runsOn(), 0
			for _, i := range m.tasks() {
				if i.Role == streams.RoleStandby && i.Lag >= 0 && i.Lag < 10 && i.Position > 0 {
					caught++
				}
			}
			if len(running) != 2 || caught != 2 {
				return false
			}
		}
		return true
	})
	eventually(t, "the old keys", func() bool { return len(b.counts(out)) == partitions*keys })
	l := b.load(in, partitions)
	time.Sleep(2 * time.Second)
	copies := first.as(streams.RoleStandby)
	restores, promotions := first.said("restored "), first.said("promoted ")
	_ = second.end(syscall.SIGKILL)
	eventually(t, "all of it", func() bool { return len(first.runsOn()) == partitions })
	var promoted []streams.TaskID
	for _, p := range heardOf[promotion](first, "promoted")[promotions:] {
		promoted = append(promoted, p.Task)
		require.Less(t, p.Lacked, int64(2000), "it was all but up to date")
	}
	require.ElementsMatch(t, copies, promoted, "in place")
	require.Zero(t, first.restored(streams.RoleActive, restores), "nothing was restored by an owner")
	truth = plus(truth, l)
	got := b.settled(out, func(got map[string]int64) bool { return covers(got, truth) })
	more := moreThanOnce(truth, got)
	t.Logf("%d of %d records counted more than once", more, l.sent.Load())
	require.LessOrEqual(t, more, int64(1000), "duplicates lie within a commit interval: 100 ms and as much for the commit, of half of 4,000 a second")
	require.NoError(t, first.end(syscall.SIGTERM))
}

// Three processes are restarted one after the other: whoever is left has a copy of what goes, and whoever comes back has its own.
func TestAppRollingRestartRestoresNothingCold(t *testing.T) {
	t.Parallel()
	b := realBed(t)
	const partitions, keys = 6, 3000
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	truth := b.preload(in, partitions, keys)
	specs := make([]memberSpec, 3)
	members := make([]*memberProcess, 3)
	for i, name := range memberNames(3) {
		specs[i] = memberSpec{Name: name, App: "rolled", Dir: t.TempDir(), In: in, Out: out, Standbys: 1}
		members[i] = b.start(specs[i])
	}
	settled := func() bool {
		for _, m := range members {
			warm := 0
			for _, i := range m.tasks() {
				if i.Role == streams.RoleStandby && i.Lag >= 0 && i.Lag < 1000 {
					warm++
				}
			}
			if len(m.runsOn()) != 2 || warm != 2 {
				return false
			}
		}
		return true
	}
	eventually(t, "two tasks and two copies each", settled)
	eventually(t, "the old keys", func() bool { return len(b.counts(out)) == partitions*keys })
	l := b.load(in, partitions)
	marks := make([]int, 3)
	for i, m := range members {
		marks[i] = m.said("restored ")
	}
	for i := range members {
		require.NoError(t, members[i].end(syscall.SIGTERM))
		members[i], marks[i] = b.start(specs[i]), 0
		eventually(t, "balance again", settled)
	}
	for i, m := range members {
		for _, p := range heardOf[streams.RestoreProgress](m, "restored")[marks[i]:] {
			require.True(t, p.Role != streams.RoleActive || p.Records < keys, "%s restored %v from the beginning: %+v", m.name, p.Task, p)
		}
	}
	b.countedOnce(out, plus(truth, l))
	for _, m := range members {
		require.NoError(t, m.end(syscall.SIGTERM))
	}
}

// The worked example of the protocol, on real brokers with five processes. S1 to S3 share five tasks. S4 comes, and learns one of S1's; S5 comes
// before S4 is ready, and learns one of another's; S4 is ready, S5 is ready. Each of the four is one round, and nothing ever stands still but
// the one task that moves in it.
func TestAppWorkedExampleWithFiveProcesses(t *testing.T) {
	b := realBed(t)
	const partitions, keys = 5, 1000
	in, out := b.topic("in", partitions), b.topic("out", partitions)
	truth := b.preload(in, partitions, keys)
	members := map[string]*memberProcess{}
	names := memberNames(5)
	start := func(name string, gated bool) {
		members[name] = b.start(memberSpec{Name: name, App: "worked", Dir: t.TempDir(), In: in, Out: out, Gated: gated})
	}
	for _, name := range names[:3] {
		start(name, false)
	}
	eventually(t, "round 0: two, two and one", func() bool {
		var has []int
		for _, name := range names[:3] {
			infos := members[name].tasks()
			if len(infos) != len(members[name].runsOn()) {
				return false
			}
			has = append(has, len(infos))
		}
		slices.Sort(has)
		return slices.Equal(has, []int{1, 2, 2})
	})
	eventually(t, "the old keys", func() bool { return len(b.counts(out)) == partitions*keys })
	l := b.load(in, partitions)
	time.Sleep(time.Second)
	owners := func() map[streams.TaskID]string {
		owns := map[streams.TaskID]string{}
		for name, m := range members {
			for _, id := range m.runsOn() {
				owns[id] += name
			}
		}
		return owns
	}
	before := owners()
	heard := map[string]int{}
	for name, m := range members {
		heard[name] = m.said("rebalanced ")
	}
	generation := func() (g int32) {
		for _, m := range members {
			if all := m.rebalances(0); len(all) > 0 {
				g = max(g, all[len(all)-1].Generation)
			}
		}
		return g
	}
	zero := generation()

	learns := func(name string) streams.TaskID {
		m := members[name]
		eventually(t, name+" learns", func() bool { return len(m.as(streams.RoleLearner)) == 1 })
		info := m.tasks()[0]
		require.False(t, info.Ready)
		require.True(t, strings.HasPrefix(info.Owner, before[info.ID]), "%s is said to run %v, which is %s's", info.Owner, info.ID, before[info.ID])
		require.Contains(t, info.Reason, "when it has learned it")
		return info.ID
	}
	start("S4", true)
	t1 := learns("S4")
	require.Equal(t, before, owners(), "round 1: everything runs where it ran")
	require.Equal(t, zero+1, generation())
	start("S5", true)
	t3 := learns("S5")
	require.NotEqual(t, t1, t3)
	require.NotEqual(t, before[t1], before[t3], "from another one that has two")
	require.Equal(t, []streams.TaskID{t1}, members["S4"].as(streams.RoleLearner), "its plan goes on")
	require.Equal(t, before, owners(), "round 2: everything runs where it ran")
	require.Equal(t, zero+2, generation())

	members["S4"].tell("open")
	eventually(t, "round 3: S4 has its task", func() bool { return slices.Equal(members["S4"].runsOn(), []streams.TaskID{t1}) })
	now := owners()
	require.Equal(t, before[t3], now[t3], "the other one waits")
	require.Equal(t, zero+3, generation())
	members["S5"].tell("open")
	eventually(t, "round 4: S5 has its task", func() bool { return slices.Equal(members["S5"].runsOn(), []streams.TaskID{t3}) })
	require.Equal(t, zero+4, generation())
	time.Sleep(time.Second)
	require.Equal(t, zero+4, generation(), "and that is all")

	want := map[streams.TaskID]string{}
	for id, name := range before {
		want[id] = name
	}
	want[t1], want[t3] = "S4", "S5"
	require.Equal(t, want, owners())
	moves, reasons := map[streams.TaskID]int{}, 0
	for _, name := range names {
		m := members[name]
		for _, r := range m.rebalances(heard[name]) {
			t.Logf("%s generation %d after %v (%s): %d moves, paused %v", name, r.Generation, r.Took, r.Reason, len(r.Moves), r.Paused)
			for _, p := range r.Paused {
				require.True(t, p.Moved, "%s: %v stood still for nothing", name, p.Task)
				moves[p.Task]++
			}
			for _, move := range r.Moves {
				require.NotEmpty(t, move.Reason)
				reasons++
			}
		}
		require.Zero(t, m.restored(streams.RoleActive, 0), "%s: nothing was restored by an owner", name)
	}
	require.Equal(t, map[streams.TaskID]int{t1: 1, t3: 1}, moves, "each pauses once, when it moves")
	require.Positive(t, reasons)
	b.countedOnce(out, plus(truth, l))
	for _, m := range members {
		require.NoError(t, m.end(syscall.SIGTERM))
	}
}
