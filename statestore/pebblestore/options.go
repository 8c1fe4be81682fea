package pebblestore

import (
	"runtime"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/zap"
)

// Options say how a database is opened. Only Dir is needed.
type Options struct {
	// Dir is the directory of the database; it is made if it does not exist.
	Dir string
	// Memory bounds block cache and memtables together, in bytes. Defaults to 256 MiB.
	Memory int64
	// FS is the file system. Defaults to the operating system's.
	FS vfs.FS
	// Log takes what Pebble says. Defaults to nothing.
	Log *zap.Logger
	// FlushRecords is after how many changes the database begins to flush by itself: about so many are replayed after a crash. Defaults to 200,000.
	FlushRecords int
	// FlushEvery is how old an unflushed change may grow before the next Apply or FlushIfDue flushes it. Defaults to 5 minutes.
	FlushEvery time.Duration
	// Now is the clock of FlushEvery. Defaults to time.Now.
	Now func() time.Time
	// CloseTimeout bounds how long Close waits for the last flush, which a full disk can hold up for ever. What is not flushed is
	// restored from the changelogs. Defaults to 30 seconds.
	CloseTimeout time.Duration
	// RetryDelay is how long the creation of a file waits after a disk error; it doubles up to 50 times that while errors go on. Without
	// it Pebble's retries of a failed flush burn a processor. Defaults to 100 ms.
	RetryDelay time.Duration
	// Listener hears of trouble.
	Listener Listener
}

// Listener is told what goes wrong, from Pebble's own goroutines and with its locks held: it must neither block nor call the database.
// Each function may be nil.
type Listener struct {
	DiskError  func(error)                            // a flush or compaction failed, and will be tried again
	DiskOK     func()                                 // a flush has succeeded after a DiskError
	DiskSlow   func(path string, taken time.Duration) // one operation takes long
	Corrupt    func(error)                            // a first block on disk is corrupt; the next OpenDir puts the database aside
	Broken     func(error)                            // the database can no longer be used in this process
	WriteStall func(stalled bool)                     // writes wait for flushes or compactions
}

func (o Options) withDefaults() Options {
	if o.Memory <= 0 {
		o.Memory = 256 << 20
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	if o.FlushRecords <= 0 {
		o.FlushRecords = 200_000
	}
	if o.FlushEvery <= 0 {
		o.FlushEvery = 5 * time.Minute
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = 30 * time.Second
	}
	if o.RetryDelay <= 0 {
		o.RetryDelay = 100 * time.Millisecond
	}
	return o
}

// memTables bounds how many memtables there are at a time; then writes wait for flushes.
const memTables = 3

// memTableBytes is an eighth of the memory. What is written again before a memtable is full costs no flush and no compaction, and these are most of
// what rows cost.
func (o Options) memTableBytes() uint64 {
	return uint64(min(max(o.Memory/8, 1<<20), 32<<20))
}

// pebble returns the options for Pebble. The caller unrefs cache and file cache when the database is closed.
func (o Options) pebble(fs vfs.FS, h *health) *pebble.Options {
	p := &pebble.Options{
		FS:                          fs,
		Comparer:                    comparer,
		DisableWAL:                  true,
		Cache:                       pebble.NewCache(o.Memory), // memtables are reserved out of it
		FileCache:                   pebble.NewFileCache(4, 1000),
		MemTableSize:                o.memTableBytes(),
		MemTableStopWritesThreshold: memTables,
		L0CompactionThreshold:       4,
		L0StopWritesThreshold:       24,
		FlushDelayDeleteRange:       time.Second,
		FormatMajorVersion:          pebble.FormatValueSeparation, // by name: a newer Pebble must not move it by itself
		TargetByteDeletionRate:      0,                            // a dropped task's disk space is back at once
		Logger:                      h,
		CompactionConcurrencyRange: func() (int, int) {
			return 1, min(max(1, runtime.GOMAXPROCS(0)/2), 4)
		},
	}
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	p.EventListener = h.events()
	p.EnsureDefaults()
	return p
}
