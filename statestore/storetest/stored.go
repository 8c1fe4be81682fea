package storetest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// again reopens a backend that can be; its tasks are closed.
func again(t *testing.T, b statestore.Backend) statestore.Backend {
	t.Helper()
	r, ok := b.(Reopener)
	if !ok {
		return b
	}
	b, err := r.Reopen()
	require.NoError(t, err)
	return b
}

// What lies there of a task is listed by the names of its stores with the topics that the positions belong to, whoever has it open; a store that
// the topology has lost stays until its task is dropped.
func testStored(t *testing.T, open func(*testing.T) statestore.Backend) {
	b := open(t)
	at, idle := statestore.TaskID{Partition: 1}, statestore.TaskID{Subtopology: 1}
	begin := func(id statestore.TaskID, specs ...statestore.Spec) statestore.TaskStores {
		ts, err := b.Open(id, specs)
		require.NoError(t, err)
		return ts
	}
	list := func() []statestore.StoredTask {
		tasks, err := b.Tasks()
		require.NoError(t, err)
		return tasks
	}
	kept, lost := statestore.Spec{Name: "kept", Ordered: true, Changelog: oneTopic}, statestore.Spec{Name: "a lost one", Ordered: true, Changelog: otherTopic}
	require.Empty(t, list())
	ts := begin(at, kept, lost)
	require.NoError(t, ts.Apply(one(0, 5, put("k", "v", 1))))
	require.NoError(t, ts.Apply(one(1, 9, put("k", "v", 1))))
	require.NoError(t, ts.Close())
	ts = begin(idle, statestore.Spec{Name: "kept"})
	require.NoError(t, ts.Apply(one(0, 0)))
	require.NoError(t, ts.Close())
	b = again(t, b)

	ts = begin(at, kept)
	require.NoError(t, ts.Ingest(one(0, 6, put("k", strings.Repeat("v", 1<<20), 2))))
	stored := list()
	require.Equal(t, []statestore.StoredTask{
		{ID: at, Open: true, Stores: []statestore.StoredStore{
			{Name: "a lost one", Position: 9, Changelog: otherTopic}, {Name: "kept", Position: 6, Changelog: oneTopic},
		}},
		{ID: idle, Stores: []statestore.StoredStore{{Name: "kept", Position: 0}}},
	}, stored)
	require.Equal(t, stored[0].Stores[1], stored[0].Store("kept"))
	require.Equal(t, statestore.StoredStore{Name: "another", Position: statestore.NoPosition}, stored[0].Store("another"))

	require.ErrorContains(t, b.Drop(at), "open already: close them first")
	require.EqualValues(t, 6, ts.Position(0))
	require.Equal(t, stored, list(), "nothing was dropped")
	require.NoError(t, ts.Close())
	require.NoError(t, b.Drop(at))
	require.Equal(t, stored[1:], list())
	ts = begin(at, kept, lost)
	for s := range 2 {
		require.Equal(t, statestore.NoPosition, ts.Position(s))
		require.Empty(t, collect(t, ts.Reader(s).Scan(nil, nil, false)))
	}
	require.Equal(t, stored[1:], list(), "an open task of which nothing is there is not stored")
	require.NoError(t, ts.Close())
	require.NoError(t, b.Drop(at), "nothing is there")
	b = again(t, b)
	require.Equal(t, stored[1:], list())
	require.NoError(t, b.Close())
	require.ErrorContains(t, b.Drop(at), "closed")
	_, err := b.DiskUsage(at)
	require.ErrorContains(t, err, "closed")
}

// A task that was dropped while it was closed does not come back after a crash, whatever of it had been flushed; what is written after that is new.
func testDropAndCrash(t *testing.T, open func(*testing.T) statestore.Backend) {
	f := &fixture{b: open(t)}
	if _, ok := f.b.(Reopener); !ok {
		require.NoError(t, f.b.Close())
		t.Skip("this backend cannot be reopened")
	}
	crash := func() {
		t.Helper()
		var err error
		f.b, err = f.b.(Reopener).Crash()
		require.NoError(t, err)
	}
	for i := range int64(4) {
		f.open(t)
		require.Equal(t, statestore.NoPosition, f.ts.Position(0))
		require.NoError(t, f.ts.Apply(one(0, i, put(fmt.Sprint("flushed", i), "v", 1))))
		if i%2 == 0 {
			require.NoError(t, f.b.Flush())
		}
		require.NoError(t, f.ts.Ingest(one(0, i+10, put("ingested", strings.Repeat("v", 1<<20), 1))))
		require.NoError(t, f.ts.Apply(one(0, i+20, put("not flushed", "v", 1))))
		require.NoError(t, f.ts.Close())
		require.NoError(t, f.b.Drop(oneTask))
		crash()
		tasks, err := f.b.Tasks()
		require.NoError(t, err)
		require.Empty(t, tasks)
	}
	f.open(t)
	require.Empty(t, collect(t, f.ts.Reader(0).Scan(nil, nil, false)))
	require.NoError(t, f.ts.Apply(one(0, 3, put("new", "v", 1))))
	require.NoError(t, f.b.Flush())
	crash()
	f.open(t)
	require.Equal(t, []row{{"new", "v", 1}}, collect(t, f.ts.Reader(0).Scan(nil, nil, false)))
	require.NoError(t, f.ts.Close())
	require.NoError(t, f.b.Close())
}
