package streams

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
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
	if !a.topology.stateful() {
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
	b := budgetOf(c.Memory, 0, 0)
	cfg := shell.Config{
		Engine: engine.Config{
			Group: group.Config{
				Group: c.ApplicationID, ProcessID: state.processID, Session: c.Session, Rebalance: c.Rebalance, Heartbeat: c.Heartbeat,
				Rack: c.Rack, TopologyVersion: c.TopologyVersion, Capacity: c.Capacity, Tags: c.Tags, Policy: c.policy(),
				Seed: rand.Uint64(), //nolint:gosec // jitter only
			},
			Specs: a.topology.Subtopologies, Hashes: a.hashes(), MaxStuck: c.MaxStuck, CloseWithin: c.CloseTimeout,
			RestoreBytes: b.restore, LearnRate: c.LearnRate, AcceptableLag: c.AcceptableLag, Coalesce: c.Coalesce, StateCleanup: c.StateCleanup,
			StuckAfter: c.StuckAfter,
			NoOffset:   func(string) engine.Reset { return c.NoOffset.engine(engine.ResetEarliest) },
			OutOfRange: func(string) engine.Reset { return c.OutOfRange.engine(engine.ResetStop) },
		},
		Sender:  engine.SenderConfig{Linger: c.Linger, MaxRequest: b.request},
		Planner: engine.PlannerConfig{MaxBytes: int32(b.answer)},
		Client:  client, Codec: c.Compression, Backend: state.backend,
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

// policy is how this process plans when it leads the group.
func (c Config) policy() assignor.Policy {
	return assignor.Policy{
		Standbys: c.Standbys, LearnersPerMember: c.LearnersPerProcess, Learners: c.Learners, AcceptableLag: c.AcceptableLag, SpreadTags: c.SpreadTags,
	}
}

// newTask completes the configuration of a task.
func (a *App) newTask(ctx context.Context, t *topics, tc task.Config) task.Config {
	b := t.budget()
	tc.Spec = a.topology.Subtopologies[tc.ID.Subtopology]
	tc.Context = ctx
	tc.Partitions = func(topic string) int32 { return t.partitions(ctx, topic) }
	tc.Limits = func(topic string) task.Limits { return t.limits(ctx, topic) }
	tc.CreditBytes, tc.CacheBytes, tc.DirtyBytes = b.credit, b.rows, cmp.Or(a.cfg.CommitBytes, b.dirty)
	tc.CommitInterval, tc.MaxRecordBytes = a.cfg.CommitInterval, a.cfg.MaxRecordBytes
	tc.Seed = rand.Uint64() //nolint:gosec // of hash tables; not a secret
	return tc
}

// hashes identify the structure of each subtopology: members with equal ones can take over each other's tasks.
func (a *App) hashes() map[int32]uint64 {
	out := map[int32]uint64{}
	for _, s := range a.topology.Subtopologies {
		h := fnv.New64a()
		for _, in := range s.Inputs {
			fmt.Fprintf(h, "in %s\n", in.Topic)
		}
		for _, st := range s.Stores {
			fmt.Fprintf(h, "store %s %t %s\n", st.Spec.Name, st.Spec.Ordered, st.Changelog)
		}
		out[s.Subtopology] = h.Sum64()
	}
	return out
}
