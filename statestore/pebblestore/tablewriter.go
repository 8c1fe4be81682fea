package pebblestore

import (
	"bufio"
	"cmp"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/understudy-streams/understudy/statestore"
)

// tableWriter writes a batch in key order into table files. It is kept for the next batch with its memory.
type tableWriter struct {
	d           *DB
	table       *sstable.Writer // nil: the next row begins one
	size        int             // of its rows
	buf         *bufio.Writer
	sampler     sampler
	compression *sstable.CompressionProfile
	urgent      bool // somebody waits for the batch
	paths       []string
	order       statestore.Order
	batches     []statestore.StoreBatch
	key         []byte
	value       []byte
	warmed      byte // keeps what warm reads from being left out
}

// batch writes positions, which come first, and rows, of each key the last one.
func (w *tableWriter) batch(t *taskStores, b *statestore.Batch) error {
	w.collect(t, b)
	w.urgent = b.Urgent
	w.compression = w.sampler.choose(w.batches)
	for i := range w.batches {
		if err := w.position(t, &w.batches[i]); err != nil {
			return err
		}
	}
	if len(w.batches) == 0 {
		return nil
	}
	rest, last := w.batches[:len(w.batches)-1], &w.batches[len(w.batches)-1]
	for i := range rest {
		if err := w.rows(t.prefixes[rest[i].Store], rest[i].Changes, func() {}); err != nil {
			return err
		}
	}
	taken := b.Taken
	if taken == nil {
		taken = func() {}
	}
	return w.rows(t.prefixes[last.Store], last.Changes, taken)
}

// collect takes the batches of the stores in the order of their ids, all of one store as one.
func (w *tableWriter) collect(t *taskStores, b *statestore.Batch) {
	w.batches = append(w.batches[:0], b.Stores...)
	slices.SortStableFunc(w.batches, func(x, y statestore.StoreBatch) int { return cmp.Compare(t.ids[x.Store], t.ids[y.Store]) })
	joined := w.batches[:0]
	for _, sb := range w.batches {
		n := len(joined)
		if n == 0 || joined[n-1].Store != sb.Store {
			joined = append(joined, sb)
			continue
		}
		last := &joined[n-1]
		last.Changes = append(slices.Clip(last.Changes), sb.Changes...)
		if sb.Position >= 0 {
			last.Position = sb.Position
		}
	}
	w.batches = joined
}

func (w *tableWriter) position(t *taskStores, sb *statestore.StoreBatch) error {
	if sb.Position < 0 {
		return nil
	}
	w.key = appendPositionKey(w.key[:0], t.id, t.ids[sb.Store])
	w.value = appendPosition(w.value[:0], t.position(sb))
	return w.set()
}

// rows writes the rows of a store. It calls taken when it has read them.
func (w *tableWriter) rows(prefix []byte, changes []statestore.Change, taken func()) error {
	order := w.order.Sort(changes)
	if n := w.width(changes); n > 1 {
		return w.wide(n, prefix, changes, order, taken)
	}
	err := w.write(prefix, changes, order)
	if err == nil {
		taken()
	}
	return err
}

// write writes rows in the order that is given.
func (w *tableWriter) write(prefix []byte, changes []statestore.Change, order []uint32) error {
	for i, n := range order {
		if i%warmAhead == 0 {
			w.warm(changes, order[i:min(i+warmAhead, len(order))])
		}
		c := &changes[n]
		w.key = statestore.AppendKey(append(w.key[:0], prefix...), c.Key)
		if c.Value == nil {
			if err := w.delete(); err != nil {
				return err
			}
			continue
		}
		size := rowHeaderBytes + len(c.Value)
		w.value = slices.Grow(w.value[:0], size)[:size]
		putRow(w.value, c.Value, c.Timestamp)
		if err := w.set(); err != nil {
			return err
		}
	}
	return nil
}

// warmAhead is how many rows are brought into the processor's cache together. In the order of their keys they lie anywhere in the batch, which is
// larger than the cache: waiting for each of them by itself takes as long as all else that is done to it.
const warmAhead = 16

// warm touches the changes, and then what they point to, so that the processor fetches all of them at once.
func (w *tableWriter) warm(changes []statestore.Change, next []uint32) {
	n := 0
	for _, i := range next {
		n += len(changes[i].Key)
	}
	sum := byte(n)
	for _, i := range next {
		c := &changes[i]
		if len(c.Key) > 0 {
			sum += c.Key[0]
		}
		for at := 0; at < min(len(c.Value), warmBytes); at += cacheLine {
			sum += c.Value[at]
		}
	}
	w.warmed += sum
}

const (
	cacheLine = 64
	warmBytes = 1 << 10 // of a value; the processor sees by itself how a longer one goes on
)

// set writes key and value.
func (w *tableWriter) set() error {
	if err := w.begin(len(w.key) + len(w.value)); err != nil {
		return err
	}
	return w.table.Set(w.key, w.value)
}

// delete writes the deletion of key.
func (w *tableWriter) delete() error {
	if err := w.begin(len(w.key)); err != nil {
		return err
	}
	return w.table.Delete(w.key)
}

// begin sees to it that there is a table for a row of this size.
func (w *tableWriter) begin(size int) error {
	if w.table != nil && w.size < w.d.tableMax {
		w.size += size
		return nil
	}
	if err := w.finish(); err != nil {
		return err
	}
	path := w.d.nextIngestPath()
	w.paths = append(w.paths, path)
	f, err := w.d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if w.buf == nil {
		w.buf = bufio.NewWriterSize(nil, tableFileBuffer)
	}
	w.buf.Reset(f)
	opts := w.d.writerOpts
	opts.Compression = w.compression
	w.table, w.size = sstable.NewWriter(&tableFile{f, w.buf}, opts), size
	return nil
}

// finish ends the table, if there is one.
func (w *tableWriter) finish() error {
	if w.table == nil {
		return nil
	}
	table := w.table
	w.table = nil
	return table.Close()
}

// end ends the last table and returns the paths of all, also in case of an error. It lets go of the batch.
func (w *tableWriter) end(err error) ([]string, error) {
	err = errors.Join(err, w.finish())
	paths := w.paths
	clear(w.batches[:cap(w.batches)])
	w.paths = nil
	return paths, err
}
