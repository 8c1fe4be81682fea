package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"go.uber.org/zap"

	"github.com/understudy-streams/understudy/internal/fail"
)

// The files of a state directory.
const (
	lockName      = "lock"       // locked while a process uses the directory; holds its number
	processIDName = "process-id" // 32 hexadecimal digits
	dbName        = "db"
	corruptName   = "CORRUPT" // in the database's directory: a corrupt block has been found in it
)

// LockedError says that another process uses the state directory.
type LockedError struct {
	Dir string
	PID int // 0 if not known
}

func (e *LockedError) Error() string {
	who := "another process"
	if e.PID != 0 {
		who = fmt.Sprintf("process %d", e.PID)
	}
	return fmt.Sprintf("pebblestore: state directory %s is in use by %s: give each process a StateDir of its own, or end that one", e.Dir, who)
}

// DirError says that the state directory cannot be made or written.
type DirError struct {
	Dir   string
	Field string // of the configuration, that names the directory
	Err   error
}

func (e *DirError) Error() string {
	return fmt.Sprintf("pebblestore: state directory %s cannot be used, set Config.%s to one that can be written: %v", e.Dir, e.Field, e.Err)
}

func (e *DirError) Unwrap() error { return e.Err }

// Dir is the state directory of an application, <StateDir>/<application id>, locked for this process, with its database open.
type Dir struct {
	Path      string
	DB        *DB
	ProcessID [16]byte // random, survives restarts
	PutAside  string   // where a database went that was damaged, when the directory was opened; "" if none did

	lock     io.Closer
	opts     Options // of the database
	watcher  atomic.Pointer[func(error)]
	reopens  int        // of databases that broke down
	flushing chan error // the flush that Ready waits for
	unmarked atomic.Bool

	mu sync.Mutex // of DB, once the directory is open
}

// OpenDir locks the directory of an application below stateDir, making it if need be, and opens the database in it; opts.Dir is ignored,
// and opts.FS must be the operating system's file system or a wrapper of it.
// A database that is damaged is renamed to db.corrupt-<time> and a new one is made: its state comes back from the changelogs. The two newest of
// those are kept, and each can be as large as the state. Errors are a *LockedError, or a *DirError that names the field StateDir, or of the database.
func OpenDir(stateDir, applicationID string, opts Options) (*Dir, error) {
	opts = opts.withDefaults()
	if applicationID == "" || applicationID != filepath.Base(applicationID) || applicationID == "." || applicationID == ".." {
		return nil, fmt.Errorf("pebblestore: %q cannot be the name of a directory: choose another application id", applicationID)
	}
	path := filepath.Join(stateDir, applicationID)
	failed := func(err error) error { return &DirError{Dir: path, Field: "StateDir", Err: err} }
	if stateDir == "" {
		return nil, failed(errors.New("it is not set"))
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, failed(err)
	}
	lock, held, pid, err := lockFile(filepath.Join(path, lockName))
	if err != nil {
		return nil, failed(err)
	}
	if held {
		return nil, &LockedError{Dir: path, PID: pid}
	}
	fail.Point("dir.locked")
	d := &Dir{Path: path, lock: lock}
	if err := d.open(opts); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	fail.Point("dir.opened")
	warnIfTemporary(path, opts.Log)
	return d, nil
}

func (d *Dir) open(opts Options) (err error) {
	if d.ProcessID, err = processID(opts.FS, d.Path); err != nil {
		return &DirError{Dir: d.Path, Field: "StateDir", Err: err}
	}
	fail.Point("dir.id")
	opts.Dir = filepath.Join(d.Path, dbName)
	d.listen(&opts.Listener)
	d.opts = opts
	return d.openDB()
}

// listen adds the watcher of the directory to what the database tells.
func (d *Dir) listen(l *Listener) {
	also := func(f func(error)) func(error) {
		return func(err error) {
			d.tell(err)
			if f != nil {
				f(err)
			}
		}
	}
	corrupt := also(l.Corrupt)
	l.DiskError, l.Broken = also(l.DiskError), also(l.Broken)
	l.Corrupt = func(err error) {
		d.mark(err) // first, as whoever is told may end the process
		corrupt(err)
	}
}

// openDB opens the database. One that is damaged is put aside.
func (d *Dir) openDB() error {
	db, err := d.openOrReplace()
	if err != nil {
		return &DirError{Dir: d.Path, Field: "StateDir", Err: err}
	}
	d.mu.Lock()
	d.DB = db
	d.mu.Unlock()
	return nil
}

func (d *Dir) openOrReplace() (*DB, error) {
	damage := marked(d.opts.FS, d.opts.Dir)
	if damage == nil {
		db, err := Open(d.opts)
		if errors.Is(err, syscall.EIO) {
			db, err = Open(d.opts) // a disk may stumble, and a restore is long
		}
		if err == nil || !isDamage(err) {
			return db, err
		}
		damage = err
	}
	a := d.aside()
	to, err := a.put(damage)
	if err != nil {
		return nil, err
	}
	db, err := Open(d.opts)
	if err != nil {
		return nil, errors.Join(err, a.undo(to))
	}
	d.PutAside = to
	return db, nil
}

func (d *Dir) aside() aside {
	return aside{fs: d.opts.FS, path: d.Path, now: d.opts.Now, log: d.opts.Log}
}

// Aside names the databases that lie aside, the oldest first: at most two.
func (d *Dir) Aside() ([]string, error) { return d.aside().list() }

// Corruption returns a *CorruptError if damage has been found in the database since it was opened, nil if none has.
func (d *Dir) Corruption() error { return d.db().Corruption() }

// mark leaves a note of damage. If it cannot, Close tries again.
func (d *Dir) mark(damage error) { d.unmarked.Store(mark(d.opts.FS, d.opts.Dir, damage) != nil) }

// warnIfTemporary warns of a place that is emptied behind the application's back.
func warnIfTemporary(path string, log *zap.Logger) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return
	}
	rel, err := filepath.Rel(os.TempDir(), abs)
	if err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		log.Warn("the state directory is below the system's temporary directory, which may be emptied: set Config.StateDir",
			zap.String("dir", path))
	}
}

// Close closes the database, which flushes it, and unlocks the directory: also that of a database that is broken, unless the disk does not
// answer to what it was about to write.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	db := d.db() // Ready may still be at it
	err := db.Close()
	if err != nil && !db.isClosed() {
		return err // tasks are open
	}
	if damage := db.Corruption(); damage != nil && d.unmarked.Load() {
		err = errors.Join(err, mark(d.opts.FS, d.opts.Dir, damage))
	}
	if broken := db.health.err(); broken != nil && !db.fs.gate.isFree() {
		return broken // it may still change a file
	}
	err = errors.Join(err, d.lock.Close())
	fail.Point("dir.unlocked")
	d.lock = nil
	return err
}

func (d *DB) isClosed() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.closed
}
