package assignor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// A round that begins before the new owner has begun to process takes the task from it only for a copy that is much closer to the end.
func TestTaskThatHasJustMovedStaysForAFewRecords(t *testing.T) {
	id := task.ID{}
	owner := func(lag Lag) string {
		hashes := []Hash{{Subtopology: 0, Sum: 1}}
		plan := Assign(State{
			Subtopologies: []Subtopology{{ID: 0, Partitions: 1, Stateful: true}}, Policy: Policy{Standbys: 1, AcceptableLag: 100},
			Members: []Member{
				{ID: "a", Process: [16]byte{1}, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Standby, Lag: 0}}},
				{ID: "b", Process: [16]byte{2}, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Restoring, Lag: lag}}},
			},
		})
		require.Empty(t, plan.Degraded)
		for _, m := range plan.Members {
			if len(m.Active) > 0 {
				return m.ID
			}
		}
		return ""
	}
	require.Equal(t, "b", owner(1))
	require.Equal(t, "b", owner(100))
	require.Equal(t, "a", owner(101))
}
