package group

import (
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// index is a Topology that can be asked which partitions a task has and which task a partition belongs to.
type index struct {
	Topology
	byTopic map[string]int32
	byID    map[int32]Subtopology
	byInput map[uint64]int32 // by first input: see numbers
}

func indexOf(t Topology) index {
	x := index{Topology: t, byTopic: map[string]int32{}, byID: map[int32]Subtopology{}, byInput: map[uint64]int32{}}
	for _, s := range t.Subtopologies {
		x.byID[s.ID], x.byInput[s.identity()] = s, s.ID
		for _, topic := range s.Topics {
			x.byTopic[topic] = s.ID
		}
	}
	return x
}

// topics are all topics whose offsets the member commits.
func (x index) topics() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(x.byTopic)), func(topic string) bool { return !x.own(topic) })
}

// own says whether a topic is one that the member itself reads.
func (x index) own(topic string) bool {
	id, has := x.byTopic[topic]
	return has && !x.byID[id].Others
}

// partitions is how many tasks a subtopology has: as many as its widest topic has partitions, or more.
func (x index) partitions(s Subtopology) (n int32) {
	n = s.Tasks
	for _, topic := range s.Topics {
		n = max(n, x.Partitions[topic])
	}
	return n
}

// ofTask are the partitions that a task reads.
func (x index) ofTask(id task.ID) (out []task.TopicPartition) {
	for _, topic := range x.byID[id.Subtopology].Topics {
		if id.Partition < x.Partitions[topic] {
			out = append(out, task.TopicPartition{Topic: topic, Partition: id.Partition})
		}
	}
	return out
}

func (x index) ofTasks(ids []task.ID) (out []task.TopicPartition) {
	for _, id := range ids {
		out = append(out, x.ofTask(id)...)
	}
	return out
}

// taskOf is the task that reads a partition.
func (x index) taskOf(tp task.TopicPartition) (task.ID, bool) {
	sub, ok := x.byTopic[tp.Topic]
	return task.ID{Subtopology: sub, Partition: tp.Partition}, ok && tp.Partition >= 0
}

func (x index) hashes() (out []assignor.Hash) {
	for _, s := range x.Subtopologies {
		if s.Others {
			continue
		}
		out = append(out, assignor.Hash{Subtopology: s.ID, Sum: s.Hash})
	}
	return out
}

func (x index) counts() (out []Count) {
	for _, s := range x.Subtopologies {
		out = append(out, Count{Subtopology: s.ID, Partitions: x.partitions(s)})
	}
	return out
}

func (x index) shape() (out []assignor.Subtopology) {
	for _, s := range x.Subtopologies {
		out = append(out, assignor.Subtopology{ID: s.ID, Partitions: x.partitions(s), Stateful: s.Stateful})
	}
	return out
}
