package streams

import "context"

// OffsetStore keeps the offsets of a [Consumer] where the program keeps its results, so that both are written in one transaction: that is
// exactly once without any of Kafka's. Save writes what a commit says; a program that writes offsets in its own transaction beside its
// results, and never commits, needs Load only. Such a transaction has to fail where the stored offset is not the one that this consumer goes on
// from, as then another process, which also believes to have the partition, was first; SeekTo with FromCommitted goes back to what is stored.
// Package offsetstore has stores to use, and examples/ledger is one in SQL.
//
// The functions are called inside Poll, Commit and Close, one at a time, on the goroutine of the caller, never on one of the runtime's. An
// error of theirs is returned from there. Load is called again with the next Poll, and what was not saved is part of the next commit. The context
// is bounded by ConsumerConfig.RequestTimeout and does not end with that of Poll: a Poll that must not wait still has to know where to begin.
// They must call nothing of the Consumer.
type OffsetStore interface {
	// Load returns the offsets at which to begin to read partitions that were just assigned: the offset after the last record that is done.
	// A partition without one is not in the answer; ConsumerConfig.NoOffset says where it begins.
	Load(ctx context.Context, group string, partitions []TopicPartition) (map[TopicPartition]int64, error)
	// Save keeps offsets, and is durable when it returns. Generation is the group's, -1 without one: a store that keeps it beside the offset
	// and refuses lower ones keeps out a process that was taken for dead and goes on. Load has to lift that: a broker forgets a group that has
	// neither members nor offsets in Kafka, and counts from 1 again.
	Save(ctx context.Context, group string, generation int32, offsets map[TopicPartition]int64) error
}
