package pebblestore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
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
	PutAside  string   // where a database went that could not be opened or was corrupt; "" if none did

	lock     io.Closer
	opts     Options // of the database
	watcher  atomic.Pointer[func(error)]
	reopens  int        // of databases that broke down
	flushing chan error // the flush that Ready waits for

	mu sync.Mutex // of DB, once the directory is open
}

// OpenDir locks the directory of an application below stateDir, making it if need be, and opens the database in it; opts.Dir is ignored,
// and opts.FS must be the operating system's file system or a wrapper of it. A database that is corrupt or does not open is renamed to db.corrupt-<time> and a new one is made: its state comes back from the
// changelogs. Errors are a *LockedError, or a *DirError that names the field StateDir, or of the database.
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
	if d.ProcessID, err = processID(filepath.Join(d.Path, processIDName)); err != nil {
		return &DirError{Dir: d.Path, Field: "StateDir", Err: err}
	}
	fail.Point("dir.id")
	opts.Dir = filepath.Join(d.Path, dbName)
	onCorrupt := opts.Listener.Corrupt
	opts.Listener.Corrupt = func(err error) {
		markCorrupt(opts.Dir)
		if onCorrupt != nil {
			onCorrupt(err)
		}
	}
	if _, err := os.Stat(filepath.Join(opts.Dir, corruptName)); err == nil {
		if err := d.putAside(opts, errors.New("a corrupt block was found in it")); err != nil {
			return err
		}
	}
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
	l.DiskError, l.Broken = also(l.DiskError), also(l.Broken)
}

// openDB opens the database. One that does not open is put aside.
func (d *Dir) openDB() error {
	db, err := Open(d.opts)
	if err != nil && !isDirTrouble(err) {
		if err := d.putAside(d.opts, err); err != nil {
			return err
		}
		db, err = Open(d.opts)
	}
	if err != nil {
		return &DirError{Dir: d.Path, Field: "StateDir", Err: err}
	}
	d.mu.Lock()
	d.DB = db
	d.mu.Unlock()
	return nil
}

// isDirTrouble tells what another database in the same place would not cure.
func isDirTrouble(err error) bool {
	return errors.Is(err, fs.ErrPermission) || IsFull(err) || errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.EROFS)
}

// putAside renames the database's directory, so that somebody can look at it.
func (d *Dir) putAside(opts Options, cause error) error {
	d.PutAside = opts.Dir + ".corrupt-" + opts.Now().UTC().Format("20060102T150405.000Z")
	if err := os.Rename(opts.Dir, d.PutAside); err != nil {
		return &DirError{Dir: d.Path, Field: "StateDir", Err: errors.Join(cause, err)}
	}
	opts.Log.Error("state database put aside, state is restored from the changelogs",
		zap.String("dir", opts.Dir), zap.String("aside", d.PutAside), zap.Error(cause))
	return nil
}

// markCorrupt leaves a note for the next start. If that fails the corruption will be found again.
func markCorrupt(dbDir string) {
	if f, err := os.Create(filepath.Join(dbDir, corruptName)); err == nil {
		_ = f.Close()
	}
}

// processID reads the id of this process, or makes one.
func processID(path string) (id [16]byte, err error) {
	b, err := os.ReadFile(path)
	if err == nil {
		if id, ok := parseProcessID(b); ok {
			return id, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return id, err
	}
	if _, err := rand.Read(id[:]); err != nil {
		return id, err
	}
	return id, writeFile(path, []byte(hex.EncodeToString(id[:])+"\n"))
}

func parseProcessID(b []byte) (id [16]byte, ok bool) {
	raw, err := hex.DecodeString(strings.TrimSpace(string(b)))
	if err != nil || len(raw) != len(id) {
		return id, false
	}
	copy(id[:], raw)
	return id, true
}

// writeFile makes a file that is there as a whole or not at all.
func writeFile(path string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

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

// Close closes the database, which flushes it, and unlocks the directory. A directory whose database is broken stays locked until the
// process ends.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	err := d.DB.Close()
	if err != nil && !d.DB.isClosed() {
		return err // tasks are open
	}
	if broken := d.DB.health.err(); broken != nil {
		return broken // Pebble's goroutines still have the files open
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
