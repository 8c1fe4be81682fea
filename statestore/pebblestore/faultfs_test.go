package pebblestore

import (
	"fmt"
	"os"
	"path"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// A site is a kind of operation on a class of files at a time.
type site struct{ kind, class, phase string }

func (s site) String() string { return s.kind + " " + s.class + " " + s.phase }

var opKinds = map[errorfs.OpKind]string{
	errorfs.OpCreate: "create", errorfs.OpReuseForWrite: "create", errorfs.OpLink: "link", errorfs.OpOpen: "open", errorfs.OpOpenDir: "open dir",
	errorfs.OpRemove: "remove", errorfs.OpRemoveAll: "remove", errorfs.OpRename: "rename", errorfs.OpMkdirAll: "mkdir", errorfs.OpLock: "lock",
	errorfs.OpList: "list", errorfs.OpStat: "stat", errorfs.OpFileStat: "stat", errorfs.OpFileClose: "close", errorfs.OpFileRead: "read",
	errorfs.OpFileReadAt: "read", errorfs.OpFileWrite: "write", errorfs.OpFileWriteAt: "write", errorfs.OpFilePreallocate: "preallocate",
	errorfs.OpFileSync: "sync", errorfs.OpFileSyncData: "sync", errorfs.OpFileSyncTo: "sync", errorfs.OpFileFlush: "sync",
	errorfs.OpGetDiskUsage: "usage",
}

func classOf(name string) string {
	base := path.Base(name)
	switch {
	case strings.HasPrefix(base, ingestPrefix):
		return "table to ingest"
	case strings.HasSuffix(base, ".sst"):
		return "table"
	case strings.HasPrefix(base, "MANIFEST-"):
		return "manifest"
	case strings.HasPrefix(base, markerPrefix):
		return "marker"
	case strings.HasPrefix(base, "OPTIONS-"), strings.HasPrefix(base, "temporary."):
		return "options"
	case base == "LOCK":
		return "lock"
	case strings.HasPrefix(base, processIDName):
		return "process id"
	case base == corruptName:
		return "note of damage"
	case strings.HasPrefix(base, dbName):
		return "database's directory"
	case !strings.Contains(base, "."):
		return "state directory"
	}
	return base
}

// faults are what a file system does wrong. Without a kind it only counts what is done.
type faults struct {
	mu         sync.Mutex
	phase      string
	site       site
	nth        int // of the operations at the site: the first one that fails
	persistent bool
	err        syscall.Errno
	lifted     bool
	seen       map[site]int
	hits       int
}

func (f *faults) String() string {
	word := "once"
	if f.persistent {
		word = "from then on"
	}
	return fmt.Sprintf("%v: the %d. fails with %v, %s", f.site, f.nth, f.err, word)
}

// MaybeError is asked before each operation.
func (f *faults) MaybeError(op errorfs.Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := site{opKinds[op.Kind], classOf(op.Path), f.phase}
	if f.seen == nil {
		f.seen = map[site]int{}
	}
	f.seen[at]++
	n := f.seen[at]
	if f.lifted || at != f.site || n < f.nth || n > f.nth && !f.persistent {
		return nil
	}
	f.hits++
	return &os.PathError{Op: at.kind, Path: op.Path, Err: f.err}
}

func (f *faults) enter(phase string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.phase = phase
}

// lift makes the file system a good one.
func (f *faults) lift() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lifted = true
}

func (f *faults) hit() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hits
}
