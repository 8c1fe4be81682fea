package kafka

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// FetchRequest asks one broker for records of the partitions it leads.
type FetchRequest struct {
	MaxWait       time.Duration // how long the broker waits for MinBytes
	MinBytes      int32
	MaxBytes      int32 // bound of the answer; a first batch that is larger comes whole
	ReadCommitted bool  // leave out records of aborted and open transactions
	Parts         []FetchPart
}

// FetchPart is one partition of a FetchRequest. LeaderEpoch is from the metadata: without it a broker that led the partition once goes on
// answering.
type FetchPart struct {
	task.TopicPartition
	Offset      int64
	LeaderEpoch int32
	MaxBytes    int32
}

// FetchResponse has the partitions the broker answered for.
type FetchResponse struct {
	Code  kcode.Code // of the whole request
	Parts []FetchedPart
}

// FetchedPart is the answer for one partition. Batch is nil if Code is set; otherwise it is there, even without records, with the offset to
// go on from. With Err (a *CorruptBatchError) Batch has what precedes the damage. The offsets are -1 where the broker sends none, as it does
// with OffsetOutOfRange.
type FetchedPart struct {
	task.TopicPartition
	Code          kcode.Code
	Batch         *task.Batch
	HighWatermark int64
	LastStable    int64
	LogStart      int64
	Err           error
}
