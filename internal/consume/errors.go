package consume

import (
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/task"
)

// CommitRefusedError says that an offset was not committed, and never will be.
type CommitRefusedError struct {
	Partition task.TopicPartition
	// Generation is the one that the member was in, -1 without one.
	Generation int32
	Reason     string
	Err        error // the broker's, or the store's; nil where the consumer itself refuses
}

func (e *CommitRefusedError) Error() string {
	if e.Generation < 0 {
		return fmt.Sprintf("commit of %s refused: %s", e.Partition, e.Reason)
	}
	return fmt.Sprintf("commit of %s refused in generation %d: %s", e.Partition, e.Generation, e.Reason)
}

func (e *CommitRefusedError) Unwrap() error { return e.Err }

// missingError says of a consumer what the error that it wraps says of an application.
type missingError struct {
	text string
	err  *engine.MissingTopicError
}

func (e *missingError) Error() string { return e.text }
func (e *missingError) Unwrap() error { return e.err }

// BrokersError says that no broker could be reached. The consumer goes on trying.
type BrokersError struct {
	Addresses []string // that were tried
	Err       error
}

func (e *BrokersError) Error() string {
	return fmt.Sprintf("no broker answers, tried were %s: check that they run and can be reached from here, and ConsumerConfig.Brokers; the consumer goes on "+
		"trying: %v", strings.Join(e.Addresses, ", "), e.Err)
}

func (e *BrokersError) Unwrap() error { return e.Err }

// NotAssignedError says that a partition is not read here.
type NotAssignedError struct{ Partition task.TopicPartition }

func (e *NotAssignedError) Error() string {
	return fmt.Sprintf("%s is not assigned to this consumer: see Assignment for what is", e.Partition)
}
