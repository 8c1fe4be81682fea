package pebblestore

import (
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// cleared makes the directory of an application with a database, one that was put aside, and somebody's notes.
func cleared(t *testing.T) (stateDir, path string) {
	t.Helper()
	stateDir = t.TempDir()
	d, err := OpenDir(stateDir, "app", Options{})
	require.NoError(t, err)
	_, err = Hold(stateDir, "app")
	require.ErrorAs(t, err, new(*LockedError), "a process of the application runs")
	require.NoError(t, d.Close())
	require.NoError(t, os.Mkdir(filepath.Join(d.Path, "db.corrupt-20260102T020405.000Z"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(d.Path, "notes"), nil, 0o600))
	return stateDir, d.Path
}

func TestStateIsCleared(t *testing.T) {
	stateDir, path := cleared(t)
	id, err := os.ReadFile(filepath.Join(path, processIDName))
	require.NoError(t, err)

	seen, err := Look(stateDir, "app")
	require.NoError(t, err)
	require.Error(t, seen.Clear(), "only who has the lock")
	h, err := Hold(stateDir, "app")
	require.NoError(t, err)
	require.Equal(t, []string{filepath.Join(path, "db"), filepath.Join(path, "db.corrupt-20260102T020405.000Z")}, h.State)
	require.Equal(t, []string{filepath.Join(path, "notes")}, h.Strangers)
	_, err = OpenDir(stateDir, "app", Options{})
	require.ErrorAs(t, err, new(*LockedError), "no process begins meanwhile")
	require.NoError(t, h.Clear())
	require.NoError(t, h.Close())
	require.NoError(t, h.Close())

	seen, err = Look(stateDir, "app")
	require.NoError(t, err)
	require.Empty(t, seen.State)
	require.FileExists(t, filepath.Join(path, "notes"))
	d, err := OpenDir(stateDir, "app", Options{})
	require.NoError(t, err)
	again, err := os.ReadFile(filepath.Join(path, processIDName))
	require.NoError(t, err)
	require.Equal(t, id, again)
	require.NoError(t, d.Close())
}

func TestStateIsRemoved(t *testing.T) {
	stateDir, path := cleared(t)
	remove := func() {
		h, err := Hold(stateDir, "app")
		require.NoError(t, err)
		require.NoError(t, h.Remove())
		require.NoError(t, h.Close())
	}
	remove()
	require.FileExists(t, filepath.Join(path, "notes"), "that of strangers stays")
	require.NoError(t, os.Remove(filepath.Join(path, "notes")))
	remove()
	require.NoDirExists(t, path)
	require.DirExists(t, stateDir)
	_, err := Hold(stateDir, "app")
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorContains(t, err, "Config.StateDir")
}
