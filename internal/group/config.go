package group

import (
	"time"

	"github.com/understudy-streams/understudy/assignor"
)

// Config says who the member is. The zero durations stand for the defaults.
type Config struct {
	Group string
	// ProcessID stays the same over restarts where there is a state directory.
	ProcessID [16]byte
	// Session is the session timeout, session.timeout.ms. Defaults to 15 s. Rebalance bounds a join barrier, rebalance.timeout.ms; it defaults
	// to Session + 5 s. Heartbeat is the interval, heartbeat.interval.ms; it defaults to a thirtieth of
	// Session, at least 200 ms and at most 500 ms: who lets a dead member be noticed soon wants to hear of it soon.
	Session, Rebalance, Heartbeat time.Duration
	// BackOff is the longest pause before a request is tried again that leads to an assignment. Defaults to 2 s.
	BackOff         time.Duration
	Rack            string
	TopologyVersion int32
	Capacity        int
	Tags            map[string]string
	// Policy is how this member plans when it leads the group.
	Policy assignor.Policy
	// Seed feeds the jitter of back-offs.
	Seed uint64
}

func (c Config) withDefaults() Config {
	if c.Session <= 0 {
		c.Session = 15 * time.Second
	}
	if c.Rebalance <= 0 {
		c.Rebalance = c.Session + 5*time.Second
	}
	if c.Heartbeat <= 0 {
		c.Heartbeat = min(max(c.Session/30, 200*time.Millisecond), 500*time.Millisecond)
	}
	if c.BackOff <= 0 {
		c.BackOff = 2 * time.Second
	}
	if c.Capacity <= 0 {
		c.Capacity = 1
	}
	return c
}

// Topology is what the member can run.
type Topology struct {
	Subtopologies []Subtopology
	// Partitions are the partition counts by topic.
	Partitions map[string]int32
}

// Subtopology is one part of a Topology. A topic is an input of one subtopology only.
type Subtopology struct {
	ID       int32
	Source   string // by which versions of a program tell it; empty: its smallest topic
	Topics   []string
	Tasks    int32 // at least, however many partitions its topics have
	Stateful bool
	// Hash is over sources, stores and structure: members with equal hashes can take over each other's tasks.
	Hash uint64
	// Others says that members run it and this one does not: it plans for them where it leads, and is given nothing of it.
	Others bool
}

// State is where the member is in the group's protocol.
type State uint8

// The states; Machine has the picture.
const (
	Stopped State = iota
	Discovering
	Joining
	Syncing
	Joined
)

func (s State) String() string {
	return [...]string{"stopped", "discovering", "joining", "syncing", "joined"}[s]
}

// Count is how many tasks a subtopology has in the plan that was applied.
type Count = assignor.Count
