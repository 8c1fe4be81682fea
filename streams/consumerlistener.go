package streams

import (
	"time"

	"github.com/understudy-streams/understudy/internal/group"
)

// MemberState is where a [Consumer] is in the life of a group's member.
type MemberState uint8

// The states of a member. One with partitions by hand is Joined from the first to the last.
const (
	MemberStopped     = MemberState(group.Stopped)     // not a member: before it has begun, after Close, or after an error that no retry mends
	MemberDiscovering = MemberState(group.Discovering) // asks for the group's coordinator
	MemberJoining     = MemberState(group.Joining)     // hands over what is to move, and waits for the others
	MemberSyncing     = MemberState(group.Syncing)     // waits for the plan
	MemberJoined      = MemberState(group.Joined)      // has its partitions
)

func (s MemberState) String() string { return group.State(s).String() }

// MemberChange tells of a step in a member's life.
type MemberChange struct {
	From, To MemberState
	// Reason says why, in words for an operator.
	Reason string
	// Generation is the one under which the member has its partitions, -1 if it has none.
	Generation int32
	// Failures is how many tries have failed in a row to get to an assignment. The consumer goes on trying without an end, with pauses that
	// grow up to a sixth of ConsumerConfig.Session; from the third failure on each is told here, with From equal to To if nothing else
	// has changed, and logged.
	Failures int
	At       time.Time
}

// ConsumerListener is told what happens to a [Consumer]. Each function may be nil. They are called inside Poll and Close, on the
// goroutine of the caller, one at a time and in order: what happened meanwhile is told then. All methods of the Consumer may be called from
// them but for Poll and Close.
type ConsumerListener struct {
	// State is called when the state of the member has changed.
	State func(MemberChange)
	// Assigned is called with partitions that are read here from now on, before the first of their records is returned: the place to Seek.
	Assigned func(generation int32, partitions []TopicPartition)
	// Revoked is called with partitions that go to another member, while they are still here: what was returned of them may be committed
	// from it. They are handed over when it has returned.
	Revoked func(generation int32, partitions []TopicPartition)
	// Lost is called with partitions that others may read already: the group has not heard of this member for too long, or has thrown it
	// out. Commits of their records are refused.
	Lost func(partitions []TopicPartition, reason string)
	// Reset is called when an offset was not in the log any more and ConsumerConfig.OutOfRange has moved it.
	Reset func(partition TopicPartition, from, to int64)
	// Recovery is called when a partition goes on with what is new, and begins to return beside it what a crash has left behind, and when nothing
	// of that is left: see [ConsumerConfig].Recovery.
	Recovery func(Recovery)
	// RecoveryLost is called when offsets that a crash has left behind are not in the log any more: no record of them will be returned.
	RecoveryLost func(partition TopicPartition, lost OffsetRange)
	// Retry is called for what failed and is tried again without an end: no broker answers, a commit waits. What names the thing.
	Retry func(what string, err error)
}
