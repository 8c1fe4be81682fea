package storetest

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// follower writes what it follows to a store, in all ways that there are, and knows what must be there.
type follower struct {
	f    *fixture
	at   int64
	want map[string]modelRow
}

// follow goes on for some batches, each with its position: small ones, now and then one large enough for tables.
func (w *follower) follow(t *testing.T, batches int) {
	t.Helper()
	for range batches {
		w.at++
		b := one(0, w.at)
		write, n, pad := w.f.ts.Apply, 3, ""
		if w.at%7 == 0 {
			write, n, pad = w.f.ts.Ingest, 300, strings.Repeat("p", 1000)
		}
		for i := range n {
			key := fmt.Sprint("k", (w.at*31+int64(i)*17)%500)
			if i%5 == 4 {
				b.Stores[0].Changes = append(b.Stores[0].Changes, del(key))
				delete(w.want, key)
				continue
			}
			c := put(key, fmt.Sprint(w.at, i)+pad, w.at)
			b.Stores[0].Changes = append(b.Stores[0].Changes, c)
			w.want[key] = modelRow{string(c.Value), w.at}
		}
		require.NoError(t, write(b))
		require.Equal(t, w.at, w.f.ts.Position(0))
	}
}

// sees holds what a reader finds against what was written.
func (w *follower) sees(t *testing.T, r statestore.Reader) {
	t.Helper()
	require.Equal(t, between(w.want, nil, nil, false), collect(t, r.Scan(nil, nil, false)))
	for i := range 500 {
		key := fmt.Sprint("k", i)
		got, found, err := r.Get([]byte(key))
		require.NoError(t, err)
		want, there := w.want[key]
		require.Equal(t, there, found, key)
		require.Equal(t, want, modelRow{string(got.Value), got.Timestamp}, key)
	}
}

// A task that is only followed becomes one that runs, and the other way round, on the same stores: whoever runs it sees all that was followed and
// written before, and nothing of an earlier life, and what is followed after it does not depend on what it left.
func testRoles(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	w := &follower{f: f, want: map[string]modelRow{}}
	var old statestore.Reader
	var left statestore.Iterator
	for range 6 {
		w.follow(t, 20)
		require.NoError(t, f.b.Flush())
		w.follow(t, 5)
		r := f.ts.Reader(0)
		w.sees(t, r)
		o := statestore.NewOverlay(statestore.OverlayConfig{Base: r, Ordered: true, CacheBytes: 1 << 20})
		w.sees(t, o)
		if old != nil {
			_, _, err := old.Get([]byte("k1"))
			require.ErrorContains(t, err, "closed")
			require.ErrorContains(t, old.Scan(nil, nil, false).Close(), "closed")
			require.NoError(t, left.Close(), "harmless")
		}
		for i := range 10 { // it runs: reads, and writes at commits
			w.at++
			key := fmt.Sprint("k", i)
			require.NoError(t, o.Put([]byte(key), []byte("own"), w.at))
			w.want[key] = modelRow{"own", w.at}
			require.NoError(t, f.ts.Apply(one(0, w.at, o.Seal(nil)...)))
			o.Applied()
		}
		w.sees(t, o)
		w.sees(t, r)
		before := maps.Clone(w.want)
		left = r.Scan(nil, nil, false)
		require.Equal(t, between(before, nil, nil, false), collect(t, left))
		f.ts.ReleaseReaders()
		old = r
	}
	f.ts.ReleaseReaders()
	f.ts.ReleaseReaders()
	w.follow(t, 3)
	w.sees(t, f.ts.Reader(0))
}

// Readers can be released as often as a task changes its role, and when there are none. Closing the stores ends those that are left.
func testReleaseReaders(t *testing.T, open func(*testing.T) statestore.Backend) {
	b := open(t)
	ts, err := b.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}, {Name: "others"}})
	require.NoError(t, err)
	ts.ReleaseReaders()
	for i := range int64(1000) {
		require.NoError(t, ts.Apply(one(0, i, put("k", fmt.Sprint(i), i))))
		rows, others := ts.Reader(0), ts.Reader(1)
		got, found, err := rows.Get([]byte("k"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, fmt.Sprint(i), string(got.Value))
		_, found, err = others.Get([]byte("k"))
		require.NoError(t, err)
		require.False(t, found)
		ts.ReleaseReaders()
		_, _, err = rows.Get([]byte("k"))
		require.ErrorContains(t, err, "closed")
	}
	last := ts.Reader(0)
	require.NoError(t, ts.Close())
	ts.ReleaseReaders()
	_, _, err = last.Get([]byte("k"))
	require.ErrorContains(t, err, "closed")
	require.NoError(t, b.Close())
}
