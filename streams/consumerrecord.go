package streams

import (
	"time"

	"github.com/understudy-streams/understudy/task"
)

// TopicPartition names one partition of a topic; it prints as "orders-3".
type TopicPartition = task.TopicPartition

// ConsumerRecord is a record that [Consumer.Poll] returns. It belongs to the program for ever: nothing of it is used again. Its bytes lie in
// what one fetch brought, so whoever keeps few records of many for long copies their bytes.
type ConsumerRecord struct {
	Topic     string
	Partition int32
	Offset    int64
	// Key and Value are nil where the record has null there; an empty slice is present and empty.
	Key, Value []byte
	// Headers are in the order in which they were written.
	Headers []Header
	// Time is the record's timestamp, in UTC with a precision of a millisecond.
	Time time.Time
	// Generation is that of the group under which the partition was assigned when the record was returned, -1 without a group.
	Generation int32
	// Replayed says that a crash has left the record behind and it comes beside newer ones: see [ConsumerConfig].Recovery.
	Replayed bool

	life uint64 // of the partition here: a commit of a record of an earlier one is refused
}

// TopicPartition is where the record comes from.
func (r ConsumerRecord) TopicPartition() TopicPartition {
	return TopicPartition{Topic: r.Topic, Partition: r.Partition}
}
