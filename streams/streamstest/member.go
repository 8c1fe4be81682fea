package streamstest

import (
	"fmt"
	"time"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/virtual"
	"github.com/understudy-streams/understudy/statestore"
)

// Member is one process of a [Cluster], and the machine that it runs on. What is done to it holds from now on, and shows as time passes: what lasts
// for a while ends by itself, and what is said again meanwhile lasts until the later end.
type Member struct {
	c       *Cluster
	n       int
	host    virtual.Host
	p       *process // nil if it does not run
	started int
	err     error // that it has ended with
}

func newMember(c *Cluster, n int) *Member {
	return &Member{c: c, n: n, host: virtual.Host{Disk: statestore.NewMemory()}}
}

// String names the member, and how often it was started if that is more than once: m1, m1.2.
func (m *Member) String() string {
	if m.started > 1 {
		return fmt.Sprintf("m%d.%d", m.n, m.started)
	}
	return fmt.Sprintf("m%d", m.n)
}

// Number is its number in the cluster.
func (m *Member) Number() int { return m.n }

// Running says whether its process is there, frozen or not.
func (m *Member) Running() bool { return m.p != nil }

// Err is the error that it has ended with, nil if it runs or has ended otherwise.
func (m *Member) Err() error { return m.err }

// Frozen says whether the member is in a [Member.Freeze].
func (m *Member) Frozen() bool { return m.p != nil && m.host.Paused.After(m.c.world.Now) }

// must ends the test if the member does not run.
func (m *Member) must(do string) {
	m.c.t.Helper()
	if m.p == nil {
		m.c.t.Fatalf("streamstest: %s of %v, which does not run: Restart it first", do, m)
	}
}

// forward ends the test if a duration is none.
func (m *Member) forward(do string, d time.Duration) {
	m.c.t.Helper()
	if d <= 0 {
		m.c.t.Fatalf("streamstest: %s(%v) of %v: say for how long, more than 0", do, d, m)
	}
}

// Freeze stops the process for a while, as a long garbage collection does, or a machine that is put to sleep: nothing of it runs, messages to it
// wait, and when it wakes its clock has jumped. If that is longer than the session, others have its tasks by then and it does not know yet: a zombie.
func (m *Member) Freeze(d time.Duration) {
	m.c.t.Helper()
	m.must("Freeze")
	m.forward("Freeze", d)
	m.note("is frozen for", d)
	m.host.Paused = latest(m.host.Paused, m.c.world.Now.Add(d))
}

// BlockIO stalls the disk for a while: writes to stores and flushes begin and do not end before. What was begun already ends. The application runs
// on, as long as it can without them; what it reads of stores comes from memory.
func (m *Member) BlockIO(d time.Duration) {
	m.c.t.Helper()
	m.forward("BlockIO", d)
	m.note("has a disk that does not answer for", d)
	m.host.Stuck = latest(m.host.Stuck, m.c.world.Now.Add(d))
}

// SlowDisk makes every write to a store take that long from now on, on top of what it takes otherwise. 0 ends it.
func (m *Member) SlowDisk(each time.Duration) {
	m.c.t.Helper()
	if each < 0 {
		m.c.t.Fatalf("streamstest: SlowDisk(%v) of %v: a write takes no less than nothing", each, m)
	}
	m.note("has a slow disk from now on, by", each)
	m.host.WriteDelay = each
}

// Slow makes everything that the process does take factor times as long from now on, as on a machine with too little CPU. 1 ends it. A step of
// functions of the topology takes up to 0.2 ms otherwise.
func (m *Member) Slow(factor float64) {
	m.c.t.Helper()
	if !(factor > 0) {
		m.c.t.Fatalf("streamstest: Slow(%v) of %v: a factor is more than 0; 1 is the usual pace", factor, m)
	}
	m.c.trace.Text(m.scene(), "is slower from now on", fmt.Sprintf("by %v", factor), 0)
	m.host.Slow = factor
}

// CutOff cuts the network between the member and all brokers for a while, in both directions. What is on the way arrives when it heals, late.
// The process runs on, and does not know more than that nobody answers.
func (m *Member) CutOff(d time.Duration) {
	m.c.t.Helper()
	m.forward("CutOff", d)
	m.note("is cut off for", d)
	until := m.c.world.Now.Add(d)
	m.host.CutOut, m.host.CutIn = latest(m.host.CutOut, until), latest(m.host.CutIn, until)
}

// Kill ends the process at once, as kill -9 or a power cut does. What it has sent is on its way all the same; what its disk had not flushed, at
// most the last 5 seconds, is lost. The group learns of it when the session is over.
func (m *Member) Kill() {
	m.c.t.Helper()
	m.must("Kill")
	m.c.trace.Text(m.scene(), "is killed", "", 0)
	m.crash()
}

// Restart starts a member that does not run; one that does is killed first. With keepState its disk is as its end has left it, without it is
// empty.
func (m *Member) Restart(keepState bool) {
	m.c.t.Helper()
	if m.p != nil {
		m.Kill()
	}
	if !keepState {
		m.host.Disk = statestore.NewMemory()
	}
	m.start()
}

// Leave asks the process for a clean end, as the end of the context of [streams.App.Run] does: it commits, leaves the group and ends, within
// Config.CloseTimeout. [Member.Running] says when it has.
func (m *Member) Leave() {
	m.c.t.Helper()
	m.must("Leave")
	m.p.Tell(engine.Close{})
}

// Drain asks the process to hand all its tasks over to others and then to end, as [streams.App.Drain] does.
func (m *Member) Drain() {
	m.c.t.Helper()
	m.must("Drain")
	m.p.Tell(engine.Drain{})
}

func (m *Member) note(what string, d time.Duration) {
	m.c.trace.Text(m.scene(), what, d.String(), 0)
}

func (m *Member) scene() virtual.Scene {
	return virtual.Scene{At: m.c.since(m.c.world.Now), Who: m.String()}
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
