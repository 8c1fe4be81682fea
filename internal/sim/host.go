package sim

import (
	"errors"
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/task"
)

// host is a machine with a disk. At most one process runs on it.
type host struct {
	w       *world
	n       int
	disk    *statestore.Memory
	p       *process
	paused  time.Time // its process gets no event before
	woke    time.Time
	wanted  bool          // a process shall run here
	full    bool          // the disk is
	hold    bool          // its next request to a changelog is held up in the network, and the process dies
	wipes   bool          // its disk is wiped when its process has ended
	fails   int           // how many of its next writes fail
	cutOut  time.Time     // nothing of it arrives before
	cutIn   time.Time     // nothing arrives at it before
	skew    time.Duration // of its wall clock
	unsaved int           // writes since the last that a crash leaves
	synced  int           // writes since the last timed flush that a crash leaves all the same
	started int
	retired bool      // it does not come back
	version int32     // of the program that it runs
	slow    time.Time // what it reads of changelogs comes slowly until then
	stuck   time.Time // and not at all until then
}

func newHost(w *world, n int) *host {
	return &host{w: w, n: n, disk: statestore.NewMemory(), wanted: true}
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
	w          *world
	host       *host
	name       string
	dead       bool
	failing    bool      // a write failed: it ends with an error
	doomed     bool      // a record has killed it
	starting   *taskRun  // whose nodes are being made
	evicted    time.Time // an operator has removed it from the group, and it may not know before
	evictedAt  int32     // the generation then
	answered   uint64    // the last request that was answered
	engine     *engine.Engine
	spec       []*task.Spec
	box        lane
	wake       wakeup
	member     member
	offset     *link
	fetch      fetchers
	suspended  bool  // as it says itself
	troubled   bool  // it knows of a full disk
	generation int32 // of the last assignment that was applied
	sender     sender
	stores     map[lifeKey]*openStores
	writes     map[task.ID]*lane
	waiting    []waitingWrite // for room on the disk
	tasks      map[lifeKey]*taskRun
	releases   map[task.ID]bool      // tasks that are told to let go
	abandons   map[task.ID]time.Time // tasks that are told that they are lost, and since when
	roles
}

// lifeKey names one life of a task.
type lifeKey struct {
	task  task.ID
	epoch uint64
}

func (h *host) start() {
	if h.p != nil || !h.wanted {
		return
	}
	h.started++
	p := &process{
		w: h.w, host: h, name: fmt.Sprintf("%c%d", 'A'+h.n, h.started),
		stores: map[lifeKey]*openStores{}, writes: map[task.ID]*lane{}, tasks: map[lifeKey]*taskRun{}, releases: map[task.ID]bool{}, abandons: map[task.ID]time.Time{},
	}
	h.p = p
	p.spec = p.topology()
	p.fetch.init(p)
	p.sender.init(p)
	p.roles.init()
	h.version = h.w.version
	m := h.w.mood
	p.engine = engine.New(engine.Config{
		Group: group.Config{
			Group: groupName, ProcessID: [16]byte{byte(h.n + 1)}, Session: session, Rebalance: rebalance, Heartbeat: 500 * time.Millisecond,
			Seed: h.w.rng.Uint64(), Policy: m.policy, Capacity: h.capacity(), TopologyVersion: h.version,
		},
		Specs: p.spec, Hashes: map[int32]uint64{0: 1, 1: 2 + uint64(h.version)}, QueueBytes: m.queue, RestoreBytes: m.restore,
		LearnRate: m.rate, Coalesce: m.coalesce, AcceptableLag: m.policy.AcceptableLag, StateCleanup: m.cleanup, StallAfter: m.stall,
		PurgeEvery: 2*session + time.Second, RefreshEvery: 5 * time.Second, OutOfRange: func(string) engine.Reset { return engine.ResetStop },
	})
	h.w.note(p, "is started", task.ID{}, int64(h.started), 0)
	p.tell(engine.Start{})
	p.flushLater()
}

// flushLater makes the disk keep what was written, now and then.
func (p *process) flushLater() {
	p.w.after(p.w.mood.flush/2+p.w.upTo(p.w.mood.flush/2), p, func() {
		if !p.host.full {
			p.host.sync()
			p.host.synced = 0
		}
		p.flushLater()
	})
}

// sync makes the disk keep what was written.
func (h *host) sync() {
	if err := h.disk.Flush(); err != nil {
		h.w.violated("%s: flush: %v", h.name(), err)
	}
	h.unsaved = 0
}

// wrote notes a write to the disk. A database that writes nothing before it acknowledges keeps any prefix of what is not flushed: which one is
// drawn here, as if a crash came next.
func (h *host) wrote() {
	h.unsaved++
	if h.w.rng.Float64() < h.w.mood.sync && !h.full {
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
	h.disk.Crash()
	h.w.oracle.crashed(h.name(), h.disk)
}

// end forgets the process and lets its connections go, a moment after what is on the way on them has arrived.
func (h *host) end() {
	p := h.p
	p.dead = true
	h.p, h.paused = nil, time.Time{}
	h.w.oracle.ended(p)
	for _, l := range h.w.linksOf(p) {
		h.w.send(&l.out, h.w.netDelay(), nil, l.hangUp)
	}
}

// wipe empties the disk.
func (h *host) wipe() { h.disk, h.unsaved, h.synced = statestore.NewMemory(), 0, 0 }

// exited is called when the application has ended by itself.
func (h *host) exited(err error) {
	failed, troubled := errors.Is(err, errDisk), h.p.troubled
	if err != nil && !failed {
		h.w.violated("%s ended: %v", h.p.name, err)
		return
	}
	h.end()
	if failed {
		h.w.saw(FailedWrite)
		h.lose()
		if h.wanted {
			h.w.after(h.w.upTo(session), nil, h.comeBack)
		}
		return
	}
	h.w.saw(Closed)
	if h.full || troubled { // it may have ended without waiting for the disk; what was not flushed is lost
		h.lose()
	} else {
		if err := h.disk.Close(); err != nil {
			h.w.violated("%s: close of its disk: %v", h.name(), err)
		}
		h.disk.Crash() // closed and flushed: opens again as it was
		h.unsaved, h.synced = 0, 0
	}
	if h.wipes {
		h.w.saw(ClosedWiped)
		h.wipe()
	}
}

func (h *host) name() string { return fmt.Sprintf("%c%d", 'A'+h.n, h.started) }
