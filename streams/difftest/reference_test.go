package difftest_test

import (
	"maps"
	"slices"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/task"
)

// The reference runs a topology on plain values: no bytes, no overlay, no undo log. A unit is undone by going back to a copy of everything.

// rec is a record on its way.
type rec struct {
	k, v    val
	ts      int64
	headers []streams.Header
}

// entry is a record in a topic: the values and the bytes that must be there.
type entry struct {
	rec
	rawKey, rawValue []byte
}

// change is an update of a table's row.
type change struct {
	k              val
	old, new       val
	hasOld, hasNew bool
	ts             int64
	headers        []streams.Header
}

type row struct {
	v  val
	ts int64
}

// store is a store of one task.
type store struct {
	rows  map[val]row
	dirty []val // in the order in which they were written first since the last commit
}

func (s *store) clone() *store {
	return &store{rows: maps.Clone(s.rows), dirty: slices.Clone(s.dirty)}
}

func (s *store) write(k val, r row, present bool) {
	if !slices.Contains(s.dirty, k) {
		s.dirty = append(s.dirty, k)
	}
	if present {
		s.rows[k] = r
	} else {
		r.v = null(r.v.kind)
		s.rows[k] = r // the timestamp of the tombstone
	}
}

func (s *store) get(k val) (row, bool) {
	if r, ok := s.rows[k]; ok && !r.v.null {
		return r, true
	}
	return row{}, false
}

// failure is how a unit failed.
type failure struct {
	node      string
	kind      streams.Kind
	topic     string
	partition int32
	offset    int64
}

// storeInfo is what the reference knows of a store.
type storeInfo struct {
	name         string
	keys, values serdeID
	unlogged     bool
	atCommit     bool
	emit         func(t *rtask, c change) // to whoever follows the table; nil for others
}

// rtask is a task of the reference.
type rtask struct {
	w         *world
	spec      *task.Spec
	partition int32
	stores    map[string]*store
	committed map[string]*store
	position  map[string]int64
	done      map[string]int64 // committed positions
	fetched   map[string]int64
	active    []sent // not handed over yet
	drops     map[string]int64
	topic     string // of the record in hand
	offset    int64
	failed    *failure // of the running unit
	err       *failure // why it has stopped
}

type sent struct {
	topic     string
	partition int32
	entry     entry
}

// world is the topics and tasks of the reference.
type world struct {
	n       int32            // partitions of the user's topics
	counts  map[string]int32 // of internal ones
	logs    map[string][][]entry
	entries map[string][]func(t *rtask, r rec)
	stores  map[string]*storeInfo
	order   []*storeInfo // as they were made
	tasks   []*rtask
	drops   map[string]int64
	err     *failure
	hold    bool
}

func newWorld(n int32, hold bool) *world {
	return &world{
		n: n, hold: hold, counts: map[string]int32{}, logs: map[string][][]entry{}, entries: map[string][]func(*rtask, rec){},
		stores: map[string]*storeInfo{}, drops: map[string]int64{},
	}
}

// start makes the tasks, in the order in which the driver lets them work.
func (w *world) start(t *streams.Topology, counts map[string]int32) {
	w.counts = counts
	for _, spec := range t.Subtopologies {
		tasks := int32(0)
		for _, in := range spec.Inputs {
			tasks = max(tasks, w.partitions(in.Topic))
		}
		for p := range tasks {
			t := &rtask{w: w, spec: spec, partition: p, committed: map[string]*store{}, done: map[string]int64{}}
			t.revert()
			w.tasks = append(w.tasks, t)
		}
	}
}

func (w *world) partitions(topic string) int32 {
	if n, ok := w.counts[topic]; ok {
		return n
	}
	return w.n
}

func (w *world) log(topic string) [][]entry {
	if w.logs[topic] == nil {
		w.logs[topic] = make([][]entry, w.partitions(topic))
	}
	return w.logs[topic]
}

func (w *world) append(topic string, partition int32, e entry) {
	w.log(topic)[partition] = append(w.log(topic)[partition], e)
}

func (w *world) written() (n int) {
	for _, l := range w.logs {
		for _, p := range l {
			n += len(p)
		}
	}
	return n
}

func cloneStores(m map[string]*store) map[string]*store {
	out := map[string]*store{}
	for name, s := range m {
		out[name] = s.clone()
	}
	return out
}

// revert goes back to what was committed.
func (t *rtask) revert() {
	t.stores, t.position, t.fetched = cloneStores(t.committed), maps.Clone(t.done), maps.Clone(t.done)
	t.active, t.failed, t.err = nil, nil, nil
}

func (t *rtask) store(name string) *store {
	if t.stores[name] == nil {
		t.stores[name] = &store{rows: map[val]row{}}
	}
	return t.stores[name]
}

func (t *rtask) drop(reason string) { t.drops[reason]++ }

func (t *rtask) fail(node string, kind streams.Kind) {
	if t.failed == nil {
		t.failed = &failure{node, kind, t.topic, t.partition, t.offset}
		if t.topic == "" {
			t.failed.partition, t.failed.offset = -1, -1
		}
	}
}

func (t *rtask) send(topic string, r rec, keys, values serdeID) {
	e := entry{rec: r, rawKey: encode(r.k, keys), rawValue: encode(r.v, values)}
	p := t.partition % t.w.partitions(topic)
	if e.rawKey != nil {
		p = task.PartitionFor(e.rawKey, t.w.partitions(topic))
	}
	t.active = append(t.active, sent{topic, p, e})
}

func (t *rtask) flush() {
	for _, s := range t.active {
		t.w.append(s.topic, s.partition, s.entry)
	}
	t.active = nil
}

// unit runs f; if it fails, it never was.
func (t *rtask) unit(topic string, offset int64, f func()) bool {
	stores, active := cloneStores(t.stores), slices.Clone(t.active)
	t.topic, t.offset, t.drops, t.failed = topic, offset, map[string]int64{}, nil
	f()
	if t.failed != nil {
		t.stores, t.active = stores, active
		if t.err == nil {
			t.err = t.failed
		}
		return false
	}
	for reason, n := range t.drops {
		t.w.drops[reason] += n
	}
	return true
}

// next is the input whose head has the lowest timestamp.
func (t *rtask) next() (topic string, ok bool) {
	var best int64
	for _, in := range t.spec.Inputs {
		l := t.w.log(in.Topic)
		at := t.position[in.Topic]
		if t.partition >= int32(len(l)) || at >= t.fetched[in.Topic] {
			continue
		}
		if ts := l[t.partition][at].ts; !ok || ts < best {
			topic, best, ok = in.Topic, ts, true
		}
	}
	return topic, ok
}

// work takes one record.
func (t *rtask) work() bool {
	if t.err != nil {
		return false
	}
	for _, in := range t.spec.Inputs {
		if l := t.w.log(in.Topic); t.partition < int32(len(l)) {
			t.fetched[in.Topic] = int64(len(l[t.partition]))
		}
	}
	topic, ok := t.next()
	if !ok {
		return false
	}
	r := t.w.log(topic)[t.partition][t.position[topic]].rec
	kept := t.unit(topic, t.position[topic], func() {
		for _, f := range t.w.entries[topic] {
			f(t, r)
		}
	})
	if !kept {
		t.commit() // what was before it
		t.stop()
		return true
	}
	t.position[topic]++
	if _, more := t.next(); !more {
		t.flush() // it goes idle
	}
	return true
}

// stop drops what is not committed.
func (t *rtask) stop() {
	err := t.err
	t.revert()
	t.err = err
	if t.w.err == nil {
		t.w.err = err
	}
}

// commit emits, writes changelogs, and makes what there is the truth.
func (t *rtask) commit() {
	for _, info := range t.w.order {
		if !info.atCommit || info.emit == nil || !t.has(info) {
			continue
		}
		for i := 0; i < len(t.store(info.name).dirty); i++ {
			if !t.unit("", -1, func() { t.emit(info, t.store(info.name).dirty[i]) }) {
				t.stop()
				return
			}
		}
	}
	for _, s := range t.spec.Stores { // by name
		t.log(t.w.stores[s.Spec.Name])
	}
	t.flush()
	t.committed, t.done = cloneStores(t.stores), maps.Clone(t.position)
}

func (t *rtask) has(info *storeInfo) bool {
	return slices.ContainsFunc(t.spec.Stores, func(s task.Store) bool { return s.Spec.Name == info.name })
}

func (t *rtask) emit(info *storeInfo, k val) {
	now := t.store(info.name).rows[k]
	c := change{k: k, new: now.v, hasNew: !now.v.null, ts: now.ts}
	if s := t.committed[info.name]; s != nil {
		var before row
		before, c.hasOld = s.get(k)
		c.old = before.v
	}
	if c.hasOld || c.hasNew {
		info.emit(t, c)
	}
}

func (t *rtask) log(info *storeInfo) {
	s := t.store(info.name)
	for _, k := range s.dirty {
		r := s.rows[k]
		if !info.unlogged {
			t.w.append("test-"+info.name+"-changelog", t.partition, entry{
				rec: rec{ts: r.ts}, rawKey: encode(k, info.keys), rawValue: encode(r.v, info.values),
			})
		}
		if r.v.null {
			delete(s.rows, k)
		}
	}
	s.dirty = nil
}

func (w *world) work() {
	for busy := true; busy; {
		busy = false
		for _, t := range w.tasks {
			busy = t.work() || busy
		}
	}
}

func (w *world) commit() {
	for {
		w.work()
		before := w.written()
		for _, t := range w.tasks {
			if t.err == nil {
				t.commit()
			}
		}
		if w.written() == before {
			return
		}
	}
}

func (w *world) settle() {
	if w.hold {
		w.work()
		return
	}
	w.commit()
}

// restart begins again with what is committed. Stores without a changelog are lost unless the state is kept.
func (w *world) restart(keep bool) {
	w.err = nil
	for _, t := range w.tasks {
		for name := range t.committed {
			if !keep && w.stores[name].unlogged {
				delete(t.committed, name)
			}
		}
		t.revert()
	}
	w.settle()
}

// rowsOf are the rows of a store as bytes, over all tasks.
func (w *world) rowsOf(info *storeInfo) map[string]string {
	out := map[string]string{}
	for _, t := range w.tasks {
		if !t.has(info) {
			continue
		}
		for k, r := range t.store(info.name).rows {
			if !r.v.null {
				out[string(encode(k, info.keys))] = string(encode(r.v, info.values))
			}
		}
	}
	return out
}

func partitionFor(key []byte, n int32) int32 { return task.PartitionFor(key, n) }
