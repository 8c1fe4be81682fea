package streams

import (
	"fmt"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// rows is the store of a table in one task, and the end of the table's node that sends changes.
type rows[K, V any] struct {
	in        *instance
	step      *step
	index     int // of the store
	store     *statestore.Overlay
	keys      decoder[K]
	values    decoder[V] // for what is read from the store
	encode    encoder[V]
	out       *fan[K, change[V]]
	perUpdate bool
	it        item[K, change[V]]
	value     []byte // the encoded new value, reused
	old       []byte // the encoded old value, reused
}

// newRows opens the store of a table. Where the table emits at commit and somebody listens, it is registered to do so.
func newRows[K, V any](in *instance, s *step, def *storeDef, keys serde.Serde[K], values serde.Serde[V], changelog string) *rows[K, V] {
	index := in.sub.storeIndex(def)
	r := &rows[K, V]{
		in: in, step: s, index: index,
		store:     in.env.Store(index),
		keys:      storeDecoder(keys, changelog, true),
		values:    storeDecoder(values, changelog, false),
		encode:    newEncoder[V](values, nil, false, changelog, false),
		out:       in.out[K, change[V]](s),
		perUpdate: in.sub.emission(s) == EmitPerUpdate,
		value:     make([]byte, 0, 64),
	}
	if in.sub.emitsAtCommit(s) {
		in.tables = append(in.tables, task.Table{Store: index, Node: s.name, Emit: r.emit})
	}
	return r
}

// warms is the store, if the raw key of an item is the one that is looked up in it.
func (r *rows[K, V]) warms(raw bool) []int {
	if raw {
		return []int{r.index}
	}
	return nil
}

func (r *rows[K, V]) fail(kind task.Kind, err error) { r.in.env.Fail(r.step.name, kind, err) }

// encodeKey returns the key as the store has it, appended to dst.
func (r *rows[K, V]) encodeKey(e *encoder[K], dst []byte, key K, raw []byte) ([]byte, bool) {
	b, n, err := e.append(dst, &key, raw, false)
	if err != nil {
		r.fail(task.KindEncode, fmt.Errorf("key: %w", err))
		return nil, false
	}
	if n < 0 {
		r.in.env.Dropped(droppedNullKey, 1)
		return nil, false
	}
	return b, true
}

// remember keeps the row that is about to be replaced, if somebody downstream looks at it.
func (r *rows[K, V]) remember(row statestore.Row) {
	if r.perUpdate && r.out.need&needOld != 0 {
		r.old = append(r.old[:0], row.Value...)
	}
}

// replace writes the new value of a key, or deletes the row if the value means null, and sends the change. A row that was not there and is
// not there now is no change.
func (r *rows[K, V]) replace(key []byte, value V, found bool, ts int64, headers []task.Header) {
	b, n, err := r.encode.append(r.value[:0], &value, nil, false)
	if err != nil {
		r.fail(task.KindEncode, fmt.Errorf("value: %w", err))
		return
	}
	r.value = b
	r.write(key, b, n >= 0, found, ts)
	if r.perUpdate {
		r.send(key, value, n >= 0, found, ts, headers)
	}
}

func (r *rows[K, V]) write(key, value []byte, present, found bool, ts int64) {
	var err error
	switch {
	case present:
		err = r.store.Put(key, value, ts)
	case found:
		err = r.store.Delete(key, ts)
	}
	if err != nil {
		r.fail(task.KindStore, err)
	}
}

// send pushes a change of this very record.
func (r *rows[K, V]) send(key []byte, value V, present, found bool, ts int64, headers []task.Header) {
	if r.in.env.Failed() || !present && !found {
		return
	}
	it := &r.it
	it.value = change[V]{hasOld: found, hasNew: present}
	if present {
		it.value.new = value
	}
	it.rawKey, it.rawValue, it.ts, it.headers = key, nil, ts, headers
	if present {
		it.rawValue = r.value
	}
	if found && !r.decodeOld(r.old) || !r.decodeKey(key) {
		return
	}
	r.out.push(it)
}

// emit pushes what became of a key since the last commit.
func (r *rows[K, V]) emit(key []byte, now statestore.Row, present bool, before statestore.Row, hadBefore bool) {
	if !present && !hadBefore {
		return
	}
	it := &r.it
	it.value = change[V]{hasOld: hadBefore, hasNew: present}
	it.rawKey, it.rawValue, it.ts, it.headers = key, nil, now.Timestamp, nil
	if hadBefore && !r.decodeOld(before.Value) {
		return
	}
	if present {
		it.rawValue = now.Value
		if !r.decodeNew(now.Value) {
			return
		}
	}
	if r.decodeKey(key) {
		r.out.push(it)
	}
}

func (r *rows[K, V]) decodeKey(key []byte) bool {
	if r.out.need&needKey == 0 {
		return true
	}
	var err error
	if r.it.key, _, err = r.keys.decode(key); err != nil {
		r.fail(task.KindDecode, fmt.Errorf("key of a row: %w", err))
	}
	return err == nil
}

func (r *rows[K, V]) decodeNew(value []byte) bool {
	if r.out.need&needValue == 0 {
		return true
	}
	var err error
	if r.it.value.new, _, err = r.values.decode(value); err != nil {
		r.fail(task.KindDecode, fmt.Errorf("row: %w", err))
	}
	return err == nil
}

func (r *rows[K, V]) decodeOld(value []byte) bool {
	if r.out.need&needOld == 0 {
		return true
	}
	var err error
	if r.it.value.old, _, err = r.values.decode(value); err != nil {
		r.fail(task.KindDecode, fmt.Errorf("row before: %w", err))
	}
	return err == nil
}
