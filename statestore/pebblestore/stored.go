package pebblestore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/statestore"
)

// Tasks lists the tasks that have rows or positions, by one pass over the positions.
func (d *DB) Tasks() ([]statestore.StoredTask, error) {
	d.opening.Lock()
	defer d.opening.Unlock()
	d.mu.Lock()
	err := d.check()
	open := make(map[statestore.TaskID]bool, len(d.tasks))
	for id := range d.tasks {
		open[id] = true
	}
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	out, err := d.list()
	if err != nil {
		d.health.noteDamage(err)
		return nil, fmt.Errorf("pebblestore: list the tasks of %s: %w", d.opts.Dir, err)
	}
	for i := range out {
		out[i].Open = open[out[i].ID]
	}
	return out, nil
}

// list walks over the positions of all tasks. Those of a task come before its rows, which it leaps over.
func (d *DB) list() (out []statestore.StoredTask, err error) {
	// Real tasks come after the task of names.
	it, err := d.db.NewIter(&pebble.IterOptions{LowerBound: statestore.AppendTaskPrefix(nil, statestore.TaskID{})})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		id, store, rest, err := statestore.CutStore(it.Key())
		if err != nil {
			return nil, malformed("%v", err)
		}
		if n := len(out); n == 0 || out[n-1].ID != id {
			out = append(out, statestore.StoredTask{ID: id})
		}
		if store == metaStore {
			s, err := d.storedStore(rest, it)
			if err != nil {
				return nil, err
			}
			last := &out[len(out)-1]
			last.Stores = append(last.Stores, s)
			ok = it.Next()
			continue
		}
		end := statestore.PrefixEnd(statestore.AppendTaskPrefix(nil, id))
		if end == nil {
			break
		}
		ok = it.SeekGE(end)
	}
	for i := range out { // they come by id
		slices.SortFunc(out[i].Stores, func(a, b statestore.StoredStore) int { return cmp.Compare(a.Name, b.Name) })
	}
	return out, it.Error()
}

// storedStore reads the position that it is at; rest is the key behind the store's prefix.
func (d *DB) storedStore(rest []byte, it *pebble.Iterator) (s statestore.StoredStore, err error) {
	key, err := parseKey(nil, rest)
	if err != nil {
		return s, err
	}
	store, err := parseStoreID(key)
	if err != nil {
		return s, err
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return s, err
	}
	p, err := parsePosition(value)
	return statestore.StoredStore{Name: d.byID[store], Position: p.offset, Changelog: p.changelog}, err
}

// Drop deletes everything of a task that is not open.
func (d *DB) Drop(id statestore.TaskID) error {
	if id.Subtopology < 0 || id.Partition < 0 {
		return fmt.Errorf("pebblestore: drop: there is no task %s", id)
	}
	if err := d.reserve(id); err != nil {
		return fmt.Errorf("pebblestore: drop: %w", err)
	}
	defer d.release(id)
	return d.excise(id)
}

// excise cuts a task out of the database, durably: the files that hold nothing else are gone at once.
func (d *DB) excise(id statestore.TaskID) error {
	if err := d.health.guard(func() error { return d.db.Excise(context.Background(), spanOf(id)) }); err != nil {
		return fmt.Errorf("pebblestore: drop task %s: %w", id, err)
	}
	// Where a memtable overlaps, the excision waits for its flush.
	return d.Flush()
}

// spanOf is where the rows and positions of a task are.
func spanOf(id statestore.TaskID) pebble.KeyRange {
	start := statestore.AppendTaskPrefix(nil, id)
	return pebble.KeyRange{Start: start, End: statestore.PrefixEnd(slices.Clone(start))}
}

// DiskUsage estimates how many bytes a task takes on disk, from the sizes of its files and, of those that it shares, from their indexes.
func (d *DB) DiskUsage(id statestore.TaskID) (bytes int64, err error) {
	d.mu.Lock()
	err = d.check()
	d.mu.Unlock()
	if err != nil {
		return 0, err
	}
	span := spanOf(id)
	err = d.health.guard(func() error {
		n, err := d.db.EstimateDiskUsage(span.Start, span.End)
		bytes = int64(n)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("pebblestore: disk usage of task %s: %w", id, err)
	}
	return bytes, nil
}
