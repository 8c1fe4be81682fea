package retry

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// history runs a world through some lives that end in the middle of anything, and one that is left to finish.
func history(seed uint64, mode Mode, broken rules) (w *world, stuck []string) {
	w = newWorld(seed, mode, broken)
	for range w.rnd.IntN(5) {
		l := w.start()
		for range w.rnd.IntN(120) {
			l.step()
		}
		if w.chance(3) {
			w.take()
		}
	}
	return w, w.start().drain()
}

const histories = 3000

// Whatever is acknowledged when a process dies, in whatever order: no record is lost, none is stuck, and where keys are ordered none of a key
// is sent ahead of an earlier one.
func TestHistoriesLoseNothingAndKeepTheOrder(t *testing.T) {
	for _, mode := range []Mode{ModeParallel, ModeKeyOrdered} {
		t.Run(fmt.Sprint(mode), func(t *testing.T) {
			lives, dead := 0, 0
			for seed := range uint64(histories) {
				w, stuck := history(seed, mode, rules{})
				require.Empty(t, w.lost(), "lost, seed %d", seed)
				require.Empty(t, stuck, "stuck, seed %d", seed)
				if mode == ModeKeyOrdered {
					require.Empty(t, w.unordered(), "out of order, seed %d", seed)
				}
				lives += w.started
				dead += len(w.dead)
			}
			require.Greater(t, lives, 2*histories)
			require.Greater(t, dead, histories/2)
		})
	}
}

// Without one of the rules the same histories go wrong: the test above would notice.
func TestHistoriesNeedEachRule(t *testing.T) {
	lost := func(w *world, _ []string) bool { return len(w.lost()) > 0 }
	unordered := func(w *world, _ []string) bool { return len(w.unordered()) > 0 }
	stays := func(_ *world, stuck []string) bool { return len(stuck) > 0 }
	for _, c := range []struct {
		name  string
		rules rules
		wrong func(w *world, stuck []string) bool
	}{
		{"deletes in the first leg", rules{deletesInTheFirstLeg: true}, lost},
		{"nothing is inert", rules{nothingIsInert: true}, unordered},
		{"activated where it was", rules{activatedWhereItWas: true}, unordered},
		{"rows in any order", rules{rowsInAnyOrder: true}, stays},
		{"beside their key", rules{besideTheirKey: true}, unordered},
		{"overdue is left", rules{overdueIsLeft: true}, stays},
		{"followers run too", rules{allRunAtOnce: true}, unordered},
	} {
		t.Run(c.name, func(t *testing.T) {
			wrong := 0
			for seed := range uint64(histories) {
				if c.wrong(history(seed, ModeKeyOrdered, c.rules)) {
					wrong++
				}
				if wrong == 5 {
					return
				}
			}
			require.Fail(t, "nothing has noticed", "%d of %d histories went wrong", wrong, histories)
		})
	}
}
