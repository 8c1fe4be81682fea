package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Tasks whose processes die, again and again, go on at the log's end and replay what lies between: every record is processed at least once, no
// commit says that one is done that is not, each path takes its records in their order, and there is never more than one gap.
func TestRecoverySeeds(t *testing.T) {
	n := uint64(300)
	if testing.Short() {
		n = 50
	}
	var seen Tally
	for seed := *from; seed < *from+n; seed++ {
		r := Run(Config{Seed: seed, Recover: true})
		require.NoError(t, r.Err, "%v\nagain: Config{Seed: %d, Recover: true}", r, seed)
		seen.Add(r.Seen)
	}
	for _, k := range []Kind{TwoPaths, GapOfGaps, GapClosed, RecordKilled} {
		t.Logf("%d %v", seen[k], k)
		require.NotZero(t, seen[k], "%v", k)
	}
}
