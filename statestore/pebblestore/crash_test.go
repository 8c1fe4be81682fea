package pebblestore

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
)

// history is what a store held at each position since it was last emptied for good.
type history struct {
	at      map[int64]map[string]string
	now     map[string]string
	flushed int64 // position that must not be lost any more
}

func newHistory() *history {
	return &history{at: map[int64]map[string]string{statestore.NoPosition: {}}, now: map[string]string{}, flushed: statestore.NoPosition}
}

// crashRun writes at random while the file system can be cut at any time.
type crashRun struct {
	t         *testing.T
	rng       *rand.Rand
	fs        *vfs.MemFS
	d         *DB
	tasks     []statestore.TaskStores
	topics    [][2]byte    // by task and store: the changelog it was opened with
	histories [][]*history // by task and store
	position  int64
	joint     [][3]int64 // task, position of store 0 and of store 1 that were written in one batch
}

var crashSpecs = []statestore.Spec{{Name: "a", Ordered: true}, {Name: "b", Ordered: true}}

func newCrashRun(t *testing.T, seed uint64) *crashRun {
	r := &crashRun{t: t, rng: rand.New(rand.NewPCG(seed, 1)), fs: vfs.NewCrashableMem()}
	r.d = r.openDB(r.fs)
	for n := range 3 {
		r.histories = append(r.histories, []*history{newHistory(), newHistory()})
		r.topics = append(r.topics, [2]byte{1, 1})
		r.tasks = append(r.tasks, r.open(r.d, n))
	}
	return r
}

func (r *crashRun) openDB(fs vfs.FS) *DB {
	d, err := Open(Options{Dir: "db", FS: fs, Memory: 16 << 20, FlushRecords: 200})
	require.NoError(r.t, err)
	d.ingestMin = 500
	return d
}

func (r *crashRun) open(d *DB, n int) statestore.TaskStores {
	specs := slices.Clone(crashSpecs)
	for s := range specs {
		specs[s].Changelog[0] = r.topics[n][s]
	}
	ts, err := d.Open(taskN(n), specs)
	require.NoError(r.t, err)
	return ts
}

// recreate opens a task after the changelog of one of its stores was made anew.
func (r *crashRun) recreate(n int) {
	s := r.rng.IntN(2)
	written := r.tasks[n].Position(s) != statestore.NoPosition
	require.NoError(r.t, r.tasks[n].Close())
	r.topics[n][s]++
	r.tasks[n] = r.open(r.d, n)
	require.Equal(r.t, written, r.tasks[n].Stale(s))
	r.histories[n][s] = newHistory()
}

func (r *crashRun) step() {
	n := r.rng.IntN(len(r.tasks))
	switch p := r.rng.IntN(100); {
	case p < 70:
		r.write(n, r.tasks[n].Apply, 8)
	case p < 90:
		r.write(n, r.tasks[n].Ingest, 40)
	case p < 94:
		require.NoError(r.t, r.d.Flush())
		for _, h := range r.histories {
			h[0].flushed, h[1].flushed = maxPosition(h[0]), maxPosition(h[1])
		}
	case p < 97:
		s := r.rng.IntN(2)
		require.NoError(r.t, r.tasks[n].Wipe(s))
		r.histories[n][s] = newHistory()
	case p < 99:
		r.recreate(n)
	default:
		require.NoError(r.t, r.tasks[n].Drop())
		r.histories[n] = []*history{newHistory(), newHistory()}
		r.tasks[n] = r.open(r.d, n)
	}
}

func maxPosition(h *history) int64 {
	p := statestore.NoPosition
	for q := range h.at {
		p = max(p, q)
	}
	return p
}

func (r *crashRun) write(n int, f func(*statestore.Batch) error, most int) {
	b := &statestore.Batch{}
	stores := 1 + r.rng.IntN(3) // bits
	written := [2]int64{}
	for s := range 2 {
		if stores&(1<<s) == 0 {
			continue
		}
		h := r.histories[n][s]
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
		written[s] = r.position
		h.at[r.position] = maps.Clone(h.now)
	}
	if stores == 3 {
		r.joint = append(r.joint, [3]int64{int64(n), written[0], written[1]})
	}
	require.NoError(r.t, f(b))
}

// cut plays a power cut of a copy, and checks what is left.
func (r *crashRun) cut() {
	fs := r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(101), RNG: r.rng})
	d := r.openDB(fs)
	positions := [3][2]int64{}
	for n := range r.tasks {
		ts := r.open(d, n)
		for s := range crashSpecs {
			require.False(r.t, ts.Stale(s), "what was wiped has come back")
			h := r.histories[n][s]
			p := ts.Position(s)
			require.Contains(r.t, h.at, p, "task %d store %d is at a position it never had since it was emptied", n, s)
			require.GreaterOrEqual(r.t, p, h.flushed, "a flush was lost")
			got := map[string]string{}
			it := ts.Reader(s).Scan(nil, nil, false)
			for it.Next() {
				got[string(it.Key())] = string(it.Row().Value)
			}
			require.NoError(r.t, it.Close())
			require.Equal(r.t, h.at[p], got, "task %d store %d at position %d", n, s, p)
			positions[n][s] = p
		}
		require.NoError(r.t, ts.Close())
	}
	for _, j := range r.joint {
		p, h := positions[j[0]], r.histories[j[0]]
		if h[0].at[j[1]] != nil && h[1].at[j[2]] != nil { // neither has been emptied since
			require.Equal(r.t, p[0] >= j[1], p[1] >= j[2], "a batch is there in part")
		}
	}
	require.NoError(r.t, d.Close())
}

func (r *crashRun) close() {
	for _, ts := range r.tasks {
		require.NoError(r.t, ts.Close())
	}
	require.NoError(r.t, r.d.Close())
}

// Whatever survives a crash is what the store held at the position that is stored with it.
func TestCrash(t *testing.T) {
	runs, cuts := 30, 10
	if testing.Short() || raceEnabled {
		runs = 4
	}
	for seed := range uint64(runs) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			r := newCrashRun(t, seed)
			for range cuts {
				for range r.rng.IntN(25) {
					r.step()
				}
				r.cut()
			}
			r.close()
		})
	}
}
