package sim

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var mutantSeeds = flag.Uint64("sim.mutants", 0, "how many seeds TestMutants plays with each fault planted; 0 skips it")

// mutant is a fault planted in the machines: one piece of text in one file is replaced. It stands for a mistake that somebody may make there.
type mutant struct{ name, file, old, new string }

var mutants = []mutant{
	{"a commit goes out before what precedes it is acknowledged", "internal/engine/commit.go",
		"s == nil || s.phase != awaitAcks || l.acked < s.Seq", "s == nil || s.phase != awaitAcks"},
	{"somebody else's records in a changelog are not noticed", "internal/engine/commit.go",
		"if g.Base > *next {", "if false {"},
	{"an answer to what was asked for before an assignment counts for it", "internal/engine/open.go",
		"|| l.epoch > e.opens.fetched {", "{"},
	{"a process that has slept does not look at its lease", "internal/engine/engine.go",
		"!until.IsZero() && !now.Before(until) {", "!until.IsZero() && now.IsZero() {"},
	{"a store that is ahead of its changelog is kept", "internal/engine/restore.go",
		"case p.pos > p.end:", "case p.pos > p.end && p.end < 0:"},
	{"a task is given away while a hole of its changelog is open", "internal/engine/repair.go",
		"return slices.ContainsFunc(l.holes, func(h *hole) bool { return h != nil })", "return false && slices.ContainsFunc(l.holes, func(h *hole) bool { return h != nil })"},
	{"a changelog has no writer of its own", "internal/engine/tenure.go",
		"return l.tenure != nil && !l.tenure.forsaken }", "return l.tenure != nil && !l.tenure.forsaken && l.seq < 0 }"},
	{"the undo of a unit forgets what it sent", "task/unit.go",
		"t.out.active.undo(&t.unit.effects, t.out.journal)", "_ = t.out.journal"},
	{"the undo of a unit forgets what it wrote", "task/unit.go",
		"s.Rollback()", "s.Keep()"},
	{"what was put aside is deleted before its retry is acknowledged", "task/leg.go",
		"if t.out.acknowledged() < c.legs.after {", "if t.out.acknowledged() > c.legs.after {"},
	{"a commit forgets the last hole", "retry/window.go",
		"func (w *Window) Holes(dst []Run) []Run {", "func (w *Window) Holes(dst []Run) []Run {\n\tall := w.holes(dst)\n\tif len(all) > 1 {\n\t\treturn all[:len(all)-1]\n\t}\n\treturn all\n}\n\nfunc (w *Window) holes(dst []Run) []Run {"},
	{"the main path goes on one record too far", "internal/engine/recovery.go",
		"l.open.start[i] = splits[i].Main", "l.open.start[i] = splits[i].Main + 1"},
	{"a record of a gap that was done is run again", "task/gap.go",
		"if !g.window.IsOpen(r.Offset) {", "if false && !g.window.IsOpen(r.Offset) {"},
	{"what retention took of a gap is not told", "task/gap.go",
		"g.lost = g.window.Unread(g.lost, g.end, min(first, g.hi))", "_ = first"},
	{"a learner is ready before it has passed the end", "internal/engine/learn.go",
		"if !p.begun || p.pos < p.goal || p.wiping {", "if false {"},
	{"a store is said to be further than it is", "internal/engine/commit.go",
		"pos = l.ends[st.Store]", "pos = l.ends[st.Store] + 1"},
	{"an owner lets go of a task before its receiver is known to be ready", "internal/engine/board.go",
		"return ok && member == receiver && float64", "return ok && float64"},
}

// TestMutants plants faults in the machines, one at a time, and says by how many seeds each is found and how many it finds in a second of a core:
// what a change of the simulation is held against that shortens its runs. A fault that no seed finds fails the test.
func TestMutants(t *testing.T) {
	if *mutantSeeds == 0 {
		t.Skip("-sim.mutants says with how many seeds")
	}
	_, here, _, _ := runtime.Caller(0)
	root := filepath.Dir(filepath.Dir(filepath.Dir(here)))
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			seeds, took := m.play(t, root)
			require.NotZero(t, seeds, "nobody notices")
			t.Logf("%4d of %d seeds, %.2f in a second of a core", seeds, *mutantSeeds, float64(seeds)/took.Seconds())
		})
	}
}

var failedSeed = regexp.MustCompile(`(?m)^\s+\S+_test\.go:\d+: seed \d+:`)

// play plays the seeds with the fault planted. It returns how many fail and what that took of all cores.
func (m mutant) play(t *testing.T, root string) (failed int, took time.Duration) {
	path := filepath.Join(root, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(string(source), m.old), "the text is not there once: %s", m.old)
	dir := t.TempDir()
	changed, overlay, program := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "sim.test")
	require.NoError(t, os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600))
	says, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, says, 0o600))
	build := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, "./internal/sim")
	build.Dir = root
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	run := exec.Command(program, "-test.run", "^TestSeeds$", fmt.Sprintf("-sim.seeds=%d", *mutantSeeds))
	run.Dir = filepath.Join(root, "internal", "sim")
	out, _ = run.CombinedOutput() // it fails if anything is found
	u := run.ProcessState.SysUsage().(*syscall.Rusage)
	return len(failedSeed.FindAll(out, -1)), time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
