package pebblestore

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// noRoomFS lets files be made and synced as a real disk does that is full: only what is written fails.
type noRoomFS struct {
	vfs.FS
	full    atomic.Bool
	refused atomic.Int64
}

func (f *noRoomFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := f.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return noRoomFile{file, f}, nil
}

func (f *noRoomFS) Unwrap() vfs.FS { return f.FS }

type noRoomFile struct {
	vfs.File
	fs *noRoomFS
}

func (f noRoomFile) Write(b []byte) (int, error) {
	if f.fs.full.Load() {
		f.fs.refused.Add(1)
		return 0, &os.PathError{Op: "write", Err: syscall.ENOSPC}
	}
	return f.File.Write(b)
}

// A file whose writes have failed can be synced; that does not mean that there is room.
func TestFullDiskOnWhichFilesCanBeSynced(t *testing.T) {
	fs := &noRoomFS{FS: vfs.NewMem()}
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20, RetryDelay: 5 * time.Millisecond, CloseTimeout: time.Minute})
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	fs.full.Store(true)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, d.asyncFlush())
	time.Sleep(700 * time.Millisecond)
	require.Greater(t, fs.refused.Load(), int64(2), "it tries again")
	require.Less(t, fs.refused.Load(), int64(40), "after pauses")
	require.True(t, IsFull(d.Health()))

	require.NoError(t, ts.Close())
	began := time.Now()
	require.True(t, IsFull(d.Close()))
	require.Less(t, time.Since(began), 10*time.Second, "a disk that is known to be full is not waited for")
}

func roomDir(t *testing.T) (*Dir, *noRoomFS, statestore.TaskStores) {
	fs := &noRoomFS{FS: vfs.Default}
	opts := smallOptions()
	opts.FS, opts.RetryDelay = fs, 5*time.Millisecond
	d, err := OpenDir(t.TempDir(), "app", opts)
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	return d, fs, ts
}

func TestRoom(t *testing.T) {
	d, fs, ts := roomDir(t)
	told := make(chan error, 100)
	d.Watch(func(err error) {
		select {
		case told <- err:
		default:
		}
	})
	free, total, err := d.Room()
	require.NoError(t, err)
	require.Positive(t, free)
	require.GreaterOrEqual(t, total, free)

	fs.full.Store(true)
	_, _, err = d.Room()
	require.True(t, d.Full(err))
	require.NoFileExists(t, d.Path+"/"+probeName)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, d.DB.asyncFlush())
	require.True(t, d.Full(<-told))
	require.Eventually(t, func() bool { return d.Full(d.Health()) }, 5*time.Second, time.Millisecond)

	fs.full.Store(false)
	require.NoError(t, d.Ready(t.Context()))
	require.NoError(t, d.Health())
	require.EqualValues(t, 1, ts.Position(0))
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

// What waits for room for ever does not do so when the application ends. What is left of the database stays until the end of the process, so the
// test has one of its own.
func TestGiveUp(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	d, fs, ts := roomDir(t)
	fs.full.Store(true)
	done := make(chan error, 1)
	go func() {
		for i := int64(0); ; i++ {
			if err := ts.Apply(bigBatch(i)); err != nil {
				done <- err
				return
			}
		}
	}()
	require.Eventually(t, func() bool { return d.Full(d.Health()) }, 10*time.Second, time.Millisecond)
	select {
	case err := <-done:
		require.Fail(t, "it does not block", "%v", err)
	case <-time.After(300 * time.Millisecond):
	}
	d.GiveUp()
	var broken *BrokenError
	require.ErrorAs(t, <-done, &broken)
	require.True(t, d.Full(broken))
	require.NoError(t, ts.Close())
	require.True(t, d.Full(d.Close()))
}

// Nobody is told of the flush of a database that is not there any more.
func TestReadyAfterADatabaseThatBroke(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	d, fs, ts := roomDir(t)
	ready := func() { // as soon as nothing changes a file any more
		require.Eventually(t, func() bool { return d.Ready(t.Context()) == nil }, 10*time.Second, time.Millisecond)
	}
	fs.full.Store(true)
	require.NoError(t, ts.Apply(bigBatch(1)))
	over, end := context.WithCancel(t.Context())
	end()
	require.ErrorIs(t, d.Ready(over), context.Canceled)
	require.NoError(t, ts.Close())
	d.GiveUp()
	fs.full.Store(false)
	ready()
	require.NoError(t, d.Health())
	require.NoError(t, d.Ready(t.Context()))

	for range maxReopens - 1 {
		d.db().health.breakDown(syscall.ENOSPC)
		ready()
	}
	d.db().health.breakDown(syscall.ENOSPC)
	err := d.Ready(t.Context())
	require.ErrorContains(t, err, "restart")
	require.False(t, d.Full(err), "no room helps any more: nobody must wait for some")
	require.Error(t, d.Close())
}

type silentFS struct{ vfs.FS }

func (silentFS) GetDiskUsage(string) (vfs.DiskUsage, error) { return vfs.DiskUsage{}, nil }

// Some file systems in user space answer with zeros.
func TestAFileSystemThatDoesNotSayHowLargeItIs(t *testing.T) {
	opts := smallOptions()
	opts.FS = silentFS{vfs.Default}
	d, err := OpenDir(t.TempDir(), "app", opts)
	require.NoError(t, err)
	free, total, err := d.Room()
	require.NoError(t, err)
	require.Equal(t, []int64{-1, -1}, []int64{free, total})
	require.NoError(t, d.Close())
}

func TestRemedies(t *testing.T) {
	for err, remedy := range map[error]string{
		syscall.EROFS: "mount", syscall.EIO: "replace", syscall.EMFILE: "ulimit", syscall.ENFILE: "ulimit", &BrokenError{Err: errors.New("x")}: "restart",
	} {
		require.Contains(t, Remedy(&os.PathError{Err: err}), remedy)
	}
	require.Empty(t, Remedy(errors.New("something else")))
	require.True(t, IsFull(&os.PathError{Err: syscall.EDQUOT}))
	require.False(t, IsFull(&os.PathError{Err: syscall.EIO}))
	require.False(t, IsFull(nil))
}
