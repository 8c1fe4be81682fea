package pebblestore

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const maxDelays = 50 // the longest wait of a delayFS, in units of its shortest

// errBroken is what every write gets once the database is broken.
var errBroken = errors.New("pebblestore: no writes any more")

// delayFS makes the creation of a file wait after a disk error. Pebble tries a failed flush again at once and for ever, each time by
// creating a file; on a full disk that burns a processor and fills the log.
//
// After a fatal error it refuses all writes: Pebble expects not to live on, and what it has in memory may no longer be what is on disk. A
// further version of the database must not come of it, nor a compaction, which would panic over the difference.
type delayFS struct {
	vfs.FS
	shortest time.Duration
	closing  chan struct{}
	broken   atomic.Bool

	mu    sync.Mutex
	delay time.Duration // of the next Create, 0 while all is well
}

// newDelayFS returns the file system for Pebble. Errors of writes are seen through the files it creates.
func newDelayFS(inner vfs.FS, shortest time.Duration) *delayFS {
	return &delayFS{FS: inner, shortest: shortest, closing: make(chan struct{})}
}

// Unwrap is asked for by Pebble when it looks for the real file system.
func (d *delayFS) Unwrap() vfs.FS { return d.FS }

func (d *delayFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.wait()
	if d.broken.Load() {
		d.failed()
		return nil, errBroken
	}
	f, err := d.FS.Create(name, c)
	if err != nil {
		d.failed()
		return nil, err
	}
	return delayFile{File: f, fs: d}, nil
}

// breakDown refuses all writes from here on.
func (d *delayFS) breakDown() { d.broken.Store(true) }

func (d *delayFS) wait() {
	d.mu.Lock()
	delay := d.delay
	d.mu.Unlock()
	if delay == 0 {
		return
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
	case <-d.closing:
	}
}

func (d *delayFS) failed() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = min(max(2*d.delay, d.shortest), maxDelays*d.shortest)
}

// synced ends the delay: a file that could be synced has found room.
func (d *delayFS) synced() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.delay = 0
}

// close ends all waits, so that the database can close.
func (d *delayFS) close() { close(d.closing) }

type delayFile struct {
	vfs.File
	fs *delayFS
}

func (f delayFile) Write(b []byte) (int, error) {
	if f.fs.broken.Load() {
		return 0, errBroken
	}
	n, err := f.File.Write(b)
	if err != nil {
		f.fs.failed()
	}
	return n, err
}

func (f delayFile) Sync() error { return f.sync(f.File.Sync) }

func (f delayFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f delayFile) sync(sync func() error) error {
	if f.fs.broken.Load() {
		return errBroken
	}
	err := sync()
	if err != nil {
		f.fs.failed()
	} else {
		f.fs.synced()
	}
	return err
}
