package pebblestore

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

var damageRuns = flag.Int("damage.runs", 200, "how many files TestDamage damages; -fault.seed is its first seed")

// memDir opens the state directory that is in a file system.
func memDir(fs vfs.FS, change ...func(*Options)) (*Dir, error) {
	opts := Options{FS: fs, Memory: 16 << 20}
	for _, f := range change {
		f(&opts)
	}
	d := &Dir{Path: faultDir, lock: io.NopCloser(nil)}
	return d, d.open(opts.withDefaults())
}

// damagedMem has a state directory with rows, and a note that they are damaged.
func damagedMem(t *testing.T) *vfs.MemFS {
	fs := vfs.NewCrashableMem()
	require.NoError(t, fs.MkdirAll(faultDir, 0o700))
	require.NoError(t, syncDir(fs, "/"))
	require.NoError(t, syncDir(fs, "state"))
	d, err := memDir(fs)
	require.NoError(t, err)
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.NoError(t, ts.Apply(bigBatch(1)))
	require.NoError(t, ts.Close())
	require.NoError(t, d.Close())
	require.NoError(t, mark(fs, faultDir+"/db", errors.New("a bad block in 000005.sst")))
	return fs
}

func positionOf(t *testing.T, d *Dir) int64 {
	ts, err := d.DB.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	defer func() { require.NoError(t, ts.Close()) }()
	return ts.Position(0)
}

// Power may go at any step of putting a database aside: it is never open again, and what took its place is all new.
func TestPowerCutsWhilePuttingAside(t *testing.T) {
	for seed := range uint64(4) {
		rng := rand.New(rand.NewPCG(seed, 3))
		for at, more := 1, true; more; at++ {
			fs := damagedMem(t)
			n := 0
			var left *vfs.MemFS
			d, err := memDir(cutFS{FS: fs, before: func(string, string) {
				if n++; n == at {
					left = fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
				}
			}})
			require.NoError(t, err)
			require.NotEmpty(t, d.PutAside)
			require.Equal(t, statestore.NoPosition, positionOf(t, d))
			require.NoError(t, d.Close())
			if more = left != nil; !more {
				require.Greater(t, at, 20, "it has many steps")
				break
			}
			d, err = memDir(left)
			require.NoError(t, err, "seed %d, step %d", seed, at)
			require.Equal(t, statestore.NoPosition, positionOf(t, d), "seed %d, step %d", seed, at)
			lie, err := d.Aside()
			require.NoError(t, err)
			require.NotEmpty(t, lie, "seed %d, step %d: what may show the cause is gone", seed, at)
			require.NoError(t, d.Close())
		}
	}
}

// What lies aside does not pile up, whatever the clock says.
func TestTwoAreKeptAside(t *testing.T) {
	fs := damagedMem(t)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := func(o *Options) { o.Now = func() time.Time { return now } }
	var last string
	for i := range 5 {
		d, err := memDir(fs, clock)
		require.NoError(t, err)
		require.NotEqual(t, last, d.PutAside)
		last = d.PutAside
		lie, err := d.Aside()
		require.NoError(t, err)
		require.Len(t, lie, min(i+1, 2))
		require.Contains(t, lie, fs.PathBase(last))
		require.NoError(t, d.Close())
		require.NoError(t, mark(fs, faultDir+"/db", errors.New("again")))
		if i%2 == 0 {
			now = now.Add(-time.Hour)
		}
	}
}

// A disk on which no database can be made takes none away either.
func TestNothingIsPutAsideForGoodOnADiskThatFails(t *testing.T) {
	fs := damagedMem(t)
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.EIO} {
		f := &faults{site: site{"create", "manifest", ""}, nth: 1, persistent: true, err: errno}
		_, err := memDir(errorfs.Wrap(fs, f))
		var dir *DirError
		require.ErrorAs(t, err, &dir)
		require.ErrorIs(t, err, errno)
	}
	d, err := memDir(fs)
	require.NoError(t, err)
	lie, err := d.Aside()
	require.NoError(t, err)
	require.Equal(t, []string{fs.PathBase(d.PutAside)}, lie)
	copied, err := vfs.Clone(fs, fs, d.PutAside, "copy")
	require.NoError(t, err)
	require.True(t, copied)
	require.NoError(t, d.Close())
	require.NoError(t, fs.Remove("copy/"+corruptName))
	db, err := Open(Options{Dir: "copy", FS: fs, Memory: 16 << 20})
	require.NoError(t, err, "it is as it was")
	ts, err := db.Open(oneTask, []statestore.Spec{{Name: "rows"}})
	require.NoError(t, err)
	require.EqualValues(t, 1, ts.Position(0))
	require.NoError(t, ts.Close())
	require.NoError(t, db.Close())
}

// A note that cannot be left when the damage is found is left at the close.
func TestNoteOfDamageIsTriedAgain(t *testing.T) {
	fs := damagedMem(t)
	require.NoError(t, fs.Remove(faultDir+"/db/"+corruptName))
	f := &faults{site: site{"create", "note of damage", ""}, nth: 1, persistent: true, err: syscall.ENOSPC}
	d, err := memDir(errorfs.Wrap(fs, f))
	require.NoError(t, err)
	d.DB.health.corrupted(errors.New("000005.sst: bad"))
	require.NoError(t, marked(fs, faultDir+"/db"))
	f.lift()
	require.NoError(t, d.Close())
	require.ErrorContains(t, marked(fs, faultDir+"/db"), "000005.sst: bad")
}

// Whatever is damaged, and however: what is read afterwards is right, or an error, and then the next start begins anew.
func TestDamage(t *testing.T) {
	runs := *damageRuns
	if testing.Short() || raceEnabled {
		runs = min(runs, 40)
	}
	aside, found, whole := 0, 0, 0
	for seed := range uint64(runs) {
		r := newFaultRun(t, &faults{}, *faultSeed+seed)
		require.NoError(t, r.open(r.mem))
		require.NoError(t, r.work())
		require.NoError(t, r.close())
		r.model.flushed(r.model.lasts())
		r.tasks = [crashTasks]statestore.TaskStores{}
		what := damageOne(t, r.mem, r.rng)
		why := fmt.Sprintf("seed %d: %s", *faultSeed+seed, what)
		r.patience = time.Second
		require.NoError(t, r.open(r.mem), why)
		got, err := r.look()
		switch {
		case r.d.PutAside != "":
			require.NoError(t, err, why)
			require.Equal(t, [crashTasks][crashStores]int64{{-1, -1}, {-1, -1}, {-1, -1}}, got.positions, why)
			aside++
		case err != nil:
			require.Error(t, r.d.Corruption(), "%s: %v", why, err)
			_ = r.close() // what it could not read it may complain about
			r.tasks = [crashTasks]statestore.TaskStores{}
			require.NoError(t, r.open(r.mem), why)
			require.NotEmpty(t, r.d.PutAside, why)
			found++
		default:
			for n := range r.model.stores { // an older version of a manifest that is cut is right as well
				for s := range r.model.stores[n] {
					r.model.stores[n][s].h.flushed = statestore.NoPosition
				}
			}
			r.model.names = nil
			require.Empty(t, r.model.olderFault(got), why)
			whole++
		}
		require.NoError(t, r.close(), why)
	}
	t.Logf("%d put aside at the open, %d found by a read, %d not needed", aside, found, whole)
	require.Positive(t, aside+found)
	require.Positive(t, whole)
}

// damageOne damages a file of the database.
func damageOne(t *testing.T, fs *vfs.MemFS, rng *rand.Rand) string {
	dir := faultDir + "/db"
	files, err := fs.List(dir)
	require.NoError(t, err)
	path := dir + "/" + files[rng.IntN(len(files))]
	info, err := fs.Stat(path)
	require.NoError(t, err)
	size := int(info.Size())
	kind := rng.IntN(4)
	if size == 0 {
		kind = 3
	}
	switch kind {
	case 0:
		b, err := fs.UnsafeGetFileDataBuffer(path)
		require.NoError(t, err)
		at := rng.IntN(size)
		b[at] ^= 1 << rng.IntN(8)
		return fmt.Sprintf("a bit of byte %d of %s", at, path)
	case 1, 2:
		n := rng.IntN(size)
		if kind == 2 {
			n = 0
		}
		b, err := fs.UnsafeGetFileDataBuffer(path)
		require.NoError(t, err)
		left := append([]byte(nil), b[:n]...)
		file, err := fs.Create(path, vfs.WriteCategoryUnspecified)
		require.NoError(t, err)
		_, err = file.Write(left)
		require.NoError(t, errors.Join(err, file.Close()))
		return fmt.Sprintf("%s has %d bytes left of %d", path, n, size)
	}
	require.NoError(t, fs.Remove(path))
	return path + " removed"
}

// look reads everything, until an error.
func (r *faultRun) look() (*found, error) {
	f := &found{}
	for n := range crashTasks {
		ts, err := r.d.DB.Open(taskN(n), r.specs(n))
		if err != nil {
			return f, err
		}
		r.tasks[n] = ts
		for s := range crashStores {
			f.positions[n][s], f.rows[n][s] = ts.Position(s), map[string]string{}
			it := ts.Reader(s).Scan(nil, nil, false)
			for it.Next() {
				f.rows[n][s][string(it.Key())] = string(it.Row().Value)
			}
			if err := it.Close(); err != nil {
				return f, err
			}
		}
	}
	return f, nil
}

// olderFault is fault for a version of the database of which it is not known how old it is: a store may be from before it was emptied.
func (m *crashModel) olderFault(f *found) string {
	for n := range m.stores {
		for s := range m.stores[n] {
			p := f.positions[n][s]
			want, ok := m.stores[n][s].all[p]
			if !ok {
				return fmt.Sprintf("task %d, store %d has never been at position %d", n, s, p)
			}
			if fmt.Sprint(want) != fmt.Sprint(f.rows[n][s]) {
				return fmt.Sprintf("task %d, store %d: its rows are not those of position %d", n, s, p)
			}
		}
	}
	return ""
}

// A table is damaged under a running database, and only a compaction reads it: it is told, noted, and the next start begins anew.
func TestCompactionFindsDamage(t *testing.T) {
	r := newFaultRun(t, &faults{}, 1)
	told := make(chan error, 10)
	d, err := memDir(r.mem, func(o *Options) {
		o.Listener.Corrupt = func(err error) { told <- err }
	})
	require.NoError(t, err)
	r.d = d
	d.Watch(func(err error) {
		var c *CorruptError
		if errors.As(err, &c) { // the compaction fails too, and is tried again
			told <- err
		}
	})
	files, err := r.mem.List(faultDir + "/db")
	require.NoError(t, err)
	for _, name := range files {
		if classOf(name) != "table" {
			continue
		}
		b, err := r.mem.UnsafeGetFileDataBuffer(faultDir + "/db/" + name)
		require.NoError(t, err)
		b = slices.Clone(b[:len(b)/4])
		for i := range b {
			b[i] ^= 0x55
		}
		f, err := r.mem.OpenReadWrite(faultDir+"/db/"+name, vfs.WriteCategoryUnspecified) // the database may be reading: not without the file's lock
		require.NoError(t, err)
		_, err = f.WriteAt(b, 0)
		require.NoError(t, err)
		require.NoError(t, f.Close())
	}
	_ = r.compact()
	var corrupt *CorruptError
	for range 2 { // the directory's watcher and the listener
		require.ErrorAs(t, <-told, &corrupt)
		require.ErrorContains(t, corrupt, ".sst")
	}
	require.Empty(t, told, "once")
	require.ErrorContains(t, marked(r.mem, faultDir+"/db"), ".sst", "it is noted before anybody is told")
	require.NoError(t, d.DB.health.err(), "it can be written")
	_ = d.Close()
	d, err = memDir(r.mem)
	require.NoError(t, err)
	require.NotEmpty(t, d.PutAside)
	require.NoError(t, d.Close())
}
