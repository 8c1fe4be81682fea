package consume

import (
	"cmp"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
)

// Config says what is read and how. Zero durations are replaced by the defaults named here.
type Config struct {
	Group  group.Config // its name may be empty where Manual is set
	Manual bool         // partitions are given by Assign; there is no membership

	Topics []string          // by name
	Match  func(string) bool // topics by pattern; nil: none. It must say the same each time
	Wait   bool              // Topics may be missing

	NoOffset, OutOfRange engine.Reset
	Own                  bool // offsets are kept by the user's store
	AlsoKafka            bool // and committed as well
	CommitInterval       time.Duration
	RecoverAbove         int64 // above how many records what was left behind is read beside what is new; 0: never, and commits say nothing of it
	Listens              bool  // a revocation is told, so it waits for the next Poll

	Refresh    time.Duration // of metadata; default 30 s (metadata.max.age.ms)
	Backoff    time.Duration // before something is tried again, doubled up to 1 s; default 100 ms (retry.backoff.ms)
	MissingFor time.Duration // how long a topic may be gone before that is an error; default 10 s
	GoneFor    time.Duration // how long one of a pattern has to be gone before it is let go of; default 1 s
	Release    time.Duration // how long a join waits for partitions to be handed over; default 250 ms
	Memory     int64         // of what is fetched and not yet taken, in bytes; default 64 MiB
}

func (c Config) withDefaults() Config {
	c.Refresh = cmp.Or(c.Refresh, 30*time.Second)
	c.Backoff = cmp.Or(c.Backoff, 100*time.Millisecond)
	c.MissingFor = cmp.Or(c.MissingFor, 10*time.Second)
	c.GoneFor = cmp.Or(c.GoneFor, time.Second)
	c.Release = cmp.Or(c.Release, 250*time.Millisecond)
	c.Memory = cmp.Or(c.Memory, 64<<20)
	return c
}

const (
	leastBound = 64 << 10
	mostBound  = 4 << 20
)

// bound is what may be held of each of so many partitions.
func (c Config) bound(partitions int) int {
	return int(min(max(c.Memory/int64(max(partitions, 1)), leastBound), mostBound))
}
