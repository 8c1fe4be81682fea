package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func testReadersSeeWhatIsApplied(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	r := f.ts.Reader(0)
	for i := range 20 {
		want := fmt.Sprint(i)
		require.NoError(t, f.ts.Apply(one(0, int64(i), put("k", want, int64(i)))))
		if i%5 == 0 {
			require.NoError(t, f.b.Flush())
		}
		got, found, err := r.Get([]byte("k"))
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, string(got.Value))
	}
	require.NoError(t, f.ts.Wipe(0))
	_, found, err := r.Get([]byte("k"))
	require.NoError(t, err)
	require.False(t, found)
}

// A scan does not see what is applied after its start, and stopping early leaves nothing open.
func testScanIsASnapshot(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	require.NoError(t, f.ts.Apply(one(0, 1, put("a", "1", 1), put("b", "1", 1), put("c", "1", 1), put("d", "1", 1))))
	it := f.ts.Reader(0).Scan(nil, nil, false)
	stopped := f.ts.Reader(0).Scan(nil, nil, true)
	require.True(t, stopped.Next())
	require.Equal(t, "d", string(stopped.Key()))
	require.NoError(t, stopped.Close())
	require.True(t, it.Next())
	require.NoError(t, f.ts.Apply(one(0, 2, del("b"), put("bb", "2", 2), put("c", "2", 2))))
	require.Equal(t, []row{{"b", "1", 1}, {"c", "1", 1}, {"d", "1", 1}}, collect(t, it))
	require.Equal(t, []row{{"a", "1", 1}, {"bb", "2", 2}, {"c", "2", 2}, {"d", "1", 1}}, collect(t, f.ts.Reader(0).Scan(nil, nil, false)))
}

// A restore's batch is out of order, overwrites and deletes, and goes over what is there.
func testLargeIngest(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := setup(t, open)
	want := map[string]modelRow{}
	pad := strings.Repeat("p", 100)
	b := one(0, 10_000)
	require.NoError(t, f.ts.Apply(one(0, 5, put("k0007", "old", 0), put("k0008", "old", 0), put("other", "old", 0))))
	want["other"] = modelRow{"old", 0}
	for i := range 10_000 {
		key := fmt.Sprintf("k%04d", i*7919%5000)
		c := put(key, fmt.Sprint(i)+pad, int64(i))
		want[key] = modelRow{string(c.Value), int64(i)}
		if i%10 == 0 {
			c = del(key)
			delete(want, key)
		}
		b.Stores[0].Changes = append(b.Stores[0].Changes, c)
	}
	require.NoError(t, f.ts.Ingest(b))
	spoil(b)
	require.EqualValues(t, 10_000, f.ts.Position(0))
	require.Equal(t, between(want, nil, nil, false), collect(t, f.ts.Reader(0).Scan(nil, nil, false)))

	b = one(0, 10_001, put("k0001", "newer", 1))
	require.NoError(t, f.ts.Apply(b))
	spoil(b)
	got, found, err := f.ts.Reader(0).Get([]byte("k0001"))
	require.NoError(t, err)
	require.True(t, found)
	require.Equal(t, "newer", string(got.Value))
}

// spoil uses the memory of a batch again.
func spoil(b *statestore.Batch) {
	for i := range b.Stores {
		for _, c := range b.Stores[i].Changes {
			for _, m := range [][]byte{c.Key, c.Value} {
				for at := range m {
					m[at] = 0xdb
				}
			}
		}
		clear(b.Stores[i].Changes)
	}
}

func testWipeAndDrop(t *testing.T, open func(*testing.T) statestore.Backend) {
	b := open(t)
	specs := []statestore.Spec{{Name: "x", Ordered: true}, {Name: "y"}}
	ids := []statestore.TaskID{{Subtopology: 0, Partition: 1}, {Subtopology: 0, Partition: 2}}
	stores := []statestore.TaskStores{}
	for _, id := range ids {
		ts, err := b.Open(id, specs)
		require.NoError(t, err)
		for s := range specs {
			require.NoError(t, ts.Apply(one(s, int64(10+s), put("k", fmt.Sprint(id, s), 1))))
		}
		stores = append(stores, ts)
	}
	require.NoError(t, stores[0].Wipe(0))
	require.Equal(t, statestore.NoPosition, stores[0].Position(0))
	require.EqualValues(t, 11, stores[0].Position(1))
	require.Empty(t, collect(t, stores[0].Reader(0).Scan(nil, nil, false)))
	require.Len(t, collect(t, stores[0].Reader(1).Scan(nil, nil, false)), 1)

	require.NoError(t, stores[0].Drop())
	_, _, err := stores[0].Reader(0).Get([]byte("k"))
	require.Error(t, err, "a dropped task is closed")
	require.NoError(t, stores[0].Close())
	tasks, err := b.Tasks()
	require.NoError(t, err)
	require.Equal(t, []statestore.StoredTask{{ID: ids[1], Open: true, Stores: []statestore.StoredStore{
		{Name: "x", Position: 10}, {Name: "y", Position: 11},
	}}}, tasks)
	require.Len(t, collect(t, stores[1].Reader(0).Scan(nil, nil, false)), 1)

	again, err := b.Open(ids[0], specs)
	require.NoError(t, err)
	require.Equal(t, statestore.NoPosition, again.Position(1))
	require.Empty(t, collect(t, again.Reader(1).Scan(nil, nil, false)))
	require.NoError(t, again.Close())
	require.NoError(t, stores[1].Close())
	require.NoError(t, b.Close())
}

func testMisuse(t *testing.T, open func(*testing.T) statestore.Backend) {
	b := open(t)
	_, err := b.Open(oneTask, []statestore.Spec{{Name: ""}})
	require.ErrorContains(t, err, "no name")
	_, err = b.Open(oneTask, []statestore.Spec{{Name: "a"}, {Name: "a"}})
	require.ErrorContains(t, err, `two stores named "a"`)
	ts, err := b.Open(oneTask, []statestore.Spec{{Name: "a", Ordered: true}})
	require.NoError(t, err)
	_, err = b.Open(oneTask, []statestore.Spec{{Name: "a"}})
	require.ErrorContains(t, err, "open already")
	require.ErrorContains(t, ts.Apply(one(1, 1, put("k", "v", 1))), "no store 1")
	require.ErrorContains(t, ts.Ingest(one(-1, 1, put("k", "v", 1))), "no store -1")
	require.Equal(t, statestore.NoPosition, ts.Position(0))
	require.ErrorContains(t, b.Close(), "1 tasks are open")

	r := ts.Reader(0)
	require.NoError(t, ts.Apply(one(0, 1, put("k", "v", 1))))
	require.Empty(t, collect(t, r.Scan([]byte("z"), []byte("a"), false)), "inverted bounds are an empty range")
	require.NoError(t, ts.Close())
	require.NoError(t, ts.Close())
	_, _, err = r.Get([]byte("k"))
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, r.Scan(nil, nil, false).Close(), "closed")
	require.ErrorContains(t, ts.Apply(one(0, 1)), "closed")
	require.ErrorContains(t, ts.Wipe(0), "closed")
	require.ErrorContains(t, ts.Drop(), "closed")
	require.NoError(t, b.Close())
	require.NoError(t, b.Close())
	_, err = b.Open(oneTask, nil)
	require.ErrorContains(t, err, "closed")
	_, err = b.Tasks()
	require.ErrorContains(t, err, "closed")
	require.ErrorContains(t, b.Flush(), "closed")
}

// Rows and positions survive a restart, and a crash as far as they were flushed; never one without the other.
func testRestart(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := &fixture{b: open(t)}
	r, ok := f.b.(Reopener)
	if !ok {
		require.NoError(t, f.b.Close())
		t.Skip("this backend cannot be reopened")
	}
	f.open(t)
	check := func(n int) {
		require.EqualValues(t, n, f.ts.Position(0))
		require.Len(t, collect(t, f.ts.Reader(0).Scan(nil, nil, false)), n)
	}
	write := func(from, to int) {
		for i := from; i < to; i++ {
			require.NoError(t, f.ts.Apply(one(0, int64(i+1), put(fmt.Sprint(i), "v", 1))))
		}
	}
	write(0, 10)
	require.NoError(t, f.ts.Close())
	var err error
	f.b, err = r.Reopen()
	require.NoError(t, err)
	f.open(t)
	check(10)

	write(10, 20)
	require.NoError(t, f.b.Flush())
	write(20, 30)
	f.b, err = f.b.(Reopener).Crash()
	require.NoError(t, err)
	f.open(t)
	n := int(f.ts.Position(0))
	require.GreaterOrEqual(t, n, 20)
	require.LessOrEqual(t, n, 30)
	check(n)
	require.NoError(t, f.ts.Close())
	require.NoError(t, f.b.Close())
}
