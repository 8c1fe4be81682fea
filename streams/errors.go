package streams

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/task"
)

// TopologyError says everything that is wrong with a topology. [errors.Is] and [errors.As] see each fault.
type TopologyError struct {
	// Faults are in the order of the steps.
	Faults []error
}

func newTopologyError(faults []error) *TopologyError { return &TopologyError{Faults: faults} }

func (e *TopologyError) Error() string {
	if len(e.Faults) == 1 {
		return fmt.Sprintf("streams: the topology has a fault: %v", e.Faults[0])
	}
	return fmt.Sprintf("streams: the topology has %d faults:\n%v", len(e.Faults), errors.Join(e.Faults...))
}

func (e *TopologyError) Unwrap() []error { return e.Faults }

// RecordError is the failure of one record, or of a unit that has no record (the emission of a table, a punctuation): Topic is empty then,
// and Partition and Offset are -1.
type RecordError struct {
	Task      TaskID
	Topic     string
	Partition int32
	Offset    int64
	Node      string // the step that failed, empty where none did
	Kind      Kind
	Err       error
	// Attempts is how often the record has failed, this time included; 0 where no policy is asked.
	Attempts int
	// Stack is where it panicked, for KindPanic. Error says the first place in it that is not the Go runtime's.
	Stack []byte
}

// NewRecordError makes the public error of a task's error. Errors of other types are nil.
func NewRecordError(err error) *RecordError {
	var e *task.Error
	if !errors.As(err, &e) {
		return nil
	}
	return &RecordError{
		Task: e.Task, Topic: e.Topic, Partition: e.Partition, Offset: e.Offset,
		Node: e.Node, Kind: e.Kind, Err: e.Err, Stack: e.Stack, Attempts: e.Attempts,
	}
}

func (e *RecordError) Error() string {
	s := "streams: " + (&task.Error{
		Task: e.Task, Topic: e.Topic, Partition: e.Partition, Offset: e.Offset, Node: e.Node, Kind: e.Kind, Err: e.Err, Attempts: e.Attempts,
	}).Error()
	if place := panicPlace(e.Stack); place != "" {
		s += " (" + place + ")"
	}
	return s
}

func (e *RecordError) Unwrap() error { return e.Err }

// TaskID names a task: a subtopology and the partition number it works on, printed "0_1".
type TaskID = task.ID

// Kind says what a task did when a record failed.
type Kind = task.Kind

// The kinds of failures.
const (
	KindDecode    = task.KindDecode    // a key, value or row could not be decoded
	KindEncode    = task.KindEncode    // a key or value could not be encoded
	KindProcess   = task.KindProcess   // a function or processor returned an error
	KindPanic     = task.KindPanic     // a function or processor panicked
	KindProduce   = task.KindProduce   // an output cannot be written as it is
	KindStore     = task.KindStore     // a store could not be read or written
	KindTimestamp = task.KindTimestamp // the record's timestamp is below zero
	KindPunctuate = task.KindPunctuate // a punctuation returned an error
	KindEmit      = task.KindEmit      // the emission of a table failed
	KindCrash     = task.KindCrash     // the process has died in the middle of the record, more than once
)
