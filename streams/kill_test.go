//go:build failpoints

package streams_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/fail"
)

var (
	killN        = flag.Int("kill.n", 300, "number of cases")
	killSeed     = flag.Uint64("kill.seed", 0, "seed of the first case, the others follow; 0: any")
	killParallel = flag.Int("kill.parallel", 4, "cases at a time; they mostly wait")
)

// killReport counts what happened.
type killReport struct {
	mu     sync.Mutex
	kills  map[string][4]int // by point: first hit and directory lost, first and kept, random and lost, random and kept
	missed map[string]int
	total  int
	failed []string
}

func (r *killReport) add(c *killCase, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range c.kills {
		column := 0
		if i > 0 || c.plan.random {
			column = 2
		}
		if !s.wipe {
			column++
		}
		n := r.kills[s.point]
		n[column]++
		r.kills[s.point] = n
		r.total++
	}
	for _, s := range c.missed {
		r.missed[s.point]++
	}
	if first := c.plan.shots[0]; err == nil && !c.plan.random && !slices.Contains(c.kills, first) {
		err = fmt.Errorf("no life came by %s", first.point)
	}
	if err != nil {
		r.failed = append(r.failed, fmt.Sprintf("%v\nagain: make kill-test SEED=%d N=1\n%v", c.plan, c.plan.seed, err))
	}
}

func (r *killReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-18s %11s %11s %12s %12s %7s\n", "point", "first, lost", "first, kept", "random, lost", "random, kept", "missed")
	for _, p := range fail.Points {
		n := r.kills[p.Name]
		fmt.Fprintf(&b, "%-18s %11d %11d %12d %12d %7d\n", p.Name, n[0], n[1], n[2], n[3], r.missed[p.Name])
	}
	return b.String()
}

// Processes are killed between any two steps, their directories kept or lost, and whatever takes over loses nothing, repeats what was not
// committed and no more, and its stores are the folds of their changelogs.
func TestKillPoints(t *testing.T) {
	first := cmp.Or(*killSeed, rand.Uint64()>>32)
	t.Logf("seeds from %d on", first)
	r := &killReport{kills: map[string][4]int{}, missed: map[string]int{}}
	seeds := make(chan uint64)
	var wg sync.WaitGroup
	for range min(*killParallel, *killN) {
		wg.Go(func() {
			for seed := range seeds {
				c := &killCase{plan: newPlan(seed)}
				r.add(c, c.run())
			}
		})
	}
	began := time.Now()
	for i := range uint64(*killN) {
		if r.hopeless() {
			break
		}
		seeds <- first + i
	}
	close(seeds)
	wg.Wait()
	t.Logf("%d kills in %v\n%v", r.total, time.Since(began).Round(time.Second), r)
	for _, f := range r.failed {
		t.Error(f)
	}
	if *killN >= 4*len(fail.Points) && !t.Failed() {
		require.GreaterOrEqual(t, r.total, *killN*9/10)
	}
}

// hopeless says whether so much has failed that more tells nothing.
func (r *killReport) hopeless() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.failed) >= 5
}

// Every point is aimed at.
func TestKillAims(t *testing.T) {
	var names []string
	for _, p := range fail.Points {
		names = append(names, p.Name)
	}
	require.Equal(t, names, slices.Sorted(maps.Keys(aims)))
	seen := map[string]map[string]bool{}
	for seed := range uint64(4 * len(fail.Points)) {
		p := newPlan(seed)
		s := p.shots[0]
		if seen[s.point] == nil {
			seen[s.point] = map[string]bool{}
		}
		seen[s.point][fmt.Sprint(p.random, s.wipe)] = true
		require.GreaterOrEqual(t, s.hit, int64(1))
		require.Equal(t, p, newPlan(seed), "a plan follows from its seed")
	}
	for _, name := range names {
		require.Len(t, seen[name], 4, name)
	}
}
