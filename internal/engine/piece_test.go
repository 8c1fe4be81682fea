package engine

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A restore whose planner is full goes on: what the planner waits for to be given back is never less than what the restore waits for to write.
// Batches that are large against the bound fill it far beyond while a write is on its way.
func TestAPieceIsNeverMoreThanAFullPlannerWaitsFor(t *testing.T) {
	for _, restoreBytes := range []int{300 << 10, 1 << 20, 8 << 20, 32 << 20} {
		e := &Engine{cfg: Config{RestoreBytes: restoreBytes}}
		for _, left := range []int64{1, 1 << 10, 1 << 20} {
			p := &restorePart{end: left}
			p.room = e.roomFor(p)
			b := newPlannerBench(PlannerConfig{})
			s := src("log", 0)
			b.step(FetchAdd{Source: s, Bound: e.bound(p)})
			b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 1, e.piece(p))}}) // which is written
			b.step(FetchAnswered{Parts: []FetchedPart{answer(s, 2, e.piece(p)-1)}})
			b.step(FetchConsumed{Source: s, Bytes: e.piece(p)})
			require.True(t, b.p.onWay, "bulk writes of %d bytes, %d records left: nobody asks for more", restoreBytes, left)
		}
	}
}
