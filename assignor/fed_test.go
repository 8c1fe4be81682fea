package assignor

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// What lies on disk was looked at some time ago: it may be behind by now.
func TestOfEqualCopiesTheOneThatIsFedGoesOn(t *testing.T) {
	id := task.ID{Subtopology: 1}
	hashes := []Hash{{Subtopology: 0, Sum: 1}, {Subtopology: 1, Sum: 1}}
	p := Assign(State{
		Subtopologies: []Subtopology{{ID: 0, Partitions: 3}, {ID: 1, Partitions: 1, Stateful: true}},
		Members: []Member{
			{ID: "disk", Generation: 1, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: OnDisk}}},
			{
				ID: "standby", Generation: 1, Hashes: hashes, Replicas: []Replica{{Task: id, Kind: Standby}},
				Claims: []task.ID{{Subtopology: 0}, {Subtopology: 0, Partition: 1}, {Subtopology: 0, Partition: 2}},
			},
		},
	})
	require.Contains(t, p.Member("standby").Active, id)
}
