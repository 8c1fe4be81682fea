package consume

import (
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// Action is what a Machine wants done.
type Action interface{ consumeAction() }

type (
	// MemberAction is for the carrier of the group's member.
	MemberAction struct{ Action group.Action }
	// RefreshMetadata asks for topics, for all if Topics is nil; answered by Metadata.
	RefreshMetadata struct{ Topics []string }
	// FetchOffsets asks for committed offsets; answered by OffsetsFetched.
	FetchOffsets struct {
		Request     uint64
		Coordinator string
		Parts       []task.TopicPartition
	}
	// ListOffsets asks logs for offsets; answered by OffsetsListed.
	ListOffsets struct {
		Request uint64
		Asks    []Ask
	}
	// CommitOffsets commits; answered by OffsetsCommitted.
	CommitOffsets struct {
		Request     uint64
		Coordinator string
		MemberID    string
		Generation  int32
		Offsets     []task.InputOffset
	}
	// Fetch tells the planner of a broker something.
	Fetch struct {
		Purpose engine.Purpose
		Broker  int32
		Event   engine.PlannerEvent
	}
	// Recycle gives back batches of which nothing was returned.
	Recycle struct{ Batches []*task.Batch }
	// Answer is the outcome of a Commit. They come in the order of the commits.
	Answer struct {
		ID  uint64
		Err error
	}
	// Note is for the log: what failed and is tried again, or what is to be known. Err is nil for the latter.
	Note struct {
		What string
		Err  error
	}
	// Ready says that whoever waits in Poll, Commit or Close has something to look at.
	Ready struct{}
	// Wake asks for a Tick at this time.
	Wake struct{ At time.Time }
	// Ended says that the group is left; the machine is at rest.
	Ended struct{}
)

func (MemberAction) consumeAction()    {}
func (RefreshMetadata) consumeAction() {}
func (FetchOffsets) consumeAction()    {}
func (ListOffsets) consumeAction()     {}
func (CommitOffsets) consumeAction()   {}
func (Fetch) consumeAction()           {}
func (Recycle) consumeAction()         {}
func (Answer) consumeAction()          {}
func (Note) consumeAction()            {}
func (Ready) consumeAction()           {}
func (Wake) consumeAction()            {}
func (Ended) consumeAction()           {}

// Tell is something that user code is to be told, on a goroutine of the user's.
type Tell interface{ consumeTell() }

type (
	// TellState tells of a step of the member.
	TellState struct{ Change Change }
	// TellAssigned tells of new partitions, before the first of their records is taken.
	TellAssigned struct {
		Generation int32
		Parts      []task.TopicPartition
	}
	// TellRevoked tells of partitions that are to be handed over; answered by Told.
	TellRevoked struct {
		Revocation uint64
		Generation int32
		Parts      []task.TopicPartition
	}
	// TellLost tells of partitions that are gone.
	TellLost struct {
		Parts  []task.TopicPartition
		Reason string
	}
	// TellReset tells of an offset that was out of range.
	TellReset struct {
		Part     task.TopicPartition
		From, To int64
	}
	// TellRecovery tells that what was left behind is read beside what is new, or that nothing of it is left.
	TellRecovery struct{ Status engine.RecoveryStatus }
	// TellRangeLost tells of offsets that were to be returned and are not in the log any more.
	TellRangeLost struct {
		Part task.TopicPartition
		Run  retry.Run
	}
	// TellRetry tells of something that is tried again.
	TellRetry struct {
		What string
		Err  error
	}
	// TellLoad wants offsets of the user's store; answered by Loaded.
	TellLoad struct {
		Request uint64
		Parts   []task.TopicPartition
	}
)

func (TellState) consumeTell()     {}
func (TellAssigned) consumeTell()  {}
func (TellRevoked) consumeTell()   {}
func (TellLost) consumeTell()      {}
func (TellReset) consumeTell()     {}
func (TellRecovery) consumeTell()  {}
func (TellRangeLost) consumeTell() {}
func (TellRetry) consumeTell()     {}
func (TellLoad) consumeTell()      {}

// Save wants offsets kept by the user's store; answered by Saved.
type Save struct {
	Request    uint64
	Generation int32
	Offsets    map[task.TopicPartition]int64
}
