package storetest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/statestore"
)

// cell is what the model of an overlay knows of a key: its row, and which write made it present.
type cell struct {
	modelRow
	present bool
	born    int
}

// overlayModel runs random operations on an overlay over a backend, and on maps.
type overlayModel struct {
	ts  statestore.TaskStores
	cfg statestore.OverlayConfig
	o   *statestore.Overlay

	now, cut, base map[string]cell // as it reads, as of the last cut, as committed
	order          []string        // dirty keys
	sealed         []statestore.Change
	sealedNow      map[string]cell
	seq            int

	inUnit    bool
	undoNow   map[string]cell
	undoOrder []string
	scans     []*modelScan
	held      []heldRow
}

type heldRow struct {
	row  statestore.Row
	want string
}

type modelScan struct {
	it      statestore.Iterator
	lo, hi  *string
	reverse bool
	start   int
	at      *string
	dead    bool
}

func testOverlayModel(t *testing.T, open func(*testing.T) statestore.Backend) {
	rapid.Check(t, func(rt *rapid.T) {
		b := open(t)
		defer func() { require.NoError(rt, b.Close()) }()
		ts, err := b.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
		require.NoError(rt, err)
		m := &overlayModel{ts: ts, now: map[string]cell{}, cut: map[string]cell{}, base: map[string]cell{}}
		defer func() {
			for _, s := range m.scans {
				_ = s.it.Close()
			}
			require.NoError(rt, ts.Close())
		}()
		m.cfg = statestore.OverlayConfig{
			Base: ts.Reader(0), Ordered: rapid.IntRange(0, 3).Draw(rt, "ordered") > 0, Seed: rapid.Uint64().Draw(rt, "seed"),
			KeepBefore: rapid.Bool().Draw(rt, "keep before"),
			CacheBytes: rapid.SampledFrom([]int{0, 300, 2000, 1 << 20}).Draw(rt, "cache"),
		}
		m.o = statestore.NewOverlay(m.cfg)
		rt.Repeat(map[string]func(*rapid.T){
			"put": m.put, "put again": m.put, "delete": m.delete, "get": m.get, "get more": m.get,
			"begin": m.begin, "end": m.end, "seal": m.seal, "applied": m.applied, "drop": m.drop,
			"scan": m.scan, "next": m.next, "next one": m.next, "close scan": m.closeScan, "all": m.all,
			"": m.check,
		})
	})
}

// written forgets the rows that a write or a commit call makes invalid.
func (m *overlayModel) written() { m.held = nil }

func (m *overlayModel) dirty(key string) {
	if !slices.Contains(m.order, key) {
		m.order = append(m.order, key)
	}
}

func (m *overlayModel) put(t *rapid.T) {
	key, v, ts := keys().Draw(t, "key"), values().Draw(t, "value"), rapid.Int64().Draw(t, "timestamp")
	m.seq++
	require.NoError(t, m.o.Put([]byte(key), []byte(v), ts))
	c := m.now[key]
	if !c.present {
		c.born = m.seq
	}
	c.present, c.modelRow = true, modelRow{v, ts}
	m.now[key] = c
	m.dirty(key)
	m.written()
}

func (m *overlayModel) delete(t *rapid.T) {
	key, ts := keys().Draw(t, "key"), rapid.Int64().Draw(t, "timestamp")
	if there := m.keysNow(); len(there) > 0 && rapid.Bool().Draw(t, "one that is there") {
		key = rapid.SampledFrom(there).Draw(t, "which")
	}
	m.seq++
	require.NoError(t, m.o.Delete([]byte(key), ts))
	m.now[key] = cell{modelRow: modelRow{ts: ts}}
	m.dirty(key)
	m.written()
}

func (m *overlayModel) keysNow() []string {
	return slices.Sorted(maps.Keys(rowsOf(m.now)))
}

func rowsOf(cells map[string]cell) map[string]modelRow {
	rows := map[string]modelRow{}
	for k, c := range cells {
		if c.present {
			rows[k] = c.modelRow
		}
	}
	return rows
}

// get keeps the row, to see whether it stays valid until the next write.
func (m *overlayModel) get(t *rapid.T) {
	key := keys().Draw(t, "key")
	if there := m.keysNow(); len(there) > 0 && rapid.Bool().Draw(t, "one that is there") {
		key = rapid.SampledFrom(there).Draw(t, "which")
	}
	got, found, err := m.o.Get([]byte(key))
	require.NoError(t, err)
	want := m.now[key]
	require.Equal(t, want.present, found)
	if found {
		require.NotNil(t, got.Value)
		require.Equal(t, want.modelRow, modelRow{string(got.Value), got.Timestamp})
		m.held = append(m.held, heldRow{got, want.value})
	}
}

func (m *overlayModel) begin(t *rapid.T) {
	if m.inUnit {
		t.Skip("in a unit")
	}
	m.o.Begin()
	m.inUnit, m.undoNow, m.undoOrder = true, maps.Clone(m.now), slices.Clone(m.order)
	m.written()
}

func (m *overlayModel) end(t *rapid.T) {
	if !m.inUnit {
		t.Skip("in no unit")
	}
	m.inUnit = false
	if rapid.Bool().Draw(t, "keep") {
		m.o.Keep()
		return
	}
	m.o.Rollback()
	m.now, m.order = m.undoNow, m.undoOrder
	m.written()
}

func (m *overlayModel) seal(t *rapid.T) {
	if m.inUnit || m.sealed != nil {
		t.Skip("not now")
	}
	m.sealed = m.o.Seal([]statestore.Change{})
	m.sealedNow = maps.Clone(m.now)
	m.cut = maps.Clone(m.now)
	m.checkSealed(t)
	m.order = nil
	m.written()
}

// checkSealed compares the sealed changes with the dirty keys at the cut. It is called again later: their bytes must stay valid.
func (m *overlayModel) checkSealed(t *rapid.T) {
	for i, c := range m.sealed {
		want := m.sealedNow[string(c.Key)]
		require.Equal(t, want.present, c.Value != nil)
		require.Equal(t, want.modelRow, modelRow{string(c.Value), c.Timestamp})
		if len(m.order) == len(m.sealed) && i < len(m.order) && !m.o.Sealed() {
			require.Equal(t, m.order[i], string(c.Key))
		}
	}
}

func (m *overlayModel) applied(t *rapid.T) {
	if m.sealed == nil {
		t.Skip("nothing sealed")
	}
	m.checkSealed(t)
	require.NoError(t, m.ts.Apply(one(0, int64(m.seq), m.sealed...)))
	m.o.Applied()
	m.base = m.sealedNow
	m.sealed = nil
	m.written()
}

func (m *overlayModel) drop(t *rapid.T) {
	if rapid.IntRange(0, 4).Draw(t, "rarely") > 0 {
		t.Skip("rare")
	}
	m.o.Drop(m.ts.Reader(0))
	m.now, m.cut, m.order, m.sealed = maps.Clone(m.base), maps.Clone(m.base), nil, nil
	m.undoNow, m.undoOrder = maps.Clone(m.now), nil
	for _, s := range m.scans {
		s.dead = true
	}
	m.written()
}

func (m *overlayModel) scan(t *rapid.T) {
	if !m.cfg.Ordered {
		t.Skip("not ordered")
	}
	s := &modelScan{lo: drawBound(t, "lo"), hi: drawBound(t, "hi"), reverse: rapid.Bool().Draw(t, "reverse"), start: m.seq}
	s.it = m.o.Scan(bound(s.lo), bound(s.hi), s.reverse)
	m.scans = append(m.scans, s)
}

// next moves one of the open scans on. It sees what was there at its start and still is.
func (m *overlayModel) next(t *rapid.T) {
	if len(m.scans) == 0 {
		t.Skip("no scan")
	}
	s := rapid.SampledFrom(m.scans).Draw(t, "scan")
	if s.dead {
		require.False(t, s.it.Next())
		return
	}
	seen := map[string]modelRow{}
	for k, c := range m.now {
		ahead := s.at == nil || !s.reverse && k > *s.at || s.reverse && k < *s.at
		if c.present && c.born <= s.start && ahead {
			seen[k] = c.modelRow
		}
	}
	want := between(seen, s.lo, s.hi, s.reverse)
	if len(want) == 0 {
		require.False(t, s.it.Next())
		require.NoError(t, s.it.Close())
		m.scans = slices.DeleteFunc(m.scans, func(o *modelScan) bool { return o == s })
		return
	}
	require.True(t, s.it.Next())
	got := row{string(s.it.Key()), string(s.it.Row().Value), s.it.Row().Timestamp}
	require.Equal(t, want[0], got)
	s.at = &want[0].Key
}

func (m *overlayModel) closeScan(t *rapid.T) {
	if len(m.scans) == 0 {
		t.Skip("no scan")
	}
	i := rapid.IntRange(0, len(m.scans)-1).Draw(t, "scan")
	s := m.scans[i]
	m.scans = slices.Delete(m.scans, i, i+1)
	if err := s.it.Close(); !s.dead {
		require.NoError(t, err)
	}
}

func (m *overlayModel) all(t *rapid.T) {
	if !m.cfg.Ordered {
		t.Skip("not ordered")
	}
	lo, hi := drawBound(t, "lo"), drawBound(t, "hi")
	reverse := rapid.Bool().Draw(t, "reverse")
	require.Equal(t, between(rowsOf(m.now), lo, hi, reverse), collect(t, m.o.Scan(bound(lo), bound(hi), reverse)))
}

// check compares the dirty list, and the rows that are held.
func (m *overlayModel) check(t *rapid.T) {
	for _, h := range m.held {
		require.Equal(t, h.want, string(h.row.Value))
	}
	require.Equal(t, m.sealed != nil, m.o.Sealed())
	require.Equal(t, len(m.order), m.o.DirtyLen())
	require.Equal(t, len(m.order) > 0, m.o.DirtyBytes() > 0)
	for i, k := range m.order {
		key, now, present, before, had := m.o.Dirty(i)
		require.Equal(t, k, string(key))
		require.Equal(t, m.now[k].present, present)
		require.Equal(t, m.now[k].modelRow, modelRow{string(now.Value), now.Timestamp})
		if m.cfg.KeepBefore {
			require.Equal(t, m.cut[k].present, had)
		} else {
			require.False(t, had)
		}
		if had {
			require.Equal(t, m.cut[k].modelRow, modelRow{string(before.Value), before.Timestamp})
		}
	}
}
