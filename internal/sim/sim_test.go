package sim

import (
	"flag"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	seeds = flag.Uint64("sim.seeds", 200, "how many seeds TestSeeds plays; 50 with -short")
	seed  = flag.Uint64("sim.seed", 0, "play only this seed, and print everything that happens with -v")
)

func TestSeeds(t *testing.T) {
	if *seed > 0 {
		cfg := Config{Seed: *seed}
		if testing.Verbose() {
			cfg.Trace = func(line string) { t.Log(line) }
		}
		r := Run(cfg)
		require.NoError(t, r.Err, r.String())
		return
	}
	n := *seeds
	if testing.Short() {
		n = min(n, 50)
	}
	for s := uint64(1); s <= n; s++ {
		r := Run(Config{Seed: s})
		require.NoError(t, r.Err, r.String())
	}
}
