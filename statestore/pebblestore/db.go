package pebblestore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/statestore"
)

// ErrClosed is returned by everything that is called after Close.
var ErrClosed = errors.New("pebblestore: closed")

// DB is one Pebble database with the stores of all tasks of a process.
type DB struct {
	opts   Options
	fs     *delayFS
	health *health
	db     *pebble.DB
	unref  func() // caches
	left   bool   // what Open has begun could not be ended

	writerOpts sstable.WriterOptions // of tables to ingest
	tables     sync.Pool             // of *tableWriter

	idle    chan struct{} // signals the janitor that a flush has ended; never closed, as a broken database may still tell of one
	quit    chan struct{} // closed to end the janitor
	stopped chan struct{} // closed when the janitor is gone

	// opening orders opens of tasks, which may wait for the disk. names and byID belong to whoever holds it.
	opening sync.Mutex
	names   map[string]uint32
	byID    map[uint32]string

	mu        sync.Mutex // never held while anybody waits for the disk
	closed    bool
	tasks     map[statestore.TaskID]*taskStores
	unflushed int
	oldest    time.Time // of what is unflushed
	ingests   int       // numbers the table files
	ingestMin int       // bytes below which a batch is applied, not ingested
	tableMax  int       // bytes of rows after which a table to ingest ends
	wideMin   int       // bytes of rows for which there is to be a goroutine, where somebody waits
}

var _ statestore.Backend = (*DB)(nil)

// Open opens the database in opts.Dir, or makes it. The caller sees to it that no other process has it open, or uses OpenDir.
func Open(opts Options) (*DB, error) {
	opts = opts.withDefaults()
	if opts.Dir == "" {
		return nil, errors.New("pebblestore: Options.Dir is empty: name the directory of the database")
	}
	d := &DB{
		opts:    opts,
		fs:      newDelayFS(opts.FS, opts.RetryDelay),
		health:  &health{dir: opts.Dir, log: opts.Log, l: opts.Listener, stop: make(chan struct{}), early: make(chan error, 1)},
		idle:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
		names:   map[string]uint32{},
		byID:    map[uint32]string{},
		tasks:   map[statestore.TaskID]*taskStores{},

		ingestMin: smallIngestBytes, tableMax: maxTableBytes, wideMin: wideBytes,
	}
	d.health.flushed = func() {
		select {
		case d.idle <- struct{}{}:
		default:
		}
	}
	d.health.fatal = d.fs.breakDown
	d.fs.full, d.fs.fatal = d.health.diskError, d.health.breakDown
	p := opts.pebble(d.fs, d.health)
	d.unref = func() {
		p.FileCache.Unref()
		p.Cache.Unref()
	}
	if err := d.open(p); err != nil {
		if !d.left {
			d.unref()
		}
		return nil, err
	}
	go d.janitor()
	return d, nil
}

func (d *DB) open(p *pebble.Options) (err error) {
	if d.db, err = d.openPebble(p); err != nil {
		return fmt.Errorf("pebblestore: open %s: %w", d.opts.Dir, err)
	}
	d.health.opened.Store(true)
	d.fs.running.Store(true)
	d.writerOpts = p.MakeWriterOptions(0, d.db.TableFormat())
	if err = d.loadNames(); err == nil {
		err = d.cleanIngests()
	}
	if err == nil {
		err = d.health.err()
	}
	if err != nil {
		closeErr := d.health.guard(d.db.Close)
		d.left = d.health.err() != nil
		return errors.Join(fmt.Errorf("pebblestore: open %s: %w", d.opts.Dir, err), closeErr)
	}
	return nil
}

// loadNames reads the ids that store names have been given.
func (d *DB) loadNames() error {
	return d.scanMeta(namesTask, func(key, value []byte) error {
		id, err := parseStoreID(value)
		if err != nil {
			return err
		}
		if other, ok := d.byID[id]; ok {
			return malformed("stores %q and %q have the same id", other, key)
		}
		d.names[string(key)], d.byID[id] = id, string(key)
		return nil
	})
}

// scanMeta calls f for each row of the store of positions or names of a task.
func (d *DB) scanMeta(id statestore.TaskID, f func(key, value []byte) error) (err error) {
	prefix := statestore.AppendStorePrefix(nil, id, metaStore)
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: statestore.PrefixEnd(slices.Clone(prefix))})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		key, err := parseKey(nil, it.Key()[len(prefix):])
		if err != nil {
			return err
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := f(key, value); err != nil {
			return err
		}
	}
	return it.Error()
}

// check returns why the database cannot be used, if it cannot. The caller holds mu.
func (d *DB) check() error {
	if d.closed {
		return ErrClosed
	}
	return d.health.err()
}

// Health returns nil while the database can be written: else a *BrokenError, or the error of the last flush or compaction if none has
// succeeded since. After the latter it recovers by itself, once there is room on the disk.
func (d *DB) Health() error {
	if err := d.health.err(); err != nil {
		return err
	}
	d.health.mu.Lock()
	defer d.health.mu.Unlock()
	return d.health.diskErr
}

// Corruption returns a *CorruptError if damage has been found since the database was opened, nil if none has.
func (d *DB) Corruption() error {
	if e := d.health.corrupt.Load(); e != nil {
		return e
	}
	return nil
}

// Open opens the stores of a task, which must not be open. Stores of another changelog are wiped, durably.
func (d *DB) Open(id statestore.TaskID, stores []statestore.Spec) (statestore.TaskStores, error) {
	if err := statestore.CheckSpecs(id, stores); err != nil {
		return nil, err
	}
	t, err := d.openTask(id, stores)
	if err != nil {
		return nil, err
	}
	if err := t.wipeStale(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

func (d *DB) openTask(id statestore.TaskID, stores []statestore.Spec) (t *taskStores, err error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	if err := d.reserve(id); err != nil {
		return nil, err
	}
	ids, err := d.register(stores)
	if err == nil {
		t, err = newTaskStores(d, id, stores, ids)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err != nil {
		delete(d.tasks, id)
		return nil, err
	}
	d.tasks[id] = t
	return t, nil
}

// reserve makes a task open to everybody else.
func (d *DB) reserve(id statestore.TaskID) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.check(); err != nil {
		return err
	}
	if d.tasks[id] != nil {
		return fmt.Errorf("pebblestore: the stores of task %s are open already: close them first", id)
	}
	d.tasks[id] = &taskStores{d: d, id: id}
	return nil
}

// release makes a task free to be opened.
func (d *DB) release(id statestore.TaskID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.tasks, id)
}

// register returns the ids of the stores, and gives one to each name that has none. A new id is durable before it is used: a table that
// is ingested can outlive what was written before it.
func (d *DB) register(stores []statestore.Spec) ([]uint32, error) {
	ids := make([]uint32, len(stores))
	next := uint32(1)
	for id := range d.byID {
		next = max(next, id+1)
	}
	added := map[string]uint32{}
	for i, s := range stores {
		if ids[i] = d.names[s.Name]; ids[i] == 0 {
			ids[i] = next
			added[s.Name] = next
			next++
		}
	}
	if len(added) == 0 {
		return ids, nil
	}
	fail.Point("names.before")
	if err := d.health.guard(func() error { return d.writeNames(added) }); err != nil {
		return nil, fmt.Errorf("pebblestore: write store names: %w", err)
	}
	fail.Point("names.after")
	for name, id := range added {
		d.names[name], d.byID[id] = id, name
	}
	return ids, nil
}

func (d *DB) writeNames(added map[string]uint32) error {
	b := d.db.NewBatch()
	var err error
	for name, id := range added {
		err = errors.Join(err, b.Set(appendNameKey(nil, name), appendStoreID(nil, id), nil))
	}
	if err == nil {
		err = b.Commit(pebble.NoSync)
	}
	if err = errors.Join(err, b.Close()); err != nil {
		return err
	}
	return d.db.Flush()
}

// positions reads the stored positions of a task, by store name.
func (d *DB) positions(id statestore.TaskID) (map[string]position, error) {
	out := map[string]position{}
	err := d.scanMeta(id, func(key, value []byte) error {
		store, err := parseStoreID(key)
		if err != nil {
			return err
		}
		out[d.byID[store]], err = parsePosition(value)
		return err
	})
	return out, err
}

// Close flushes and closes. All task stores must be closed before. If the disk does not take the flush within CloseTimeout the database
// closes without it, and says so in its error; it is consistent all the same. A database that is broken cannot be closed: Close
// returns the *BrokenError, and what the database holds is given back by the end of the process. So is the memory of the caches if a scan
// is still open then, which is an error too.
func (d *DB) Close() error {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil
	}
	if n := len(d.tasks); n > 0 {
		d.mu.Unlock()
		return fmt.Errorf("pebblestore: %d tasks are open at the close of the database: close them first", n)
	}
	d.closed = true
	d.mu.Unlock()

	fail.Point("db.close")
	err := d.health.guard(d.lastFlush)
	fail.Point("db.flushed")
	d.fs.close()
	closeErr := d.health.guard(d.db.Close)
	fail.Point("db.closed")
	close(d.quit)
	if broken := d.health.err(); broken != nil {
		return broken
	}
	<-d.stopped
	if closeErr != nil {
		err = errors.Join(err, fmt.Errorf("pebblestore: close %s: %w", d.opts.Dir, closeErr))
		if strings.Contains(closeErr.Error(), "leaked iterators") {
			return err // unref panics over a table that is still being read
		}
	}
	d.unref()
	return err
}

// sickCloseTimeout takes the place of CloseTimeout when the disk is known to take nothing.
const sickCloseTimeout = time.Second

// lastFlush flushes, as long as there is time. Where even the memtable cannot be handed over, as those before it wait for room, the database
// cannot be closed at all, and is given up.
func (d *DB) lastFlush() error {
	limit := d.opts.CloseTimeout
	if d.Health() != nil {
		limit = min(limit, sickCloseTimeout)
	}
	overdue := func() error {
		err := fmt.Errorf("pebblestore: the last flush of %s did not end within %v: what was not flushed will be restored", d.opts.Dir, limit)
		if why := d.Health(); why != nil {
			err = fmt.Errorf("%w: %w", err, why)
		}
		return err
	}
	type flush struct {
		done <-chan struct{}
		err  error
	}
	begun := make(chan flush, 1)
	go func() {
		done, err := d.db.AsyncFlush()
		begun <- flush{done, err}
	}()
	t := time.NewTimer(limit)
	defer t.Stop()
	var f flush
	select {
	case f = <-begun:
	case <-t.C:
		err := overdue()
		d.health.breakDown(err)
		return err
	}
	if f.err != nil {
		return fmt.Errorf("pebblestore: flush: %w", f.err)
	}
	select {
	case <-f.done:
		return nil
	case <-t.C:
		return overdue()
	}
}
