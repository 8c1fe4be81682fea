package pebblestore

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/storetest"
)

// restartable lets the suite restart a database in a memory file system.
type restartable struct {
	*DB
	opts Options
	fs   *vfs.MemFS
	rng  *rand.Rand
}

func newRestartable(t require.TestingT, fs *vfs.MemFS, rng *rand.Rand) *restartable {
	opts := Options{Dir: "db", FS: fs, Memory: 16 << 20}
	d, err := Open(opts)
	require.NoError(t, err)
	return &restartable{DB: d, opts: opts, fs: fs, rng: rng}
}

func (r *restartable) Reopen() (statestore.Backend, error) {
	if err := r.Close(); err != nil {
		return nil, err
	}
	return r.reopen()
}

func (r *restartable) reopen() (statestore.Backend, error) {
	var err error
	r.DB, err = Open(r.opts)
	return r, err
}

// Crash goes on with a file system that holds what was synced and some of the rest.
func (r *restartable) Crash() (statestore.Backend, error) {
	r.fs = r.fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: r.rng.IntN(101), RNG: r.rng})
	r.opts.FS = r.fs
	abandon(r.DB)
	return r.reopen()
}

// abandon ends the goroutines of a database that is to be taken for dead.
func abandon(d *DB) {
	d.mu.Lock()
	tasks := d.tasks
	d.tasks = map[statestore.TaskID]*taskStores{}
	d.mu.Unlock()
	for _, t := range tasks {
		_ = t.Close()
	}
	_ = d.Close()
}

func TestConforms(t *testing.T) {
	storetest.Run(t, func(t *testing.T) statestore.Backend {
		return newRestartable(t, vfs.NewCrashableMem(), rand.New(rand.NewPCG(1, 2)))
	})
}
