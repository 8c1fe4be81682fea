package pebblestore

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// dropBed is a database with a task that has rows in tables, in a memtable and in tables beside it, and two others.
type dropBed struct {
	t  *testing.T
	fs *vfs.MemFS
	d  *DB

	mu   sync.Mutex
	due  int // changes of the file system until power is cut; 0: it is not
	left *vfs.MemFS
	at   string
}

var dropSpecs = []statestore.Spec{{Name: "a", Ordered: true}, {Name: "b", Ordered: true}}

func newDropBed(t *testing.T) *dropBed {
	b := &dropBed{t: t, fs: vfs.NewCrashableMem()}
	var err error
	b.d, err = Open(Options{Dir: "db", FS: cutFS{FS: b.fs, before: b.before}, Memory: 16 << 20})
	require.NoError(t, err)
	b.d.ingestMin = 500
	var all []statestore.TaskStores
	for n := range 3 {
		ts, err := b.d.Open(taskN(n), dropSpecs)
		require.NoError(t, err)
		all = append(all, ts)
	}
	for i, write := range []string{"apply", "ingest", "flush", "ingest", "apply"} {
		for n, ts := range all {
			batch := &statestore.Batch{}
			for s := range dropSpecs {
				sb := statestore.StoreBatch{Store: s, Position: int64(10 * (i + 1))}
				for k := range 20 {
					sb.Changes = append(sb.Changes, statestore.Change{Key: fmt.Appendf(nil, "%d of %d", k, n+i%2), Value: fmt.Appendf(nil, "%040d", i)})
				}
				batch.Stores = append(batch.Stores, sb)
			}
			switch write {
			case "apply":
				require.NoError(t, ts.Apply(batch))
			case "ingest":
				require.NoError(t, ts.Ingest(batch))
			default:
				require.NoError(t, b.d.Flush())
			}
		}
	}
	for _, ts := range all {
		require.NoError(t, ts.Close())
	}
	return b
}

func (b *dropBed) before(op, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.due == 0 {
		return
	}
	if b.due--; b.due == 0 {
		b.left, b.at = b.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rand.New(rand.NewPCG(1, 1))}), op+" "+name
	}
}

// held is what a database has of each task: the positions and the number of rows of its stores.
func held(t *testing.T, fs vfs.FS) (out [3][2][2]int64) {
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20})
	require.NoError(t, err)
	stored, err := d.Tasks()
	require.NoError(t, err)
	for n := range out {
		ts, err := d.Open(taskN(n), dropSpecs)
		require.NoError(t, err)
		for s := range dropSpecs {
			require.Equal(t, ts.Position(s), listed(stored, n, s))
			out[n][s][0] = ts.Position(s)
			it := ts.Reader(s).Scan(nil, nil, false)
			for it.Next() {
				out[n][s][1]++
			}
			require.NoError(t, it.Close())
		}
		require.NoError(t, ts.Close())
	}
	require.NoError(t, d.Close())
	return out
}

// Power is cut before each change that the drop of a closed task makes on the disk: the task is there as a flush has left it, or is not there.
func TestCrashInADropLeavesAllOrNothing(t *testing.T) {
	const dropped = 1
	none := [2]int64{statestore.NoPosition, 0}
	// Every second write has other keys.
	whole := func(t *testing.T, stores [2][2]int64) bool {
		require.Equal(t, stores[0], stores[1], "the stores of a task go together")
		if stores[0] == none {
			return false
		}
		require.Contains(t, []int64{10, 20, 40, 50}, stores[0][0])
		rows := int64(40)
		if stores[0][0] == 10 {
			rows = 20
		}
		require.Equal(t, rows, stores[0][1], "the rows are those of position %d", stores[0][0])
		return true
	}
	there := 0
	for due := 1; ; due++ {
		b := newDropBed(t)
		b.mu.Lock()
		b.due = due
		b.mu.Unlock()
		require.NoError(t, b.d.Drop(taskN(dropped)))
		b.mu.Lock()
		b.due = 0
		b.mu.Unlock()
		after := held(t, b.fs.CrashClone(vfs.CrashCloneCfg{}))
		require.False(t, whole(t, after[dropped]), "what is dropped is gone for good")
		require.True(t, whole(t, after[0]))
		require.True(t, whole(t, after[2]))
		require.NoError(t, b.d.Close())
		if b.left == nil {
			require.Greater(t, due, 5)
			break
		}
		cut := held(t, b.left)
		require.True(t, whole(t, cut[0]), b.at)
		require.True(t, whole(t, cut[2]), b.at)
		if whole(t, cut[dropped]) {
			there++
		}
	}
	require.Positive(t, there)
}

// Nobody opens what is being dropped, nor drops what is open.
func TestTaskThatIsBeingDroppedIsOpen(t *testing.T) {
	d, ts := filled(t, 100, vfs.NewMem(), "db")
	require.ErrorContains(t, d.Drop(oneTask), "drop: ")
	require.EqualValues(t, 0, ts.Position(0))
	require.ErrorContains(t, d.Drop(namesTask), "no task")
	require.NoError(t, d.reserve(taskN(5)))
	_, err := d.Open(taskN(5), nil)
	require.ErrorContains(t, err, "open already")
	d.release(taskN(5))
	require.NoError(t, d.Drop(taskN(5)), "nothing is there")
}

// A directory whose database was opened anew lists and drops what is in that.
func TestStoredAfterReady(t *testing.T) {
	if !inProcessOfItsOwn(t) {
		return
	}
	d, _, ts := roomDir(t)
	require.NoError(t, ts.Apply(bigBatch(7)))
	require.NoError(t, ts.Close())
	require.NoError(t, d.Flush())
	want, err := d.Tasks()
	require.NoError(t, err)
	require.Equal(t, []statestore.StoredTask{{ID: oneTask, Stores: []statestore.StoredStore{{Name: "rows", Position: 7}}}}, want)
	usage, err := d.DiskUsage(oneTask)
	require.NoError(t, err)
	require.Positive(t, usage)

	d.GiveUp()
	for _, f := range []func() error{
		func() error { _, err := d.Tasks(); return err },
		func() error { return d.Drop(oneTask) },
		func() error { _, err := d.DiskUsage(oneTask); return err },
	} {
		var broken *BrokenError
		require.ErrorAs(t, f(), &broken)
	}
	require.Eventually(t, func() bool { return d.Ready(t.Context()) == nil }, 10*time.Second, time.Millisecond)
	got, err := d.Tasks()
	require.NoError(t, err)
	require.Equal(t, want, got)
	require.NoError(t, d.Drop(oneTask))
	got, err = d.Tasks()
	require.NoError(t, err)
	require.Empty(t, got)
	require.NoError(t, d.Close())
}

func TestDiskUsage(t *testing.T) {
	d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20})
	require.NoError(t, err)
	for n := range 3 { // of about 0, 1 and 2 MB that do not compress, in one table
		ts, err := d.Open(taskN(n), []statestore.Spec{{Name: "rows"}})
		require.NoError(t, err)
		rng := rand.New(rand.NewPCG(1, uint64(n)))
		b := &statestore.Batch{Stores: []statestore.StoreBatch{{Position: 1}}}
		for i := range n * 1000 {
			value := make([]byte, 1000)
			for j := range value {
				value[j] = byte(rng.Uint32())
			}
			b.Stores[0].Changes = append(b.Stores[0].Changes, statestore.Change{Key: benchKey(i), Value: value})
		}
		require.NoError(t, ts.Apply(b))
		require.NoError(t, ts.Close())
	}
	usage := func(n int) float64 {
		bytes, err := d.DiskUsage(taskN(n))
		require.NoError(t, err)
		return float64(bytes)
	}
	require.Zero(t, usage(2), "nothing is on disk")
	require.NoError(t, d.Flush())
	require.InDelta(t, 0, usage(0), 64<<10)
	require.InDelta(t, 1e6, usage(1), 128<<10)
	require.InDelta(t, 2e6, usage(2), 128<<10)
	require.NoError(t, d.Drop(taskN(2)))
	require.Zero(t, usage(2))
	require.NoError(t, d.Close())
}

// A task whose role changes does not pile up readers, nor iterators that hold on to what is gone.
func TestRoleChangesLeaveNothingOpen(t *testing.T) {
	d, err := Open(Options{Dir: "db", FS: vfs.NewMem(), Memory: 16 << 20})
	require.NoError(t, err)
	d.ingestMin = 500
	opened, err := d.Open(oneTask, []statestore.Spec{{Name: "rows", Ordered: true}, {Name: "others", Ordered: true}})
	require.NoError(t, err)
	ts := opened.(*taskStores)
	for i := range int64(1000) {
		write := ts.Apply
		if i%10 == 0 {
			write = ts.Ingest
		}
		want := strings.Repeat(fmt.Sprint(i), 200)
		require.NoError(t, write(&statestore.Batch{Stores: []statestore.StoreBatch{
			{Position: i, Changes: []statestore.Change{{Key: []byte("k"), Value: []byte(want)}}},
		}}))
		if i%100 == 0 {
			require.NoError(t, d.Flush())
		}
		readers := []*reader{ts.Reader(0).(*reader), ts.Reader(1).(*reader)}
		for s, r := range readers {
			row, found, err := r.Get([]byte("k"))
			require.NoError(t, err)
			require.Equal(t, s == 0, found)
			if found {
				require.Equal(t, want, string(row.Value))
			}
		}
		require.Len(t, ts.readers, 2)
		ts.ReleaseReaders()
		require.Empty(t, ts.readers)
		for _, r := range readers {
			require.Nil(t, r.idle.Load())
		}
	}
	require.NoError(t, d.Flush())
	require.NoError(t, d.db.Compact(t.Context(), []byte{0}, []byte{0xff}, false))
	require.Eventually(t, func() bool {
		m := d.db.Metrics()
		return m.TableIters == 0 && m.MemTable.ZombieCount <= 1 && m.Table.ZombieCount == 0 // a memtable is kept for the next one
	}, 10*time.Second, time.Millisecond, "nothing is pinned")
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close(), "which finds iterators that are open")
}

// Readers are released while their goroutine, which is stuck in a user call, still reads.
func TestReleaseBesideARead(t *testing.T) {
	d, opened := filled(t, 1000, vfs.NewMem(), "db")
	ts := opened.(*taskStores)
	for range 200 {
		r := ts.Reader(0).(*reader)
		reading, ended := make(chan struct{}), make(chan error)
		go func() {
			for i := 0; ; i++ {
				_, found, err := r.Get(benchKey(i % 1000))
				if err == nil && !found {
					err = errors.New("a row is missing")
				}
				if i == 3 {
					close(reading)
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}()
		<-reading
		ts.ReleaseReaders()
		require.ErrorIs(t, <-ended, ErrClosed)
		require.Nil(t, r.idle.Load())
	}
	require.Zero(t, d.db.Metrics().TableIters)
}
