package pebblestore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

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

// ingestRow is a row of a table to be: its database key, and the change or the position that it holds.
type ingestRow struct {
	key      []byte
	change   *statestore.Change // nil: position
	position position
	order    int
}

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
	paths, err := t.writeTables(t.sortedRows(b))
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

// sortedRows returns the rows of the batch in key order, the last one of each key.
func (t *taskStores) sortedRows(b *statestore.Batch) []ingestRow {
	var rows []ingestRow
	var arena []byte
	add := func(key func(dst []byte) []byte, c *statestore.Change, p position) {
		from := len(arena)
		arena = key(arena)
		rows = append(rows, ingestRow{key: arena[from:len(arena):len(arena)], change: c, position: p, order: len(rows)})
	}
	for i := range b.Stores {
		sb := &b.Stores[i]
		for j := range sb.Changes {
			c := &sb.Changes[j]
			add(func(dst []byte) []byte {
				return statestore.AppendKey(append(dst, t.prefixes[sb.Store]...), c.Key)
			}, c, position{})
		}
		if sb.Position >= 0 {
			add(func(dst []byte) []byte { return appendPositionKey(dst, t.id, t.ids[sb.Store]) }, nil, t.position(sb))
		}
	}
	slices.SortFunc(rows, func(x, y ingestRow) int {
		if c := bytes.Compare(x.key, y.key); c != 0 {
			return c
		}
		return cmp.Compare(y.order, x.order) // the later one first
	})
	return slices.CompactFunc(rows, func(x, y ingestRow) bool { return bytes.Equal(x.key, y.key) })
}

// writeTables writes rows into table files and returns their paths, also in case of an error.
func (t *taskStores) writeTables(rows []ingestRow) (paths []string, err error) {
	for len(rows) > 0 && err == nil {
		path := t.d.nextIngestPath()
		paths = append(paths, path)
		var n int
		n, err = t.writeTable(path, rows)
		rows = rows[n:]
	}
	return paths, err
}

// writeTable writes one table and returns how many of the rows it holds.
func (t *taskStores) writeTable(path string, rows []ingestRow) (n int, err error) {
	f, err := t.d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	w := sstable.NewWriter(objstorageprovider.NewFileWritable(f), t.d.writerOpts)
	defer func() { err = errors.Join(err, w.Close()) }()
	var val []byte
	for size := 0; n < len(rows) && size < maxTableBytes; n++ {
		r := &rows[n]
		switch {
		case r.change == nil:
			val = appendPosition(val[:0], r.position)
		case r.change.Value == nil:
			if err := w.Delete(r.key); err != nil {
				return n, err
			}
			continue
		default:
			val = slices.Grow(val[:0], rowHeaderBytes+len(r.change.Value))[:rowHeaderBytes+len(r.change.Value)]
			putRow(val, r.change.Value, r.change.Timestamp)
		}
		if err := w.Set(r.key, val); err != nil {
			return n, err
		}
		size += len(r.key) + len(val)
	}
	return n, nil
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
