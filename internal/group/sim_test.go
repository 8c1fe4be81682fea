package group

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/modelbroker"
	"github.com/understudy-streams/understudy/task"
)

var (
	seeds     = flag.Uint64("seeds", 300, "how many seeds the simulation runs")
	firstSeed = flag.Uint64("seed", 0, "the first of them")
)

// world runs members over the model of a broker in virtual time, on one goroutine, from one seed.
type world struct {
	t      require.TestingT
	rng    *rand.Rand
	now    time.Time
	broker *modelbroker.Broker
	todo   []todo
	seq    int
	procs  []*process
	topo   Topology
	policy assignor.Policy
	// board says whether a mark's receiver is known to be ready.
	board func(assignor.Mark) bool
	// learns is how long a copy takes to catch up; nil: some seconds.
	learns func(*process, task.ID) time.Duration
	// batches is how often a member asked for a round because it has learned something.
	batches int32
	// blind is how often a leader could not read what a member with tasks said.
	blind int
	// unchecked: S1 is left to other tests.
	unchecked bool
	trace     strings.Builder
	calls     map[uint64]*call
	lastID    uint64
	bad       string

	lastCheck time.Time
	ran       map[task.ID]bool          // at the last check
	pauses    map[task.ID]time.Duration // how long each task has run nowhere, since the map was made
}

type todo struct {
	at  time.Time
	seq int
	f   func()
}

// call is a request on its way.
type call struct {
	p    *process
	kind int // which connection
	conn modelbroker.Conn
	done func(modelbroker.Response, error)
}

const (
	onJoin = iota
	onBeat
	onFind
)

// process is one instance: a machine and the simplest runtime around it.
type process struct {
	name    string
	w       *world
	m       *Machine
	alive   bool
	frozen  bool
	cutOff  bool                  // no broker can be reached
	slowBy  map[int]time.Duration // longer ways, by connection
	newer   bool                  // what it writes can be read by its like only
	held    []func()              // what would have happened while it was frozen
	conns   [3]modelbroker.Conn
	node    [3]string
	run     map[task.ID]bool
	parked  map[task.ID]bool // released, can be resumed
	slow    map[task.ID]bool // cannot be stopped
	copies  map[task.ID]*replica
	member  string
	applied int32
	left    bool
	fatal   error
	wake    time.Time
	rounds  int
	losses  int
	refused int // plans that did not fit
}

var errGone = errors.New("the connection is gone")

func newWorld(t require.TestingT, seed uint64, nodes int) *world {
	start := time.Unix(1_700_000_000, 0)
	w := &world{
		t: t, rng: rand.New(rand.NewPCG(seed, 7)), now: start, calls: map[uint64]*call{},
		broker: modelbroker.New(modelbroker.Config{Brokers: nodes, Seed: seed}),
		topo: Topology{
			Subtopologies: []Subtopology{{ID: 0, Topics: []string{"in"}, Stateful: true, Hash: 1}, {ID: 1, Topics: []string{"side", "wide"}, Hash: 1}},
			Partitions:    map[string]int32{"in": 6, "side": 2, "wide": 3},
		},
	}
	w.board = w.knowsReady
	return w
}

func (w *world) note(format string, args ...any) {
	fmt.Fprintf(&w.trace, "%8.3f  ", w.now.Sub(time.Unix(1_700_000_000, 0)).Seconds())
	fmt.Fprintf(&w.trace, format+"\n", args...)
}

func (w *world) at(d time.Duration, f func()) {
	w.seq++
	w.todo = append(w.todo, todo{at: w.now.Add(d), seq: w.seq, f: f})
}

func (w *world) latency() time.Duration {
	return time.Duration(500+w.rng.IntN(4000)) * time.Microsecond
}

// run lets time pass.
func (w *world) run(d time.Duration) {
	until := w.now.Add(d)
	for w.bad == "" {
		i := -1
		for k, x := range w.todo {
			if i < 0 || cmp.Or(x.at.Compare(w.todo[i].at), cmp.Compare(x.seq, w.todo[i].seq)) < 0 {
				i = k
			}
		}
		next := until
		if i >= 0 && w.todo[i].at.Before(next) {
			next = w.todo[i].at
		} else {
			i = -1
		}
		if at, ok := w.broker.Wake(); ok && at.Before(next) {
			next, i = at, -1
		}
		w.now = next
		if i >= 0 {
			f := w.todo[i].f
			w.todo = slices.Delete(w.todo, i, i+1)
			f()
		} else {
			w.broker.Advance(w.now)
		}
		w.deliver()
		w.check()
		if !w.now.Before(until) {
			return
		}
	}
}

func (w *world) deliver() {
	for _, a := range w.broker.Answers() {
		if a.Closed {
			w.failConn(a.Conn)
			continue
		}
		if c := w.calls[a.ID]; c != nil {
			delete(w.calls, a.ID)
			w.at(w.latency(), func() { c.done(a.Body, nil) })
		}
	}
}

func (w *world) failConn(conn modelbroker.Conn) {
	for _, id := range slices.Sorted(maps.Keys(w.calls)) {
		c := w.calls[id]
		if c.conn != conn {
			continue
		}
		delete(w.calls, id)
		w.at(0, func() { c.done(nil, errGone) })
	}
	for _, p := range w.procs {
		for kind := range p.conns {
			if p.conns[kind] == conn {
				p.conns[kind] = 0
			}
		}
	}
}

// check: no task runs at two members whose leases hold (S1), and none runs during a round that was not declared for it (M2, M3).
func (w *world) check() {
	if w.unchecked {
		return
	}
	runs := map[task.ID]*process{}
	for _, p := range w.procs {
		if !p.alive || p.m.lease.held && p.m.lease.over(w.now) {
			continue
		}
		if at := p.m.phase; at == joining || at == syncing { // M2, M3
			for id := range p.run {
				if !slices.Contains(p.m.declared.Claims, id) {
					w.bad = fmt.Sprintf("%s runs %s without having declared it", p.name, id)
					w.note("%s", w.bad)
				}
			}
		}
		for id := range p.run {
			if o := runs[id]; o != nil {
				w.bad = fmt.Sprintf("task %s runs at %s and %s", id, o.name, p.name)
				w.note("%s", w.bad)
			}
			runs[id] = p
		}
	}
	if w.pauses != nil {
		for id := range w.pauses {
			if !w.ran[id] {
				w.pauses[id] += w.now.Sub(w.lastCheck)
			}
		}
		w.ran = map[task.ID]bool{}
		for id := range runs {
			w.ran[id] = true
		}
	}
	w.lastCheck = w.now
}

func (w *world) spawn() *process {
	p := &process{name: fmt.Sprintf("p%d", len(w.procs)), w: w, alive: true, run: map[task.ID]bool{}, parked: map[task.ID]bool{}, slow: map[task.ID]bool{}, copies: map[task.ID]*replica{}}
	p.m = New(Config{Group: "g", Seed: w.rng.Uint64(), TopologyVersion: 1, Policy: w.policy})
	w.procs = append(w.procs, p)
	w.note("%s starts", p.name)
	p.step(Start{Topology: w.topo})
	return p
}

func (w *world) living() (out []*process) {
	for _, p := range w.procs {
		if p.alive && !p.left {
			out = append(out, p)
		}
	}
	return out
}

func (p *process) kill() {
	p.w.note("%s dies", p.name)
	p.alive = false
	p.run = nil
	p.hangUp()
}

func (p *process) hangUp() {
	for kind, conn := range p.conns {
		if conn != 0 {
			p.cut(kind)
		}
	}
}

func (p *process) cut(kind int) {
	conn := p.conns[kind]
	p.conns[kind] = 0
	p.w.broker.Hangup(conn)
	p.w.failConn(conn)
}

func (p *process) freeze(d time.Duration) {
	p.w.note("%s is frozen for %s", p.name, d)
	p.frozen = true
	p.w.at(d, func() {
		p.frozen = false
		p.w.note("%s wakes up", p.name)
		p.step(Tick{})
		for _, f := range p.held {
			f()
		}
		p.held = nil
	})
}

// step gives the machine an event and carries out what it wants.
func (p *process) step(ev Event) {
	switch {
	case !p.alive:
		return
	case p.frozen:
		p.held = append(p.held, func() { p.step(ev) })
		return
	}
	for _, a := range slices.Clone(p.m.Step(p.w.now, ev)) {
		p.carry(a)
	}
}

func (p *process) carry(a Action) {
	w := p.w
	switch a := a.(type) {
	case Wake:
		p.wake = a.At
		w.at(max(0, a.At.Sub(w.now)), func() {
			if p.wake.Equal(a.At) {
				p.step(Tick{})
			}
		})
	case Prepare:
		p.prepare(a)
	case Assigned:
		p.rounds++
		w.note("%s generation %d: %v, marked %v (%s)", p.name, a.Generation, a.Tasks, tasksOf(a.Marks), a.Reason)
		for _, k := range a.Moves {
			w.note("    %s", k.Reason)
		}
		for _, id := range p.m.declared.Claims { // I3
			if !slices.Contains(a.Tasks, id) {
				w.bad = fmt.Sprintf("%s, which runs %s and said so, does not have it in generation %d", p.name, id, a.Generation)
				w.note("%s", w.bad)
			}
		}
		if a.MemberID == p.member && a.Generation <= p.applied { // S3
			w.bad = fmt.Sprintf("%s applies generation %d after %d", p.name, a.Generation, p.applied)
		}
		p.member, p.applied = a.MemberID, a.Generation
		p.take(a)
	case Lost:
		w.note("%s loses its tasks: %s", p.name, a.Reason)
		p.losses++
		p.run, p.parked = map[task.ID]bool{}, map[task.ID]bool{}
	case Left:
		w.note("%s has left", p.name)
		p.left, p.alive = true, false
	case Fatal:
		w.note("%s stops: %v", p.name, a.Err)
		p.fatal, p.alive = a.Err, false
	case Disconnect:
		p.hangUp()
	default:
		p.request(a)
	}
}

func (p *process) prepare(a Prepare) {
	p.w.note("%s prepares (%s), releases %v", p.name, a.Reason, tasksOf(a.Marks))
	var late []task.ID
	for _, k := range a.Marks {
		switch id := k.Task; {
		case !p.run[id] || !k.Ready && !p.w.board(k):
		case p.slow[id]:
			late = append(late, id)
		default:
			delete(p.run, id)
			p.parked[id] = true
		}
	}
	p.w.at(time.Duration(p.w.rng.IntN(20))*time.Millisecond, func() {
		p.step(Prepared{Join: a.Join, Claims: sortedIDs(p.run), Released: sortedIDs(p.parked), Late: late, Replicas: p.declaredCopies()})
	})
}

// request sends one of the machine's requests over the model.
func (p *process) request(a Action) {
	switch a := a.(type) {
	case FindCoordinator:
		node := strconv.Itoa(p.w.rng.IntN(3))
		p.call(onFind, node, time.Second, modelbroker.FindCoordinatorRequest{Group: a.Group}, func(r modelbroker.Response, _ time.Time, err error) Event {
			ev := CoordinatorFound{Req: a.Req, Err: err}
			if r, ok := r.(modelbroker.FindCoordinatorResponse); ok {
				ev.Code, ev.Addr = r.Code, strconv.Itoa(int(r.Node))
			}
			return ev
		})
	case SendJoin:
		p.call(onJoin, a.Addr, a.Rebalance+5*time.Second, modelbroker.JoinGroupRequest{
			Group: a.Group, MemberID: a.MemberID, Session: a.Session, Rebalance: a.Rebalance, ProtocolType: "consumer",
			Protocols: []modelbroker.Protocol{{Name: a.Protocol, Metadata: p.writes(a.Metadata)}},
		}, func(r modelbroker.Response, sent time.Time, err error) Event {
			return p.reads(joinDone(a.Req, r, sent, err))
		})
	case SendSync:
		req := modelbroker.SyncGroupRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation, ProtocolType: "consumer", Protocol: a.Protocol}
		for _, x := range a.Assignments {
			req.Plan = append(req.Plan, modelbroker.Assignment{MemberID: x.MemberID, Bytes: x.Bytes})
		}
		p.call(onJoin, a.Addr, 25*time.Second, req, func(r modelbroker.Response, sent time.Time, err error) Event {
			ev := SyncDone{Req: a.Req, Sent: sent, Err: err}
			if r, ok := r.(modelbroker.SyncGroupResponse); ok {
				ev.Code, ev.Assignment = r.Code, r.Assignment
			}
			if ev.Code == kcode.Unknown {
				p.refused++
			}
			return ev
		})
	case SendHeartbeat:
		p.call(onBeat, a.Addr, 5*time.Second, modelbroker.HeartbeatRequest{Group: a.Group, MemberID: a.MemberID, Generation: a.Generation},
			func(r modelbroker.Response, sent time.Time, err error) Event {
				ev := HeartbeatDone{Req: a.Req, Sent: sent, Err: err}
				if r, ok := r.(modelbroker.HeartbeatResponse); ok {
					ev.Code = r.Code
				}
				return ev
			})
	case SendLeave:
		p.call(onBeat, a.Addr, 2*time.Second, modelbroker.LeaveGroupRequest{Group: a.Group, MemberIDs: []string{a.MemberID}},
			func(r modelbroker.Response, _ time.Time, err error) Event { return LeaveDone{Req: a.Req, Err: err} })
	}
}

func joinDone(req uint64, r modelbroker.Response, sent time.Time, err error) Event {
	ev := JoinDone{Req: req, Sent: sent, Err: err}
	if r, ok := r.(modelbroker.JoinGroupResponse); ok {
		ev.Code, ev.MemberID, ev.Generation, ev.Leader = r.Code, r.MemberID, r.Generation, r.MemberID != "" && r.Leader == r.MemberID
		for _, m := range r.Members {
			ev.Members = append(ev.Members, JoinedMember(m))
		}
	}
	return ev
}

// newerReader stands where a member's own data says which reader it needs.
const newerReader = 200

// writes is how a member's metadata goes out: that of a newer version needs a newer reader.
func (p *process) writes(metadata []byte) []byte {
	if !p.newer {
		return metadata
	}
	return withReader(metadata, newerReader)
}

// reads is how what other members wrote comes in: a newer version reads its like.
func (p *process) reads(ev Event) Event {
	done := ev.(JoinDone)
	for i, m := range done.Members {
		s, err := assignor.DecodeSubscription(m.Metadata)
		switch {
		case err != nil || s.UserData[1] != newerReader:
		case p.newer:
			done.Members[i].Metadata = withReader(m.Metadata, 1)
		case len(s.Owned) > 0:
			p.w.blind++
		}
	}
	return done
}

func withReader(metadata []byte, reader byte) []byte {
	s, err := assignor.DecodeSubscription(metadata)
	if err != nil {
		panic(err)
	}
	s.UserData = slices.Clone(s.UserData)
	s.UserData[1] = reader
	return s.Append(nil)
}

func (p *process) call(kind int, addr string, timeout time.Duration, req modelbroker.Request, answer func(modelbroker.Response, time.Time, error) Event) {
	w, sent := p.w, p.w.now
	fail := func() { w.at(w.latency(), func() { p.step(answer(nil, sent, errGone)) }) }
	if p.conns[kind] != 0 && p.node[kind] != addr {
		p.cut(kind)
	}
	if p.conns[kind] == 0 {
		node, err := strconv.Atoi(addr)
		require.NoError(w.t, err)
		conn, err := w.broker.Dial(int32(node))
		if err != nil || p.cutOff {
			fail()
			return
		}
		p.conns[kind], p.node[kind] = conn, addr
	}
	w.lastID++
	id, conn := w.lastID, p.conns[kind]
	w.calls[id] = &call{p: p, kind: kind, conn: conn, done: func(r modelbroker.Response, err error) {
		ev := answer(r, sent, err)
		p.step(ev)
		if w.rng.IntN(8) == 0 { // an answer that comes twice changes nothing
			w.at(time.Duration(w.rng.IntN(300))*time.Millisecond, func() { p.step(ev) })
		}
	}}
	w.at(w.latency()+p.slowBy[kind], func() {
		if w.calls[id] != nil {
			w.broker.Receive(w.now, conn, id, req)
		}
	})
	w.at(timeout, func() {
		if w.calls[id] != nil {
			if p.conns[kind] == conn {
				p.cut(kind)
			} else {
				w.broker.Hangup(conn)
				w.failConn(conn)
			}
		}
	})
}

// shake does one random harm.
func (w *world) shake() {
	living := w.living()
	if len(living) == 0 {
		w.spawn()
		return
	}
	p := living[w.rng.IntN(len(living))]
	node := int32(w.rng.IntN(3))
	switch w.rng.IntN(13) {
	case 0, 1:
		if len(living) < 5 {
			w.spawn()
		}
	case 2:
		p.kill()
	case 3:
		w.note("%s stops", p.name)
		p.run, p.parked = map[task.ID]bool{}, map[task.ID]bool{}
		p.step(Stop{})
	case 4:
		w.note("%s: the join connection breaks", p.name)
		p.cutIf(onJoin)
	case 5:
		w.note("%s: the heartbeat connection breaks", p.name)
		p.cutIf(onBeat)
	case 6:
		w.note("the coordinator moves to %d", node)
		w.broker.MoveCoordinator(w.now, "g", node)
	case 7:
		w.note("broker %d crashes", node)
		w.broker.Crash(w.now, node)
		w.at(time.Duration(w.rng.IntN(12000))*time.Millisecond, func() {
			w.note("broker %d is back", node)
			w.broker.Restart(w.now, node)
		})
	case 8:
		if !p.frozen {
			p.freeze(time.Duration(w.rng.IntN(40000)) * time.Millisecond)
		}
	case 9, 10:
		w.note("%s asks for a round", p.name)
		p.step(Rejoin{Reason: "a test wants it"})
	case 11:
		id := task.ID{Partition: int32(w.rng.IntN(6))}
		w.note("%s cannot stop %s for a while", p.name, id)
		p.slow[id] = true
		w.at(time.Duration(w.rng.IntN(20000))*time.Millisecond, func() {
			delete(p.slow, id)
			p.step(Rejoin{Reason: "a task has been stopped"})
		})
	case 12:
		w.topo.Partitions = maps.Clone(w.topo.Partitions)
		w.topo.Partitions["wide"]++
		for _, p := range living {
			p.step(TopologyChanged{Topology: w.topo})
		}
	}
}

func (p *process) cutIf(kind int) {
	if p.conns[kind] != 0 {
		p.cut(kind)
	}
}

func (w *world) requireConverged() {
	runs := map[task.ID]int{}
	want := 0
	for _, s := range w.topo.Subtopologies {
		x := indexOf(w.topo)
		want += int(x.partitions(s))
	}
	low, high := 1<<30, 0
	for _, p := range w.living() {
		require.Equal(w.t, Joined, p.m.State(), "%s\n%s", p.name, w.trace.String())
		low, high = min(low, len(p.run)), max(high, len(p.run))
		for id := range p.run {
			runs[id]++
		}
		id, generation, _ := p.m.Membership()
		require.NotEmpty(w.t, id)
		require.Equal(w.t, p.applied, generation)
		require.Empty(w.t, p.m.applied.marks, "%s\n%s", p.name, w.trace.String())
	}
	if len(w.living()) == 0 {
		return
	}
	require.Len(w.t, runs, want, "%s", w.trace.String())
	require.LessOrEqual(w.t, high-low, 1, "%s", w.trace.String())
}

// TestSimulation shakes groups at random and holds them against S1 (no task runs twice under a valid lease) at every event, and against
// convergence at the end. The seed is in the name of the failing test,
// the trace in its message; -seed and -seeds choose others.
func TestSimulation(t *testing.T) {
	for i := range *seeds {
		seed := *firstSeed + i
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 3)
			for range 1 + w.rng.IntN(3) {
				w.spawn()
			}
			for range 3 + w.rng.IntN(12) {
				w.run(time.Duration(w.rng.IntN(6000)) * time.Millisecond)
				w.shake()
			}
			w.run(90 * time.Second) // every session, lease, freeze and failover is over
			require.Empty(t, w.bad, "%s", w.trace.String())
			w.requireConverged()
			before := w.counts()
			w.run(30 * time.Second)
			require.Equal(t, before, w.counts(), "a stable group has no rounds\n%s", w.trace.String())
			for _, p := range w.procs {
				require.NoError(t, p.fatal, "%s", w.trace.String())
			}
		})
	}
}

// TestSimulationOfMixedVersions shakes groups of which some members write what the others cannot read, as in a rolling upgrade. Whoever leads,
// nothing runs twice, and no leader takes from a member what it does not understand: that is held at every assignment. When all are of one version
// the group is whole.
func TestSimulationOfMixedVersions(t *testing.T) {
	blind := 0
	for i := range *seeds / 3 {
		t.Run(fmt.Sprintf("seed=%d", *firstSeed+i), func(t *testing.T) {
			w := newWorld(t, *firstSeed+i, 3)
			for range 2 + w.rng.IntN(3) {
				w.spawn()
			}
			w.run(8 * time.Second) // all have tasks
			for range 3 + w.rng.IntN(12) {
				w.run(time.Duration(w.rng.IntN(6000)) * time.Millisecond)
				for _, p := range w.living() {
					p.newer = p.newer || w.rng.IntN(5) == 0
				}
				w.shake()
			}
			w.run(60 * time.Second)
			require.Empty(t, w.bad, "%s", w.trace.String())
			for _, p := range w.living() {
				p.newer = false
				p.step(Rejoin{Reason: "all are of one version"})
			}
			w.run(60 * time.Second)
			require.Empty(t, w.bad, "%s", w.trace.String())
			w.requireConverged()
			w.requireQuiet(30 * time.Second)
			blind += w.blind
		})
	}
	require.Greater(t, blind, int(*seeds/10), "leaders that do not understand members with tasks")
}

func (w *world) counts() (out []int) {
	for _, p := range w.procs {
		out = append(out, p.rounds)
	}
	return out
}

// What one change costs a group at rest: rounds, beside those in which a learner says that it is ready, and how long tasks stand still. Tasks that stay where they are never do (S4, S5).
func TestCostOfOneChange(t *testing.T) {
	cases := []struct {
		name   string
		before int
		change func(*world)
		rounds int32
		pause  time.Duration // of a task that moves
	}{
		{"a member joins", 2, func(w *world) { w.spawn() }, 2, 100 * time.Millisecond},
		{"three members join", 2, func(w *world) { w.spawn(); w.spawn(); w.spawn() }, 4, 200 * time.Millisecond},
		{"a member leaves", 3, func(w *world) {
			w.procs[1].run = map[task.ID]bool{}
			w.procs[1].step(Stop{})
		}, 2, time.Second},
		{"a member dies", 3, func(w *world) { w.procs[1].kill() }, 2, 17 * time.Second},
		{"a coordinator moves", 3, func(w *world) { w.broker.MoveCoordinator(w.now, "g", (w.where()+1)%3) }, 0, 0},
		{"a member asks for a round", 3, func(w *world) { w.procs[1].step(Rejoin{Reason: "test"}) }, 1, 0},
	}
	for _, c := range cases {
		for seed := range uint64(20) {
			t.Run(fmt.Sprintf("%s/seed=%d", c.name, seed), func(t *testing.T) {
				w := newWorld(t, seed, 3)
				for range c.before {
					w.spawn()
				}
				w.run(10 * time.Second)
				w.requireConverged()
				was := w.owners()
				_, generation, _ := w.procs[0].m.Membership()
				w.pauses, w.ran = map[task.ID]time.Duration{}, map[task.ID]bool{}
				for id := range was {
					w.pauses[id], w.ran[id] = 0, true
				}
				w.batches = 0
				c.change(w)
				w.run(30 * time.Second)
				require.Empty(t, w.bad, "%s", w.trace.String())
				w.requireConverged()
				_, after, _ := w.procs[0].m.Membership()
				require.LessOrEqual(t, after-generation, c.rounds+w.batches, "%s", w.trace.String())
				for id, owner := range w.owners() {
					if owner == was[id] {
						require.Zero(t, w.pauses[id], "task %s stayed and stood still\n%s", id, w.trace.String())
					}
					require.LessOrEqual(t, w.pauses[id], c.pause, "task %s\n%s", id, w.trace.String())
				}
			})
		}
	}
}

func (w *world) owners() map[task.ID]string {
	out := map[task.ID]string{}
	for _, p := range w.living() {
		for id := range p.run {
			out[id] = p.name
		}
	}
	return out
}

// where is the node that the first member has its coordinator at.
func (w *world) where() int32 {
	_, _, addr := w.procs[0].m.Membership()
	node, err := strconv.Atoi(addr)
	require.NoError(w.t, err)
	return int32(node)
}

// A task that cannot be stopped holds up neither the round nor the other tasks. It stays where it is, nobody asks for rounds on its account,
// and it moves when its owner says that it has stopped.
func TestStuckTaskHoldsUpNobody(t *testing.T) {
	for seed := range uint64(20) {
		w := newWorld(t, seed, 3)
		w.learns = func(*process, task.ID) time.Duration { return 500 * time.Millisecond }
		a, _ := w.spawn(), w.spawn()
		w.run(10 * time.Second)
		for id := range a.run {
			a.slow[id] = true
		}
		stuck := maps.Clone(a.run)
		w.pauses, w.ran = map[task.ID]time.Duration{}, map[task.ID]bool{}
		for id := range w.owners() {
			w.pauses[id], w.ran[id] = 0, true
		}
		w.spawn()
		w.run(10 * time.Second) // it has learned by then what it shall own
		for _, p := range w.living() {
			require.Equal(t, Joined, p.m.State(), "%s", w.trace.String())
		}
		require.Equal(t, stuck, a.run, "%s", w.trace.String())
		for id, pause := range w.pauses {
			require.LessOrEqual(t, pause, 100*time.Millisecond, "task %s\n%s", id, w.trace.String())
		}
		_, generation, _ := a.m.Membership()
		w.run(20 * time.Second)
		_, after, _ := a.m.Membership()
		require.Equal(t, generation, after, "%s", w.trace.String())

		clear(a.slow)
		a.step(Rejoin{Reason: "the tasks have stopped"})
		w.run(2 * time.Second)
		require.Empty(t, w.bad, "%s", w.trace.String())
		w.requireConverged()
	}
}
