package streams_test

import (
	"time"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// newOwner starts a task of a subtopology by itself, with empty stores.
func newOwner(topology *streams.Topology, subtopology int) (*task.Owner, error) {
	spec := topology.Subtopologies[subtopology]
	return task.New(task.Config{
		ID: task.ID{Subtopology: spec.Subtopology}, Spec: spec, StreamTime: -1,
		Stores: make([]statestore.Reader, len(spec.Stores)), Positions: make([]int64, len(spec.Inputs)),
		Partitions: func(string) int32 { return 4 }, CommitInterval: 24 * time.Hour,
	})
}
