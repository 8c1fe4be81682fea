package task

import (
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// Spec is a subtopology as plain data, plus the recipe that makes its node graph for one task. It is shared by all tasks of the
// subtopology and never written to after it was made.
type Spec struct {
	Subtopology int32
	// Source is the name of the first source, by which versions of a program tell their subtopologies; where it is empty that is the smallest
	// topic. The topics of a source that names a pattern come and go.
	Source string
	Inputs []Input // sorted by topic, those of redriven records behind
	Stores []Store
	// Dests are the topics that nodes send to: sinks and repartition topics. Topics that are only known at run time are added with Env.Dest.
	Dests []Dest
	// Nodes names the nodes, for Env.Enter.
	Nodes []string
	// Failure is what becomes of records that fail. The zero Policy stops the task.
	Failure retry.Policy
	// Retries is one more than the index in Stores of the retry store, which is Ordered; 0 where there is none. A policy that puts records
	// aside needs one.
	Retries int
	// Recovers says that records may be processed in any order, and by two paths at once: after an end that was none the task may go on at the
	// end of the log while what lies between is replayed beside it.
	Recovers bool
	// StandsIn is the input whose entry node takes records that were put aside of a topic which is not read any more, as it was deleted. It is -1
	// where the node reads no topic at all at the moment: then they wait. It reports false for a topic that no pattern matches. It may be nil.
	StandsIn func(topic string) (input int, ours bool)
	// Build makes the nodes of one task. It is called once for each task, on the goroutine that makes it.
	Build func(*Env) (*Graph, error)
}

// Tasks is how many tasks the subtopology has, by the numbers of partitions of topics: one for each partition of its widest input, and of its
// state. That outlives topics which come and go: records that were put aside may wait in it.
func (s *Spec) Tasks(partitions func(topic string) int32) (n int32) {
	for i := range s.Inputs {
		n = max(n, partitions(s.Inputs[i].Topic))
	}
	for i := range s.Stores {
		if topic := s.Stores[i].Changelog; topic != "" {
			n = max(n, partitions(topic))
		}
	}
	return n
}

// Input is one topic that a subtopology reads. A task reads the partition with its own number.
type Input struct {
	Topic       string
	Repartition bool
	// NegativeTimestamp says what becomes of a record with a timestamp below zero. Defaults to Fail.
	NegativeTimestamp NegativeTimestamp
	// DeadLetters is one more than the index in Dests of the topic that takes the dead letters of this input; 0 where there is none.
	DeadLetters int
	// Redrives is one more than the index of the input whose records come back here, and are run at its entry node; 0 for an ordinary input.
	Redrives int
}

// Internal reports whether the topic is the application's own: it is read from its beginning, and what is committed of it is deleted.
func (in *Input) Internal() bool { return in.Repartition || in.Redrives > 0 }

// NegativeTimestamp is what a task does with an input record whose timestamp is below zero.
type NegativeTimestamp uint8

const (
	// Fail fails the record with an Error of kind KindTimestamp.
	Fail NegativeTimestamp = iota
	// Drop skips the record and counts it.
	Drop
	// UseStreamTime gives the record the task's stream time. Before there is one the record fails.
	UseStreamTime
)

// Store is one store of a subtopology.
type Store struct {
	Spec statestore.Spec
	// Changelog is the topic of the store's changelog, empty where it has none.
	Changelog string
	// KeepBefore makes the store remember each key's row as of the last commit, for a table that emits at commit.
	KeepBefore bool
}

// Dest is a topic that nodes send to.
type Dest struct {
	Topic     string
	Compacted bool // null keys are refused
}

// Graph is what Spec.Build made for one task.
type Graph struct {
	// Inputs has the entry node for each of Spec.Inputs. The record and its bytes are borrowed until the call returns.
	Inputs []func(r *Record)
	// Warm has, for each input, the stores in which the raw key of a record will be looked up: keys of records that come next are shown to
	// them together. It may be shorter than Inputs, and is about speed alone.
	Warm [][]int
	// Tables are the tables that emit at commit, in topological order.
	Tables []Table
	// Close calls the Close of the user's processors. It may be nil.
	Close func()
}

// Table is a table that emits at commit: once for each key that changed since the last commit, in the order in which they changed first.
type Table struct {
	Store int    // index into Spec.Stores
	Node  string // for errors
	// Emit sends the change of one key downstream. Bytes are borrowed. before is the row as of the last commit, where the store keeps it.
	Emit func(key []byte, now statestore.Row, present bool, before statestore.Row, hadBefore bool)
}
