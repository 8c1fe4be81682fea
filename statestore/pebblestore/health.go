package pebblestore

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"go.uber.org/zap"
)

// BrokenError says that the database can no longer be used, for instance because its manifest could not be written. It holds on to its
// directory until the process ends.
type BrokenError struct {
	Dir string
	Err error
}

func (e *BrokenError) Error() string {
	return fmt.Sprintf("pebblestore: the database in %s cannot be used any more, restart the application: %v", e.Dir, e.Err)
}

func (e *BrokenError) Unwrap() error { return e.Err }

// CorruptError says that files of the database are damaged. What is not damaged can still be read and written. The next OpenDir puts the database
// aside, and its state is restored from the changelogs.
type CorruptError struct {
	Dir string
	Err error // names the file
}

func (e *CorruptError) Error() string {
	return fmt.Sprintf("pebblestore: the database in %s is damaged; it is put aside when it is opened next, and its state restored from the changelogs: %v", e.Dir, e.Err)
}

func (e *CorruptError) Unwrap() error { return e.Err }

// health keeps what Pebble says about itself. It is Pebble's logger as well: the default one ends the process on a fatal error.
type health struct {
	dir     string
	log     *zap.Logger
	l       Listener
	broken  atomic.Pointer[BrokenError]
	stop    chan struct{} // closed when broken
	opened  atomic.Bool
	early   chan error // what fails in the background before that
	corrupt atomic.Pointer[CorruptError]
	flushed func() // a flush has ended
	fatal   func() // nothing must be written any more

	mu      sync.Mutex
	diskErr error // of the last flush or compaction, nil after one that succeeded
}

// Infof drops what Pebble says about its daily work.
func (h *health) Infof(string, ...any) {}

func (h *health) Errorf(format string, args ...any) {
	h.log.Warn("pebble error", zap.String("err", fmt.Sprintf(format, args...)))
}

// Fatalf is called where Pebble would end the process. From here on the database refuses all work, and the file system all writes.
//
// After an error of the manifest Pebble's picture of its tables is wrong: whoever went on with it, a compaction for one, would panic on a
// goroutine of Pebble's, where nobody can recover. It holds the database's lock at this point, so it is stopped here for good, and the
// database's goroutines with it. Only the goroutine that opens the database can return, as it does so with the error.
func (h *health) Fatalf(format string, args ...any) {
	if len(args) == 1 {
		if _, ok := args[0].(error); ok {
			format = strings.NewReplacer("%s", "%w", "%v", "%w").Replace(format)
		}
	}
	cause := fmt.Errorf(format, args...)
	ofManifest := strings.HasPrefix(cause.Error(), "MANIFEST")
	if !ofManifest && isDamaged(cause) {
		h.corrupted(cause) // Pebble goes on with an error
		return
	}
	h.breakDown(cause)
	if ofManifest && !inOpen() {
		select {}
	}
}

// noteDamage tells of an error if it is one of damage. Pebble tells only of what it has found itself.
func (h *health) noteDamage(err error) {
	if isDamaged(err) {
		h.corrupted(err)
	}
}

// isDamaged recognizes what Pebble says of a file that is not as it was written.
func isDamaged(err error) bool {
	var format *formatError
	return errors.As(err, &format) || pebble.IsCorruptionError(err) || strings.Contains(err.Error(), "object size mismatch")
}

// breakDown ends all work on the database. The first cause is the one that everybody is told.
func (h *health) breakDown(cause error) {
	h.fatal()
	err := &BrokenError{Dir: h.dir, Err: cause}
	if !h.broken.CompareAndSwap(nil, err) {
		return
	}
	close(h.stop)
	h.log.Error("state database broken: restart the application", zap.String("dir", h.dir), zap.Error(cause))
	if h.l.Broken != nil {
		h.l.Broken(err)
	}
}

// guard runs f, which may block for ever in a database that breaks down, and returns when f does or the database is broken. A panic of
// Pebble's breaks it: its locks may be held.
func (h *health) guard(f func() error) error {
	if err := h.err(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				h.breakDown(panicked(p))
			}
		}()
		done <- f()
	}()
	select {
	case err := <-done:
		return err
	case <-h.stop:
		return h.err()
	}
}

// panicked makes an error of what Pebble has panicked with.
func panicked(v any) error {
	if err, ok := v.(error); ok {
		return fmt.Errorf("panic: %w\n%s", err, debug.Stack())
	}
	return fmt.Errorf("panic: %v\n%s", v, debug.Stack())
}

func (h *health) err() error {
	if e := h.broken.Load(); e != nil {
		return e
	}
	return nil
}

func (h *health) events() *pebble.EventListener {
	e := &pebble.EventListener{
		BackgroundError: h.diskError,
		DataCorruption:  func(i pebble.DataCorruptionInfo) { h.corrupted(fmt.Errorf("%s: %w", i.Path, i.Details)) },
		DiskSlow: func(i pebble.DiskSlowInfo) {
			h.log.Warn("disk slow", zap.String("path", i.Path), zap.Duration("taken", i.Duration))
			if h.l.DiskSlow != nil {
				h.l.DiskSlow(i.Path, i.Duration)
			}
		},
		FlushEnd: func(i pebble.FlushInfo) {
			if i.Err == nil {
				h.diskOK()
			}
			h.flushed()
		},
		CompactionEnd: func(i pebble.CompactionInfo) {
			if i.Err == nil {
				h.diskOK()
			}
		},
		WriteStallBegin: func(i pebble.WriteStallBeginInfo) { h.stalled(true, i.Reason) },
		WriteStallEnd:   func() { h.stalled(false, "") },
	}
	e.EnsureDefaults(h)
	return e
}

func (h *health) diskError(err error) {
	h.mu.Lock()
	first := h.diskErr == nil
	h.diskErr = err
	h.mu.Unlock()
	if first {
		h.log.Warn("state database cannot be written, trying again", zap.String("dir", h.dir), zap.Error(err))
	}
	if h.l.DiskError != nil {
		h.l.DiskError(err)
	}
	if !h.opened.Load() {
		select {
		case h.early <- err:
		default:
		}
	}
}

func (h *health) diskOK() {
	h.mu.Lock()
	failed := h.diskErr != nil
	h.diskErr = nil
	h.mu.Unlock()
	if !failed {
		return
	}
	h.log.Info("state database can be written again", zap.String("dir", h.dir))
	if h.l.DiskOK != nil {
		h.l.DiskOK()
	}
}

// corrupted tells of the first damage. It is for the listener to say so: whoever puts the database aside logs it.
func (h *health) corrupted(err error) {
	e := &CorruptError{Dir: h.dir, Err: err}
	if !h.corrupt.CompareAndSwap(nil, e) {
		return
	}
	if h.l.Corrupt != nil {
		h.l.Corrupt(e)
	}
}

func (h *health) stalled(on bool, reason string) {
	h.log.Debug("write stall", zap.Bool("stalled", on), zap.String("reason", reason))
	if h.l.WriteStall != nil {
		h.l.WriteStall(on)
	}
}
