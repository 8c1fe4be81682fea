package task

import (
	"errors"
	"fmt"
	"strings"
)

// What an asynchronous commit is told when no commit covers it.
var (
	// ErrReleased says that the task was closed before a commit covered the record.
	ErrReleased = errors.New("task: released before the commit")
	// ErrLost says that the task belongs to somebody else now.
	ErrLost = errors.New("task: lost to another member before the commit")
	// ErrRolledBack says that the record's unit failed, or that the state it was part of was dropped.
	ErrRolledBack = errors.New("task: rolled back before the commit")
)

// Kind classifies an Error by what the task did when it failed.
type Kind string

const (
	KindDecode    Kind = "decode"
	KindEncode    Kind = "encode"
	KindProcess   Kind = "process"
	KindPanic     Kind = "panic"
	KindProduce   Kind = "produce"
	KindStore     Kind = "store"
	KindTimestamp Kind = "timestamp"
	KindPunctuate Kind = "punctuate"
	KindEmit      Kind = "emit"
	KindCommit    Kind = "commit"
	KindCrash     Kind = "crash"
)

// Error is the failure of one unit. Topic is empty, and Partition and Offset are -1, where the unit has no source record.
type Error struct {
	Task      ID
	Topic     string
	Partition int32
	Offset    int64
	Node      string // empty where no node is to blame
	Kind      Kind
	Err       error
	Stack     []byte // of a panic
	Attempts  int    // tries that have failed, this one included; 0 where it is not tried again
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %v", e.Task)
	if e.Topic != "" {
		fmt.Fprintf(&b, ", %s-%d at offset %d", e.Topic, e.Partition, e.Offset)
	}
	if e.Node != "" {
		fmt.Fprintf(&b, ", node %q", e.Node)
	}
	fmt.Fprintf(&b, ": %s: %v", e.Kind, e.Err)
	if e.Attempts > 1 {
		fmt.Fprintf(&b, " (after %d attempts)", e.Attempts)
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }
