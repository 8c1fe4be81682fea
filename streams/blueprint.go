package streams

import (
	"cmp"
	"fmt"
	"hash/fnv"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/task"
)

// Blueprint is what an application is carried out by, for package streamstest, which does so without brokers and on virtual time. Its types are
// internal and may change with any version.
type Blueprint struct {
	Engine  engine.Config // without what tells processes apart: Group.ProcessID and Group.Seed
	Sender  engine.SenderConfig
	Planner engine.PlannerConfig
	// Task completes the configuration of a task by what the application says, but for what its brokers say: Partitions and Limits.
	Task func(task.Config) task.Config
	// Notice reports to Config.Listener and Config.Log.
	Notice func(engine.Notice)
}

// Blueprint returns what the application is carried out by. It is for package streamstest.
func (a *App) Blueprint() Blueprint {
	c, b := a.cfg, budgetOf(a.cfg.Memory, 0, 0)
	return Blueprint{
		Engine: engine.Config{
			Group: group.Config{
				Group: c.ApplicationID, Session: c.Session, Rebalance: c.Rebalance, Heartbeat: c.Heartbeat,
				Rack: c.Rack, TopologyVersion: c.TopologyVersion, Capacity: c.Capacity, Tags: c.Tags, Policy: c.policy(),
			},
			Specs: a.Topology().Subtopologies, Hashes: a.hashes(), MaxStuck: c.MaxStuck, CloseWithin: c.CloseTimeout,
			RestoreBytes: b.restore, LearnRate: c.LearnRate, AcceptableLag: c.AcceptableLag, Coalesce: c.Coalesce, StateCleanup: c.StateCleanup,
			StuckAfter: c.StuckAfter, RefreshEvery: c.MetadataInterval, Matches: a.matches(),
			Recover:    c.RecoverAbove, // where a Spec says that its tasks recover so
			NoOffset:   func(string) engine.Reset { return c.NoOffset.engine(engine.ResetEarliest) },
			OutOfRange: func(string) engine.Reset { return c.OutOfRange.engine(engine.ResetStop) },
		},
		Sender:  engine.SenderConfig{Linger: c.Linger, MaxRequest: b.request},
		Planner: engine.PlannerConfig{MaxBytes: int32(b.answer)},
		Task:    func(tc task.Config) task.Config { return a.completed(tc, b) },
		Notice:  a.notice,
	}
}

// completed completes the configuration of a task by what the application says.
func (a *App) completed(tc task.Config, b budget) task.Config {
	tc.CreditBytes, tc.CacheBytes, tc.DirtyBytes = b.credit, b.rows, cmp.Or(a.cfg.CommitBytes, b.dirty)
	tc.CommitInterval, tc.MaxRecordBytes = a.cfg.CommitInterval, a.cfg.MaxRecordBytes
	return tc
}

// policy is how this process plans when it leads the group.
func (c Config) policy() assignor.Policy {
	return assignor.Policy{
		Standbys: c.Standbys, LearnersPerMember: c.LearnersPerProcess, Learners: c.Learners, AcceptableLag: c.AcceptableLag, SpreadTags: c.SpreadTags,
	}
}

// matches says whether a topic is read because of a pattern; it is nil where there are no patterns. What it says of a topic never changes.
func (a *App) matches() func(topic string) bool {
	if t := a.Topology(); t.patterned() {
		return t.matches
	}
	return nil
}

// hashes identify the structure of each subtopology: members with equal ones can take over each other's tasks.
func (a *App) hashes() map[int32]uint64 {
	out := map[int32]uint64{}
	for _, s := range a.Topology().Subtopologies {
		h := fnv.New64a()
		sub := a.Topology().subs[s.Subtopology]
		for _, in := range s.Inputs {
			if p := sub.patternOf(in.Topic); p == nil {
				fmt.Fprintf(h, "in %s\n", in.Topic)
			}
		}
		for _, p := range sub.patterns() {
			fmt.Fprintf(h, "pattern %s %q %q\n", p.name, p.topics.include, p.topics.exclude)
		}
		for _, st := range s.Stores {
			fmt.Fprintf(h, "store %s %t %s\n", st.Spec.Name, st.Spec.Ordered, st.Changelog)
		}
		out[s.Subtopology] = h.Sum64()
	}
	return out
}
