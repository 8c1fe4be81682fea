package engine

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// How long a copy needs is reckoned by its own pace, however slow that is; once it has caught up, its pace says nothing any more.
func TestETAOfACopy(t *testing.T) {
	for _, role := range []Role{Standby, Learner} {
		t.Run(role.String(), func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.RestoreBytes = 1 }) // each piece is written as it comes
			w.joinGroup()
			w.assignPlan(copyPlan(role))
			w.stores(id10, statestore.NoPosition)
			w.listed(latest[ListOffsets](w), 0, 100_000)
			w.metadata()
			status := func() TaskStatus { return w.e.Tasks()[0] }
			require.Equal(t, int64(100_000), status().Lag)
			require.Zero(t, status().ETA, "there is no telling yet")
			w.reads(500, 100_000)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Zero(t, status().ETA, "nor after one write")
			w.alive(250 * time.Millisecond)
			w.reads(1000, 100_000)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Equal(t, int64(1000), status().Position)
			require.Equal(t, int64(99_000), status().Lag)
			require.Equal(t, 99*250*time.Millisecond, status().ETA, "1,000 took a quarter of a second")
			w.rebalance()
			require.Equal(t, int32(25), w.declared().Replicas[0].CatchUp)
			w.assignPlan(copyPlan(role))

			w.reads(100_000, 100_000)
			w.alive(time.Minute)
			w.step(Applied{Task: id10, Epoch: w.key(id10)})
			require.Zero(t, status().Lag)
			require.Zero(t, status().ETA)
			w.reads(100_001, 100_001)
			require.Equal(t, time.Second/leastRate, status().ETA.Round(time.Microsecond))
			require.Equal(t, role == Learner, status().Ready)
		})
	}
}
