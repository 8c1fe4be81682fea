package pebblestore

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/internal/fail"
	"github.com/understudy-streams/understudy/statestore"
)

// taskStores are the stores of one task.
type taskStores struct {
	d         *DB
	id        statestore.TaskID
	ids       []uint32       // by store
	prefixes  [][]byte       // by store
	positions []atomic.Int64 // by store
	topics    [][16]byte     // by store: the changelog whose offsets the positions are
	given     []statestore.Spec
	stale     []bool        // by store: wiped when it was opened
	version   atomic.Uint64 // counts writes, so that readers see them
	closed    atomic.Bool

	mu      sync.Mutex
	readers []*reader

	key []byte // scratch of the writer
}

func newTaskStores(d *DB, id statestore.TaskID, specs []statestore.Spec, ids []uint32) (*taskStores, error) {
	stored, err := d.positions(id)
	if err != nil {
		d.health.noteDamage(err)
		return nil, fmt.Errorf("pebblestore: positions of task %s: %w", id, err)
	}
	t := &taskStores{
		d: d, id: id, ids: ids, given: slices.Clone(specs), stale: make([]bool, len(ids)),
		positions: make([]atomic.Int64, len(ids)), topics: make([][16]byte, len(ids)),
	}
	for i, store := range ids {
		t.prefixes = append(t.prefixes, statestore.AppendStorePrefix(nil, id, store))
		p, ok := stored[d.byID[store]]
		if !ok {
			p.offset = statestore.NoPosition
		}
		t.positions[i].Store(p.offset)
		t.topics[i], t.stale[i] = specs[i].Identity(p.changelog), !specs[i].Fits(p.changelog)
	}
	return t, nil
}

// wipeStale empties the stores that belong to another changelog. Until that is durable the old topic id is stored with them: if the
// process dies in between, they are found to be stale again.
func (t *taskStores) wipeStale() error {
	for i, stale := range t.stale {
		if stale {
			if err := t.Wipe(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *taskStores) check() error {
	if t.closed.Load() {
		return fmt.Errorf("pebblestore: the stores of task %s are closed: %w", t.id, ErrClosed)
	}
	return t.d.health.err()
}

func (t *taskStores) Position(store int) int64 { return t.positions[store].Load() }

// Stale says whether the store was wiped when it was opened.
func (t *taskStores) Stale(store int) bool { return t.stale[store] }

// Apply writes the batch atomically. On a full disk it blocks until there is room.
func (t *taskStores) Apply(b *statestore.Batch) error {
	if err := t.check(); err != nil {
		return err
	}
	if err := t.checkBatch(b); err != nil {
		return err
	}
	pb := t.d.db.NewBatch()
	changes := 0
	for i := range b.Stores {
		if err := t.fill(pb, &b.Stores[i]); err != nil {
			return errors.Join(err, pb.Close())
		}
		changes += len(b.Stores[i].Changes)
	}
	fail.Point("apply.before")
	if err := t.commit(pb); err != nil {
		return fmt.Errorf("pebblestore: apply to task %s: %w", t.id, err)
	}
	fail.Point("apply.after")
	t.written(b)
	return t.d.count(changes)
}

// commit writes a batch and closes it.
func (t *taskStores) commit(pb *pebble.Batch) error {
	return t.d.health.guard(func() error { return errors.Join(pb.Commit(pebble.NoSync), pb.Close()) })
}

func (t *taskStores) checkBatch(b *statestore.Batch) error {
	for i := range b.Stores {
		if s := b.Stores[i].Store; s < 0 || s >= len(t.ids) {
			return fmt.Errorf("pebblestore: task %s has no store %d", t.id, s)
		}
	}
	return nil
}

// orders are shared by the writers, as what they hold grows with the batches that they sort.
var orders = sync.Pool{New: func() any { return new(statestore.Order) }}

// fill adds the rows and the position of one store to a batch. The rows go in by the order of their keys: a memtable finds the place of each beside
// that of the one before.
func (t *taskStores) fill(pb *pebble.Batch, sb *statestore.StoreBatch) error {
	order := orders.Get().(*statestore.Order)
	defer orders.Put(order)
	for _, i := range order.Sort(sb.Changes) {
		c := &sb.Changes[i]
		t.key = statestore.AppendKey(append(t.key[:0], t.prefixes[sb.Store]...), c.Key)
		if c.Value == nil {
			if err := pb.Delete(t.key, nil); err != nil {
				return err
			}
			continue
		}
		op := pb.SetDeferred(len(t.key), rowHeaderBytes+len(c.Value))
		copy(op.Key, t.key)
		putRow(op.Value, c.Value, c.Timestamp)
		if err := op.Finish(); err != nil {
			return err
		}
	}
	if sb.Position < 0 {
		return nil
	}
	t.key = appendPositionKey(t.key[:0], t.id, t.ids[sb.Store])
	return pb.Set(t.key, appendPosition(nil, t.position(sb)), nil)
}

func (t *taskStores) position(sb *statestore.StoreBatch) position {
	return position{offset: sb.Position, changelog: t.topics[sb.Store]}
}

// written lets positions and readers follow a batch that is in the database.
func (t *taskStores) written(b *statestore.Batch) {
	for i := range b.Stores {
		if p := b.Stores[i].Position; p >= 0 {
			t.positions[b.Stores[i].Store].Store(p)
		}
	}
	t.version.Add(1)
}

// Wipe deletes the rows and the position of a store together, and flushes.
func (t *taskStores) Wipe(store int) error {
	if err := t.check(); err != nil {
		return err
	}
	b := t.d.db.NewBatch()
	end := statestore.PrefixEnd(slices.Clone(t.prefixes[store]))
	err := b.DeleteRange(t.prefixes[store], end, nil)
	if err == nil {
		err = b.Delete(appendPositionKey(nil, t.id, t.ids[store]), nil)
	}
	if err != nil {
		return errors.Join(err, b.Close())
	}
	fail.Point("wipe.before")
	if err := t.commit(b); err != nil {
		return fmt.Errorf("pebblestore: wipe store %d of task %s: %w", store, t.id, err)
	}
	fail.Point("wipe.after")
	t.positions[store].Store(statestore.NoPosition)
	t.topics[store] = t.given[store].Changelog
	t.version.Add(1)
	return t.d.Flush()
}

// Drop deletes the task and closes it.
func (t *taskStores) Drop() error {
	if err := t.check(); err != nil {
		return err
	}
	t.closeReaders()
	if err := t.d.excise(t.id); err != nil {
		return err
	}
	return t.Close()
}

// Close closes the readers. The rows stay.
func (t *taskStores) Close() error {
	if t.closed.Swap(true) {
		return nil
	}
	t.closeReaders()
	t.d.release(t.id)
	return nil
}

// ReleaseReaders closes the readers made so far.
func (t *taskStores) ReleaseReaders() { t.closeReaders() }

func (t *taskStores) closeReaders() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.readers {
		r.closed.Store(true)
		r.closeIdle()
	}
	t.readers = nil
}

func (t *taskStores) closeIdle() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.readers {
		r.closeIdle()
	}
}
