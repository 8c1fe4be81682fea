package offsetstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/streams"
)

// File keeps the offsets of any number of groups in one file, which is written anew with each save: as a second file that is synced and takes
// the place of the first. So after a crash at any moment it is as it was before or after the save, never in between. A save costs two syncs,
// and time in proportion to the number of partitions in the file (10,000 are half a megabyte). It may be used concurrently, by several
// consumers of the process; a context ends the wait for others, not a sync that the disk does not answer.
type File struct {
	fs     vfs.FS
	path   string
	lock   io.Closer
	turn   turn
	rows   table
	closed bool
}

// DamagedError says that an offsets file is not what has been written. It is never taken for an empty one, as that would read everything
// again, or skip it.
type DamagedError struct {
	Path string
	Why  error
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("offsetstore: the offsets file %s is damaged: %v. Put a copy of it back; or move it away, and consumers begin where their NoOffset says", e.Path, e.Why)
}

func (e *DamagedError) Unwrap() error { return e.Why }

// OpenFile opens the offsets file, or makes it if there is none; its directory must be there. Beside it lie path.lock, which is held until
// Close and stays, and during a save path.new. Errors: a [*DamagedError]; the lock, if another process or another File of this one has it;
// what the operating system says.
func OpenFile(path string) (*File, error) {
	real, err := realPath(path)
	if err != nil {
		return nil, fmt.Errorf("offsetstore: open %s: %w", path, err)
	}
	return openFile(vfs.Default, real)
}

// realPath makes one name of all that a file has, as locks within a process are by name.
func realPath(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	switch real, err := filepath.EvalSymlinks(abs); {
	case err == nil:
		return real, nil
	case !errors.Is(err, os.ErrNotExist):
		return "", err
	}
	dir, err := filepath.EvalSymlinks(filepath.Dir(abs))
	return filepath.Join(dir, filepath.Base(abs)), err
}

func openFile(fs vfs.FS, path string) (*File, error) {
	lock, err := fs.Lock(path + ".lock")
	if err != nil {
		return nil, fmt.Errorf("offsetstore: lock %s.lock: %w. If another consumer has the file open, end it or give each a file of its own", path, err)
	}
	f := &File{fs: fs, path: path, lock: lock, turn: newTurn()}
	if err := f.begin(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return f, nil
}

// begin reads the file. A new one is written at once, so that a place where nothing can be written is found before records are read.
func (f *File) begin() error {
	switch text, err := f.read(); {
	case err == nil:
		if f.rows, err = decode(text); err != nil {
			return &DamagedError{f.path, err}
		}
		return nil
	case errors.Is(err, os.ErrNotExist):
		f.rows = table{}
		return f.write(f.rows)
	default:
		return fmt.Errorf("offsetstore: read %s: %w", f.path, err)
	}
}

func (f *File) read() ([]byte, error) {
	file, err := f.fs.Open(f.path)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(file)
	return text, errors.Join(err, file.Close())
}

// Load returns the offsets that are stored of the partitions, and lifts their fences.
func (f *File) Load(ctx context.Context, group string, parts []streams.TopicPartition) (map[streams.TopicPartition]int64, error) {
	if err := f.enter(ctx); err != nil {
		return nil, err
	}
	defer f.turn.give()
	return f.rows.load(group, parts), nil
}

// Save stores all of the offsets, durably. With an error, what was stored before stays; only where the error is that of the directory's sync, the
// last step, may a crash leave either. An older generation than the stored one is refused with [ErrFenced]. After an error the next save
// may succeed: each begins with a new file.
func (f *File) Save(ctx context.Context, group string, generation int32, offsets map[streams.TopicPartition]int64) error {
	if err := f.enter(ctx); err != nil {
		return err
	}
	defer f.turn.give()
	rows, err := f.rows.with(group, generation, offsets)
	if err != nil {
		return err
	}
	if err := f.write(rows); err != nil {
		return err
	}
	f.rows = rows
	return nil
}

func (f *File) enter(ctx context.Context) error {
	if err := f.turn.take(ctx); err != nil {
		return err
	}
	if f.closed {
		f.turn.give()
		return fmt.Errorf("offsetstore: %s: %w", f.path, os.ErrClosed)
	}
	return nil
}

// write puts a new file in the place of the one that is there. A file whose sync has failed is never used again: after such an error the
// operating system may take pages for written that are not.
func (f *File) write(rows table) error {
	next := f.path + ".new"
	err := f.fill(next, encode(rows))
	if err == nil {
		err = f.fs.Rename(next, f.path)
	}
	if err != nil {
		_ = f.fs.Remove(next) // it gives room back; the next save makes it anew in any case
		return fmt.Errorf("offsetstore: nothing is saved to %s: %w", f.path, err)
	}
	if err := f.syncDir(); err != nil {
		return fmt.Errorf("offsetstore: %s is written and may not outlive a crash of the machine: %w", f.path, err)
	}
	return nil
}

func (f *File) fill(name string, text []byte) error {
	file, err := f.fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err = file.Write(text); err == nil {
		err = file.Sync()
	}
	return errors.Join(err, file.Close())
}

// syncDir makes the rename durable.
func (f *File) syncDir() error {
	dir, err := f.fs.OpenDir(f.fs.PathDir(f.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// Close gives the file free for others, after what is under way. What is saved stays. It may be called again.
func (f *File) Close() error {
	_ = f.turn.take(context.Background())
	defer f.turn.give()
	if f.closed {
		return nil
	}
	f.closed = true
	return f.lock.Close()
}
