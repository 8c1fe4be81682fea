package statestore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Memory is a Backend in memory, for tests and simulations. It tells what has been flushed from what has not, so that a crash can be played:
// see Crash. It is not for concurrent use.
type Memory struct {
	now, flushed map[TaskID]map[string]*memoryStore
	open         map[TaskID]*memoryTask
	closed       bool
}

// memoryStore is the state of one store.
type memoryStore struct {
	rows      tree
	position  int64
	changelog [16]byte // the topic of the position
}

// NewMemory returns an empty in-memory backend.
func NewMemory() *Memory {
	return &Memory{
		now:     map[TaskID]map[string]*memoryStore{},
		flushed: map[TaskID]map[string]*memoryStore{},
		open:    map[TaskID]*memoryTask{},
	}
}

var errMemoryClosed = errors.New("statestore: the backend is closed")

// Open opens the stores of a task, which must not be open.
func (m *Memory) Open(id TaskID, stores []Spec) (TaskStores, error) {
	if m.closed {
		return nil, errMemoryClosed
	}
	if m.open[id] != nil {
		return nil, fmt.Errorf("statestore: %w", errOpen(id))
	}
	if err := CheckSpecs(id, stores); err != nil {
		return nil, err
	}
	t := &memoryTask{m: m, id: id, specs: slices.Clone(stores), stale: make([]bool, len(stores))}
	for i := range t.specs {
		if s := t.store(i); s != nil && !t.specs[i].Fits(s.changelog) {
			t.stale[i] = true
			t.wipe(i)
		}
	}
	m.open[id] = t
	return t, nil
}

func errOpen(id TaskID) error {
	return fmt.Errorf("the stores of task %s are open already: close them first", id)
}

// CheckSpecs returns an error if a store has no name or two have the same.
func CheckSpecs(id TaskID, stores []Spec) error {
	for i, s := range stores {
		if s.Name == "" {
			return fmt.Errorf("statestore: store %d of task %s has no name", i, id)
		}
		if slices.ContainsFunc(stores[:i], func(o Spec) bool { return o.Name == s.Name }) {
			return fmt.Errorf("statestore: task %s has two stores named %q", id, s.Name)
		}
	}
	return nil
}

// Tasks lists the tasks that have rows or positions.
func (m *Memory) Tasks() ([]StoredTask, error) {
	if m.closed {
		return nil, errMemoryClosed
	}
	var out []StoredTask
	for id, stores := range m.now {
		st := StoredTask{ID: id, Open: m.open[id] != nil}
		rows := 0
		for name, s := range stores {
			rows += s.rows.n
			if s.position >= 0 {
				st.Stores = append(st.Stores, StoredStore{Name: name, Position: s.position, Changelog: s.changelog})
			}
		}
		slices.SortFunc(st.Stores, func(a, b StoredStore) int { return cmp.Compare(a.Name, b.Name) })
		if rows > 0 || len(st.Stores) > 0 {
			out = append(out, st)
		}
	}
	slices.SortFunc(out, func(a, b StoredTask) int { return a.ID.Compare(b.ID) })
	return out, nil
}

// Drop deletes everything of a task that is not open.
func (m *Memory) Drop(id TaskID) error {
	if m.closed {
		return errMemoryClosed
	}
	if m.open[id] != nil {
		return fmt.Errorf("statestore: drop: %w", errOpen(id))
	}
	m.drop(id)
	return nil
}

func (m *Memory) drop(id TaskID) {
	delete(m.now, id)
	delete(m.flushed, id)
}

// DiskUsage is always 0.
func (m *Memory) DiskUsage(TaskID) (int64, error) {
	if m.closed {
		return 0, errMemoryClosed
	}
	return 0, nil
}

// Flush makes the present state the one that Crash returns to.
func (m *Memory) Flush() error {
	if m.closed {
		return errMemoryClosed
	}
	m.flushed = snapshotOf(m.now)
	return nil
}

func snapshotOf(from map[TaskID]map[string]*memoryStore) map[TaskID]map[string]*memoryStore {
	to := make(map[TaskID]map[string]*memoryStore, len(from))
	for id, stores := range from {
		to[id] = make(map[string]*memoryStore, len(stores))
		for name, s := range stores {
			to[id][name] = &memoryStore{rows: s.rows.snapshot(), position: s.position, changelog: s.changelog}
		}
	}
	return to
}

// Crash plays the death of the process: what has been written since the last flush is lost, and the task stores that were open are no
// longer of use. The backend can be used again at once, also after Close.
func (m *Memory) Crash() {
	for _, t := range m.open {
		t.closed = true
	}
	m.open = map[TaskID]*memoryTask{}
	kept := snapshotOf(m.flushed)
	for _, stores := range kept {
		for _, s := range stores {
			s.rows.age++ // its nodes are shared with flushed
		}
	}
	m.now = kept
	m.closed = false
}

// Close flushes and closes. All task stores must be closed before.
func (m *Memory) Close() error {
	if m.closed {
		return nil
	}
	if len(m.open) > 0 {
		return fmt.Errorf("statestore: %d tasks are open at the close of the backend: close them first", len(m.open))
	}
	err := m.Flush()
	m.closed = true
	return err
}

// memoryTask is the TaskStores of a Memory.
type memoryTask struct {
	m      *Memory
	id     TaskID
	specs  []Spec
	stale  []bool // by store
	era    int    // counts releases of readers
	closed bool
}

func (t *memoryTask) store(i int) *memoryStore { return t.m.now[t.id][t.specs[i].Name] }

// ensure returns the store, and makes it if it is not there.
func (t *memoryTask) ensure(i int) *memoryStore {
	stores := t.m.now[t.id]
	if stores == nil {
		stores = map[string]*memoryStore{}
		t.m.now[t.id] = stores
	}
	s := stores[t.specs[i].Name]
	if s == nil {
		s = &memoryStore{position: NoPosition}
		stores[t.specs[i].Name] = s
	}
	return s
}

func (t *memoryTask) check() error {
	if t.closed {
		return fmt.Errorf("statestore: the stores of task %s are closed", t.id)
	}
	return nil
}

func (t *memoryTask) Reader(store int) Reader { return &memoryReader{t: t, store: store, era: t.era} }

func (t *memoryTask) ReleaseReaders() { t.era++ }

func (t *memoryTask) Position(store int) int64 {
	if s := t.store(store); s != nil && !t.closed {
		return s.position
	}
	return NoPosition
}

func (t *memoryTask) Stale(store int) bool { return t.stale[store] }

func (t *memoryTask) Apply(b *Batch) error {
	if err := t.check(); err != nil {
		return err
	}
	for _, sb := range b.Stores {
		if sb.Store < 0 || sb.Store >= len(t.specs) {
			return fmt.Errorf("statestore: task %s has no store %d", t.id, sb.Store)
		}
	}
	for _, sb := range b.Stores {
		s := t.ensure(sb.Store)
		for _, c := range sb.Changes {
			if c.Value == nil {
				s.rows.delete(c.Key)
			} else {
				s.rows.put(c.Key, Row{Value: c.Value, Timestamp: c.Timestamp})
			}
		}
		if sb.Position >= 0 {
			s.position, s.changelog = sb.Position, t.specs[sb.Store].Identity(s.changelog)
		}
	}
	return nil
}

func (t *memoryTask) Ingest(b *Batch) error { return t.Apply(b) }

func (t *memoryTask) Wipe(store int) error {
	if err := t.check(); err != nil {
		return err
	}
	t.wipe(store)
	return nil
}

func (t *memoryTask) wipe(store int) {
	delete(t.m.now[t.id], t.specs[store].Name)
	delete(t.m.flushed[t.id], t.specs[store].Name)
}

func (t *memoryTask) Drop() error {
	if err := t.check(); err != nil {
		return err
	}
	t.m.drop(t.id)
	return t.Close()
}

func (t *memoryTask) Close() error {
	if !t.closed {
		t.closed = true
		delete(t.m.open, t.id)
	}
	return nil
}

type memoryReader struct {
	t     *memoryTask
	store int
	era   int // of its making
}

func (r *memoryReader) check() error {
	if r.era != r.t.era {
		return fmt.Errorf("statestore: the reader of task %s is closed: it was released", r.t.id)
	}
	return r.t.check()
}

func (r *memoryReader) Get(key []byte) (Row, bool, error) {
	if err := r.check(); err != nil {
		return Row{}, false, err
	}
	s := r.t.store(r.store)
	if s == nil {
		return Row{}, false, nil
	}
	row, ok := s.rows.get(key)
	return row, ok, nil
}

func (r *memoryReader) Scan(lo, hi []byte, reverse bool) Iterator {
	if err := r.check(); err != nil {
		return failedScan{err}
	}
	s := r.t.store(r.store)
	if s == nil {
		return failedScan{}
	}
	return &treeScan{root: s.rows.snapshot().root, lo: slices.Clone(lo), hi: slices.Clone(hi), reverse: reverse}
}
