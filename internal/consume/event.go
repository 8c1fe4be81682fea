package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// Event is what a Machine is told.
type Event interface{ consumeEvent() }

// What time and the brokers tell.
type (
	// Begin starts the machine.
	Begin struct{}
	// Tick lets time pass.
	Tick struct{}
	// Member is an answer for the member of the group, or in manual mode that of FindCoordinator.
	Member struct{ Event group.Event }
	// Metadata answers RefreshMetadata. A topic that does not exist is not in it.
	Metadata struct {
		Topics map[string]Topic
		Err    error
	}
	// OffsetsFetched answers FetchOffsets.
	OffsetsFetched struct {
		Request uint64
		Offsets map[task.TopicPartition]engine.CommittedOffset
		Code    kcode.Code
		Err     error
	}
	// OffsetsListed answers ListOffsets, with what is known. Err is of the rest.
	OffsetsListed struct {
		Request uint64
		Offsets map[Ask]int64
		Err     error
	}
	// OffsetsCommitted answers CommitOffsets.
	OffsetsCommitted struct {
		Request uint64
		Codes   map[task.TopicPartition]kcode.Code
		Err     error
	}
	// Arrived brings what was fetched.
	Arrived struct{ Deliver engine.Deliver }
	// PartMoved tells that a broker does not lead a partition.
	PartMoved struct{ Lost engine.PartLost }
	// PartStopped tells that a partition cannot be read on without a decision.
	PartStopped struct{ Failed engine.PartFailed }
	// Troubled says that a connection has failed; nil: one works again.
	Troubled struct {
		What string
		Err  error
	}
)

// What the user does.
type (
	// Polled says that a Poll begins: what those before it have returned is done.
	Polled struct{}
	// Assign adds partitions, or begins them anew.
	Assign struct{ Starts map[task.TopicPartition]Start }
	// Unassign takes partitions away.
	Unassign struct{ Parts []task.TopicPartition }
	// Seek moves the position of a partition.
	Seek struct {
		Part  task.TopicPartition
		Start Start
	}
	// Pause lets a partition return nothing until it is resumed.
	Pause struct {
		Parts []task.TopicPartition
		Off   bool // resume
	}
	// Commit commits offsets; its outcome is an Answer with the same ID. Where Lives has a partition, the offset is of that life of it.
	Commit struct {
		ID       uint64
		Offsets  map[task.TopicPartition]int64 // nil: all positions
		Replayed map[task.TopicPartition]int64 // of records that were left behind
		Lives    map[task.TopicPartition]uint64
	}
	// Loaded answers a Tell of TellLoad.
	Loaded struct {
		Request uint64
		Offsets map[task.TopicPartition]int64
		Err     error
	}
	// Saved answers a Save.
	Saved struct {
		Request uint64
		Err     error
	}
	// Told says that a Tell of TellRevoked was carried out.
	Told struct{ Revocation uint64 }
	// Close begins the end: partitions are revoked, what is done is committed, the group is left.
	Close struct{}
)

func (Begin) consumeEvent()            {}
func (Tick) consumeEvent()             {}
func (Member) consumeEvent()           {}
func (Metadata) consumeEvent()         {}
func (OffsetsFetched) consumeEvent()   {}
func (OffsetsListed) consumeEvent()    {}
func (OffsetsCommitted) consumeEvent() {}
func (Arrived) consumeEvent()          {}
func (PartMoved) consumeEvent()        {}
func (PartStopped) consumeEvent()      {}
func (Troubled) consumeEvent()         {}
func (Polled) consumeEvent()           {}
func (Assign) consumeEvent()           {}
func (Unassign) consumeEvent()         {}
func (Seek) consumeEvent()             {}
func (Pause) consumeEvent()            {}
func (Commit) consumeEvent()           {}
func (Loaded) consumeEvent()           {}
func (Saved) consumeEvent()            {}
func (Told) consumeEvent()             {}
func (Close) consumeEvent()            {}

// Topic is a topic that exists.
type Topic struct {
	ID      retry.TopicID   // zero where the broker gives none
	Leaders []engine.Leader // by partition; Broker is -1 where there is none
	Refused error           // the user may not read it
}

// Ask is an offset that is asked of a log: at one of its ends, or by time.
type Ask struct {
	task.TopicPartition
	Start Start
}

// Change is a step in the life of the member.
type Change struct {
	From, To   group.State
	Reason     string
	Generation int32
	Failures   int
	At         time.Time
}
