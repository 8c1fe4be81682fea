package streams

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/consume"
)

// StartAt says where a [Consumer] begins to read a partition that is assigned by hand. The zero value is FromCommitted.
type StartAt struct{ start consume.Start }

// FromCommitted begins at the offset that the group has committed, or the one that ConsumerConfig.Offsets has; where there is none,
// ConsumerConfig.NoOffset says.
func FromCommitted() StartAt { return StartAt{} }

// FromEarliest begins at the oldest record there is.
func FromEarliest() StartAt { return StartAt{consume.Start{At: consume.Earliest}} }

// FromLatest begins after the newest record there is when the partition is looked at.
func FromLatest() StartAt { return StartAt{consume.Start{At: consume.Latest}} }

// FromTime begins at the first record whose timestamp is not before t, after the newest record if there is none.
func FromTime(t time.Time) StartAt {
	return StartAt{consume.Start{At: consume.Timestamp, Value: t.UnixMilli()}}
}

// FromOffset begins at an offset. One that is not in the log is treated as ConsumerConfig.OutOfRange says.
func FromOffset(offset int64) StartAt {
	return StartAt{consume.Start{At: consume.Exact, Value: offset}}
}

func (s StartAt) String() string {
	switch s.start.At {
	case consume.Earliest:
		return "earliest"
	case consume.Latest:
		return "latest"
	case consume.Timestamp:
		return "time " + time.UnixMilli(s.start.Value).UTC().Format(time.RFC3339Nano)
	case consume.Exact:
		return fmt.Sprintf("offset %d", s.start.Value)
	default:
		return "committed"
	}
}
