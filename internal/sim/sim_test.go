package sim

import (
	"cmp"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds  = flag.Uint64("sim.seeds", 2000, "how many seeds TestSeeds plays; 100 at most with -short")
	from   = flag.Uint64("sim.first", 1, "the first of them")
	one    = flag.Uint64("sim.seed", 0, "play this seed only; with -v everything that happens is printed")
	update = flag.Bool("update", false, "write the golden files")
)

// TestSeeds plays one run a seed, on all cores. What does not hold is printed with what led to it and how to play it again. Over as many seeds as CI
// plays, each kind of trouble must have had an effect.
func TestSeeds(t *testing.T) {
	if *one > 0 {
		cfg := Mixed(*one)
		if testing.Verbose() {
			cfg.Trace = func(line string) { fmt.Println(line) }
		}
		r := Run(cfg)
		require.NoError(t, r.Err, r.String())
		return
	}
	n := *seeds
	if testing.Short() {
		n = min(n, 100)
	}
	defer debug.SetGCPercent(debug.SetGCPercent(gcPercent))
	began := cpuTime(t)
	all := playAll(*from, n)
	slices.SortFunc(all.failed, func(a, b Result) int { return cmp.Compare(a.Seed, b.Seed) })
	for _, r := range all.failed[:min(len(all.failed), 3)] {
		t.Error(r.String())
	}
	for _, r := range all.failed[min(len(all.failed), 3):] {
		t.Errorf("seed %d: %v", r.Seed, r.Err)
	}
	t.Logf("%d seeds, %.0f in a second of one core, %d events and %.1f faults each, whole after %v at the latest",
		n, float64(n)/(cpuTime(t)-began).Seconds(), all.events/int(n), float64(all.faults)/float64(n), all.healed)
	t.Logf("moves: %+v", all.moves)
	for _, k := range Kinds() {
		t.Logf("%8d  %v", all.seen[k], k)
		if n >= 2000 {
			require.NotZero(t, all.seen[k], "no seed has seen: %v", k)
		}
	}
}

// gcPercent lets the few megabytes of a run grow: most of what it makes is rubbish at once.
const gcPercent = 400

// cpuTime is what the process has used of all cores.
func cpuTime(t testing.TB) time.Duration {
	var u syscall.Rusage
	require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// played is what many runs came to.
type played struct {
	mu             sync.Mutex
	failed         []Result
	events, faults int
	healed         time.Duration
	seen           Tally
	moves          Moves
}

func playAll(from, n uint64) *played {
	all, next := &played{}, atomic.Uint64{}
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := next.Add(1); i <= n; i = next.Add(1) {
				all.add(Run(Mixed(from + i - 1)))
			}
		})
	}
	wg.Wait()
	return all
}

func (a *played) add(r Result) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Err != nil {
		a.failed = append(a.failed, r)
	}
	a.events, a.faults, a.healed = a.events+r.Events, a.faults+len(r.Faults), max(a.healed, r.Healed)
	a.seen.Add(r.Seen)
	a.moves.Add(r.Moves)
}

func TestReplay(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := Run(Mixed(seed)), Run(Mixed(seed))
		require.Equal(t, a, b, "seed %d", seed)
	}
	require.NotEqual(t, Run(Config{Seed: 1}).Hash, Run(Config{Seed: 2}).Hash)
}

// Without faults every record is counted exactly once, however many processes share the work.
func TestCalm(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for seed := uint64(1); seed <= 10; seed++ {
			r := Run(Config{Seed: seed, Instances: n, Brokers: 1 + n%3, Parts: int32(1 + n), Calm: true})
			require.NoError(t, r.Err, r.String())
			require.Empty(t, r.Faults)
		}
	}
}

// What led to a failure is not kept before there is one: the seed is played again, and it is the same run.
func TestFailureIsPlayedAgain(t *testing.T) {
	cfg := Config{Seed: 4, breaks: 9 * time.Second}
	r := Run(cfg)
	require.EqualError(t, r.Err, "at 9s: a test wants it to fail")
	require.Greater(t, len(r.Trace), 100)
	require.Contains(t, r.Trace[len(r.Trace)-1], " 8.", "it ends with what happened last")
	blind := play(cfg.withDefaults(), true)
	require.Empty(t, blind.Trace)
	require.Equal(t, blind.Hash, r.Hash)
	require.Equal(t, blind.Events, r.Events)
}
