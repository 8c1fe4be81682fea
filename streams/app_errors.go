package streams

import (
	"errors"
	"fmt"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// The errors with which [App.Run] ends, beside [*RecordError]. Each says in its text what to do.
type (
	// MissingTopicError says that a topic that the application reads or writes does not exist, or was deleted while it ran.
	MissingTopicError = engine.MissingTopicError
	// OffsetOutOfRangeError says that the offset at which a partition should be read on is not in the log any more.
	OffsetOutOfRangeError = engine.OffsetOutOfRangeError
	// HalfResetError says that "understudy group reset" has set the group's offsets and was ended before topics and state were cleared.
	HalfResetError = engine.HalfResetError
	// FetchError says that a partition cannot be read on: its bytes are damaged, or it is not allowed.
	FetchError = engine.FetchError
	// ProduceError says that a broker refused records for good.
	ProduceError = engine.ProduceError
	// CommitError says that the group refuses an offset for good.
	CommitError = engine.CommitError
	// ParkedError says that records are put aside which nothing would ever run, as a policy or a source was changed or removed. Its text has
	// the remedies.
	ParkedError = task.ParkedError
	// StoreError says that the stores of a task, or their database, could not be opened, read or written for another reason than a full disk,
	// such as one that fails. It names the directory.
	StoreError = engine.StoreError
	// NoRoomError says that the disk of the state directory is full. It ends no application: [Listener].Suspended is told, and all goes on by
	// itself when there is room.
	NoRoomError = engine.NoRoomError
	// CloseError says that a clean end did not come about in time.
	CloseError = engine.CloseError
	// Call is a call of user code that has not returned, in a CloseError and a CallTimeoutError.
	Call = engine.Call
	// StuckError says that more calls of user code than allowed have never returned.
	StuckError = engine.StuckError
	// CallTimeoutError says that one call of user code has run for longer than Config.CallTimeout.
	CallTimeoutError = shell.CallTimeoutError
	// CrashError says that a function of the listener, or the runtime itself, has panicked.
	CrashError = shell.CrashError
	// StateDirError says that the state directory cannot be made or written.
	StateDirError = pebblestore.DirError
	// StateDirLockedError says that another process uses the state directory, and which.
	StateDirLockedError = pebblestore.LockedError
)

// InternalTopicError says that an internal topic exists and is not as the application needs it.
type InternalTopicError struct {
	Topic string
	Kind  InternalKind
	What  string // partitions, or a configuration's name
	Have  string
	Want  string
}

func (e *InternalTopicError) Error() string {
	remedy := fmt.Sprintf("set it with the broker's tools (kafka-configs --alter --topic %s --add-config %s=%s)", e.Topic, e.What, e.Want)
	if e.What == "partitions" {
		remedy = "its number follows from the topics that are read: if those have grown, stop all processes, delete the internal topics and reset the " +
			"application, or use another application id"
	}
	return fmt.Sprintf("streams: the %s topic %q has %s %s, needed are %s: %s", e.Kind, e.Topic, e.What, e.Have, e.Want, remedy)
}

// PartitionsChangedError says that a topic that is read has more partitions than there are tasks with state: the rows of some keys would be
// looked for in new tasks, which do not have them.
type PartitionsChangedError struct {
	Topic      string
	Partitions int32        // of the topic
	Internal   string       // the topic of the state
	Kind       InternalKind // of that
	Tasks      int32        // for which the state was made: its partitions
	Pattern    bool         // topics are read by a pattern, which this one may match
}

func (e *PartitionsChangedError) Error() string {
	remedy := "stop all processes, delete the internal topics and reset the application, or use another application id"
	if e.Pattern {
		remedy = "if it matches a pattern, leave it out with Except; else " + remedy
	}
	return fmt.Sprintf("streams: topic %q has %d partitions, but the state that its records change was made for %d tasks (the %s topic %q has as many partitions), "+
		"and would be split: %s", e.Topic, e.Partitions, e.Tasks, e.Kind, e.Internal, remedy)
}

// Unwrap returns what it is about the topic of the state, which does not fit any more.
func (e *PartitionsChangedError) Unwrap() error {
	return &InternalTopicError{Topic: e.Internal, Kind: e.Kind, What: "partitions", Have: fmt.Sprint(e.Tasks), Want: fmt.Sprint(e.Partitions)}
}

// TopicRefusedError says that the cluster does not let the application use a topic.
type TopicRefusedError struct {
	Topic string
	Kind  InternalKind // empty for a topic of the user
	Doing string       // what was not allowed: look at it, make it, read its configurations
	Err   error
}

func (e *TopicRefusedError) Error() string {
	name := fmt.Sprintf("topic %q", e.Topic)
	if e.Kind != "" {
		name = fmt.Sprintf("the %s topic %q", e.Kind, e.Topic)
	}
	remedy := "use another name"
	switch {
	case errors.Is(e.Err, kcode.InvalidTopic):
	case e.Kind == "":
		remedy = fmt.Sprintf("allow it (kafka-acls --add --topic %s --operation Describe, and Read for one that is read or Write for one that is written)", e.Topic)
	default:
		remedy = fmt.Sprintf("allow the application all of it (kafka-acls --add --topic %s --operation All), or make it with the broker's tools first", e.Topic)
	}
	return fmt.Sprintf("streams: %s: the cluster does not let the application %s: %v: %s", name, e.Doing, e.Err, remedy)
}

func (e *TopicRefusedError) Unwrap() error { return e.Err }

// publicError turns an error of the runtime into one of this package.
func publicError(err error) error {
	if r := NewRecordError(err); r != nil {
		return r
	}
	return err
}
