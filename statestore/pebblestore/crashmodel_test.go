package pebblestore

import (
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/statestore"
)

// history is what a store held at each position since it was last emptied for good.
type history struct {
	at      map[int64]map[string]string
	now     map[string]string
	flushed int64 // a position that must not be lost any more
}

func newHistory() *history {
	return &history{at: map[int64]map[string]string{statestore.NoPosition: {}}, now: map[string]string{}, flushed: statestore.NoPosition}
}

func (h *history) last() int64 { return slices.Max(slices.Collect(maps.Keys(h.at))) }

// clone copies what changes: what a store held at a position does not.
func (h *history) clone() *history {
	if h == nil {
		return nil
	}
	return &history{at: maps.Clone(h.at), now: maps.Clone(h.now), flushed: h.flushed}
}

// crashStore is what may be found of a store.
type crashStore struct {
	h      *history
	before *history // what it was before the emptying that is under way, nil if none is
	topic  byte     // the changelog that it is opened with
	stale  bool     // the emptying that is under way is that of a store of another changelog

	all map[int64]map[string]string // what it held at each position ever, emptied or not; nil where nobody asks
}

// held returns what the store held at a position, and whether it may be there. The later history goes before.
func (s *crashStore) held(p int64) (map[string]string, bool) {
	if rows, ok := s.h.at[p]; ok {
		return rows, true
	}
	if s.before != nil && !s.stale {
		rows, ok := s.before.at[p]
		return rows, ok
	}
	return nil, false
}

// flushed is the position that the store must have at least.
func (s *crashStore) flushed() int64 {
	if s.before != nil {
		return statestore.NoPosition
	}
	return s.h.flushed
}

// rollback leaves what a store has after a crash that it survived at a position.
func (s *crashStore) rollback(p int64) {
	if _, ok := s.h.at[p]; !ok {
		s.h = s.before
	}
	s.before, s.stale = nil, false
	maps.DeleteFunc(s.h.at, func(q int64, _ map[string]string) bool { return q > p })
	s.h.now, s.h.flushed = maps.Clone(s.h.at[p]), p
}

const (
	crashTasks  = 3
	crashStores = 2
)

// crashModel is what may be found of a database. What is under way is in it from before it begins.
type crashModel struct {
	stores [crashTasks][crashStores]crashStore
	drops  [crashTasks]bool  // a task that is being dropped goes as a whole
	joint  []joint           // written in one batch
	names  map[string]uint32 // ids that must not change any more
}

type joint struct {
	task      int
	positions [crashStores]int64
}

func newCrashModel() *crashModel {
	m := &crashModel{names: map[string]uint32{}}
	for n := range m.stores {
		for s := range m.stores[n] {
			m.stores[n][s] = crashStore{h: newHistory(), topic: 1}
		}
	}
	return m
}

func (m *crashModel) clone() *crashModel {
	c := &crashModel{stores: m.stores, drops: m.drops, joint: slices.Clone(m.joint), names: maps.Clone(m.names)}
	for n := range c.stores {
		for s := range c.stores[n] {
			st := &c.stores[n][s]
			st.h, st.before = st.h.clone(), st.before.clone()
		}
	}
	return c
}

// lasts are the positions that have been written, which a flush that begins now makes durable.
func (m *crashModel) lasts() (out [crashTasks][crashStores]int64) {
	for n := range m.stores {
		for s := range m.stores[n] {
			out[n][s] = m.stores[n][s].h.last()
		}
	}
	return out
}

func (m *crashModel) flushed(lasts [crashTasks][crashStores]int64) {
	for n := range m.stores {
		for s := range m.stores[n] {
			m.stores[n][s].h.flushed = lasts[n][s]
		}
	}
}

// found is what is left of a database after a power cut.
type found struct {
	positions [crashTasks][crashStores]int64
	rows      [crashTasks][crashStores]map[string]string
	stale     [crashTasks][crashStores]bool
	names     map[string]uint32
}

// fault says what is wrong with what was found, "" if nothing is.
func (m *crashModel) fault(f *found) string {
	for n := range m.stores {
		for s := range m.stores[n] {
			if why := m.stores[n][s].fault(f.positions[n][s], f.rows[n][s], f.stale[n][s]); why != "" {
				return taskN(n).String() + ", store " + string(rune('a'+s)) + ": " + why
			}
		}
		if m.drops[n] && m.halfDropped(n, f) {
			return taskN(n).String() + " is dropped in part"
		}
	}
	for _, j := range m.joint {
		a, b := &m.stores[j.task][0], &m.stores[j.task][1]
		if a.before != nil || b.before != nil || a.h.at[j.positions[0]] == nil || b.h.at[j.positions[1]] == nil {
			continue // one of them has been emptied since
		}
		if p := f.positions[j.task]; (p[0] >= j.positions[0]) != (p[1] >= j.positions[1]) {
			return taskN(j.task).String() + ": a batch is there in part"
		}
	}
	for name, id := range m.names {
		if f.names[name] != id {
			return "store " + name + " has another id"
		}
	}
	return ""
}

func (s *crashStore) fault(p int64, rows map[string]string, stale bool) string {
	if stale && !s.stale {
		return "what was emptied for good has come back"
	}
	want, ok := s.held(p)
	switch {
	case !ok:
		return "it is at a position that it never had since it was emptied"
	case p < s.flushed():
		return "a flush was lost"
	case !maps.Equal(want, rows):
		return "its rows are not those of its position"
	}
	return ""
}

// halfDropped says whether one store of a task that is being dropped is there, and another one, that must be there if the task is, is not.
func (m *crashModel) halfDropped(n int, f *found) bool {
	there, gone := false, false
	for s := range m.stores[n] {
		was := m.stores[n][s].before
		there = there || f.positions[n][s] != statestore.NoPosition
		gone = gone || was.flushed != statestore.NoPosition && f.positions[n][s] == statestore.NoPosition
	}
	return there && gone
}
