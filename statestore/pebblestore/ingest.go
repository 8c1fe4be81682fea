package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/statestore"
)

const (
	ingestPrefix = "ingest-" // of table files that are not in the database yet
	// Below this a table, with its file and its entry in the manifest, costs more than it spares.
	smallIngestBytes = 256 << 10
	// Tables of one call are split here: all of them become visible together.
	maxTableBytes = 64 << 20
)

// Ingest writes rows and positions as sorted tables beside the memtables, so that commits of other tasks do not wait for a restore. Later
// entries of one key win. A small batch is applied.
func (t *taskStores) Ingest(b *statestore.Batch) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := t.checkBatch(b); err != nil {
		return err
	}
	fail.Point("ingest.before")
	size := 0
	for i := range b.Stores {
		for j := range b.Stores[i].Changes {
			c := &b.Stores[i].Changes[j]
			size += len(c.Key) + len(c.Value)
		}
	}
	if size < t.d.ingestMin {
		return t.Apply(b)
	}
	paths, err := t.writeTables(b)
	fail.Point("ingest.tables")
	if err == nil {
		err = t.d.health.guard(func() error { return t.d.db.Ingest(context.Background(), paths) })
	}
	if err != nil {
		for _, p := range paths {
			_ = t.d.opts.FS.Remove(p) // or the next Open does
		}
		return fmt.Errorf("pebblestore: ingest into task %s: %w", t.id, err)
	}
	fail.Point("ingest.after")
	t.written(b)
	return t.d.health.err()
}

// writeTables writes the batch into table files and returns their paths, also in case of an error.
func (t *taskStores) writeTables(b *statestore.Batch) ([]string, error) {
	w := t.d.tableWriter()
	paths, err := w.end(w.batch(t, b))
	t.d.tables.Put(w) // not after a panic: it would go on with the table that it has begun
	return paths, err
}

func (d *DB) tableWriter() *tableWriter {
	if w, ok := d.tables.Get().(*tableWriter); ok {
		return w
	}
	return &tableWriter{d: d}
}

func (d *DB) nextIngestPath() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ingests++
	return d.opts.FS.PathJoin(d.opts.Dir, fmt.Sprintf("%s%d.sst", ingestPrefix, d.ingests))
}

// cleanIngests removes table files that a crash has left before they were in the database.
func (d *DB) cleanIngests() error {
	files, err := d.opts.FS.List(d.opts.Dir)
	if err != nil {
		return err
	}
	for _, name := range files {
		if strings.HasPrefix(name, ingestPrefix) {
			err = errors.Join(err, d.opts.FS.Remove(d.opts.FS.PathJoin(d.opts.Dir, name)))
		}
	}
	return err
}
