package task

import "github.com/understudy-streams/understudy/retry"

// Replay is how far the second path of an input has come: the one that goes through a gap, which the main path has left behind it after an end
// that was none.
type Replay struct {
	Input    int
	Lo, Hi   int64       // of the gap, as it was when this life of the task began
	Position int64       // everything below has been read
	Left     int64       // offsets that are not done, with those that hold no record
	Lost     []retry.Run // what the partition does not have any more
	Closed   bool        // nothing is left
}
