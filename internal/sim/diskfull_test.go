package sim

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Full disks are among the faults, and processes come back from them: a run in which one does not is not whole at its end.
func TestFullDisks(t *testing.T) {
	filled, resumed := 0, 0
	for seed := uint64(5000); seed < 5100; seed++ {
		r := Run(Mixed(seed))
		require.NoError(t, r.Err, r.String())
		for _, f := range r.Faults {
			if strings.HasSuffix(f, "is full") {
				filled++
			}
		}
		resumed += r.Seen[Resumed]
	}
	t.Logf("%d full disks, %d suspensions that ended", filled, resumed)
	require.Greater(t, filled, 10)
	require.Greater(t, resumed, filled/4)
}
