package assignor_test

import (
	"fmt"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// A member joins a group of one. The owner keeps its tasks and is told which one shall move; the newcomer learns it and asks for a round when
// it has.
func ExampleAssign() {
	hashes := []assignor.Hash{{Subtopology: 0, Sum: 1}}
	plan := assignor.Assign(assignor.State{
		Subtopologies: []assignor.Subtopology{{ID: 0, Partitions: 2, Stateful: true}},
		Members: []assignor.Member{
			{ID: "worker-a", Generation: 4, Hashes: hashes, Claims: []task.ID{{Partition: 0}, {Partition: 1}}},
			{ID: "worker-b", Generation: -1, Hashes: hashes},
		},
	})
	for _, m := range plan.Members {
		fmt.Println(m.ID, "runs", m.Active, "marked", m.Marks, "learns", m.Learners)
	}
	for _, m := range plan.Moves {
		fmt.Println(m.Reason)
	}
	// Output:
	// worker-a runs [0_0 0_1] marked [{0_0 worker-b false}] learns []
	// worker-b runs [] marked [] learns [{0_0 worker-a false}]
	// task 0_0 moves to worker-b when it has learned it: worker-a has 2 more tasks
}
