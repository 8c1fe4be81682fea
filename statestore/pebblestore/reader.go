package pebblestore

import (
	"bytes"
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/understudy-streams/understudy/statestore"
)

// reader reads one store through an iterator that it keeps from read to read: that allocates nothing and uses the filters of all levels,
// which a plain Get does not. The iterator is replaced when the task has been written, and taken away between two reads by the janitor.
type reader struct {
	t      *taskStores
	prefix []byte
	end    []byte
	idle   atomic.Pointer[versionedIter]
	closed atomic.Bool

	key, val []byte
}

type versionedIter struct {
	*pebble.Iterator
	version uint64
}

// Reader returns a new reader, for one goroutine.
func (t *taskStores) Reader(store int) statestore.Reader {
	r := &reader{t: t, prefix: t.prefixes[store], end: statestore.PrefixEnd(slices.Clone(t.prefixes[store]))}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed.Load() {
		r.closed.Store(true)
	} else {
		t.readers = append(t.readers, r)
	}
	return r
}

func (r *reader) Get(key []byte) (statestore.Row, bool, error) {
	it, err := r.take()
	if err != nil {
		return statestore.Row{}, false, err
	}
	row, found, err := r.get(it, key)
	if err != nil {
		_ = it.Close() // the same error
		return statestore.Row{}, false, r.failed("get", err)
	}
	r.give(it)
	return row, found, nil
}

func (r *reader) get(it *versionedIter, key []byte) (statestore.Row, bool, error) {
	r.key = statestore.AppendKey(append(r.key[:0], r.prefix...), key)
	if !it.SeekPrefixGE(r.key) || !bytes.Equal(it.Key(), r.key) {
		return statestore.Row{}, false, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return statestore.Row{}, false, err
	}
	// A copy, because the iterator may be closed by the janitor as soon as it is given back.
	r.val = append(r.val[:0], v...)
	row, err := parseRow(r.val)
	return row, err == nil, err
}

// failed says what failed, and remembers if the reason is corruption.
func (r *reader) failed(what string, err error) error {
	r.t.d.health.noteDamage(err)
	return fmt.Errorf("pebblestore: %s in task %s: %w", what, r.t.id, err)
}

// take returns an iterator that sees all that the task has been written.
func (r *reader) take() (*versionedIter, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	version := r.t.version.Load()
	it := r.idle.Swap(nil)
	if it != nil && it.version == version {
		return it, nil
	}
	if it != nil {
		if err := it.Close(); err != nil {
			return nil, r.failed("get", err)
		}
	}
	inner, err := r.t.d.db.NewIter(&pebble.IterOptions{LowerBound: r.prefix, UpperBound: r.end, UseL6Filters: true})
	if err != nil {
		return nil, r.failed("get", err)
	}
	return &versionedIter{Iterator: inner, version: version}, nil
}

func (r *reader) check() error {
	if r.closed.Load() {
		return fmt.Errorf("pebblestore: the stores of task %s are closed: %w", r.t.id, ErrClosed)
	}
	return r.t.d.health.err()
}

func (r *reader) give(it *versionedIter) {
	r.idle.Store(it)
	if r.closed.Load() {
		r.closeIdle()
	}
}

func (r *reader) closeIdle() {
	if it := r.idle.Swap(nil); it != nil {
		_ = r.t.d.health.guard(it.Close) // it has been read without an error
	}
}

// Scan iterates over the rows as they are now; what is written later does not show. Close it before the task's stores are closed: one that
// outlives them ends with an error.
func (r *reader) Scan(lo, hi []byte, reverse bool) statestore.Iterator {
	if err := r.check(); err != nil {
		return &scan{err: err}
	}
	if hi != nil && bytes.Compare(lo, hi) >= 0 {
		return &scan{}
	}
	opts := &pebble.IterOptions{LowerBound: r.prefix, UpperBound: r.end}
	if len(lo) > 0 {
		opts.LowerBound = statestore.AppendKey(slices.Clone(r.prefix), lo)
	}
	if hi != nil {
		opts.UpperBound = statestore.AppendKey(slices.Clone(r.prefix), hi)
	}
	it, err := r.t.d.db.NewIter(opts)
	if err != nil {
		return &scan{err: r.failed("scan", err)}
	}
	return &scan{r: r, it: it, reverse: reverse}
}

// scan is an iterator over a range of a store.
type scan struct {
	r       *reader
	it      *pebble.Iterator // nil once closed
	reverse bool
	started bool
	key     []byte
	row     statestore.Row
	err     error
}

func (s *scan) Next() bool {
	if s.it == nil {
		return false
	}
	if err := s.r.check(); err != nil {
		s.err = err
		_ = s.Close()
		return false
	}
	if !s.move() {
		_ = s.Close()
		return false
	}
	if err := s.decode(); err != nil {
		s.err = s.r.failed("scan", err)
		_ = s.Close()
		return false
	}
	return true
}

func (s *scan) move() bool {
	first := !s.started
	s.started = true
	switch {
	case first && s.reverse:
		return s.it.Last()
	case first:
		return s.it.First()
	case s.reverse:
		return s.it.Prev()
	}
	return s.it.Next()
}

func (s *scan) decode() (err error) {
	key, err := parseKey(s.key[:0], s.it.Key()[len(s.r.prefix):])
	if err != nil {
		return err
	}
	s.key = key
	v, err := s.it.ValueAndErr()
	if err != nil {
		return err
	}
	s.row, err = parseRow(v)
	return err
}

func (s *scan) Key() []byte { return s.key }

func (s *scan) Row() statestore.Row { return s.row }

// Close ends the scan, and returns the error that ended it early, if any.
func (s *scan) Close() error {
	if s.it == nil {
		return s.err
	}
	err := s.it.Close()
	s.it = nil
	s.row = statestore.Row{}
	if err != nil && s.err == nil {
		s.err = s.r.failed("scan", err)
	}
	return s.err
}
