//go:build !failpoints

package fail

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Without the tag a point costs nothing: a program that calls one has no instruction of it.
func TestAPointIsNothing(t *testing.T) {
	require.False(t, Enabled)
	out, err := exec.Command("go", "build", "-gcflags=-m", "-o", filepath.Join(t.TempDir(), "a"), ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "can inline Point")
	with, without := assembled(t, `func f() { fail.Point("dir.locked") }`), assembled(t, `func f() {}; var _ = fail.Enabled`)
	require.Equal(t, without, with)
}

// assembled returns the instructions that the function f is compiled to, in a program of this module that is not on the disk.
func assembled(t *testing.T, f string) string {
	dir := t.TempDir()
	source := "package main\nimport \"github.com/understudy-streams/understudy/internal/fail\"\nfunc main() { f() }\n//go:noinline\n" + f + "\n"
	file, overlay, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "main")
	require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
	place, err := filepath.Abs("assembled/main.go")
	require.NoError(t, err)
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {place: file}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(overlay, replace, 0o600))
	out, err := exec.Command("go", "build", "-overlay", overlay, "-o", binary, "./assembled").CombinedOutput()
	require.NoError(t, err, "%s", out)
	out, err = exec.Command("go", "tool", "objdump", "-s", `^main\.f$`, binary).CombinedOutput()
	require.NoError(t, err, "%s", out)
	var code strings.Builder
	for line := range strings.Lines(string(out)) {
		if fields := strings.Fields(line); len(fields) > 3 && strings.HasPrefix(fields[0], "main.go:") {
			code.WriteString(strings.Join(fields[3:], " ") + "\n")
		}
	}
	require.NotEmpty(t, code.String())
	return code.String()
}
