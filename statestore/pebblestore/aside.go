package pebblestore

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

const (
	asideInfix  = ".corrupt-" // between the name of the database and the time at which it was put aside
	asideFormat = "20060102T150405.000Z"
	// keptAside is how many databases stay aside: the one that may show what happened, and the one before. Each can be as large as the state.
	keptAside = 2
	// maxCauseBytes bounds what is read of the note of a corruption.
	maxCauseBytes = 4 << 10
)

// aside is where databases go that are damaged.
type aside struct {
	fs   vfs.FS
	path string // of the directory that holds the database
	now  func() time.Time
	log  *zap.Logger
}

// put renames the database, so that somebody can look at it, durably: a new one in its place must never be one with what is left of it. It
// says so in one line. Of those that were put aside before all but the newest go.
func (a aside) put(cause error) (to string, err error) {
	from := a.fs.PathJoin(a.path, dbName)
	to, err = a.free(from + asideInfix + a.now().UTC().Format(asideFormat))
	if err == nil {
		err = a.fs.Rename(from, to)
	}
	if err == nil {
		err = syncDir(a.fs, a.path)
	}
	if err != nil {
		return "", errors.Join(cause, err)
	}
	kept, pruneErr := a.prune(a.fs.PathBase(to))
	a.log.Error("state database put aside, state is restored from the changelogs",
		zap.String("dir", from), zap.String("aside", to), zap.Int("kept", kept), zap.Error(errors.Join(cause, pruneErr)))
	return to, nil
}

// free returns a name that nothing has yet.
func (a aside) free(name string) (string, error) {
	files, err := a.fs.List(a.path)
	if err != nil {
		return "", err
	}
	out := name
	for n := 2; slices.Contains(files, a.fs.PathBase(out)); n++ {
		out = fmt.Sprintf("%s-%d", name, n)
	}
	return out, nil
}

// undo takes a database back: another one in its place would do no better.
func (a aside) undo(to string) error {
	from := a.fs.PathJoin(a.path, dbName)
	if err := a.fs.RemoveAll(from); err != nil {
		return err
	}
	if err := a.fs.Rename(to, from); err != nil {
		return err
	}
	a.log.Error("state database taken back, another one could not be made in its place", zap.String("dir", from))
	return syncDir(a.fs, a.path)
}

// list names what lies aside, the oldest first.
func (a aside) list() ([]string, error) {
	files, err := a.fs.List(a.path)
	if err != nil {
		return nil, err
	}
	files = slices.DeleteFunc(files, func(name string) bool { return !strings.HasPrefix(name, dbName+asideInfix) })
	slices.Sort(files)
	return files, nil
}

// prune removes all but the newest, and returns how many are left. The last one is the newest whatever the clock says.
func (a aside) prune(last string) (kept int, err error) {
	files, err := a.list()
	if err != nil {
		return 0, err
	}
	files = append(slices.DeleteFunc(files, func(name string) bool { return name == last }), last)
	for len(files) > keptAside {
		if err := a.fs.RemoveAll(a.fs.PathJoin(a.path, files[0])); err != nil {
			return len(files), err
		}
		files = files[1:]
	}
	return len(files), nil
}

// mark leaves a note in a database that is damaged, with the cause, for whoever opens it next. It is durable: the damage may show only in
// what nobody reads for a long time.
func mark(fs vfs.FS, db string, cause error) error {
	f, err := fs.Create(fs.PathJoin(db, corruptName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = f.Write([]byte(cause.Error()))
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), syncDir(fs, db)) // an empty note is one too
}

// marked returns why the database must not be opened again, nil if nothing speaks against it: damage that was noted, or tables without the
// marker that says which of them are the database's. Pebble would make a new one in the midst of them and say nothing.
func marked(fs vfs.FS, db string) error {
	files, err := fs.List(db)
	if err != nil {
		return nil //nolint:nilerr // there is none yet, or opening it says why not
	}
	if slices.Contains(files, corruptName) {
		return fmt.Errorf("it was found to be damaged: %s", cause(fs, fs.PathJoin(db, corruptName)))
	}
	table := slices.IndexFunc(files, func(name string) bool { return strings.HasSuffix(name, ".sst") })
	if desc, err := pebble.Peek(db, fs); err == nil && !desc.Exists && table >= 0 {
		return fmt.Errorf("the marker of its manifest is gone, and %s is not", files[table])
	}
	return nil
}

func cause(fs vfs.FS, path string) string {
	f, err := fs.Open(path)
	if err != nil {
		return err.Error()
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxCauseBytes))
	if err != nil {
		return err.Error()
	}
	return strings.ToValidUTF8(string(b), "?")
}
