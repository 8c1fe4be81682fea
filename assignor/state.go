package assignor

import "github.com/understudy-streams/understudy/task"

// State is what the leader knows when it plans: the shape of the topology and what every member said when it joined.
type State struct {
	Subtopologies []Subtopology
	Members       []Member
	Policy        Policy
}

// Policy is what the leader's configuration says about plans. The zero values of all but Standbys stand for the defaults.
type Policy struct {
	// Standbys is how many copies of each stateful task are kept beside the active one (num.standby.replicas).
	Standbys int
	// LearnersPerMember bounds the tasks that one member learns at a time; default 4. Learners bounds those of all members; default 4 times
	// the number of members (max.warmup.replicas).
	LearnersPerMember, Learners int
	// AcceptableLag is how many changelog records a copy may be behind for its member to take the task over as it is; default 10,000
	// (acceptable.recovery.lag).
	AcceptableLag int64
	// SpreadTags are the keys of the tags over whose values the copies of a task are spread (rack.aware.assignment.tags): over racks first, then by
	// the first key, and so on.
	SpreadTags []string
}

// Subtopology is one part of the topology as the leader sees it. Its tasks are numbered 0 to Partitions-1.
type Subtopology struct {
	ID         int32
	Partitions int32
	Stateful   bool
}

// Member is what one member said about itself.
type Member struct {
	ID string
	// Process stays the same when a process restarts with its state directory.
	Process [16]byte
	// Generation is that of the last assignment the member applied, -1 if it has applied none.
	Generation int32
	// Claims are the tasks that the member runs right now and goes on running through this rebalance.
	Claims []task.ID
	// Released are the tasks that it stopped for this rebalance because they were marked. It can resume them at no cost.
	Released []task.ID
	// Learned are claimed tasks whose mark the member knows: it could not stop them in time, and asks for the next round itself when it can.
	Learned []task.ID
	// Unfit are tasks that it must not be given.
	Unfit []task.ID
	// Replicas are copies of tasks' states that the member holds, and promises that it was given.
	Replicas []Replica
	// Hashes say which form of each subtopology the member can run. A subtopology that is not listed cannot be run there.
	Hashes []Hash
	// TopologyVersion is the user's number for the topology. Where the forms of a subtopology differ, the highest number wins.
	TopologyVersion int32
	// Capacity is the member's weight in the balance; 0 counts as 1.
	Capacity int
	// Rack and Tags say where the member runs.
	Rack string
	Tags map[string]string
	// Draining asks for all tasks to be moved elsewhere.
	Draining bool
	// Opaque is set where the member's own data could not be read: only its claims are known, so it keeps them and is given nothing.
	Opaque bool
	// Hidden is set where not even the claims could be read. Nothing moves in such a round, and nothing without an owner is given away.
	Hidden bool
}

// Hash is the form of a subtopology: sources, stores, structure.
type Hash struct {
	Subtopology int32
	Sum         uint64
}

// Kind says what a Replica is.
type Kind uint8

const (
	// Learner is a copy being built for a member that shall own the task.
	Learner Kind = 1
	// Standby is a copy that is kept for the case of a failure.
	Standby Kind = 2
	// OnDisk is a state left over from an earlier assignment that nobody feeds.
	OnDisk Kind = 3
	// Promised is no copy: the member was told to expect the task, which needs none or shall restore at its arrival.
	Promised Kind = 4
	// Restoring is the copy of a member that was given the task and has not begun to process: it lets go of it at every join at no cost, so
	// that whoever is closest to the end has it next; of equally close copies this one.
	Restoring Kind = 5
)

// Lag is how many changelog records a copy is behind, or one of the values below, which are no numbers.
type Lag int64

const (
	// LagUnknown: the member could not tell.
	LagUnknown Lag = -1
	// LagRunning: the copy is the running task itself.
	LagRunning Lag = -2
)

// Replica is a copy of a task's state at a member.
type Replica struct {
	Task  task.ID
	Kind  Kind
	Ready bool
	Lag   Lag
	// CatchUp is how many seconds the member expects to need to reach the end; 0 where it cannot tell.
	CatchUp int32
	// Stalled: a learner that does not get closer to the end.
	Stalled bool
}
