package pebblestore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

func TestGetDoesNotAllocate(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	_, ts := filled(t, 1000, vfs.NewMem(), "db")
	r := ts.Reader(0)
	hit, miss := benchKey(500), benchKey(5000)
	get := func() {
		_, a, errA := r.Get(hit)
		_, b, errB := r.Get(miss)
		if errA != nil || errB != nil || !a || b {
			t.Fatal("wrong answer")
		}
	}
	get()
	require.Zero(t, testing.AllocsPerRun(100, get))
}

// Iterators of readers that do not read do not hold on to what a flush has replaced.
func TestIdleReadersLetGo(t *testing.T) {
	d, ts := filled(t, 1000, vfs.NewMem(), "db")
	r := ts.Reader(0).(*reader)
	_, _, err := r.Get(benchKey(1))
	require.NoError(t, err)
	require.NotNil(t, r.idle.Load())
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, d.Flush())
	require.Eventually(t, func() bool { return r.idle.Load() == nil }, 10*time.Second, time.Millisecond)
	row, found, err := r.Get(benchKey(1))
	require.NoError(t, err)
	require.True(t, found)
	require.Len(t, row.Value, 100)
}

func TestFlushRule(t *testing.T) {
	now := time.Unix(0, 0)
	d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20, FlushRecords: 250, FlushEvery: time.Minute, Now: func() time.Time { return now }})
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	flushes := func() int64 { return d.db.Metrics().Flush.Count }
	eventually := func(n int64) {
		require.Eventually(t, func() bool { return flushes() == n }, 10*time.Second, time.Millisecond)
	}
	base := flushes()
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, ts.Apply(bigBatch(2)))
	require.NoError(t, d.FlushIfDue())
	require.Equal(t, base, flushes())
	require.NoError(t, ts.Apply(bigBatch(3))) // 300 changes
	eventually(base + 1)

	require.NoError(t, ts.Apply(bigBatch(4)))
	now = now.Add(59 * time.Second)
	require.NoError(t, d.FlushIfDue())
	require.Equal(t, base+1, flushes())
	now = now.Add(time.Second)
	require.NoError(t, d.FlushIfDue())
	eventually(base + 2)

	now = now.Add(time.Hour)
	require.NoError(t, d.FlushIfDue())
	require.NoError(t, ts.Apply(bigBatch(5)))
	require.Equal(t, base+2, flushes(), "nothing was old: the minute begins with the first change after a flush")
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

// A large batch goes into a table beside the memtable; what fails leaves no file behind, and what a crash left is removed.
func TestIngestFiles(t *testing.T) {
	fs := vfs.NewMem()
	open := func() (*DB, statestore.TaskStores) {
		d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20})
		require.NoError(t, err)
		ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
		require.NoError(t, err)
		return d, ts
	}
	d, ts := open()
	ingested := func() uint64 {
		m := d.db.Metrics()
		n := m.Flush.AsIngestTableCount // those that wait for a memtable that they overlap
		for _, l := range m.Levels {
			n += l.TablesIngested
		}
		return n
	}
	require.NoError(t, ts.Ingest(bigBatch(1)))
	require.Zero(t, ingested(), "a small one is applied")
	b := bigBatch(2)
	for i := range 300 {
		b.Stores[0].Changes = append(b.Stores[0].Changes, statestore.Change{Key: fmt.Append(nil, i), Value: make([]byte, 1000)})
	}
	require.NoError(t, ts.Ingest(b))
	require.NoError(t, d.Flush())
	require.Positive(t, ingested())
	f, err := fs.Create(fs.PathJoin("db", ingestPrefix+"7.sst"), vfs.WriteCategoryUnspecified)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())

	d, ts = open()
	require.EqualValues(t, 2, ts.Position(0))
	names, err := fs.List("db")
	require.NoError(t, err)
	require.NotContains(t, strings.Join(names, " "), ingestPrefix)
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
}

// Bytes that are not ours are an error of the read, not a wrong row.
func TestMalformedRows(t *testing.T) {
	d, ts := filled(t, 10, vfs.NewMem(), "db")
	prefix := ts.(*taskStores).prefixes[0]
	set := func(key, value []byte) {
		require.NoError(t, d.db.Set(append(prefix[:len(prefix):len(prefix)], key...), value, pebble.NoSync))
	}
	set(statestore.AppendKey(nil, []byte("short")), []byte("x"))
	_, _, err := ts.Reader(0).Get([]byte("short"))
	require.ErrorContains(t, err, "timestamp")
	it := ts.Reader(0).Scan([]byte("short"), []byte("short\x00"), false)
	require.False(t, it.Next())
	require.ErrorContains(t, it.Close(), "timestamp")

	set([]byte("zz without an end"), make([]byte, 8))
	it = ts.Reader(0).Scan([]byte("zz"), []byte("zzz"), true)
	require.False(t, it.Next())
	require.ErrorContains(t, it.Close(), "does not end")

	require.NoError(t, d.db.Set(appendPositionKey(nil, taskN(9), 1), []byte("x"), pebble.NoSync))
	_, err = d.Open(taskN(9), []statestore.Spec{{Name: "rows"}})
	require.ErrorContains(t, err, "position")
	_, err = d.Tasks()
	require.ErrorContains(t, err, "position")
	require.NoError(t, d.db.Delete(appendPositionKey(nil, taskN(9), 1), pebble.NoSync))
}

func TestOpenNeedsADirectory(t *testing.T) {
	_, err := Open(Options{})
	require.ErrorContains(t, err, "Options.Dir")
}

// A user's call that has been given up may still range over a store while the application ends: the close says so and does no harm, and
// the scan ends with an error.
func TestScanThatOutlivesTheDatabase(t *testing.T) {
	d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20})
	require.NoError(t, err)
	ts, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}})
	require.NoError(t, err)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, d.Flush())
	it := ts.Reader(0).Scan(nil, nil, false)
	require.True(t, it.Next())
	require.NoError(t, ts.Close())
	require.ErrorContains(t, d.Close(), "leaked iterators")
	d.health.flushed() // Pebble may be late with its news
	require.False(t, it.Next())
	require.ErrorIs(t, it.Close(), ErrClosed)
	d.unref() // what the end of the process does
}
