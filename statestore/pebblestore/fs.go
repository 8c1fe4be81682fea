package pebblestore

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const maxDelays = 50 // the longest wait of a delayFS, in units of its shortest

// delayFS makes the creation of a file wait after a disk error. Pebble tries a failed flush again at once and for ever, each time by
// creating a file; on a full disk that burns a processor and fills the log.
type delayFS struct {
	vfs.FS
	shortest time.Duration
	closing  chan struct{}

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
	f, err := d.FS.Create(name, c)
	if err != nil {
		d.failed()
		return nil, err
	}
	return delayFile{File: f, fs: d}, nil
}

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
	n, err := f.File.Write(b)
	if err != nil {
		f.fs.failed()
	}
	return n, err
}

func (f delayFile) Sync() error { return f.sync(f.File.Sync()) }

func (f delayFile) SyncData() error { return f.sync(f.File.SyncData()) }

func (f delayFile) sync(err error) error {
	if err != nil {
		f.fs.failed()
	} else {
		f.fs.synced()
	}
	return err
}
