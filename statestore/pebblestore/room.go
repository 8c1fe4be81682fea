package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/statestore"
)

var _ statestore.Backend = (*Dir)(nil)

// IsFull reports whether an error is for want of room on the disk or in its quota.
func IsFull(err error) bool { return vfs.IsNoSpaceError(err) || errors.Is(err, syscall.EDQUOT) }

// Remedy says what helps against an error of the disk that does not pass by itself; "" where nothing is known.
func Remedy(err error) string {
	var broken *BrokenError
	switch {
	case errors.Is(err, syscall.EROFS):
		return "the file system is read-only: mount it for writing, or set Config.StateDir to another one"
	case errors.Is(err, syscall.EIO):
		return "the disk is failing: replace it, or set Config.StateDir to another one; the state is restored from the changelogs"
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return "raise the limit of open files (ulimit -n)"
	case errors.As(err, &broken):
		return "restart the application"
	}
	return ""
}

const (
	probeName  = "probe"
	probeBytes = 256 << 10
)

// Free says how many bytes are free for this process on the disk of the directory, and how many there are; -1 where that cannot be told.
func (d *Dir) Free() (free, total int64) {
	u, err := d.opts.FS.GetDiskUsage(d.Path)
	if err != nil || u.TotalBytes == 0 {
		return -1, -1
	}
	return int64(u.AvailBytes), int64(u.TotalBytes)
}

// Room says the same as Free, after it has written a small file: a quota is not seen otherwise. The error is why that failed.
func (d *Dir) Room() (free, total int64, err error) {
	free, total = d.Free()
	path := filepath.Join(d.Path, probeName)
	f, err := d.opts.FS.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return free, total, err
	}
	_, err = f.Write(make([]byte, probeBytes))
	if err == nil {
		err = f.Sync()
	}
	return free, total, errors.Join(err, f.Close(), d.opts.FS.Remove(path))
}

// Full is IsFull.
func (*Dir) Full(err error) bool { return IsFull(err) }

// Health is that of the database.
func (d *Dir) Health() error { return d.db().Health() }

// Watch has f told of a flush or compaction that failed, each time it does, and of a database that broke down. It is called with Pebble's locks
// held: it must not block or call the directory. Nil ends it.
func (d *Dir) Watch(f func(error)) { d.watcher.Store(&f) }

func (d *Dir) tell(err error) {
	if f := d.watcher.Load(); f != nil && *f != nil {
		(*f)(err)
	}
}

const (
	readyWait  = 10 * time.Second // for the flush that shows that there is room; the next try comes after Pebble's longest pause
	maxReopens = 3                // what a broken database holds stays until the process ends
)

// errStillFull is the answer of Ready while the flush does not end.
var errStillFull = fmt.Errorf("what waits to be written was not written within %v: %w", readyWait, syscall.ENOSPC)

// Ready flushes, and so finds out whether the database can be written again. A database that broke down is opened again, from what is on the
// disk: an older, consistent state. No task may be open. Calls must not overlap. The end of ctx ends the wait.
func (d *Dir) Ready(ctx context.Context) error {
	db := d.db()
	if db.health.err() == nil {
		return d.flushed(ctx, db)
	}
	if d.reopens >= maxReopens { // which no room on the disk changes
		return fmt.Errorf("it has been opened again %d times already: %v", maxReopens, db.health.err()) //nolint:errorlint // see above
	}
	if !db.fs.gate.isFree() {
		return db.health.err()
	}
	d.reopens++
	d.flushing = nil // it was the broken one's
	return d.openDB()
}

// flushed waits for a flush for some time. One that is still under way from the last time is waited for instead of another: each takes a
// memtable of its own.
func (d *Dir) flushed(ctx context.Context, db *DB) error {
	if d.flushing == nil {
		d.flushing = make(chan error, 1)
		go func(done chan<- error) { done <- db.Flush() }(d.flushing)
	}
	limit := time.NewTimer(readyWait)
	defer limit.Stop()
	select {
	case err := <-d.flushing:
		d.flushing = nil
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return errStillFull
	}
}

func (d *Dir) db() *DB {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.DB
}

// GiveUp ends all calls that wait for the disk with a *BrokenError, and every later one. The directory stays locked until the process ends.
func (d *Dir) GiveUp() {
	db := d.db()
	db.health.breakDown(errors.Join(errGivenUp, db.Health()))
}

var errGivenUp = errors.New("given up, as the application has ended")

// Open, Tasks, Drop, DiskUsage, Flush and FlushIfDue are those of the database that is open now.

// Open opens the stores of a task.
func (d *Dir) Open(id statestore.TaskID, stores []statestore.Spec) (statestore.TaskStores, error) {
	return d.db().Open(id, stores)
}

// Tasks lists the tasks that have rows or positions.
func (d *Dir) Tasks() ([]statestore.StoredTask, error) { return d.db().Tasks() }

// Drop deletes everything of a task that is not open.
func (d *Dir) Drop(id statestore.TaskID) error { return d.db().Drop(id) }

// DiskUsage estimates how many bytes a task takes on disk.
func (d *Dir) DiskUsage(id statestore.TaskID) (int64, error) { return d.db().DiskUsage(id) }

// Flush makes everything applied so far durable.
func (d *Dir) Flush() error { return d.db().Flush() }

// FlushIfDue begins a flush if one is due by age.
func (d *Dir) FlushIfDue() error { return d.db().FlushIfDue() }
