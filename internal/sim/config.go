package sim

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/internal/virtual"
)

// Config describes a run. Zero fields are replaced by the defaults named here; what they do not say is drawn from the seed.
type Config struct {
	Seed      uint64
	Instances int   // processes at the beginning; default 2 to 5
	Brokers   int   // default 1 or 3
	Parts     int32 // partitions of each topic; default 2 to 7
	Records   int   // input records; default 120
	Calm      bool  // no faults at all
	Recover   bool  // after an end that was none tasks go on on two paths, with a policy that allows it
	// Trace gets every line of the trace as it happens. May be nil.
	Trace func(line string)

	breaks time.Duration // when it is to fail, for the test of what is said then
}

// Mixed is what a seed is played as where all kinds of runs are to be had: every sixth goes on on two paths after each end that was none. What
// else it is, the seed decides: in every third run nothing happens but one plan, in most some records fail.
func Mixed(seed uint64) Config { return Config{Seed: seed, Recover: seed%6 == 0} }

// Result is what a run came to.
type Result struct {
	Seed    uint64
	Err     error  // the first thing that did not hold, nil if all did
	Hash    uint64 // over everything that happened, in order
	Events  int    // of the queue
	Virtual time.Duration
	Healed  time.Duration // how long it took to become whole after the last fault
	Faults  []string      // that were played
	Seen    Tally         // what had an effect
	Moves   Moves         // what became of tasks that moved, and of those that did not

	// Only beside an Err: the partitions that it is about, the last things that happened to them, and the last things that happened at all.
	Concerned     string
	Around, Trace []string
}

func (r Result) String() string {
	if r.Err == nil {
		return fmt.Sprintf("seed %d: held; %d events, %v, %d faults", r.Seed, r.Events, r.Virtual, len(r.Faults))
	}
	s := fmt.Sprintf("seed %d: %v\n\nfaults:\n%s\n", r.Seed, r.Err, strings.Join(r.Faults, "\n"))
	if r.Concerned != "" {
		s += fmt.Sprintf("\nthe last of %s:\n%s\n", r.Concerned, strings.Join(r.Around, "\n"))
	}
	s += fmt.Sprintf("\nthe last of everything:\n%s\n", strings.Join(r.Trace, "\n"))
	return s + fmt.Sprintf("\nreplay, with -v from the beginning: go test ./internal/sim -run 'TestSeeds$' -sim.seed=%d\n", r.Seed)
}

func (c Config) withDefaults() Config {
	rng := rand.New(rand.NewPCG(c.Seed, 0x73697a65))
	instances, brokers, parts := 2+rng.IntN(3), []int{1, 3, 3}[rng.IntN(3)], 2+rng.Int32N(3)
	if rng.IntN(8) == 0 {
		instances, parts = instances+1, parts+3
	}
	if c.Instances <= 0 {
		c.Instances = instances
	}
	if c.Brokers <= 0 {
		c.Brokers = brokers
	}
	if c.Parts <= 0 {
		c.Parts = parts
	}
	if c.Records <= 0 {
		c.Records = 120
	}
	return c
}

const (
	session   = 6 * time.Second
	rebalance = 8 * time.Second
	faultTime = 20 * time.Second // faults are played up to then
	healTime  = 60 * time.Second // after the last fault everything must be committed, stable and learned within it: messages held by a partition, a session, rounds
	words     = 8
)

// mood is what a seed makes of the circumstances: how fast, how lossy, how busy.
type mood struct {
	virtual.Pace
	fetchWait time.Duration // that a broker parks a fetch
	commit    time.Duration // commit interval
	queue     int           // bound of an input partition, in bytes
	restore   int           // bound of a bulk write, in bytes
	perUpdate bool          // the table emits with every record, not at commit
	flush     time.Duration // between two flushes of a disk
	sync      float64       // probability that a store write is the last of what survives a crash now
	load      time.Duration // that a new coordinator needs
	faults    int           // how many are played
	scale
}

func newMood(rng *rand.Rand, calm bool) mood {
	pick := func(ds ...time.Duration) time.Duration { return ds[rng.IntN(len(ds))] }
	m := mood{
		Pace: virtual.Pace{
			Hop: pick(0, 50*time.Microsecond, time.Millisecond, 20*time.Millisecond), Net: pick(time.Millisecond, 5*time.Millisecond, 20*time.Millisecond),
			Write: pick(time.Millisecond, 20*time.Millisecond), Work: pick(100*time.Microsecond, 2*time.Millisecond, 50*time.Millisecond),
			Turn: 1 + rng.IntN(20),
		},
		commit: pick(100*time.Millisecond, 500*time.Millisecond, time.Second),
		queue:  []int{300, 4 << 20}[rng.IntN(2)], restore: []int{200, 8 << 20}[rng.IntN(2)],
		perUpdate: rng.IntN(2) == 0, fetchWait: pick(300*time.Millisecond, time.Second), flush: pick(time.Second, 10*time.Second, time.Hour),
		sync: []float64{0, 0.1, 0.5}[rng.IntN(3)], load: pick(0, 50*time.Millisecond, time.Second),
	}
	m.scale = newScale(rng, calm)
	if calm {
		return m
	}
	if m.planned {
		return m
	}
	some := func(p float64) float64 {
		if rng.IntN(2) == 0 {
			return 0
		}
		return p * rng.Float64()
	}
	m.SlowNet, m.Loss, m.SlowWrite, m.SlowWork = some(0.05), some(0.05), some(0.2), some(0.05)
	m.faults = rng.IntN([]int{4, 10, 25}[rng.IntN(3)])
	return m
}
