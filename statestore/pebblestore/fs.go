package pebblestore

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

const maxDelays = 50 // the longest wait of a delayFS, in units of its shortest

// errBroken is what every write gets once the database is broken.
var errBroken = errors.New("pebblestore: no writes any more")

// delayFS stands between Pebble and a disk that fails.
//
// It makes the creation of a file wait after a disk error. Pebble tries a failed flush again at once and for ever, each time by creating
// a file; on a full disk that burns a processor and fills the log.
//
// Where Pebble does not try again but gives up for good, which is with its manifest, it does so in its place for as long as there is no room.
//
// After a fatal error it refuses all writes: Pebble expects not to live on, and what it has in memory may no longer be what is on disk. A
// further version of the database must not come of it, nor a compaction, which would panic over the difference.
type delayFS struct {
	vfs.FS
	shortest time.Duration
	closing  chan struct{}
	gate     gate        // closed once the database is broken
	running  atomic.Bool // open has succeeded: until then every error is its

	full  func(error) // an operation waits for room
	fatal func(error) // an error that Pebble would panic over

	mu    sync.Mutex
	delay time.Duration // of the next Create, 0 while all is well
}

// newDelayFS returns the file system for Pebble. Errors of writes are seen through the files it creates.
func newDelayFS(inner vfs.FS, shortest time.Duration) *delayFS {
	return &delayFS{FS: inner, shortest: shortest, closing: make(chan struct{}), full: func(error) {}, fatal: func(error) {}}
}

// Unwrap is asked for by Pebble when it looks for the real file system.
func (d *delayFS) Unwrap() vfs.FS { return d.FS }

func (d *delayFS) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	d.wait()
	base := d.PathBase(name)
	if strings.HasPrefix(base, markerPrefix) {
		// A marker names a file, which must be in the directory before it: Pebble syncs the two together.
		if err := syncDir(d.FS, d.PathDir(name)); err != nil {
			d.failed()
			return nil, err
		}
	}
	var f vfs.File
	vital := isVital(base)
	err := d.insist(vital, func() error {
		return d.change(func() (err error) {
			f, err = d.FS.Create(name, c)
			return err
		})
	})
	if err != nil {
		d.failed()
		return nil, err
	}
	return &delayFile{File: f, fs: d, vital: vital}, nil
}

// change makes a change, unless the database is broken.
func (d *delayFS) change(f func() error) error {
	if !d.gate.enter() {
		return errBroken
	}
	defer d.gate.leave()
	return f()
}

// Remove removes a file.
func (d *delayFS) Remove(name string) error {
	return d.change(func() error { return d.FS.Remove(name) })
}

// Rename renames a file.
func (d *delayFS) Rename(from, to string) error {
	return d.change(func() error { return d.FS.Rename(from, to) })
}

// Link makes another name for a file.
func (d *delayFS) Link(from, to string) error {
	return d.change(func() error { return d.FS.Link(from, to) })
}

// MkdirAll makes a directory.
func (d *delayFS) MkdirAll(name string, perm os.FileMode) error {
	return d.change(func() error { return d.FS.MkdirAll(name, perm) })
}

// Lock locks the directory until the database is closed, or has broken down.
func (d *delayFS) Lock(name string) (io.Closer, error) {
	lock, err := d.FS.Lock(name)
	if err != nil {
		return nil, &lockError{err}
	}
	return d.gate.locked(lock), nil
}

// OpenDir returns a directory whose sync breaks the database when it fails, instead of Pebble panicking over it: what the disk holds after
// that is not known.
func (d *delayFS) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return delayDir{File: f, fs: d}, nil
}

const markerPrefix = "marker."

// isVital says whether Pebble gives up for good when the file cannot be written.
func isVital(base string) bool {
	return strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, markerPrefix)
}

// insist does f again, for a vital file of a running database, for as long as there is no room.
func (d *delayFS) insist(vital bool, f func() error) error {
	for {
		err := f()
		if err == nil || !vital || !d.running.Load() || !isShortage(err) {
			return err
		}
		d.failed()
		d.full(err)
		if !d.wait() || d.gate.isShut() {
			return err
		}
	}
}

// breakDown refuses all writes from here on.
func (d *delayFS) breakDown() { d.gate.close() }

// wait waits after a failure, and reports false when the database is closing.
func (d *delayFS) wait() bool {
	if d.gate.isShut() {
		time.Sleep(maxDelays * d.shortest) // a broken database cannot be closed: what it has tries again until the process ends
	}
	d.mu.Lock()
	delay := d.delay
	d.mu.Unlock()
	if delay == 0 {
		return true
	}
	t := time.NewTimer(delay)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.closing:
		return false
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
	fs    *delayFS
	vital bool
	short atomic.Bool // a write has failed: what there is of it can be synced all the same
}

func (f *delayFile) Write(b []byte) (n int, err error) {
	err = f.fs.insist(f.vital, func() error {
		return f.fs.change(func() error {
			m, err := f.File.Write(b[n:])
			n += m
			return err
		})
	})
	if err != nil {
		f.short.Store(true)
		f.fs.failed()
	}
	return n, err
}

func (f *delayFile) Sync() error { return f.sync(f.File.Sync) }

func (f *delayFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *delayFile) sync(sync func() error) error {
	err := f.fs.change(sync)
	switch {
	case err != nil:
		f.fs.failed()
	case !f.short.Load():
		f.fs.synced()
	}
	return err
}

type delayDir struct {
	vfs.File
	fs *delayFS
}

func (f delayDir) Sync() error {
	err := f.fs.change(f.File.Sync)
	if err != nil && !inOpen() {
		f.fs.fatal(err)
		return nil // whoever waits is told why the database is broken
	}
	return err
}

// syncDir makes durable which files a directory has.
func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
