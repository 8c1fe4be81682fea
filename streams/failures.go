package streams

import "github.com/understudy-streams/understudy/task"

// Failures are about the records of one task that have failed: counts since the task was started here, and how it is with those that are put
// aside. No gauge is negative.
type Failures = task.FailureStats

// Explanation says where one record is, and why it is not done. Its String is for people.
type Explanation = task.Explanation

// RecordState is where a record is.
type RecordState = task.RecordState

// The states of a record.
const (
	RecordAhead     = task.RecordAhead     // the task has not come to it
	RecordHead      = task.RecordHead      // it is next, and has failed
	RecordRunning   = task.RecordRunning   // a worker runs it
	RecordParked    = task.RecordParked    // it is put aside and will be tried again
	RecordFollows   = task.RecordFollows   // it is put aside behind one of its key
	RecordInert     = task.RecordInert     // it was put aside before a crash and waits for the main path to come to it again
	RecordDone      = task.RecordDone      // it is done, and not committed yet
	RecordCommitted = task.RecordCommitted // it is done: processed, skipped or dead-lettered
)
