package engine

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// CloseError says that a clean end did not come about in time. What was not committed will be processed again.
type CloseError struct {
	Within time.Duration
	Tasks  []task.ID // whose last records are not committed
	Left   bool      // leaving the group had begun: only the broker's answer is missing
	Calls  []Call    // calls of user code that had not returned
}

// Call is a call of user code: which task makes it, with which record. Offset is -1 where there is no record, as in a punctuation.
type Call struct {
	Task   task.ID
	Part   task.TopicPartition
	Offset int64
}

func (c Call) String() string {
	if c.Offset < 0 {
		return fmt.Sprintf("task %s, without a record", c.Task)
	}
	return fmt.Sprintf("task %s, %s at offset %d", c.Task, c.Part, c.Offset)
}

func (e *CloseError) Error() string {
	if len(e.Tasks) == 0 {
		return fmt.Sprintf("close: the brokers did not answer within %v; the group will notice by its session timeout", e.Within)
	}
	if len(e.Calls) > 0 {
		return fmt.Sprintf("close: tasks %v did not commit within %v, as a user function has not returned (%v); their last records will be processed again: "+
			"let the function honour its context", e.Tasks, e.Within, e.Calls)
	}
	return fmt.Sprintf("close: tasks %v did not commit within %v; their last records will be processed again (is a user function blocked, or are the brokers down?)", e.Tasks, e.Within)
}

// OffsetOutOfRangeError says that the offset at which a partition should be read on is not there any more.
type OffsetOutOfRangeError struct {
	Part     task.TopicPartition
	Offset   int64 // -1: nothing has been committed, and that is not to be guessed
	Earliest int64
	End      int64
}

func (e *OffsetOutOfRangeError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("fetch %s: the group has committed no offset, the log holds %d to %d: set Config.NoOffset to the earliest or latest offset, "+
			"or set the group's offset", e.Part, e.Earliest, e.End)
	}
	return fmt.Sprintf("fetch %s: offset %d is out of range, the log holds %d to %d: records may have been deleted before they were read; "+
		"to go on, set Config.OutOfRange to the earliest or latest offset, or reset the group's offset", e.Part, e.Offset, e.Earliest, e.End)
}

// HalfResetError says that the group's offsets were reset from outside, and that the topics and the state of the application have not been
// cleared since: whatever is processed from there would count twice.
type HalfResetError struct {
	Part task.TopicPartition // one of them
}

func (e *HalfResetError) Error() string {
	return fmt.Sprintf("open %s: a reset of the application was begun and is not finished, so its state does not belong to its offsets: "+
		"run the same understudy group reset again, it goes on where it ended", e.Part)
}

// MissingTopicError says that a topic that the application needs does not exist.
type MissingTopicError struct {
	Topic string
	For   time.Duration // it has been missing for so long while running; zero at start
}

func (e *MissingTopicError) Error() string {
	if e.For > 0 {
		return fmt.Sprintf("topic %q was deleted while the application ran; it is not created again: create it, and reset the application if its offsets are to start anew", e.Topic)
	}
	return fmt.Sprintf("topic %q does not exist: create it before the application starts (topics that it reads from or writes to are never created for you, "+
		"apart from its internal ones)", e.Topic)
}

// FetchError says that a partition cannot be read on.
type FetchError struct {
	Part   task.TopicPartition
	Offset int64
	Code   kcode.Code
	Err    error
}

func (e *FetchError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("fetch %s at offset %d: %v", e.Part, e.Offset, e.Err)
	}
	return fmt.Sprintf("fetch %s at offset %d: %v", e.Part, e.Offset, e.Code)
}

func (e *FetchError) Unwrap() error {
	if e.Err != nil {
		return e.Err
	}
	return e.Code
}

// CommitError says that the group refuses an offset for good.
type CommitError struct {
	Part task.TopicPartition
	Code kcode.Code
}

func (e *CommitError) Error() string { return fmt.Sprintf("commit offset of %s: %v", e.Part, e.Code) }

func (e *CommitError) Unwrap() error { return e.Code }

// StoreError says that the stores of a task, or the database that they are in, failed.
type StoreError struct {
	Task task.ID // the zero ID where it was no task's operation: Op is flush, probe, reopen or read
	Op   string
	Dir  string // the state directory
	Err  error
}

// OpRead is the operation of a StoreError about state that cannot be read.
const OpRead = "read"

func (e *StoreError) Error() string {
	switch {
	case e.Op == "flush" || e.Op == "probe" || e.Op == "reopen" || e.Op == OpRead:
		return fmt.Sprintf("%s state in %s: %v", e.Op, e.Dir, e.Err)
	case e.Dir == "":
		return fmt.Sprintf("task %s: %s stores: %v", e.Task, e.Op, e.Err)
	}
	return fmt.Sprintf("task %s: %s stores in %s: %v", e.Task, e.Op, e.Dir, e.Err)
}

func (e *StoreError) Unwrap() error { return e.Err }

// NoRoomError says that a store could not be written because its disk is full, or its quota used up. It ends no application: the tasks are
// suspended until there is room.
type NoRoomError struct {
	Dir  string
	Free int64 // bytes that were left, -1 where that is not known
	Err  error
}

func (e *NoRoomError) Error() string {
	free := "it is not known how much is free"
	if e.Free >= 0 {
		free = fmt.Sprintf("%d bytes are free", e.Free)
	}
	return fmt.Sprintf("no room in %s, %s: free some, or give it more; all goes on by itself then: %v", e.Dir, free, e.Err)
}

func (e *NoRoomError) Unwrap() error { return e.Err }

// StuckError says that more user calls than allowed never returned.
type StuckError struct {
	Tasks []task.ID
	Err   error // of the last one, with the place where it is stuck
}

func (e *StuckError) Error() string {
	return fmt.Sprintf("user calls of tasks %v do not return: the process can only be helped by a restart; last: %v", e.Tasks, e.Err)
}

func (e *StuckError) Unwrap() error { return e.Err }
