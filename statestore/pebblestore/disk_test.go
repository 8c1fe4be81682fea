package pebblestore

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// failingFS refuses to write while told so.
type failingFS struct {
	vfs.FS
	full    atomic.Bool                        // ENOSPC on everything
	syncErr atomic.Pointer[func(string) error] // of the sync of a file with this name
	creates atomic.Int64                       // that were refused
}

func (f *failingFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if f.full.Load() {
		f.creates.Add(1)
		return nil, &vfsError{syscall.ENOSPC}
	}
	file, err := f.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	return &failingFile{File: file, fs: f, name: name}, nil
}

func (f *failingFS) Unwrap() vfs.FS { return f.FS }

type vfsError struct{ err error }

func (e *vfsError) Error() string { return "write: " + e.err.Error() }
func (e *vfsError) Unwrap() error { return e.err }

type failingFile struct {
	vfs.File
	fs   *failingFS
	name string
}

func (f *failingFile) Write(b []byte) (int, error) {
	if f.fs.full.Load() {
		return 0, &vfsError{syscall.ENOSPC}
	}
	return f.File.Write(b)
}

func (f *failingFile) Sync() error {
	if fail := f.fs.syncErr.Load(); fail != nil {
		if err := (*fail)(f.name); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func bigBatch(position int64) *statestore.Batch {
	b := &statestore.Batch{Stores: []statestore.StoreBatch{{Position: position}}}
	for i := range 100 {
		key := fmt.Appendf(nil, "%d-%d", position, i)
		b.Stores[0].Changes = append(b.Stores[0].Changes, statestore.Change{Key: key, Value: make([]byte, 1000)})
	}
	return b
}

// A full disk blocks the writers, says so, burns no processor, and all goes on by itself when there is room.
func TestFullDisk(t *testing.T) {
	fs := &failingFS{FS: vfs.NewMem()}
	var mu sync.Mutex
	var events []string
	event := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		if len(events) == 0 || events[len(events)-1] != s {
			events = append(events, s)
		}
	}
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20, RetryDelay: 5 * time.Millisecond, Listener: Listener{
		DiskError: func(error) { event("error") },
		DiskOK:    func() { event("ok") },
	}})
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.NoError(t, d.Health())

	fs.full.Store(true)
	w := NewWriters(1)
	overrun, done := make(chan error, 1), make(chan error, 1)
	var writes atomic.Int64
	w.Do(oneTask, 300*time.Millisecond, func() error {
		for i := range 100 { // 10 MB, four memtables of one
			if err := ts.Apply(bigBatch(int64(i))); err != nil {
				return err
			}
			writes.Add(1)
		}
		return nil
	}, func(err error) {
		var o *OverrunError
		if errors.As(err, &o) {
			overrun <- err
		} else {
			done <- err
		}
	})
	require.Error(t, <-overrun)
	require.Less(t, writes.Load(), int64(100), "it blocks")
	require.Error(t, d.Health())
	require.True(t, vfs.IsNoSpaceError(d.Health()), "%v", d.Health())
	require.Less(t, fs.creates.Load(), int64(60), "retries wait")

	fs.full.Store(false)
	require.NoError(t, <-done)
	w.Close()
	require.NoError(t, d.Flush())
	require.NoError(t, d.Health())
	require.EqualValues(t, 99, ts.Position(0))
	mu.Lock()
	require.Equal(t, []string{"error", "ok"}, events)
	mu.Unlock()
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

// The end of the process does not wait for a full disk.
func TestCloseOnAFullDisk(t *testing.T) {
	fs := &failingFS{FS: vfs.NewMem()}
	opts := Options{Dir: "db", FS: fs, Memory: 16 << 20, CloseTimeout: 50 * time.Millisecond, RetryDelay: time.Hour}
	d, err := Open(opts)
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, d.Flush())
	require.NoError(t, ts.Apply(bigBatch(2)))
	fs.full.Store(true)
	require.NoError(t, ts.Close())
	require.ErrorContains(t, d.Close(), "did not end within 50ms")
	require.ErrorIs(t, d.Flush(), ErrClosed)

	fs.full.Store(false)
	d, err = Open(opts)
	require.NoError(t, err)
	ts, err = d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.EqualValues(t, 1, ts.Position(0), "what was not flushed is restored from the changelog")
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

// brokenEnv makes the test binary a process of its own for one test.
const brokenEnv = "PEBBLESTORE_TEST_BROKEN"

// inProcessOfItsOwn reports whether this is a process for one test. If not, it runs the test in one.
func inProcessOfItsOwn(t *testing.T) bool {
	if os.Getenv(brokenEnv) != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v", "-test.timeout=60s")
	cmd.Env = append(os.Environ(), brokenEnv+"=1")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "--- PASS: "+t.Name())
	return false
}

// A manifest that cannot be written ends a process that uses Pebble as it comes. Ours lives, refuses further work, and says what to do. What
// is left of the database stays until the end of the process, so the test has one of its own.
func TestBrokenManifest(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	mem := vfs.NewMem()
	fs := &failingFS{FS: mem}
	broken := make(chan error, 1)
	opts := Options{Dir: "db", FS: fs, Memory: 16 << 20, CloseTimeout: time.Second, Listener: Listener{Broken: func(err error) { broken <- err }}}
	d, err := Open(opts)
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	stale := func(d *DB, topic byte) (statestore.TaskStores, error) {
		return d.Open(taskN(9), []statestore.Spec{{Name: "rows", Ordered: true, Changelog: [16]byte{topic}}})
	}
	other, err := stale(d, 1)
	require.NoError(t, err)
	require.NoError(t, other.Apply(bigBatch(1)))
	require.NoError(t, other.Close())
	for i := range 7 { // so that there is something to compact all the time
		require.NoError(t, ts.Apply(bigBatch(1)))
		require.NoError(t, ts.Apply(bigBatch(int64(i))))
		require.NoError(t, d.Flush())
	}
	fail := func(name string) error {
		if strings.Contains(name, "MANIFEST") {
			return &vfsError{syscall.EIO}
		}
		return nil
	}
	require.NoError(t, ts.Apply(bigBatch(2)))
	fs.syncErr.Store(&fail)
	var brokenErr *BrokenError
	_, err = stale(d, 2)
	require.ErrorAs(t, err, &brokenErr, "who waits is told: the wipe of a stale store is flushed before it is open")
	require.ErrorAs(t, <-broken, &brokenErr)
	require.ErrorIs(t, brokenErr, syscall.EIO)
	for name, err := range map[string]error{
		"health": d.Health(),
		"apply":  ts.Apply(bigBatch(3)),
		"ingest": ts.Ingest(bigBatch(3)),
		"wipe":   ts.Wipe(0),
		"drop":   ts.Drop(),
		"flush":  d.Flush(),
		"due":    d.FlushIfDue(),
		"scan":   ts.Reader(0).Scan(nil, nil, false).Close(),
	} {
		require.ErrorAs(t, err, &brokenErr, name)
	}
	_, _, err = ts.Reader(0).Get([]byte("k"))
	require.ErrorAs(t, err, &brokenErr)
	require.ErrorContains(t, err, "restart the application")
	fs.syncErr.Store(nil)
	require.NoError(t, ts.Close())
	require.ErrorAs(t, d.Close(), &brokenErr)
	d, err = Open(opts) // in the same process: what is left of the old one changes nothing any more
	require.NoError(t, err)
	ts, err = d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	require.Contains(t, []int64{2, 6}, ts.Position(0), "the last edit may be in the manifest, though its sync failed")
	other, err = stale(d, 2)
	require.NoError(t, err)
	require.Equal(t, statestore.NoPosition, other.Position(0), "wiped then or now")
	require.NoError(t, other.Close())
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}
