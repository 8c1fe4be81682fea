package sim

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// failing is what a seed makes of records that fail: what the application does about them, and which do. Its numbers are drawn by themselves,
// so that everything else of a seed is as it would be without.
type failing struct {
	policy retry.Policy
	set    retry.Settings
	fates  []fate           // of each input record
	tries  []int            // of each, over all processes
	outage [2]time.Duration // from when to when none can be counted
	deadly bool             // one kills
}

// fate is what happens to the application when it counts a record.
type fate struct {
	kind  fateKind
	times int  // how often; for some kinds it is always
	late  bool // when it has written and sent already
}

type fateKind uint8

const (
	succeeds fateKind = iota
	fails             // a number of times
	panics            // a number of times
	waits             // a number of times it wants to be tried again after a while, which is no attempt
	named             // a number of times it names the time of the next try itself
	lasts             // it fails always
	refuses           // it fails for good
	leaves            // it says that it is to be skipped
	deadly            // it ends the process with it, a number of times
	poisons           // what comes of it the broker refuses, always, when it is done
)

// Errors of the application.
var (
	errFlaky  = errors.New("does not work yet")
	errBroken = errors.New("never works")
	errDown   = &outageError{}
)

type outageError struct{}

func (*outageError) Error() string { return "the service is down" }

// asked is the wait that a record asks for itself.
const asked = 300 * time.Millisecond

func newFailing(cfg Config, m *mood) failing {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x6661696c))
	f := failing{fates: make([]fate, cfg.Records), tries: make([]int, cfg.Records)}
	if rng.IntN(5) == 0 && !cfg.Recover {
		return f
	}
	refused := newRefused(cfg, m)
	more := rand.New(rand.NewPCG(cfg.Seed, 0x776f726b)) // of its own, so that all else is drawn as before
	f.policy = newPolicy(rng, len(refused) > 0, retry.Workers([]int{1, 1, 2, 4}[more.IntN(4)]))
	switch {
	case cfg.Recover:
		f.policy = parallel(rng, len(refused) > 0)
	case more.IntN(6) == 0 && !cfg.Calm && !m.planned:
		f.policy = retry.Stop(retry.Inline(1 + more.IntN(2)))
	}
	f.set = f.policy.Settings()
	if m.planned && f.aside() && m.policy.AcceptableLag > 0 { // what is put aside makes changelogs longer, and that is nothing that a plan fails over
		m.policy.AcceptableLag = max(m.policy.AcceptableLag, 60)
	}
	rare := []float64{0.02, 0.1, 0.4}[rng.IntN(3)]
	if f.stops() { // each takes a rebalance or two
		rare = 0.03
	}
	for i := range f.fates {
		if rng.Float64() < rare {
			f.fates[i] = f.newFate(rng)
		}
	}
	if cfg.Calm || m.planned || f.stops() {
		return f
	}
	for _, id := range refused {
		if f.fates[id].kind == succeeds {
			f.fates[id] = fate{kind: poisons}
		}
	}
	if rng.IntN(6) == 0 {
		f.deadly = true
		f.fates[rng.IntN(len(f.fates))] = fate{kind: deadly, times: []int{1, 3, 100}[rng.IntN(3)], late: rng.IntN(2) == 0}
	}
	if rng.IntN(5) == 0 {
		at := time.Duration(rng.Int64N(int64(faultTime)))
		f.outage = [2]time.Duration{at, at + time.Duration(rng.Int64N(int64(5*time.Second)))}
	}
	return f
}

// newRefused draws the records of which a broker refuses what comes. Its numbers are drawn by themselves.
func newRefused(cfg Config, m *mood) (ids []int) {
	rng := rand.New(rand.NewPCG(cfg.Seed, 0x72656675))
	if cfg.Calm || m.planned || rng.IntN(4) > 0 {
		return nil
	}
	for range 1 + rng.IntN(3) {
		ids = append(ids, rng.IntN(cfg.Records))
	}
	return ids
}

// ends draws what becomes of records that fail for good. Of those that a broker refuses the same, if there are any.
func ends(pick func(...retry.Option) retry.Option, refused bool) []retry.Option {
	end := pick(retry.ThenDeadLetter(), retry.ThenSkip())
	if !refused {
		return []retry.Option{end}
	}
	return []retry.Option{end, retry.OnProduce(retry.Ordered(retry.Attempts(1), end))}
}

// stops says that each record that fails ends its process, which is started again by whoever looks after it.
func (f *failing) stops() bool { return f.policy.Named() && f.set.Mode == retry.ModeStop }

// newPolicy draws what becomes of records that fail.
func newPolicy(rng *rand.Rand, refused bool, workers retry.Option) retry.Policy {
	pick := func(of ...retry.Option) retry.Option { return of[rng.IntN(len(of))] }
	first := []time.Duration{10 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond}[rng.IntN(3)]
	options := []retry.Option{
		retry.Inline(1 + rng.IntN(2)), retry.Backoff(first, 4*first), retry.Crashes(2 + rng.IntN(2)),
	}
	options = append(options, ends(pick, refused)...)
	breaker := pick(retry.NoBreaker(), retry.Breaker(3, 500*time.Millisecond), retry.Breaker(20, 2*time.Second))
	attempts := pick(retry.Attempts(2), retry.Attempts(4), retry.Attempts(retry.Forever))
	switch rng.IntN(4) {
	case 0:
		return retry.Ordered(append(options, attempts)...)
	case 1:
		return retry.Parallel(append(options, attempts, breaker, pick(retry.Parked(3, 1<<20), retry.Parked(1000, 1<<20)), workers)...)
	}
	return retry.KeyOrdered(append(options, attempts, breaker, workers,
		pick(retry.Depth(2), retry.Depth(1000)), pick(retry.WithFollowers(retry.FollowersGoOn), retry.WithFollowers(retry.FollowersToo)))...)
}

// parallel draws a policy that lets records be taken in any order.
func parallel(rng *rand.Rand, refused bool) retry.Policy {
	pick := func(of ...retry.Option) retry.Option { return of[rng.IntN(len(of))] }
	options := append(ends(pick, refused), retry.Backoff(100*time.Millisecond, 400*time.Millisecond), retry.Crashes(2),
		pick(retry.Attempts(2), retry.Attempts(retry.Forever)), pick(retry.NoBreaker(), retry.Breaker(20, 2*time.Second)),
		pick(retry.Parked(3, 1<<20), retry.Parked(1000, 1<<20)), retry.Workers([]int{1, 1, 2, 4}[rng.IntN(4)]))
	return retry.Parallel(options...)
}

func (f *failing) newFate(rng *rand.Rand) fate {
	all := []fateKind{fails, fails, fails, panics, waits, named, refuses, leaves}
	switch {
	case f.stops(): // and is to get on all the same
		all = []fateKind{fails, fails, panics, waits, named, leaves}
	case f.set.Attempts > 0:
		all = append(all, lasts)
	}
	return fate{kind: all[rng.IntN(len(all))], times: 1 + rng.IntN(4), late: rng.IntN(2) == 0}
}

// aside says that records are put aside.
func (f *failing) aside() bool {
	return f.set.Mode.PutsAside()
}

// mayFail says that a record may fail for good: by itself, of what another one does, or in an outage.
func (f *failing) mayFail(id int) bool {
	if f.stops() {
		return f.fates[id].kind == leaves
	}
	switch t := f.fates[id]; t.kind {
	case lasts, refuses, leaves, deadly, poisons:
		return true
	case fails, panics, named:
		if f.set.Attempts > 0 && t.times >= f.set.Attempts {
			return true
		}
	}
	return f.outage[1] > 0 && f.set.Attempts > 0 || f.set.Mode == retry.ModeKeyOrdered && f.set.Followers == retry.FollowersToo
}

// mayEnd says that a record may fail for good or be ended as one that kills: it may be run alone each time that a record of another task ends
// the process that both are in.
func (f *failing) mayEnd(id int) bool { return f.mayFail(id) || f.deadly }

// mustEnd says that a record can never be counted.
func (f *failing) mustEnd(id int) bool {
	switch f.fates[id].kind {
	case lasts, refuses, leaves:
		return true
	}
	return false
}

// mayVanish says that a record may leave no trace.
func (f *failing) mayVanish(id int) bool {
	return f.fates[id].kind == leaves || f.set.Then == retry.EndSkip && f.mayEnd(id)
}

// meets is what happens when the application counts a record; aside says that it was put aside before.
func (w *world) meets(p *process, id int, aside bool) (task.Kind, error) {
	f := &w.failing
	if f.fates[id].kind == deadly && aside {
		return "", nil
	}
	if at := w.Now.Sub(epoch); at >= f.outage[0] && at < f.outage[1] {
		w.saw(Outage)
		return task.KindProcess, errDown
	}
	t := f.fates[id]
	if t.kind == succeeds || t.kind == poisons {
		return "", nil
	}
	f.tries[id]++
	n := f.tries[id]
	if n > t.times && (t.kind == fails || t.kind == panics || t.kind == waits || t.kind == named || t.kind == deadly) {
		return "", nil
	}
	w.saw(RecordFailed)
	switch t.kind {
	case waits:
		return task.KindProcess, retry.Snooze(asked)
	case named:
		return task.KindProcess, retry.After(errFlaky, asked)
	case lasts:
		return task.KindProcess, errBroken
	case refuses:
		if id%2 == 0 {
			return task.KindDecode, errBroken
		}
		return task.KindProcess, retry.Permanent(errBroken)
	case leaves:
		return task.KindProcess, retry.Skip("of no use")
	case deadly:
		p.doomed = true
	case panics:
		return task.KindPanic, errFlaky
	}
	return task.KindProcess, errFlaky
}

// dies ends a process in the middle of a record.
func (h *host) dies() {
	h.w.fault("a record kills %s", h.p.name)
	h.w.saw(RecordKilled)
	h.crash()
	h.w.After(h.w.UpTo(time.Second), nil, h.start)
}
