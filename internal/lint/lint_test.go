package lint

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestRepository(t *testing.T) {
	top, err := filepath.Abs("../..")
	require.NoError(t, err)
	tree, err := Load(top)
	require.NoError(t, err)
	require.NotEmpty(t, tree.Packages)
	found, err := tree.Check()
	require.NoError(t, err)
	for _, f := range found {
		t.Error(f)
	}
}

// TestRulesBite runs the rules on a tree in which each is broken.
func TestRulesBite(t *testing.T) {
	tree, err := Load("testdata/tree")
	require.NoError(t, err)
	tree.places = []place{
		{pattern: "statestore", layer: storage, core: true},
		{pattern: "task", layer: inside, core: true},
		{pattern: "assignor", layer: inside, core: true},
		{pattern: "retry", layer: inside, core: true},
		{pattern: "internal/engine", layer: internal, core: true},
		{pattern: "internal/group", layer: internal, core: true},
		{pattern: "internal/group/carrier", layer: internal},
		{pattern: "internal/kafka", layer: internal},
		{pattern: "internal/broker", layer: internal},
		{pattern: "internal/sim", layer: internal, core: true, pending: true},
		{pattern: "internal/gone", layer: internal},
		{pattern: "streams/...", layer: public},
		{pattern: "cmd/...", layer: programs, pending: true},
		{pattern: "third/...", layer: storage},
	}
	found, err := tree.Check()
	require.NoError(t, err)
	var got []string
	for _, f := range found {
		require.NotEmpty(t, f.Why, "%s", f)
		require.Contains(t, f.String(), f.Why)
		got = append(got, fmt.Sprintf("%s: %s (%s)", f.Where, f.What, f.Rule))
	}
	want := []string{
		"internal/broker: imports github.com/IBM/sarama (sarama)",
		"internal/engine: imports streams: internal -> streams (direction)",
		"internal/gone: no package is called so any more (layers)",
		"internal/group/machine.go:3: reaches github.com/IBM/sarama: github.com/understudy-streams/understudy/internal/kafka -> github.com/IBM/sarama (core import)",
		"internal/sim: exists now: take `pending` off its line (layers)",
		"retry: imports task: task, assignor, retry -> task, assignor, retry (direction)",
		"statestore: imports assignor: statestore -> task, assignor, retry (direction)",
		"stray: a package of no layer (layers)",
		`streams/helper.go: is called "helper" (name)`,
		"streams/helper.go:3: names " + machinePaths[1] + " (machine path)",
		`streams/window_types.go: is called "types" (name)`,

		"task/chance.go:5: uses the global source: math/rand/v2.IntN (core replay)",
		"task/clock.go:11: uses context.WithTimeout (core replay)",
		"task/clock.go:13: uses time.Since (core replay)",
		"task/clock.go:8: uses time.Now (core replay)",
		"task/concurrent.go:3: has a channel (core channel)",
		"task/concurrent.go:4: has a channel (core channel)",
		"task/concurrent.go:5: sends on a channel (core channel)",
		"task/concurrent.go:5: starts a goroutine (core goroutine)",
		"task/concurrent.go:6: selects (core channel)",
		"task/concurrent.go:7: receives from a channel (core channel)",
		"task/imports.go:11: reaches os: example.com/deep -> example.com/deep/deeper -> os (core import)",
		"task/imports.go:4: imports log/slog (core import)",
		"task/imports.go:5: imports math/rand (core import)",
		"task/imports.go:6: imports net/http (core import)",
		"task/imports.go:7: imports os/exec (core import)",
		"task/imports.go:8: imports sync/atomic (core import)",
		"task/imports.go:9: imports time with a dot, which hides what is called from the other rules (core import)",
	}
	require.Equal(t, strings.Join(want, "\n"), strings.Join(got, "\n"))
}

func TestBan(t *testing.T) {
	for path, banned := range map[string]bool{
		"os": true, "os/signal": true, "net/http": true, "sync": true, "sync/atomic": true, "log": true, "log/slog": true, "math/rand": true, "crypto/rand": true,
		"go.uber.org/zap": true, "go.uber.org/zap/zapcore": true, "github.com/cockroachdb/pebble/v2": true, "github.com/IBM/sarama": true,
		"math/rand/v2": false, "time": false, "context": false, "osmosis": false, "golang.org/x/sync/errgroup": false,
	} {
		require.Equal(t, banned, ban(path) != "", path)
	}
}

func TestSize(t *testing.T) {
	lines := func(n int) []byte { return bytes.Repeat([]byte("x\n"), n) }
	require.Empty(t, checkSize("a.go", lines(maxLines)))
	require.Len(t, checkSize("a.go", lines(maxLines+1)), 1)
	require.Empty(t, checkSize("a_test.go", lines(maxLines+1)), "a table of cases may be long")
}

func TestNames(t *testing.T) {
	for name, bad := range map[string]bool{
		"task/owner.go": false, "task/task_util.go": true, "internal/common/x.go": true, "streams/types_test.go": true, "streams/typesafe.go": false,
	} {
		require.Equal(t, bad, len(checkName(name)) > 0, name)
	}
}

func TestPaths(t *testing.T) {
	bad := []byte("one\ncd " + machinePaths[0] + "x\n")
	require.Equal(t, "a.md:2", checkPaths("a.md", bad)[0].Where)
	require.Empty(t, checkPaths("a.bin", append(bad, 0)))
	require.Empty(t, checkPaths("a.md", []byte("a network/card")))
}

func TestLayerNames(t *testing.T) {
	for l := storage; l <= programs; l++ {
		require.NotEmpty(t, l.String())
	}
}

func TestLoadSaysWhatFailed(t *testing.T) {
	_, err := Load(t.TempDir())
	require.ErrorContains(t, err, "git", "a folder outside any repository")
}
