package streamstest

import (
	"bytes"
	"slices"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Rows reads a store as the next record would see it, uncommitted rows included, over all its partitions.
type Rows[K, V any] struct {
	d      *Driver
	name   string
	keys   serde.Serde[K]
	values serde.Serde[V]
}

// Store returns the rows of a store. A name that the topology does not have fails the test.
func Store[K, V any](d *Driver, name string, keys serde.Serde[K], values serde.Serde[V]) *Rows[K, V] {
	d.t.Helper()
	s := &Rows[K, V]{d: d, name: name}
	p := s.partitions()[0]
	changelog := p.r.spec.Stores[p.store].Changelog
	s.keys, s.values = serde.For(keys, changelog, true), serde.For(values, changelog, false)
	return s
}

type partition struct {
	r     *runner
	store int
}

// partitions are the tasks that have the store.
func (s *Rows[K, V]) partitions() []partition {
	s.d.t.Helper()
	var all []partition
	for _, r := range s.d.runners {
		if i := slices.IndexFunc(r.spec.Stores, func(st task.Store) bool { return st.Spec.Name == s.name }); i >= 0 {
			all = append(all, partition{r, i})
		}
	}
	if len(all) == 0 {
		s.d.t.Fatalf("streamstest: no store is named %q", s.name)
	}
	return all
}

// Get returns the value of a key, and whether there is one.
func (s *Rows[K, V]) Get(key K) (value V, found bool) {
	s.d.t.Helper()
	k := encode(s.d, s.keys, key)
	for _, p := range s.partitions() {
		row, found, err := p.r.owner.Env().Store(p.store).Get(k)
		if err != nil {
			s.d.t.Fatalf("streamstest: store %s: %v", s.name, err)
		}
		if found {
			return decode(s.d, s.values, bytes.Clone(row.Value)), true
		}
	}
	return value, false
}

// All returns all rows, sorted by encoded key.
func (s *Rows[K, V]) All() []streams.KeyValue[K, V] {
	s.d.t.Helper()
	rows := make(map[string][]byte)
	for _, p := range s.partitions() {
		s.collect(p, rows)
	}
	keys := make([]string, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]streams.KeyValue[K, V], 0, len(keys))
	for _, k := range keys {
		out = append(out, streams.KeyValue[K, V]{Key: decode(s.d, s.keys, []byte(k)), Value: decode(s.d, s.values, rows[k])})
	}
	return out
}

// collect adds the committed rows of a partition, and what was written over them since.
func (s *Rows[K, V]) collect(p partition, rows map[string][]byte) {
	s.d.t.Helper()
	it := p.r.stores.Reader(p.store).Scan(nil, nil, false)
	for it.Next() {
		rows[string(it.Key())] = append([]byte{}, it.Row().Value...)
	}
	if err := it.Close(); err != nil {
		s.d.t.Fatalf("streamstest: store %s: %v", s.name, err)
	}
	overlay := p.r.owner.Env().Store(p.store)
	for i := range overlay.DirtyLen() {
		key, now, present, _, _ := overlay.Dirty(i)
		setRow(rows, key, now, present)
	}
}

func setRow(rows map[string][]byte, key []byte, now statestore.Row, present bool) {
	if present {
		rows[string(key)] = append([]byte{}, now.Value...)
		return
	}
	delete(rows, string(key))
}
