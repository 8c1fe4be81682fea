package kafka

import (
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Codec is a compression of record batches, by its number in the protocol.
type Codec int8

// The codecs.
const (
	None Codec = iota
	Gzip
	Snappy
	LZ4
	Zstd
)

// ProduceRequest is one request to one broker, with at most one batch per partition.
type ProduceRequest struct {
	Acks    int16         // -1: all in-sync replicas; 1: the leader; 0: no answer
	Timeout time.Duration // how long the broker waits for the replicas
	Batches []ProduceBatch
}

// ProduceBatch becomes one record batch. ProducerID -1 makes it not idempotent.
type ProduceBatch struct {
	task.TopicPartition
	ProducerID    int64
	Epoch         int16
	FirstSequence int32
	Codec         Codec
	Groups        []*task.Group // concatenated in order
}

// ProduceResponse has a part per batch.
type ProduceResponse struct {
	Parts []ProducedPart
}

// ProducedPart is the outcome of one batch. BaseOffset is -1 if Code is set or no answer was asked for. BadRecords are the indexes of the
// records that the broker named as the cause, in ascending order.
type ProducedPart struct {
	task.TopicPartition
	Code       kcode.Code
	BaseOffset int64
	Message    string
	BadRecords []int
}
