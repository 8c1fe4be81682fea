package streamstest

import (
	"bytes"
	"slices"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Rows reads a store as the next record would see it, uncommitted rows included, over all its partitions. In a [Cluster] those are at the members
// that run its tasks; what nobody runs at the moment is not there.
type Rows[K, V any] struct {
	b      Bench
	name   string
	keys   serde.Serde[K]
	values serde.Serde[V]
}

// Store returns the rows of a store. A name that the topology does not have fails the test.
func Store[K, V any](b Bench, name string, keys serde.Serde[K], values serde.Serde[V]) *Rows[K, V] {
	b.tb().Helper()
	s := &Rows[K, V]{b: b, name: name}
	changelog, found := changelogOf(b.specs(), name)
	if !found {
		b.tb().Fatalf("streamstest: no store is named %q", name)
	}
	s.keys, s.values = serde.For(keys, changelog, true), serde.For(values, changelog, false)
	return s
}

// changelogOf names the changelog of a store.
func changelogOf(specs []*task.Spec, store string) (topic string, found bool) {
	for _, spec := range specs {
		for _, st := range spec.Stores {
			if st.Spec.Name == store {
				return st.Changelog, true
			}
		}
	}
	return "", false
}

// shard is a store of one task.
type shard struct {
	owner  *task.Owner
	stores statestore.TaskStores
	sealed *task.Sealed // the commit that is under way, whose rows the store does not have yet; nil without one
	store  int
}

// shardOf is the store of a name in a task that runs, false if it has none.
func shardOf(spec *task.Spec, name string, s shard) (shard, bool) {
	s.store = slices.IndexFunc(spec.Stores, func(st task.Store) bool { return st.Spec.Name == name })
	return s, s.store >= 0
}

func (d *Driver) shards(store string) (all []shard) {
	for _, r := range d.runners {
		if s, ok := shardOf(r.spec, store, shard{owner: r.owner, stores: r.stores, sealed: r.sealed}); ok {
			all = append(all, s)
		}
	}
	return all
}

// Get returns the value of a key, and whether there is one.
func (s *Rows[K, V]) Get(key K) (value V, found bool) {
	s.b.tb().Helper()
	k := encode(s.b.tb(), s.keys, key)
	for _, p := range s.b.shards(s.name) {
		row, found, err := p.owner.Env().Store(p.store).Get(k)
		if err != nil {
			s.b.tb().Fatalf("streamstest: store %s: %v", s.name, err)
		}
		if found {
			return decode(s.b.tb(), s.values, bytes.Clone(row.Value)), true
		}
	}
	return value, false
}

// All returns all rows, sorted by encoded key.
func (s *Rows[K, V]) All() []streams.KeyValue[K, V] {
	s.b.tb().Helper()
	rows := make(map[string][]byte)
	for _, p := range s.b.shards(s.name) {
		s.collect(p, rows)
	}
	keys := make([]string, 0, len(rows))
	for k := range rows {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	out := make([]streams.KeyValue[K, V], 0, len(keys))
	for _, k := range keys {
		out = append(out, streams.KeyValue[K, V]{Key: decode(s.b.tb(), s.keys, []byte(k)), Value: decode(s.b.tb(), s.values, rows[k])})
	}
	return out
}

// collect adds the rows of a partition: those of the store, those that are being committed, and what was written over them since.
func (s *Rows[K, V]) collect(p shard, rows map[string][]byte) {
	s.b.tb().Helper()
	it := p.stores.Reader(p.store).Scan(nil, nil, false)
	for it.Next() {
		rows[string(it.Key())] = append([]byte{}, it.Row().Value...)
	}
	if err := it.Close(); err != nil {
		s.b.tb().Fatalf("streamstest: store %s: %v", s.name, err)
	}
	if p.sealed != nil {
		for _, st := range p.sealed.Stores {
			for _, ch := range st.Changes {
				if st.Store == p.store {
					setRow(rows, ch.Key, statestore.Row{Value: ch.Value}, ch.Value != nil)
				}
			}
		}
	}
	overlay := p.owner.Env().Store(p.store)
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
