package pebblestore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

var (
	faultRounds = flag.Int("fault.rounds", 1, "how often TestFaults plays each fault, each time at another operation")
	faultSeed   = flag.Uint64("fault.seed", 1, "the seed of TestFaults")
)

// faultsEnv makes the test binary a process of its own for TestFaults: a database that breaks down holds what it has until its process ends.
const faultsEnv = "PEBBLESTORE_TEST_FAULTS"

// Whatever operation on whatever file fails, with whatever error, once or for good: each call ends well or with an error that names what has
// failed, reads go on, the process lives, and what is on the disk afterwards is what each store held at its position.
func TestFaults(t *testing.T) {
	if os.Getenv(faultsEnv) == "" {
		cmd := exec.Command(os.Args[0], "-test.run=^TestFaults$", "-test.v", "-test.timeout=20m", "-test.parallel=8",
			fmt.Sprint("-fault.rounds=", *faultRounds), fmt.Sprint("-fault.seed=", *faultSeed), fmt.Sprint("-test.short=", testing.Short()))
		cmd.Env = append(os.Environ(), faultsEnv+"=1")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", telling(out))
		require.Contains(t, string(out), "--- PASS: TestFaults")
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "faults at") {
				t.Log(strings.TrimSpace(line))
			}
		}
		return
	}
	probe := &faults{}
	newFaultRun(t, probe, 0).run()
	sites := slices.SortedFunc(maps.Keys(probe.seen), func(a, b site) int { return strings.Compare(a.String(), b.String()) })
	rng := rand.New(rand.NewPCG(*faultSeed, 0))
	var mu sync.Mutex
	hits, aside, broken := 0, 0, 0
	t.Run("runs", func(t *testing.T) {
		for _, at := range sites {
			for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC, syscall.EMFILE} {
				if testing.Short() && errno == syscall.EMFILE {
					continue
				}
				for _, persistent := range []bool{false, true} {
					for range *faultRounds {
						f := &faults{site: at, nth: 1 + rng.IntN(probe.seen[at]), persistent: persistent, err: errno}
						seed := rng.Uint64()
						t.Run(f.String(), func(t *testing.T) {
							t.Parallel()
							r := newFaultRun(t, f, seed)
							r.run()
							mu.Lock()
							defer mu.Unlock()
							hits += f.hit()
							if r.aside {
								aside++
							}
							if r.broken {
								broken++
							}
						})
					}
				}
			}
		}
	})
	t.Logf("seed %d: %d faults at %d sites; %d databases broke, %d were put aside", *faultSeed, hits, len(sites), broken, aside)
	require.Positive(t, hits)
}

// telling is what the output of a test says of what went wrong.
func telling(out []byte) string {
	var b strings.Builder
	for line := range strings.Lines(string(out)) {
		if s := strings.TrimSpace(line); !strings.HasPrefix(s, "=== ") && !strings.HasPrefix(s, "--- PASS") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// faultRun is the life of a database on a file system that fails once or from some time on.
type faultRun struct {
	t     *testing.T
	f     *faults
	rng   *rand.Rand
	mem   *vfs.MemFS
	model *crashModel
	d     *Dir
	db    *DB // once it is open on what fails
	tasks [crashTasks]statestore.TaskStores

	position      int64
	patience      time.Duration // of a close
	aside, broken bool
}

const faultDir = "state/app"

func newFaultRun(t *testing.T, f *faults, seed uint64) *faultRun {
	r := &faultRun{t: t, f: f, rng: rand.New(rand.NewPCG(seed, 2)), mem: vfs.NewCrashableMem(), model: newCrashModel(), patience: time.Minute}
	require.NoError(t, r.mem.MkdirAll(faultDir, 0o700))
	require.NoError(t, syncDir(r.mem, "/"))
	require.NoError(t, syncDir(r.mem, "state"))
	f.enter("while it is made ready")
	require.NoError(t, r.open(r.mem))
	for n := range r.tasks {
		r.openTask(n)
		require.NoError(t, r.write(n, 40, r.tasks[n].Apply))
	}
	require.NoError(t, r.close())
	r.model.flushed(r.model.lasts())
	return r
}

func (r *faultRun) options(fs vfs.FS) Options {
	return Options{FS: fs, Memory: 16 << 20, FlushRecords: 60, CloseTimeout: r.patience, RetryDelay: time.Millisecond}
}

func (r *faultRun) open(fs vfs.FS) error {
	r.d = &Dir{Path: faultDir, lock: io.NopCloser(nil)}
	if err := r.d.open(r.options(fs).withDefaults()); err != nil {
		return err
	}
	r.d.DB.ingestMin = 500
	return nil
}

func (r *faultRun) specs(n int) []statestore.Spec {
	specs := []statestore.Spec{{Name: "a", Ordered: true}, {Name: "b", Ordered: true}}
	for s := range specs {
		specs[s].Changelog[0] = r.model.stores[n][s].topic
	}
	return specs
}

func (r *faultRun) openTask(n int) {
	var err error
	r.tasks[n], err = r.d.DB.Open(taskN(n), r.specs(n))
	require.NoError(r.t, err)
}

// within runs f. One that waits for the disk says so in the database's health, and ends when the disk is well again.
func (r *faultRun) within(what string, f func() error) error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	select {
	case err := <-done:
		return err
	case <-time.After(400 * time.Millisecond):
	}
	if r.f.hit() > 0 {
		if r.db != nil { // what hangs must be told, or whoever waits would not know for what
			require.Eventually(r.t, func() bool { return len(done) > 0 || r.db.Health() != nil }, 10*time.Second, time.Millisecond, "%s hangs, and nothing is told", what)
		}
		r.f.lift()
	}
	select {
	case err := <-done:
		return err
	case <-time.After(30 * time.Second):
		buf := make([]byte, 1<<20)
		require.Fail(r.t, what+" hangs", "%s", buf[:runtime.Stack(buf, true)])
		return nil
	}
}

// named checks an error: it is of a type that says what it is about, and has the fault in it.
func (r *faultRun) named(what string, err error) {
	var broken *BrokenError
	var corrupt *CorruptError
	var dir *DirError
	switch {
	case errors.As(err, &broken):
		r.broken = true
	case errors.As(err, &corrupt), errors.As(err, &dir):
	default:
		require.Contains(r.t, err.Error(), "pebblestore", what)
	}
	if !errors.Is(err, r.f.err) && !errors.Is(err, errBroken) {
		// What follows from the fault, not the fault itself.
		require.Condition(r.t, func() bool {
			return errors.Is(err, ErrClosed) || pebble.IsCorruptionError(err) || strings.Contains(err.Error(), r.f.err.Error()) ||
				strings.Contains(err.Error(), "did not end within")
		}, "%s: %v", what, err)
	}
}

func (r *faultRun) run() {
	r.f.enter("at open")
	r.patience = 500 * time.Millisecond
	fs := errorfs.Wrap(r.mem, r.f)
	err := r.within("open", func() error { return r.open(fs) })
	if err == nil {
		r.db = r.d.DB
		r.check("after the open", r.d)
		r.f.enter("while running")
		if err = r.work(); err != nil {
			r.named("work", err)
		}
		r.f.enter("at close")
		if err := r.within("close", r.close); err != nil {
			r.named("close", err)
		}
	} else {
		var dir *DirError
		require.ErrorAs(r.t, err, &dir)
		r.named("open", err)
	}
	r.f.lift()
	r.patience = time.Minute
	for _, percent := range []int{100, r.rng.IntN(101), 0} { // the process dies, or the power goes as well
		left := r.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: r.rng})
		require.NoError(r.t, r.open(left), "%d %% of what was not synced", percent)
		r.check(fmt.Sprintf("afterwards, %d %% of what was not synced", percent), r.d)
		require.NoError(r.t, r.d.Close())
	}
}

// work does everything that can be done, until something fails.
func (r *faultRun) work() (err error) {
	defer func() { r.note() }()
	for n := range r.tasks {
		if err := r.within("open of a task", func() (err error) {
			r.tasks[n], err = r.d.DB.Open(taskN(n), r.specs(n))
			return err
		}); err != nil {
			return err
		}
	}
	stop := r.read()
	defer func() { err = errors.Join(err, stop()) }()
	do := func(what string, f func() error) bool {
		err = r.within(what, f)
		return err == nil
	}
	for range 2 {
		ok := do("apply", func() error { return r.write(0, 40, r.tasks[0].Apply) }) &&
			do("flush", r.d.DB.Flush) && r.flushed() &&
			do("apply", func() error { return r.write(1, 80, r.tasks[1].Apply) }) && // begins a flush
			do("ingest", func() error { return r.write(2, 60, r.tasks[2].Ingest) }) &&
			do("apply", func() error { return r.write(2, 10, r.tasks[2].Apply) }) &&
			do("compact", r.compact) &&
			do("wipe", func() error { return r.wipe(0) }) &&
			do("new store", r.newStore) &&
			do("drop", r.drop) &&
			do("ingest beside a memtable", func() error { return r.write(2, 60, r.tasks[2].Ingest) }) &&
			do("compact", r.compact) &&
			do("list", func() error { _, err := r.d.DB.Tasks(); return err })
		if !ok {
			return err
		}
	}
	return nil
}

func (r *faultRun) note() {
	if r.d.DB.health.err() != nil {
		r.broken = true
	}
}

func (r *faultRun) flushed() bool {
	r.model.flushed(r.model.lasts())
	return true
}

func (r *faultRun) compact() error {
	err := r.d.DB.health.guard(func() error { return r.d.DB.db.Compact(context.Background(), []byte{0}, []byte{0xff}, false) })
	if err != nil && errors.Is(err, r.f.err) {
		return nil // Pebble tries again by itself
	}
	return err
}

func (r *faultRun) wipe(n int) error {
	st := &r.model.stores[n][0]
	st.before, st.h = st.h, newHistory()
	if err := r.tasks[n].Wipe(0); err != nil {
		return err
	}
	st.before = nil
	return nil
}

// newStore opens a task with a store that is new.
func (r *faultRun) newStore() error {
	if err := r.tasks[1].Close(); err != nil {
		return err
	}
	ts, err := r.d.DB.Open(taskN(1), append(r.specs(1), statestore.Spec{Name: fmt.Sprint("new", r.position)}))
	if err == nil {
		r.tasks[1] = ts
	}
	return err
}

func (r *faultRun) drop() error {
	for s := range crashStores {
		st := &r.model.stores[1][s]
		st.before, st.h = st.h, newHistory()
	}
	r.model.drops[1] = true
	if err := r.tasks[1].Drop(); err != nil {
		return err
	}
	r.model.drops[1] = false
	for s := range crashStores {
		r.model.stores[1][s].before = nil
	}
	ts, err := r.d.DB.Open(taskN(1), r.specs(1))
	if err == nil {
		r.tasks[1] = ts
	}
	return err
}

// read reads all the time. No read waits for the disk to take a write.
func (r *faultRun) read() (stop func() error) {
	quit, done := make(chan struct{}), make(chan error, 1)
	rd := r.tasks[0].Reader(1)
	go func() {
		for {
			select {
			case <-quit:
				done <- nil
				return
			default:
			}
			began := time.Now()
			_, _, err := rd.Get([]byte("7"))
			it := rd.Scan(nil, nil, false)
			for it.Next() {
			}
			if err = errors.Join(err, it.Close()); err != nil {
				done <- err
				return
			}
			if took := time.Since(began); took > 5*time.Second {
				done <- fmt.Errorf("pebblestore: a read took %v", took)
				return
			}
			time.Sleep(time.Millisecond) // others need the processor
		}
	}()
	return func() error {
		close(quit)
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			return errors.New("pebblestore: a read hangs")
		}
	}
}

func (r *faultRun) write(n, changes int, f func(*statestore.Batch) error) error {
	b := &statestore.Batch{}
	for s := range crashStores {
		h := r.model.stores[n][s].h
		r.position++
		sb := statestore.StoreBatch{Store: s, Position: r.position}
		for i := range changes {
			value := fmt.Appendf(nil, "%d %040d", r.position, r.rng.IntN(1000))
			sb.Changes = append(sb.Changes, statestore.Change{Key: fmt.Append(nil, i), Value: value})
			h.now[fmt.Sprint(i)] = string(value)
		}
		h.at[r.position] = maps.Clone(h.now)
		if st := &r.model.stores[n][s]; st.all == nil {
			st.all = map[int64]map[string]string{statestore.NoPosition: {}}
		}
		r.model.stores[n][s].all[r.position] = h.at[r.position]
		b.Stores = append(b.Stores, sb)
	}
	return f(b)
}

func (r *faultRun) close() error {
	var errs []error
	for _, ts := range r.tasks {
		if ts != nil {
			errs = append(errs, ts.Close())
		}
	}
	errs = append(errs, r.d.Close())
	return errors.Join(errs...)
}

// check compares what is there with the model.
func (r *faultRun) check(when string, d *Dir) {
	f := &found{names: maps.Clone(d.DB.names)}
	for n := range crashTasks {
		ts, err := d.DB.Open(taskN(n), r.specs(n))
		if err != nil && r.f.hit() > 0 {
			r.named(when, err)
			return // the file system is to fail now
		}
		require.NoError(r.t, err, when)
		for s := range crashStores {
			f.stale[n][s], f.positions[n][s] = ts.Stale(s), ts.Position(s)
			f.rows[n][s] = map[string]string{}
			it := ts.Reader(s).Scan(nil, nil, false)
			for it.Next() {
				f.rows[n][s][string(it.Key())] = string(it.Row().Value)
			}
			if err := it.Close(); err != nil && !r.f.lifted {
				r.named(when, err)
				require.NoError(r.t, ts.Close())
				return
			}
			require.NoError(r.t, it.Close(), when)
		}
		require.NoError(r.t, ts.Close())
	}
	if d.PutAside != "" {
		r.aside = true
		require.NotEqual(r.t, syscall.ENOSPC, r.f.err, "%s: a full disk is no damage", when)
		require.NotEqual(r.t, syscall.EMFILE, r.f.err, "%s: nor are too many open files", when)
		require.Empty(r.t, f.names, when)
		for n := range crashTasks {
			for s := range crashStores {
				require.Equal(r.t, statestore.NoPosition, f.positions[n][s], when)
				require.Empty(r.t, f.rows[n][s], when)
			}
		}
		return
	}
	require.Empty(r.t, r.model.fault(f), "%s: %+v", when, f)
}
