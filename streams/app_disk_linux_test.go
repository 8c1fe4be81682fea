package streams_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
)

// mountEnv makes the test binary a process whose mounts nobody else sees.
const mountEnv = "STREAMS_TEST_MOUNT"

// smallDisk is a file system in memory, filled by a file.
type smallDisk struct {
	t    *testing.T
	path string
}

func (s smallDisk) Path() string    { return filepath.Join(s.path, "state") }
func (s smallDisk) Files() vfs.FS   { return nil }
func (s smallDisk) ballast() string { return filepath.Join(s.path, "ballast") }
func (s smallDisk) Free()           { require.NoError(s.t, os.Remove(s.ballast())) }

// Fill leaves no byte free.
func (s smallDisk) Fill() {
	f, err := os.Create(s.ballast())
	require.NoError(s.t, err)
	defer func() { _ = f.Close() }()
	for size := 1 << 20; size > 0; {
		if _, err := f.Write(make([]byte, size)); err != nil {
			require.ErrorIs(s.t, err, syscall.ENOSPC)
			size /= 2
		}
	}
}

// The same on a real file system, where mounts are allowed. The test of TestAppFullDisk is the same on one that fails on purpose.
func TestAppFullDiskOnARealFileSystem(t *testing.T) {
	notShort(t)
	t.Parallel()
	if os.Getenv(mountEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=120s")
		cmd.Env = append(os.Environ(), mountEnv+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		out, err := cmd.CombinedOutput()
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EINVAL) {
			t.Skipf("this process must not have mounts of its own: %v", err)
		}
		require.NoError(t, err, "%s", out)
		if testing.Verbose() {
			t.Logf("%s", out)
		}
		require.Contains(t, string(out), "--- PASS: "+t.Name())
		return
	}
	d := smallDisk{t, t.TempDir()}
	require.NoError(t, syscall.Mount("none", d.path, "tmpfs", 0, "size=24m"))
	defer func() { _ = syscall.Unmount(d.path, syscall.MNT_DETACH) }()
	testFullDisk(t, d)
}
