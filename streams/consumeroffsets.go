package streams

import "context"

// OffsetStore keeps the offsets of a [Consumer] where the program keeps its results, so that both are written in one transaction: that is
// exactly once without any of Kafka's. Save writes what a commit says; a program that writes offsets in its own transaction beside its
// results, and never commits, needs Load only.
//
// The functions are called inside Poll, Commit and Close, one at a time, on the goroutine of the caller, never on one of the runtime's. An
// error of theirs is returned from there, and the call is made again with the next Poll. The context is bounded by
// ConsumerConfig.RequestTimeout and does not end with that of Poll: a Poll that must not wait still has to know where to begin.
type OffsetStore interface {
	// Load returns the offsets at which to begin to read partitions that were just assigned: the offset after the last record that is done.
	// A partition without one is not in the answer; ConsumerConfig.NoOffset says where it begins.
	Load(ctx context.Context, group string, partitions []TopicPartition) (map[TopicPartition]int64, error)
	// Save keeps offsets, and is durable when it returns. Generation is the group's, -1 without one: a store that keeps it beside the offset
	// and refuses lower ones keeps out a process that was taken for dead and goes on.
	Save(ctx context.Context, group string, generation int32, offsets map[TopicPartition]int64) error
}
