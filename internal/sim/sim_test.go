package sim

import (
	"flag"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Uint64("sim.seeds", 200, "how many seeds TestSeeds plays; 50 at most with -short")
	from  = flag.Uint64("sim.first", 1, "the first of them")
	one   = flag.Uint64("sim.seed", 0, "play this seed only; with -v everything that happens is printed")
)

// TestSeeds plays one run a seed. What does not hold is printed with the last things that happened and how to play it again.
func TestSeeds(t *testing.T) {
	if *one > 0 {
		cfg := Config{Seed: *one}
		if testing.Verbose() {
			cfg.Trace = func(line string) { fmt.Println(line) }
		}
		r := Run(cfg)
		require.NoError(t, r.Err, r.String())
		return
	}
	n := *seeds
	if testing.Short() {
		n = min(n, 50)
	}
	began, events, faults := time.Now(), 0, 0
	for seed := *from; seed < *from+n; seed++ {
		r := Run(Config{Seed: seed})
		require.NoError(t, r.Err, r.String())
		events, faults = events+r.Events, faults+len(r.Faults)
	}
	t.Logf("%d seeds, %.0f a second, %d events and %.1f faults each", n, float64(n)/time.Since(began).Seconds(), events/int(n), float64(faults)/float64(n))
}

func TestReplay(t *testing.T) {
	for seed := uint64(1); seed <= 20; seed++ {
		a, b := Run(Config{Seed: seed}), Run(Config{Seed: seed})
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
