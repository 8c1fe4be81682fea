package streams

import (
	"bytes"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// StoreHandle is a store as one task has it. It is used by that task's processor only, within Process and punctuations; Start may read. In
// Close and later it finds nothing and writes nothing.
//
// Errors are sticky: a store that cannot be read or written, or a key or value that cannot be encoded, fails the whole unit, whatever the
// processor returns. From then on Get finds nothing, loops over the store end, and writes do nothing.
type StoreHandle[K, V any] struct {
	in      *instance
	step    *step
	name    string
	rows    *statestore.Overlay
	ordered bool
	sorted  bool // bytes of keys sort as the keys do
	// readOnly says that a table writes the store.
	readOnly bool

	keys       encoder[K]
	values     encoder[V]
	keysBack   decoder[K]
	valuesBack decoder[V]
	key, value []byte // reused
}

// Get returns the value of a key, and whether there is one.
func (h *StoreHandle[K, V]) Get(key K) (value V, found bool) {
	value, _, found = h.GetTime(key)
	return value, found
}

// GetTime returns the value of a key with the timestamp it was put with.
func (h *StoreHandle[K, V]) GetTime(key K) (value V, at time.Time, found bool) {
	k, ok := h.encodeKey(key)
	if !ok {
		return value, at, false
	}
	row, found, err := h.rows.Get(k)
	if err != nil || !found {
		h.check(task.KindStore, err)
		return value, at, false
	}
	value, ok = h.decodeValue(row.Value)
	return value, timeOf(row.Timestamp), ok
}

// Put writes the value of a key with the timestamp of the record or punctuation in hand. A nil []byte or a nil pointer deletes the row.
func (h *StoreHandle[K, V]) Put(key K, value V) { h.put(key, value, h.in.ts) }

// PutTime writes the value of a key with a timestamp, which is not before 1970.
func (h *StoreHandle[K, V]) PutTime(key K, value V, at time.Time) { h.put(key, value, at.UnixMilli()) }

func (h *StoreHandle[K, V]) put(key K, value V, ts int64) {
	if !h.writable() {
		return
	}
	if ts < 0 {
		h.check(task.KindTimestamp, fmt.Errorf("a row of store %q with timestamp %d: timestamps are not below 0", h.name, ts))
		return
	}
	k, ok := h.encodeKey(key)
	if !ok {
		return
	}
	v, n, err := h.values.append(h.value[:0], &value, nil, false)
	if err != nil {
		h.check(task.KindEncode, fmt.Errorf("value for store %q: %w", h.name, err))
		return
	}
	if n < 0 {
		h.check(task.KindStore, h.rows.Delete(k, ts))
		return
	}
	h.value = v
	h.check(task.KindStore, h.rows.Put(k, v, ts))
}

// Delete deletes the row of a key.
func (h *StoreHandle[K, V]) Delete(key K) {
	if !h.writable() {
		return
	}
	if k, ok := h.encodeKey(key); ok {
		h.check(task.KindStore, h.rows.Delete(k, h.in.ts))
	}
}

// Range iterates over the keys from lo to hi, both included, in the byte order of their encoded form. A loop may write to the store: it
// sees the keys that were there at its start and were not deleted since, each once. The store must be [Ordered].
//
// If lo's bytes sort after hi's, there is nothing between them, and unless the serde is [serde.OrderPreserving] that is an error: the range
// from -1 to 1 is inverted in the byte order of integers.
func (h *StoreHandle[K, V]) Range(lo, hi K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		from, ok := h.encodeKey(lo)
		if !ok {
			return
		}
		from = bytes.Clone(from)
		to, ok := h.encodeKey(hi)
		if !ok {
			return
		}
		if bytes.Compare(from, to) > 0 {
			if !h.sorted {
				h.check(task.KindStore, &RangeError{Store: h.name})
			}
			return
		}
		h.scan(from, append(bytes.Clone(to), 0), yield) // the first key after hi
	}
}

// RangeError says that the bounds of a range are inverted in byte order, although they may not be as values.
type RangeError struct{ Store string }

func (e *RangeError) Error() string {
	return fmt.Sprintf("the bounds of a range over store %q are inverted in byte order: use a serde for its keys whose bytes sort as the keys do", e.Store)
}

// All iterates over all rows, as [StoreHandle.Range] does. The store must be [Ordered].
func (h *StoreHandle[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { h.scan(nil, nil, yield) }
}

// Prefix iterates over the rows whose encoded key begins with prefix, as [StoreHandle.Range] does. The store must be [Ordered].
func (h *StoreHandle[K, V]) Prefix(prefix []byte) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		lo := bytes.Clone(prefix)
		h.scan(lo, afterPrefix(lo), yield)
	}
}

// afterPrefix is the first key that sorts after all with this prefix, nil if there is none.
func afterPrefix(prefix []byte) []byte {
	for i := len(prefix) - 1; i >= 0; i-- {
		if prefix[i] < 0xff {
			hi := bytes.Clone(prefix[:i+1])
			hi[i]++
			return hi
		}
	}
	return nil
}

func (h *StoreHandle[K, V]) scan(lo, hi []byte, yield func(K, V) bool) {
	switch {
	case !h.usable():
		return
	case !h.ordered:
		h.check(task.KindStore, fmt.Errorf("store %q is not ordered: declare it with streams.Ordered to iterate over it", h.name))
		return
	}
	it := h.rows.Scan(lo, hi, false)
	defer func() { h.check(task.KindStore, it.Close()) }()
	for !h.in.env.Failed() && it.Next() {
		key, _, err := h.keysBack.decode(it.Key())
		if err != nil {
			h.check(task.KindDecode, fmt.Errorf("key in store %q: %w", h.name, err))
			return
		}
		value, ok := h.decodeValue(it.Row().Value)
		if !ok || !yield(key, value) {
			return
		}
	}
}

func (h *StoreHandle[K, V]) writable() bool {
	if !h.in.flowing(h.step) {
		return false
	}
	if h.readOnly {
		h.check(task.KindStore, fmt.Errorf("store %q is written by its table only", h.name))
	}
	return !h.readOnly
}

var errNotOpen = errors.New("the store was not opened: attach it with WithStores")

func (h *StoreHandle[K, V]) usable() bool {
	if h.in.closed {
		return false
	}
	if h.rows == nil {
		h.check(task.KindStore, errNotOpen)
		return false
	}
	return !h.in.env.Failed()
}

func (h *StoreHandle[K, V]) encodeKey(key K) ([]byte, bool) {
	if !h.usable() {
		return nil, false
	}
	k, n, err := h.keys.append(h.key[:0], &key, nil, false)
	switch {
	case err != nil:
		err = fmt.Errorf("key for store %q: %w", h.name, err)
	case n < 0:
		err = fmt.Errorf("a null key for store %q: rows have keys", h.name)
	}
	if err != nil {
		h.check(task.KindEncode, err)
		return nil, false
	}
	h.key = k
	return k, true
}

func (h *StoreHandle[K, V]) decodeValue(src []byte) (V, bool) {
	v, _, err := h.valuesBack.decode(src)
	if err != nil {
		h.check(task.KindDecode, fmt.Errorf("row of store %q: %w", h.name, err))
	}
	return v, err == nil
}

// check fails the unit if there is an error.
func (h *StoreHandle[K, V]) check(kind task.Kind, err error) {
	if err != nil {
		h.in.env.Fail(h.step.name, kind, err)
	}
}
