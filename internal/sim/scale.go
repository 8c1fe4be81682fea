package sim

import (
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/assignor"
)

// scale is what a seed makes of the group: how it keeps copies, how it learns, and how it changes.
type scale struct {
	planned   bool // nothing goes wrong by itself: only the plan is carried out, and what it must not do is held against it
	plan      int  // which of the plans, with planned
	changes   int  // how many plans are carried out among the faults, without
	policy    assignor.Policy
	coalesce  time.Duration
	rate      int           // bytes a second that followers take in
	cleanup   time.Duration // of states that nobody uses
	stall     time.Duration // without getting closer to the end
	preload   int           // records in each changelog before the beginning
	uneven    bool          // members have different capacities
	boardLost float64       // probability that a request to the readiness board is lost, or late
}

// spare is how many machines there are for a group that grows.
const spare = 3

func newScale(rng *rand.Rand, calm bool) scale {
	s := scale{
		policy: assignor.Policy{
			Standbys: []int{0, 0, 1, 1, 2}[rng.IntN(5)], AcceptableLag: []int64{1, 5, 20, 0}[rng.IntN(4)], LearnersPerMember: []int{1, 2, 0}[rng.IntN(3)],
		},
		coalesce: []time.Duration{100 * time.Millisecond, time.Second, 3 * time.Second}[rng.IntN(3)],
		rate:     []int{0, 0, 10_000, 50_000}[rng.IntN(4)], cleanup: []time.Duration{session + 2*time.Second, 12 * time.Second, 0}[rng.IntN(3)],
		stall: []time.Duration{2 * time.Second, 0}[rng.IntN(2)], preload: []int{0, 60, 60, 300}[rng.IntN(4)], uneven: rng.IntN(8) == 0,
	}
	if calm {
		s.uneven = false
		return s
	}
	s.planned, s.plan, s.changes = rng.IntN(3) == 0, rng.IntN(len(plans)), rng.IntN(3)
	if s.planned { // one record more or less is nothing that a plan fails over
		s.policy.AcceptableLag = max(s.policy.AcceptableLag, 5)
		if s.lag() == 5 && rng.IntN(3) == 0 {
			s.policy.AcceptableLag = 0
		}
	}
	if rng.IntN(4) == 0 && !s.planned {
		s.boardLost = rng.Float64()
	}
	return s
}

// lag is how many records a copy may be behind to be taken as it is.
func (s *scale) lag() int64 {
	if s.policy.AcceptableLag > 0 {
		return s.policy.AcceptableLag
	}
	return 10_000
}
