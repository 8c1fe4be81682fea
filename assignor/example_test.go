package assignor_test

import (
	"fmt"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// A member joins a group of one. The owner keeps its tasks in this round and is told which one shall move; the newcomer asks for the round in
// which it gets it.
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
		fmt.Println(m.ID, "runs", m.Active, "marked", m.Marks, "asks again", m.FollowUp.Kind == assignor.Now)
	}
	for _, m := range plan.Moves {
		fmt.Println(m.Reason)
	}
	// Output:
	// worker-a runs [0_0 0_1] marked [{0_0 worker-b true}] asks again false
	// worker-b runs [] marked [] asks again true
	// task 0_0 moves to worker-b: worker-a has 2 more tasks
}
