package offsetstore

import (
	"maps"

	"github.com/understudy-streams/understudy/streams"
)

// table is the rows of all groups, in memory.
type table map[string]map[streams.TopicPartition]row

// load returns the offsets of some partitions and lifts their fences.
func (t table) load(group string, parts []streams.TopicPartition) map[streams.TopicPartition]int64 {
	out := make(map[streams.TopicPartition]int64, len(parts))
	for _, tp := range parts {
		if r, ok := t[group][tp]; ok {
			out[tp] = r.offset
			r.generation = none
			t[group][tp] = r
		}
	}
	return out
}

// with returns the table as it is after a save. The receiver stays as it is, for a save that fails.
func (t table) with(group string, generation int32, offsets map[streams.TopicPartition]int64) (table, error) {
	rows := maps.Clone(t[group])
	if rows == nil {
		rows = map[streams.TopicPartition]row{}
	}
	for tp, offset := range offsets {
		if err := check(tp, offset); err != nil {
			return nil, err
		}
		if r, ok := rows[tp]; ok {
			if err := r.admit(group, tp, generation); err != nil {
				return nil, err
			}
		}
		rows[tp] = row{offset, max(generation, none)}
	}
	out := maps.Clone(t)
	out[group] = rows
	return out, nil
}
