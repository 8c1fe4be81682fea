package group

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

// A member that drains hands everything over while it runs on: what it has is learned first, nothing stands still for longer than a hand-over
// takes, and nothing comes to it any more.
func TestDrainHandsEverythingOver(t *testing.T) {
	onSeeds(t, 40, func(t *testing.T, w *world) {
		w.stable(3)
		w.pauses, w.ran = map[task.ID]time.Duration{}, map[task.ID]bool{}
		for id := range w.owners() {
			w.pauses[id], w.ran[id] = 0, true
		}
		was, p := w.owners(), w.procs[1]
		p.step(Drain{})
		w.until(60*time.Second, "the end of the drain", func() bool { return len(p.run)+len(p.parked) == 0 && p.m.phase == joined })
		w.run(3 * time.Second)
		require.Empty(t, p.run, "%s", w.trace.String())
		require.Zero(t, p.losses)
		for id, owner := range w.owners() {
			if owner == was[id] {
				require.Zero(t, w.pauses[id], "task %s stayed and stood still\n%s", id, w.trace.String())
			}
			require.LessOrEqual(t, w.pauses[id], 100*time.Millisecond, "task %s\n%s", id, w.trace.String())
		}
		require.Len(t, w.owners(), 9)
		w.requireQuiet(30 * time.Second)
		p.quit()
		w.run(30 * time.Second)
		w.requireConverged()
	})
}
