package retry

import "time"

// Mode is what happens to a record that has failed, and to those that come after it.
type Mode uint8

const (
	// ModeStop ends the application with the record's error. Nothing past the record is committed.
	ModeStop Mode = iota
	// ModeOrdered tries the record again in its place; its partition's task waits meanwhile.
	ModeOrdered
	// ModeKeyOrdered puts the record aside; records of the same key follow it, all others pass.
	ModeKeyOrdered
	// ModeParallel puts the record aside; all others pass.
	ModeParallel
)

// PutsAside says that records which fail are put aside, so that there is a retry store.
func (m Mode) PutsAside() bool { return m == ModeKeyOrdered || m == ModeParallel }

// End is what happens to a record that has failed for good: its attempts are used up, it is too old, or its error is permanent.
type End uint8

const (
	// EndStop ends the application with the record's error.
	EndStop End = iota
	// EndDeadLetter writes the record to the dead-letter topic and goes on.
	EndDeadLetter
	// EndSkip counts the record and goes on.
	EndSkip
)

// Followers is what happens to the records that wait behind one of their key when that one is dead-lettered or skipped.
type Followers uint8

const (
	// FollowersGoOn runs them.
	FollowersGoOn Followers = iota
	// FollowersToo sends them the same way.
	FollowersToo
	// FollowersStop ends the application.
	FollowersStop
)

// Forever is a number of attempts without an end.
const Forever = -1

// String is the mode as a program names it.
func (m Mode) String() string { return nameOf(int(m), "Stop", "Ordered", "KeyOrdered", "Parallel") }

// String is the end in lower case.
func (e End) String() string { return nameOf(int(e), "stop", "dead letter", "skip") }

// String is what the followers do, in lower case.
func (f Followers) String() string { return nameOf(int(f), "go on", "too", "stop") }

func nameOf(n int, names ...string) string {
	if n < len(names) {
		return names[n]
	}
	return "unknown"
}

// Settings are a policy in plain data, with its defaults filled in.
type Settings struct {
	Mode     Mode
	Inline   int           // tries at once before anything else, at least 1
	Attempts int           // tries in all, the inline ones of one go count as one; Forever
	First    time.Duration // the first wait
	Most     time.Duration // the longest
	Factor   float64       // by which a wait is longer than the one before
	Jitter   float64       // the part of a wait that is random, 0 to 1
	MaxAge   time.Duration // since the first failure; 0 is no limit
	Timeout  time.Duration // of the context of one try on a worker; 0 is none
	Workers  int           // at least 1; 1 is the task's own goroutine
	Crashes  int           // deaths of a process in the middle of a record until that is taken for failed

	Then      End    // when a record has failed for good
	Topic     string // for dead letters; empty is the default name
	Followers Followers
	Rows      End // for rows that belong to no record

	Depth       int   // most records that wait behind one key
	Parked      int   // most records put aside by one task
	ParkedBytes int64 // and what they may take
	Flood       int   // most dead letters a minute of one task; 0 is no limit

	Row   int           // failures of one class in a row that open the breaker; 0 is none
	Probe time.Duration // the longest wait between two probes while it is open

	DrainFirst bool // records that an earlier policy has put aside are run before anything else
}

// Policy says what becomes of a record that fails. It is a value: made by [Stop], [Ordered], [KeyOrdered] or [Parallel], and not changed
// after that. Its parts read best in the order of events:
//
//	retry.KeyOrdered(
//		retry.PermanentIs(ErrMalformed),
//		retry.Inline(2), retry.Attempts(8), retry.Backoff(time.Second, time.Minute),
//		retry.ThenDeadLetter(),
//	)
//
// The zero Policy does what Stop does, and is not Named.
type Policy struct {
	set     Settings
	named   bool
	parts   []string // the names of the options that made it
	decode  *Policy
	produce *Policy
	only    bool // it was named for one kind of failure: it is the decode or produce of another one
	rules   []rule
	faults  []error // of options that cannot be kept in plain data
}

// Settings are the policy in plain data.
func (p Policy) Settings() Settings {
	if !p.named {
		return defaults(ModeStop)
	}
	return p.set
}

// Named says whether a constructor has made the policy: the zero Policy leaves the choice to somebody else.
func (p Policy) Named() bool { return p.named }

// For is the policy that a failure of the kind is decided by: that of OnDecode for "decode" where there is one, that of OnProduce for
// "encode" and "produce", which is Stop where none was named, and the policy itself for everything else. Decide asks it by itself.
func (p Policy) For(kind string) Policy {
	if p.only {
		return p
	}
	switch kind {
	case kindDecode:
		if p.decode != nil {
			return *p.decode
		}
	case kindEncode, kindProduce:
		if p.produce != nil {
			return *p.produce
		}
		return Policy{}
	}
	return p
}

// Equal says whether two policies do the same. Functions cannot be compared, so that policies with rules ([PermanentIs] and its like) are
// equal only where one is a copy of the other.
func (p Policy) Equal(q Policy) bool {
	return p.named == q.named && p.set == q.set && sameRules(p.rules, q.rules) &&
		equalPart(p.decode, q.decode) && equalPart(p.produce, q.produce)
}

func sameRules(a, b []rule) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

func equalPart(a, b *Policy) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}
