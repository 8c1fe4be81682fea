package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// host is a machine with a disk. At most one process runs on it.
type host struct {
	virtual.Host
	w       *world
	n       int
	p       *process
	woke    time.Time
	wanted  bool // a process shall run here
	full    bool // the disk is
	hold    bool // its next request to a changelog is held up in the network, and the process dies
	wipes   bool // its disk is wiped when its process has ended
	fails   int  // how many of its next writes fail
	unsaved int  // writes since the last that a crash leaves
	synced  int  // writes since the last timed flush that a crash leaves all the same
	started int
	retired bool      // it does not come back
	version int32     // of the program that it runs
	slow    time.Time // what it reads of changelogs comes slowly until then
	stuck   time.Time // and not at all until then
}

func newHost(w *world, n int) *host {
	return &host{Host: virtual.Host{Disk: statestore.NewMemory()}, w: w, n: n, wanted: true}
}

// belongs says that a process of the group shall run here in the end.
func (h *host) belongs() bool { return h.wanted && !h.retired }

// capacity is the weight of a process here.
func (h *host) capacity() int {
	if h.w.mood.uneven {
		return 1 + h.n%2
	}
	return 1
}

// process is the program between its start and its death.
type process struct {
	*virtual.Process
	virtual.Unwatched
	w          *world
	host       *host
	name       string
	memberID   string    // the last that the coordinator gave it
	failing    bool      // a write failed: it ends with an error
	doomed     bool      // a record has killed it
	shutting   bool      // it was asked to end
	jumped     bool      // the clock of its host was moved
	evicted    time.Time // an operator has removed it from the group, and it may not know before
	evictedAt  int32     // the generation then
	spec       []*task.Spec
	suspended  bool           // as it says itself
	troubled   bool           // it knows of a full disk
	generation int32          // of the last assignment that was applied
	waiting    []waitingWrite // for room on the disk
	runs       map[virtual.LifeKey]*taskRun
	past       map[task.ID]*paths    // of the last life of a task that has ended: what it has said may come later
	releases   map[task.ID]bool      // tasks that are told to let go
	abandons   map[task.ID]time.Time // tasks that are told that they are lost, and since when
	roles
}

func (h *host) start() {
	if h.p != nil || !h.wanted {
		return
	}
	h.started++
	p := h.newProcess()
	h.p = p
	h.version = h.w.version
	m := h.w.mood
	p.Process = h.w.NewProcess(virtual.ProcessConfig{
		Host: &h.Host, Watch: p, Topics: topics(),
		Engine: engine.Config{
			Group: group.Config{
				Group: groupName, ProcessID: [16]byte{byte(h.n + 1)}, Session: session, Rebalance: rebalance, Heartbeat: 500 * time.Millisecond,
				Seed: h.w.Rand.Uint64(), Policy: m.policy, Capacity: h.capacity(), TopologyVersion: h.version,
			},
			Specs: p.spec, Hashes: map[int32]uint64{0: 1, 1: 2 + uint64(h.version)}, QueueBytes: m.queue, RestoreBytes: m.restore,
			LearnRate: m.rate, Coalesce: m.coalesce, AcceptableLag: m.policy.AcceptableLag, StateCleanup: m.cleanup, StallAfter: m.stall,
			Recover:    h.w.recovery.above,
			PurgeEvery: 2*session + time.Second, RefreshEvery: 5 * time.Second, OutOfRange: h.w.outOfRange,
		},
		Sender: engine.SenderConfig{BatchBytes: 500, MaxBatch: 2000}, Planner: engine.PlannerConfig{MaxWait: m.fetchWait, PartBytes: 400, TurnBytes: 400},
		NewTask: func(c task.Config) task.Config {
			c.Partitions, c.CommitInterval = func(string) int32 { return h.w.cfg.Parts }, m.commit
			return c
		},
	})
	h.w.note(p, "is started", task.ID{}, int64(h.started), 0)
	p.Tell(engine.Start{})
	p.flushLater()
}

// newProcess is a process without its machines.
func (h *host) newProcess() *process {
	p := &process{
		w: h.w, host: h, name: h.name(), runs: map[virtual.LifeKey]*taskRun{}, past: map[task.ID]*paths{}, releases: map[task.ID]bool{}, abandons: map[task.ID]time.Time{},
	}
	p.spec = p.topology()
	p.roles.init()
	return p
}

// flushLater makes the disk keep what was written, now and then.
func (p *process) flushLater() {
	p.w.After(p.w.mood.flush/2+p.w.UpTo(p.w.mood.flush/2), p.Process, func() {
		if !p.host.full {
			p.host.sync()
			p.host.synced = 0
		}
		p.flushLater()
	})
}

// sync makes the disk keep what was written.
func (h *host) sync() {
	if err := h.Disk.Flush(); err != nil {
		h.w.violated("%s: flush: %v", h.name(), err)
	}
	h.unsaved = 0
}

// wrote notes a write to the disk. A database that writes nothing before it acknowledges keeps any prefix of what is not flushed: which one is
// drawn here, as if a crash came next.
func (h *host) wrote() {
	h.unsaved++
	if h.w.Rand.Float64() < h.w.mood.sync && !h.full {
		h.synced += h.unsaved
		h.sync()
	}
}

// crash kills the process: nothing of it happens any more, but what it has sent is still on the way.
func (h *host) crash() {
	if h.p == nil {
		return
	}
	h.w.note(h.p, "is killed; {a} writes to its disk are lost", task.ID{}, int64(h.unsaved), 0)
	h.end()
	h.lose()
}

// lose takes back what the disk had not synced when its process died.
func (h *host) lose() {
	if h.unsaved > 0 {
		h.w.saw(SuffixLost)
	}
	if h.synced > 0 {
		h.w.saw(SuffixKept)
	}
	h.unsaved, h.synced = 0, 0
	h.Disk.Crash()
	h.w.oracle.crashed(h.name(), h.Disk)
}

// end forgets the process and lets its connections go, a moment after what is on the way on them has arrived.
func (h *host) end() {
	p := h.p
	h.p = nil
	h.w.oracle.ended(p)
	p.End()
}

// wipe empties the disk.
func (h *host) wipe() { h.Disk, h.unsaved, h.synced = statestore.NewMemory(), 0, 0 }

// shut asks the application for a clean end.
func (p *process) shut(within time.Duration) {
	p.shutting = true
	p.Tell(engine.Close{Within: within})
}

// exited is called when the application has ended by itself.
func (h *host) exited(err error) {
	failed, troubled := errors.Is(err, errDisk), h.p.troubled
	// Who is ending has no next life in which the record fails in its place. And a refusal is forgotten after a while, by the clock of the host: the
	// core loop does not go by that here, so it takes a record that is sent once more after a jump for one that is not known again.
	var refused *engine.ProduceError
	failed = failed || errors.As(err, &refused) && refused.Code == kcode.InvalidTimestamp && (h.p.shutting || h.p.jumped)
	stopped := h.w.failing.stops() && ofRecord(err) || h.w.oracle.diedOver(h.p, err)
	if err != nil && !failed && !stopped {
		h.w.violated("%s ended: %v", h.p.name, err)
		return
	}
	h.end()
	if failed {
		if refused == nil {
			h.w.saw(FailedWrite)
		}
		h.lose()
		if h.wanted {
			h.w.After(h.w.UpTo(session), nil, h.comeBack)
		}
		return
	}
	if stopped {
		h.w.fault("a record stops the application of %s", h.name())
		h.w.saw(RecordStopped)
		if h.w.healed {
			h.w.oracle.rounds.stops++
		}
		h.w.After(h.w.UpTo(time.Second), nil, h.start)
	} else {
		h.w.saw(Closed)
	}
	if h.full || troubled { // it may have ended without waiting for the disk; what was not flushed is lost
		h.lose()
	} else {
		if err := h.Disk.Close(); err != nil {
			h.w.violated("%s: close of its disk: %v", h.name(), err)
		}
		h.Disk.Crash() // closed and flushed: opens again as it was
		h.unsaved, h.synced = 0, 0
	}
	if h.wipes {
		h.w.saw(ClosedWiped)
		h.wipe()
	}
}

// ofRecord says that an application ended over a record.
func ofRecord(err error) bool {
	e, is := errors.AsType[*task.Error](err)
	return is && (e.Kind == task.KindProcess || e.Kind == task.KindPanic)
}

func (h *host) name() string { return fmt.Sprintf("%c%d", 'A'+h.n, h.started) }
