package storetest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/statestore"
)

// keys are short, of few bytes that matter to an encoding, so that neighbours and prefixes of each other are frequent; some are long.
func keys() *rapid.Generator[string] {
	short := rapid.SliceOfN(rapid.SampledFrom([]byte{0, 1, 'a', 'b', 0xfe, 0xff}), 0, 3)
	return rapid.Custom(func(t *rapid.T) string {
		k := string(short.Draw(t, "key"))
		if rapid.IntRange(0, 5).Draw(t, "long") == 0 {
			k += strings.Repeat("k", rapid.SampledFrom([]int{13, 17, 100}).Draw(t, "tail"))
		}
		return k
	})
}

// values are of all sizes that a store might keep in different ways.
func values() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		n := rapid.SampledFrom([]int{0, 1, 8, 16, 17, 40, 100, 129, 600, 5000}).Draw(t, "size")
		return strings.Repeat(string(rapid.SampledFrom([]byte{0, 'x', 'y', 0xff}).Draw(t, "byte")), n)
	})
}

// modelRow is what the model knows of a key that is there.
type modelRow struct {
	value string
	ts    int64
}

// between returns the rows with lo <= key < hi in order; a nil bound is none.
func between(rows map[string]modelRow, lo, hi *string, reverse bool) []row {
	out := []row{}
	for _, k := range slices.Sorted(maps.Keys(rows)) {
		if (lo == nil || k >= *lo) && (hi == nil || k < *hi) {
			out = append(out, row{k, rows[k].value, rows[k].ts})
		}
	}
	if reverse {
		return reversed(out)
	}
	return out
}

func bound(k *string) []byte {
	if k == nil {
		return nil
	}
	return append([]byte{}, *k...)
}

// model runs random operations against a backend and against sorted maps.
type model struct {
	b     statestore.Backend
	tasks map[statestore.TaskID]*modelTask
}

type modelTask struct {
	ts        statestore.TaskStores
	specs     []statestore.Spec
	rows      []map[string]modelRow
	positions []int64
	topics    [][16]byte // of the positions
	readers   []statestore.Reader
}

func (m *model) open(t require.TestingT, id statestore.TaskID, k *modelTask) {
	ts, err := m.b.Open(id, k.specs)
	require.NoError(t, err)
	k.ts, k.readers = ts, nil
	for i, spec := range k.specs {
		stale := k.topics[i] != unknownTopic && spec.Changelog != unknownTopic && k.topics[i] != spec.Changelog
		require.Equal(t, stale, ts.Stale(i))
		if stale {
			k.wipe(i)
		}
		k.readers = append(k.readers, ts.Reader(i))
	}
}

func (m *model) close(t require.TestingT) {
	for _, id := range m.ids() {
		require.NoError(t, m.tasks[id].ts.Close())
	}
}

func (m *model) ids() []statestore.TaskID {
	return slices.SortedFunc(maps.Keys(m.tasks), statestore.TaskID.Compare)
}

func testModel(t *testing.T, open func(*testing.T) statestore.Backend) {
	rapid.Check(t, func(rt *rapid.T) {
		m := &model{b: open(t), tasks: map[statestore.TaskID]*modelTask{}}
		defer func() {
			m.close(rt)
			require.NoError(rt, m.b.Close())
		}()
		for _, id := range []statestore.TaskID{{Subtopology: 0, Partition: 0}, {Subtopology: 0, Partition: 1}, {Subtopology: 3, Partition: 255}} {
			k := &modelTask{specs: []statestore.Spec{{Name: "a", Ordered: true}, {Name: "b", Ordered: true}}}
			k.reset()
			m.open(rt, id, k)
			m.tasks[id] = k
		}
		actions := map[string]func(*rapid.T){
			"apply":  func(t *rapid.T) { m.write(t, false) },
			"ingest": func(t *rapid.T) { m.write(t, true) },
			"get":    m.get,
			"scan":   m.scan,
			"flush":  func(t *rapid.T) { require.NoError(t, m.b.Flush()) },
			"wipe":   m.wipe,
			"drop":   m.drop,
			"role":   m.role,
			"tasks":  m.list,
			"":       m.checkPositions,
		}
		if _, ok := m.b.(Reopener); ok {
			actions["reopen"] = m.reopen
		}
		rt.Repeat(actions)
	})
}

func (k *modelTask) reset() {
	k.rows, k.positions, k.topics = nil, nil, nil
	for range k.specs {
		k.rows = append(k.rows, map[string]modelRow{})
		k.positions = append(k.positions, statestore.NoPosition)
		k.topics = append(k.topics, unknownTopic)
	}
}

func (k *modelTask) wipe(store int) {
	k.rows[store], k.positions[store], k.topics[store] = map[string]modelRow{}, statestore.NoPosition, unknownTopic
}

func (m *model) task(t *rapid.T) (statestore.TaskID, *modelTask) {
	id := rapid.SampledFrom(m.ids()).Draw(t, "task")
	return id, m.tasks[id]
}

// write applies a batch for one or more stores; keys may come more than once.
func (m *model) write(t *rapid.T, ingest bool) {
	_, k := m.task(t)
	b := &statestore.Batch{}
	for s := range k.specs {
		if rapid.Bool().Draw(t, "skip store") {
			continue
		}
		sb := statestore.StoreBatch{Store: s, Position: rapid.Int64Range(-1, 1000).Draw(t, "position")}
		if sb.Position >= 0 {
			k.positions[s] = sb.Position
			if topic := k.specs[s].Changelog; topic != unknownTopic {
				k.topics[s] = topic
			}
		}
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			key := keys().Draw(t, "key")
			ts := rapid.Int64().Draw(t, "timestamp")
			if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
				sb.Changes = append(sb.Changes, del(key))
				delete(k.rows[s], key)
				continue
			}
			v := values().Draw(t, "value")
			sb.Changes = append(sb.Changes, put(key, v, ts))
			k.rows[s][key] = modelRow{v, ts}
		}
		b.Stores = append(b.Stores, sb)
	}
	if ingest {
		require.NoError(t, k.ts.Ingest(b))
	} else {
		require.NoError(t, k.ts.Apply(b))
	}
}

func (m *model) get(t *rapid.T) {
	_, k := m.task(t)
	s := rapid.IntRange(0, len(k.specs)-1).Draw(t, "store")
	key := keys().Draw(t, "key")
	got, found, err := k.readers[s].Get([]byte(key))
	require.NoError(t, err)
	want, wantFound := k.rows[s][key]
	require.Equal(t, wantFound, found)
	if found {
		require.NotNil(t, got.Value)
		require.Equal(t, want, modelRow{string(got.Value), got.Timestamp})
	}
}

func (m *model) scan(t *rapid.T) {
	_, k := m.task(t)
	s := rapid.IntRange(0, len(k.specs)-1).Draw(t, "store")
	lo, hi := drawBound(t, "lo"), drawBound(t, "hi")
	reverse := rapid.Bool().Draw(t, "reverse")
	got := collect(t, k.readers[s].Scan(bound(lo), bound(hi), reverse))
	require.Equal(t, between(k.rows[s], lo, hi, reverse), got)
}

func drawBound(t *rapid.T, name string) *string {
	if rapid.IntRange(0, 2).Draw(t, "no "+name) == 0 {
		return nil
	}
	k := keys().Draw(t, name)
	return &k
}

func (m *model) wipe(t *rapid.T) {
	_, k := m.task(t)
	s := rapid.IntRange(0, len(k.specs)-1).Draw(t, "store")
	require.NoError(t, k.ts.Wipe(s))
	k.wipe(s)
}

func (m *model) drop(t *rapid.T) {
	id, k := m.task(t)
	if rapid.Bool().Draw(t, "closed") {
		require.NoError(t, k.ts.Close())
		require.NoError(t, m.b.Drop(id))
	} else {
		require.NoError(t, k.ts.Drop())
	}
	k.reset()
	m.open(t, id, k)
}

// role ends the readers of a task, and makes new ones.
func (m *model) role(t *rapid.T) {
	_, k := m.task(t)
	k.ts.ReleaseReaders()
	for s := range k.specs {
		_, _, err := k.readers[s].Get(nil)
		require.ErrorContains(t, err, "closed")
		k.readers[s] = k.ts.Reader(s)
	}
}

func (m *model) reopen(t *rapid.T) {
	m.close(t)
	b, err := m.b.(Reopener).Reopen()
	require.NoError(t, err)
	m.b = b
	for _, id := range m.ids() {
		k := m.tasks[id]
		if rapid.Bool().Draw(t, "swap stores") { // the index is not the identity, the name is
			slices.Reverse(k.specs)
			slices.Reverse(k.rows)
			slices.Reverse(k.positions)
			slices.Reverse(k.topics)
		}
		for s := range k.specs {
			k.specs[s].Changelog = rapid.SampledFrom([][16]byte{oneTopic, unknownTopic, otherTopic}).Draw(t, "changelog")
		}
		m.open(t, id, k)
	}
}

func (m *model) list(t *rapid.T) {
	got, err := m.b.Tasks()
	require.NoError(t, err)
	var want []statestore.StoredTask
	for _, id := range m.ids() {
		k := m.tasks[id]
		st := statestore.StoredTask{ID: id, Open: true}
		rows := 0
		for s, spec := range k.specs {
			if k.positions[s] >= 0 {
				st.Stores = append(st.Stores, statestore.StoredStore{Name: spec.Name, Position: k.positions[s], Changelog: k.topics[s]})
			}
			rows += len(k.rows[s])
		}
		slices.SortFunc(st.Stores, func(a, b statestore.StoredStore) int { return strings.Compare(a.Name, b.Name) })
		if rows > 0 || len(st.Stores) > 0 {
			want = append(want, st)
		}
	}
	require.Equal(t, want, got)
}

func (m *model) checkPositions(t *rapid.T) {
	for _, id := range m.ids() {
		k := m.tasks[id]
		for s := range k.specs {
			require.Equal(t, k.positions[s], k.ts.Position(s))
		}
	}
}
