package streams

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/statestore/pebblestore"
	"github.com/understudy-streams/understudy/task"
)

// stateDir is what an application has on disk. Without stores it is nothing but a process id.
type stateDir struct {
	processID [16]byte
	backend   statestore.Backend
	writers   *pebblestore.Writers
	dir       *pebblestore.Dir
}

const (
	storeWriters  = 2
	writeDeadline = time.Minute
)

// openState locks and opens the state directory, if the topology has stores.
func (a *App) openState() (*stateDir, error) {
	if !a.Topology().stateful() {
		return &stateDir{processID: randomID()}, nil
	}
	dir, err := pebblestore.OpenDir(a.cfg.StateDir, a.cfg.ApplicationID, pebblestore.Options{
		Memory: budgetOf(a.cfg.Memory, 0, 0).database, CloseTimeout: a.cfg.CloseTimeout, Log: a.cfg.Log.Named("store"), FS: a.stateFS,
	})
	if err != nil {
		return nil, err
	}
	return &stateDir{processID: dir.ProcessID, backend: dir, writers: pebblestore.NewWriters(storeWriters), dir: dir}, nil
}

// shell describes the application to the runtime that carries it out.
func (a *App) shell(client *kafka.Client, state *stateDir) shell.Config {
	t := newTopics(a, client)
	c := a.cfg
	bp := a.Blueprint()
	bp.Engine.Group.ProcessID = state.processID
	bp.Engine.Group.Seed = rand.Uint64() //nolint:gosec // jitter only
	cfg := shell.Config{
		Engine: bp.Engine, Sender: bp.Sender, Planner: bp.Planner,
		Client: client, Codec: c.Compression, Backend: state.backend,
		Ensure: t.ensure, Notice: a.notice, CallTimeout: c.CallTimeout, WriteDeadline: writeDeadline,
		NewTask: func(ctx context.Context, tc task.Config) task.Config { return a.newTask(ctx, t, tc) },
	}
	if state.dir != nil {
		cfg.Writers, cfg.Disk, cfg.Engine.StateDir = state.writers, state.dir, state.dir.Path
	}
	if a.tune != nil {
		a.tune(&cfg)
	}
	return cfg
}

// newTask completes the configuration of a task.
func (a *App) newTask(ctx context.Context, t *topics, tc task.Config) task.Config {
	tc = a.completed(tc, t.budget())
	tc.Context = ctx
	t.doubt(tc.Refused)
	tc.Partitions = func(topic string) int32 { return t.partitions(ctx, topic) }
	tc.Limits = func(topic string) task.Limits { return t.limits(ctx, topic) }
	tc.Seed = rand.Uint64() //nolint:gosec // of hash tables; not a secret
	return tc
}
