package pebblestore

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

var (
	crashCuts = flag.Int("crash.cuts", 2200, "how many power cuts TestCrash plays")
	crashSeed = flag.Uint64("crash.seed", 1, "the seed of TestCrash's first run; the next run has the next one")
)

const cutsOfARun = 20

// Whatever survives a power cut, at rest, in the middle of an operation, of a close or of a recovery, is what each store held at the position
// that is stored with it. A seed replays what is done and where power is cut, up to what Pebble's own goroutines do meanwhile.
func TestCrash(t *testing.T) {
	runs := max(1, *crashCuts/cutsOfARun)
	if testing.Short() || raceEnabled {
		runs = min(runs, 6)
	}
	var total, inside, nested, adopted atomic.Int64
	t.Run("runs", func(t *testing.T) {
		for i := range uint64(runs) {
			seed := *crashSeed + i
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				r := newCrashRun(t, seed)
				for range cutsOfARun {
					r.cycle()
				}
				r.close()
				total.Add(int64(r.done.cuts))
				inside.Add(int64(r.done.inside))
				nested.Add(int64(r.done.nested))
				adopted.Add(int64(r.done.adopted))
			})
		}
	})
	t.Logf("seeds %d to %d: %d power cuts, %d of them in the middle of an operation, %d more in the recovery from one; %d databases went on after one",
		*crashSeed, *crashSeed+uint64(runs)-1, total.Load(), inside.Load(), nested.Load(), adopted.Load())
	require.Positive(t, inside.Load())
	require.Positive(t, nested.Load())
}

// crashRun writes at random while power is cut at random.
type crashRun struct {
	t        *testing.T
	seed     uint64
	rng      *rand.Rand
	fs       *vfs.MemFS
	d        *DB
	tasks    [crashTasks]statestore.TaskStores
	position int64
	extra    int // numbers stores of which nothing is known but the name
	done     struct{ cuts, inside, nested, adopted int }

	mu    sync.Mutex
	model *crashModel
	due   int // changes of the file system until power is cut; 0: it is not
	taken *cut
	doing string
}

// cut is what is left on the disk, and what may be.
type cut struct {
	fs    *vfs.MemFS
	model *crashModel
	where string
}

func newCrashRun(t *testing.T, seed uint64) *crashRun {
	r := &crashRun{t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewCrashableMem(), model: newCrashModel()}
	r.start()
	return r
}

// start opens the database and all tasks.
func (r *crashRun) start() {
	r.d = r.openDB(r.fs, r.before)
	for n := range r.tasks {
		r.tasks[n] = r.open(r.d, r.model, n)
	}
	r.remember()
}

func (r *crashRun) openDB(fs vfs.FS, before func(op, name string)) *DB {
	d, err := Open(Options{Dir: "db", FS: cutFS{FS: fs, before: before}, Memory: 16 << 20, FlushRecords: 100})
	require.NoError(r.t, err)
	d.ingestMin, d.wideMin = 500, 400
	return d
}

func (r *crashRun) open(d *DB, m *crashModel, n int, more ...statestore.Spec) statestore.TaskStores {
	specs := []statestore.Spec{{Name: "a", Ordered: true}, {Name: "b", Ordered: true}}
	for s := range specs {
		specs[s].Changelog[0] = m.stores[n][s].topic
	}
	ts, err := d.Open(taskN(n), append(specs, more...))
	require.NoError(r.t, err)
	return ts
}

// remember notes the ids of names that have been given out.
func (r *crashRun) remember() {
	names := maps.Clone(r.d.names)
	r.change(func(m *crashModel) { m.names = names })
}

// change changes the model. No power is cut meanwhile.
func (r *crashRun) change(f func(*crashModel)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f(r.model)
}

// before is told of each change of the file system, by any goroutine of the database.
func (r *crashRun) before(op, name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.due == 0 {
		return
	}
	if r.due--; r.due == 0 {
		r.taken = r.cutNow(r.doing + ", before " + op + " " + name)
	}
}

// cutNow plays a power cut on a copy. The caller holds mu.
func (r *crashRun) cutNow(where string) *cut {
	r.done.cuts++
	return &cut{fs: crashClone(r.fs, r.seed, r.done.cuts), model: r.model.clone(), where: where}
}

func crashClone(fs *vfs.MemFS, seed uint64, n int) *vfs.MemFS {
	rng := rand.New(rand.NewPCG(seed, uint64(n)<<8))
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
}

// cycle works until power is cut, and looks at what is left. Now and then it goes on with that.
func (r *crashRun) cycle() {
	if r.rng.IntN(5) == 0 {
		for range r.rng.IntN(25) {
			r.step()
		}
		r.mu.Lock()
		r.taken = r.cutNow("at rest")
		r.mu.Unlock()
	} else {
		r.mu.Lock()
		r.due = 1 + r.rng.IntN(80)
		r.mu.Unlock()
		for !r.cutTaken() {
			r.step()
		}
		r.done.inside++
	}
	c := r.taken
	r.taken = nil
	f := r.check(c, 0)
	if r.rng.IntN(4) == 0 {
		r.adopt(c, f)
	}
}

func (r *crashRun) cutTaken() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.taken != nil
}

// step does one thing at random.
func (r *crashRun) step() {
	n := r.rng.IntN(crashTasks)
	switch p := r.rng.IntN(100); {
	case p < 45:
		r.do("apply", r.write(n, r.tasks[n].Apply, 8))
	case p < 60:
		r.do("ingest", r.write(n, r.tasks[n].Ingest, 40))
	case p < 70:
		r.burst()
	case p < 76:
		r.flush()
	case p < 80:
		r.do("flush without waiting", r.d.asyncFlush)
	case p < 85:
		r.do("compact", func() error { return r.d.db.Compact(context.Background(), []byte{0}, []byte{0xff}, r.rng.IntN(2) == 0) })
	case p < 88:
		s := r.rng.IntN(crashStores)
		r.empty("wipe", n, []int{s}, 0, func() error { return r.tasks[n].Wipe(s) })
	case p < 91:
		r.recreate(n)
	case p < 93:
		r.drop(n)
	case p < 97:
		r.reopenTask(n)
	default:
		r.reopen()
	}
}

func (r *crashRun) do(what string, f func() error) {
	r.mu.Lock()
	r.doing = what
	r.mu.Unlock()
	require.NoError(r.t, f(), what)
}

func (r *crashRun) flush() {
	lasts := r.model.lasts()
	r.do("flush", r.d.Flush)
	r.change(func(m *crashModel) { m.flushed(lasts) })
}

// burst writes to several tasks at once, beside a flush.
func (r *crashRun) burst() {
	lasts := r.model.lasts()
	var all []func() error
	for n := range crashTasks {
		all = append(all, r.write(n, r.tasks[n].Apply, 20))
	}
	r.do("writes beside a flush", func() error {
		var wg sync.WaitGroup
		errs := make([]error, len(all)+1)
		for i, f := range append(all, r.d.Flush) {
			wg.Go(func() { errs[i] = f() })
		}
		wg.Wait()
		return errors.Join(errs...)
	})
	r.change(func(m *crashModel) { m.flushed(lasts) })
}

// write makes a batch and puts it into the model. What it returns writes it.
func (r *crashRun) write(n int, f func(*statestore.Batch) error, most int) func() error {
	b := &statestore.Batch{Urgent: r.position%2 == 0}
	j := joint{task: n}
	stores := 1 + r.rng.IntN(3) // bits
	r.mu.Lock()
	defer r.mu.Unlock()
	for s := range crashStores {
		if stores&(1<<s) == 0 {
			continue
		}
		h := r.model.stores[n][s].h
		r.position++
		sb := statestore.StoreBatch{Store: s, Position: r.position}
		for range r.rng.IntN(most) {
			key := fmt.Sprint(r.rng.IntN(30))
			c := statestore.Change{Key: []byte(key), Timestamp: r.position}
			if r.rng.IntN(4) == 0 {
				delete(h.now, key)
			} else {
				c.Value = fmt.Appendf(nil, "%d %040d", r.position, r.rng.IntN(1000))
				h.now[key] = string(c.Value)
			}
			sb.Changes = append(sb.Changes, c)
		}
		b.Stores = append(b.Stores, sb)
		j.positions[s] = r.position
		h.at[r.position] = maps.Clone(h.now)
	}
	if stores == 3 {
		r.model.joint = append(r.model.joint, j)
	}
	return func() error { return f(b) }
}

// empty empties stores of a task by f, which makes it durable.
func (r *crashRun) empty(what string, n int, stores []int, newTopic byte, f func() error) {
	r.change(func(m *crashModel) {
		m.drops[n] = len(stores) == crashStores
		for _, s := range stores {
			st := &m.stores[n][s]
			st.before, st.h = st.h, newHistory()
			if newTopic != 0 {
				st.topic, st.stale = newTopic, true
			}
		}
	})
	r.do(what, f)
	r.change(func(m *crashModel) {
		m.drops[n] = false
		for _, s := range stores {
			m.stores[n][s].before, m.stores[n][s].stale = nil, false
		}
	})
}

// recreate opens a task after the changelog of one of its stores was made anew.
func (r *crashRun) recreate(n int) {
	s := r.rng.IntN(crashStores)
	written := r.tasks[n].Position(s) != statestore.NoPosition
	r.do("close task", r.tasks[n].Close)
	r.empty("open of a stale store", n, []int{s}, r.model.stores[n][s].topic+1, func() error {
		r.tasks[n] = r.open(r.d, r.model, n)
		return nil
	})
	require.Equal(r.t, written, r.tasks[n].Stale(s))
}

// drop drops a task, open or not.
func (r *crashRun) drop(n int) {
	what, f := "drop", r.tasks[n].Drop
	if r.rng.IntN(2) == 0 {
		r.do("close task", r.tasks[n].Close)
		what, f = "drop of a closed task", func() error { return r.d.Drop(taskN(n)) }
	}
	r.empty(what, n, []int{0, 1}, 0, f)
	r.tasks[n] = r.open(r.d, r.model, n)
}

// reopenTask closes a task and opens it, sometimes with a store that is new to the database.
func (r *crashRun) reopenTask(n int) {
	r.do("close task", r.tasks[n].Close)
	var more []statestore.Spec
	if r.rng.IntN(2) == 0 {
		r.extra++
		more = append(more, statestore.Spec{Name: fmt.Sprint("extra", r.extra)})
	}
	r.do("open task", func() error {
		r.tasks[n] = r.open(r.d, r.model, n, more...)
		return nil
	})
	r.remember()
}

// reopen closes the database and opens it.
func (r *crashRun) reopen() {
	lasts := r.model.lasts()
	r.do("close", r.stop)
	r.change(func(m *crashModel) { m.flushed(lasts) })
	r.do("open", func() error {
		r.start()
		return nil
	})
}

func (r *crashRun) stop() error {
	for _, ts := range r.tasks {
		if err := ts.Close(); err != nil {
			return err
		}
	}
	return r.d.Close()
}

// check opens what a power cut has left, compares it with the model, and cuts power meanwhile in every second case: what is left of that must
// be the same.
func (r *crashRun) check(c *cut, depth int) *found {
	var again *vfs.MemFS
	due := 0
	if depth < 3 && r.rng.IntN(2) == 0 {
		due = 1 + r.rng.IntN(25)
	}
	var mu sync.Mutex
	d := r.openDB(c.fs, func(op, name string) {
		mu.Lock()
		defer mu.Unlock()
		if due == 0 {
			return
		}
		if due--; due == 0 {
			again = crashClone(c.fs, r.seed, r.done.cuts+depth<<20)
		}
	})
	f := r.look(d, c)
	require.NoError(r.t, d.Close())
	require.Empty(r.t, c.model.fault(f), "seed %d, power cut %s, recovery %d: %+v", r.seed, c.where, depth, f)
	if again != nil {
		r.done.nested++
		g := r.check(&cut{fs: again, model: c.model, where: c.where}, depth+1)
		require.Equal(r.t, f.positions, g.positions, "seed %d, power cut %s and %d times in the recovery", r.seed, c.where, depth+1)
	}
	return f
}

func (r *crashRun) look(d *DB, c *cut) *found {
	f := &found{names: maps.Clone(d.names)}
	stored, err := d.Tasks()
	require.NoError(r.t, err)
	for n := range crashTasks {
		ts := r.open(d, c.model, n)
		for s := range crashStores {
			if !ts.Stale(s) {
				require.Equal(r.t, ts.Position(s), listed(stored, n, s), "what is listed is what opens")
			}
			f.stale[n][s], f.positions[n][s] = ts.Stale(s), ts.Position(s)
			f.rows[n][s] = map[string]string{}
			rd := ts.Reader(s)
			it := rd.Scan(nil, nil, false)
			for it.Next() {
				f.rows[n][s][string(it.Key())] = string(it.Row().Value)
			}
			require.NoError(r.t, it.Close())
			for key, value := range f.rows[n][s] {
				row, ok, err := rd.Get([]byte(key))
				require.NoError(r.t, err)
				require.True(r.t, ok)
				require.Equal(r.t, value, string(row.Value))
				break
			}
		}
		require.NoError(r.t, ts.Close())
	}
	return f
}

// listed is the position of a store in a list of tasks.
func listed(stored []statestore.StoredTask, n, s int) int64 {
	for i := range stored {
		if stored[i].ID == taskN(n) {
			return stored[i].Store([]string{"a", "b"}[s]).Position
		}
	}
	return statestore.NoPosition
}

// adopt goes on with what a power cut has left.
func (r *crashRun) adopt(c *cut, f *found) {
	r.done.adopted++
	require.NoError(r.t, r.stop())
	r.fs = c.fs
	r.change(func(*crashModel) {
		r.model = c.model
		r.model.drops = [crashTasks]bool{}
		for n := range r.model.stores {
			for s := range r.model.stores[n] {
				r.model.stores[n][s].rollback(f.positions[n][s])
			}
		}
		r.model.joint = slices.DeleteFunc(r.model.joint, func(j joint) bool {
			return r.model.stores[j.task][0].h.at[j.positions[0]] == nil || r.model.stores[j.task][1].h.at[j.positions[1]] == nil
		})
	})
	r.start()
}

func (r *crashRun) close() { require.NoError(r.t, r.stop()) }
