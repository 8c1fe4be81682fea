package kafka

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

var (
	// ErrClosed is in the chain of every error that came from closing the connection or the client on our side.
	ErrClosed = errors.New("kafka: closed")
	// ErrNoBroker is in the chain when no known broker answered.
	ErrNoBroker = errors.New("kafka: no broker answers")
	// ErrInvalidCommit is in the chain when an offset commit was refused before it was sent.
	ErrInvalidCommit = errors.New("kafka: invalid offset commit")
)

// TransportError is a request that got no answer: nothing is known of whether the broker carried it out.
type TransportError struct {
	Broker  string // address
	Request string // name of the request, or "connect"
	Err     error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("kafka: %s to broker %s: %v", e.Request, e.Broker, e.Err)
}

func (e *TransportError) Unwrap() error { return e.Err }

// NoBrokerError says that none of the known brokers answered, and which they are. ErrNoBroker is in its chain.
type NoBrokerError struct {
	Request   string
	Addresses []string // that were tried
	Err       error    // what each of them did
}

func (e *NoBrokerError) Error() string {
	return fmt.Sprintf("%v to %s: check Brokers and that they are reachable: %v", ErrNoBroker, e.Request, e.Err)
}

func (e *NoBrokerError) Unwrap() []error { return []error{ErrNoBroker, e.Err} }

// ResponseError is a protocol code that failed a whole call, with the broker's message where it sent one.
type ResponseError struct {
	Broker  string
	Request string
	Code    kcode.Code
	Message string
}

func (e *ResponseError) Error() string {
	s := fmt.Sprintf("kafka: %s answered by broker %s: %v", e.Request, e.Broker, e.Code)
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

func (e *ResponseError) Unwrap() error { return e.Code }

// CorruptBatchError is a record batch that cannot be read. Fetching from LastOffset+1 skips it; LastOffset is taken from the damaged batch
// and is BaseOffset where it makes no sense.
type CorruptBatchError struct {
	task.TopicPartition
	BaseOffset int64
	LastOffset int64
	Err        error
}

func (e *CorruptBatchError) Error() string {
	return fmt.Sprintf("kafka: corrupt record batch in %s at offsets %d to %d: %v", e.TopicPartition, e.BaseOffset, e.LastOffset, e.Err)
}

func (e *CorruptBatchError) Unwrap() error { return e.Err }
