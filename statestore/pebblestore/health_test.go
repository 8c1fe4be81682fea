package pebblestore

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/understudy-streams/understudy/statestore"
)

// What Pebble reports reaches the log and the listener; a listener without functions is fine.
func TestEvents(t *testing.T) {
	var got []string
	full := Listener{
		DiskError:  func(err error) { got = append(got, err.Error()) },
		DiskOK:     func() { got = append(got, "ok") },
		DiskSlow:   func(path string, taken time.Duration) { got = append(got, path+" "+taken.String()) },
		WriteStall: func(stalled bool) { got = append(got, map[bool]string{true: "stall", false: "no stall"}[stalled]) },
		Corrupt: func(err error) {
			var c *CorruptError
			require.ErrorAs(t, err, &c)
			got = append(got, c.Err.Error())
		},
		Broken: func(err error) { got = append(got, "broken") },
	}
	for _, l := range []Listener{full, {}} {
		core, logs := observer.New(zap.DebugLevel)
		h := &health{dir: "dir", log: zap.New(core), l: l, flushed: func() {}, fatal: func() {}, stop: make(chan struct{})}
		e := h.events()
		e.FlushEnd(pebble.FlushInfo{})
		e.BackgroundError(errors.New("one"))
		e.BackgroundError(errors.New("two"))
		e.FlushEnd(pebble.FlushInfo{Err: errors.New("three")})
		e.FlushEnd(pebble.FlushInfo{})
		e.DiskSlow(pebble.DiskSlowInfo{Path: "p", Duration: time.Second})
		e.WriteStallBegin(pebble.WriteStallBeginInfo{Reason: "memtables"})
		e.WriteStallEnd()
		e.DataCorruption(pebble.DataCorruptionInfo{Path: "table", Details: errors.New("bad block")})
		e.DataCorruption(pebble.DataCorruptionInfo{Path: "table", Details: errors.New("bad block")})
		h.Infof("daily %s", "work")
		h.Errorf("odd: %d", 7)
		h.Fatalf("%s", errors.New("object size mismatch")) // damage that was told already
		require.NoError(t, h.err())
		h.Fatalf("%d is no level", 9) // not of the manifest: it returns
		require.ErrorContains(t, h.err(), "9 is no level")
		h.Fatalf("later")
		require.ErrorContains(t, h.err(), "9 is no level", "the first one counts")
		require.ErrorContains(t, h.guard(func() error { panic("not called") }), "9 is no level")
		require.Equal(t, 1, logs.FilterMessageSnippet("trying again").Len())
		require.Equal(t, 1, logs.FilterMessageSnippet("can be written again").Len())
		require.Zero(t, logs.FilterMessageSnippet("damaged").Len(), "whoever puts the database aside says so")
		require.Equal(t, 1, logs.FilterField(zap.String("err", "odd: 7")).Len())
		require.Zero(t, logs.FilterMessageSnippet("daily").Len())
	}
	require.Equal(t, []string{"one", "two", "ok", "p 1s", "stall", "no stall", "table: bad block", "broken"}, got)
}

// A panic of Pebble's does not end the program.
func TestPanicBreaksTheDatabase(t *testing.T) {
	var told atomic.Int32
	h := &health{dir: "dir", log: zap.NewNop(), l: Listener{Broken: func(error) { told.Add(1) }}, fatal: func() {}, stop: make(chan struct{})}
	require.NoError(t, h.guard(func() error { return nil }))
	err := h.guard(func() error { panic("no such level") })
	var broken *BrokenError
	require.ErrorAs(t, err, &broken)
	require.ErrorContains(t, err, "panic: no such level")
	require.ErrorContains(t, err, "health_test.go", "where it was")
	require.Equal(t, err, h.guard(func() error { return nil }))
	require.Eventually(t, func() bool { return told.Load() == 1 }, time.Second, time.Millisecond)
}

// Somebody empties the state directory under a running application: the next flush says so, and the next start begins anew.
func TestDirectoryTakenAway(t *testing.T) {
	state := t.TempDir()
	opts := smallOptions()
	opts.CloseTimeout, opts.RetryDelay = 50*time.Millisecond, 5*time.Millisecond
	failed := make(chan error, 1000)
	opts.Listener.DiskError = func(err error) {
		select {
		case failed <- err:
		default:
		}
	}
	d, err := OpenDir(state, "app", opts)
	require.NoError(t, err)
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, os.RemoveAll(d.Path))
	require.NoError(t, d.DB.asyncFlush())
	require.ErrorIs(t, <-failed, os.ErrNotExist)
	require.ErrorIs(t, d.DB.Health(), os.ErrNotExist)
	require.NoError(t, ts.Close())
	require.ErrorContains(t, d.Close(), "will be restored")

	d, err = OpenDir(state, "app", opts)
	require.NoError(t, err)
	tasks, err := d.DB.Tasks()
	require.NoError(t, err)
	require.Empty(t, tasks)
	require.NoError(t, d.Close())
}

// An open that fails gives everything back.
func TestOpenThatFails(t *testing.T) {
	fs := &failingFS{FS: vfs.NewMem()}
	fs.full.Store(true)
	_, err := Open(Options{Dir: "db", FS: fs})
	require.True(t, vfs.IsNoSpaceError(err), "%v", err)
	fs.full.Store(false)
	always := func(string) error { return &vfsError{os.ErrInvalid} }
	fs.syncErr.Store(&always)
	_, err = Open(Options{Dir: "db2", FS: fs})
	require.ErrorIs(t, err, os.ErrInvalid)
	fs.syncErr.Store(nil)
	d, err := Open(Options{Dir: "db2", FS: fs})
	require.NoError(t, err)
	require.NoError(t, d.Close())
}
