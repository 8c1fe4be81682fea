package task

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/statestore"
)

// Config is what a task is made from.
type Config struct {
	ID    ID
	Epoch uint64 // the assignment epoch; it is in everything that the task hands over
	Spec  *Spec
	// Stores are the committed rows, one for each of Spec.Stores. A nil Reader is an empty store.
	Stores []statestore.Reader
	// Positions are the next offsets, one for each of Spec.Inputs: negative where the topic has no partition for the task.
	Positions []int64
	// TopicIDs are the ids of the topics of Spec.Inputs; shorter, or zero, where they are not known.
	TopicIDs []retry.TopicID
	// Committed is what the last commit says of each of Spec.Inputs besides the offset; shorter where it says nothing.
	Committed []retry.Metadata
	// Splits are the gaps that are replayed beside inputs, one for each of Spec.Inputs; shorter where there is none. The position of such an
	// input is the split's Main. The records of the gap come as those of the input with the number len(Spec.Inputs) higher.
	Splits []retry.Split
	// Announce makes the task commit as soon as it runs, so that the next runner knows whether this one ended.
	Announce bool
	// StreamTime is the stream time of the last commit in milliseconds, -1 where it is unknown.
	StreamTime int64
	// Partitions answers how many partitions a topic has, 0 where that is unknown.
	Partitions func(topic string) int32
	// Limits answers what the broker takes in a topic beyond MaxRecordBytes. Nil is no further limits.
	Limits func(topic string) Limits
	// Refused are records that brokers have refused in earlier lives of the task.
	Refused []Refusal

	DirtyBytes  int // a task with more uncommitted state commits now. Defaults to 16 MiB
	CreditBytes int // a task with more unacknowledged effects waits. Defaults to 16 MiB
	CacheBytes  int // clean rows cached, over all stores of the task. Defaults to 4 MiB
	// MaxIdle is how long a task with several inputs waits for one that has nothing queued although its partition has more, or might have:
	// so that the records of all inputs are taken in the order of their timestamps, after a start in particular. Zero is not at all.
	MaxIdle time.Duration
	// Workers says that whoever runs the task carries out Dispatch and Call, so that records are run beside it where the policy has several workers.
	Workers        bool
	CommitInterval time.Duration // commits fall on multiples of it. Defaults to 1 s
	Linger         time.Duration // effects are handed over when they are older. Defaults to 5 ms
	MaxRecordBytes int           // larger outputs fail their unit. Defaults to 1 MiB

	// Context is given to user functions that can fail or wait; whoever runs the task ends it. Defaults to one that never ends.
	Context context.Context
	Seed    uint64 // of the hash tables; their order is never observable
	// Clock is asked for the time when a unit has failed, so that no try comes early; nil is the time of the step.
	Clock func() time.Time
	// Turn gives the only task of a process leave (take is true) to run a record in the middle of which a process has died, until it gives the
	// turn back (take is false). Nil is a task that is alone in its process.
	Turn func(id ID, take bool) bool
	// Beat is called before each unit, which runs the user's code, with the record that the unit is about, for the watchdog: the input and
	// the offset, or -1 and -1 where there is none. It may be nil.
	Beat func(input int, offset int64)
}

// Limits are what a broker takes in one topic, as learnt from the topic's configuration. Zero values are no limit.
type Limits struct {
	RecordBytes int           // larger records are refused
	Before      time.Duration // records older than the wall clock by more are refused
	After       time.Duration // records newer than the wall clock by more are refused
	Compacted   bool          // null keys are refused
}

const (
	defaultDirtyBytes     = 16 << 20
	defaultCreditBytes    = 16 << 20
	defaultCacheBytes     = 4 << 20
	defaultMaxRecordBytes = 1 << 20
	defaultCommitInterval = time.Second
	defaultLinger         = 5 * time.Millisecond
)

func (c Config) withDefaults() Config {
	orInt := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	orInt(&c.DirtyBytes, defaultDirtyBytes)
	orInt(&c.CreditBytes, defaultCreditBytes)
	orInt(&c.CacheBytes, defaultCacheBytes)
	orInt(&c.MaxRecordBytes, defaultMaxRecordBytes)
	if c.CommitInterval <= 0 {
		c.CommitInterval = defaultCommitInterval
	}
	if c.Linger <= 0 {
		c.Linger = defaultLinger
	}
	if c.Context == nil {
		c.Context = context.Background()
	}
	if c.Partitions == nil {
		c.Partitions = func(string) int32 { return 0 }
	}
	if c.StreamTime < 0 {
		c.StreamTime = -1
	}
	return c
}

func (c Config) validate() error {
	if c.Spec == nil {
		return fmt.Errorf("task %v: a config without a spec", c.ID)
	}
	var errs []error
	if c.Spec.Build == nil {
		errs = append(errs, errors.New("the spec has no Build"))
	}
	if len(c.Positions) != len(c.Spec.Inputs) {
		errs = append(errs, fmt.Errorf("%d positions for %d inputs", len(c.Positions), len(c.Spec.Inputs)))
	}
	if len(c.Stores) != len(c.Spec.Stores) {
		errs = append(errs, fmt.Errorf("%d readers for %d stores", len(c.Stores), len(c.Spec.Stores)))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("task %v: %w", c.ID, err)
	}
	return nil
}
