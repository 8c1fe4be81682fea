package consume

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/engine"
	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// Any history of members that join, leave and are thrown out: while all who leave do it properly and commit what they were given, every record is
// returned exactly once; whoever is thrown out has the records since its last commit returned once more, and its commits refused.
func TestAnyHistoryOfRebalancesReturnsEachRecord(t *testing.T) {
	for seed := range seeds(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			g := &groupWorld{
				t: t, rng: rand.New(rand.NewPCG(seed, 2)), now: time.Unix(1000, 0), kept: map[task.TopicPartition]int64{}, seen: map[taken]int{},
				violent: seed%2 == 1,
			}
			for n := range int32(partitions) {
				g.ends = append(g.ends, 40)
				g.kept[at(n)] = -1
			}
			for range 400 {
				g.something()
			}
			g.finish()
		})
	}
}

const partitions = 4

// groupWorld is a coordinator and logs, for several machines on one clock.
type groupWorld struct {
	t          *testing.T
	rng        *rand.Rand
	now        time.Time
	members    []*groupMember
	generation int32
	joining    bool // a rebalance is under way
	leader     string
	ends       []int64
	kept       map[task.TopicPartition]int64
	seen       map[taken]int // records that were returned
	names      int
	violent    bool // members are thrown out
	again      int  // records that may come twice
}

type groupMember struct {
	g       *groupWorld
	m       *Machine
	id      string
	join    *group.SendJoin // parked
	sync    *group.SendSync // parked
	acts    []Action
	sources map[engine.FetchSource]int64
	queue   []func()
	ended   bool
	since   map[task.TopicPartition]int64 // records taken since the last commit
	has     map[task.TopicPartition]bool  // that the program was told to have
	listens bool
}

func (g *groupWorld) start() {
	g.names++
	m := New(Config{
		Group: group.Config{Group: "g", Seed: uint64(g.names), ProcessID: [16]byte{byte(g.names)}, Session: time.Minute}, Topics: []string{"t"},
		NoOffset: engine.ResetEarliest, Refresh: time.Hour, Listens: g.names%2 == 0,
	})
	x := &groupMember{g: g, m: m, sources: map[engine.FetchSource]int64{}, since: map[task.TopicPartition]int64{}, has: map[task.TopicPartition]bool{}, listens: g.names%2 == 0}
	g.members = append(g.members, x)
	x.step(Begin{})
}

func (x *groupMember) step(ev Event) {
	if x.ended {
		return
	}
	for _, a := range slices.Clone(x.m.Step(x.g.now, ev)) {
		x.carry(a)
	}
}

func (x *groupMember) later(f func()) { x.queue = append(x.queue, f) }

func (x *groupMember) carry(a Action) {
	g := x.g
	switch a := a.(type) {
	case RefreshMetadata:
		x.later(func() { x.step(Metadata{Topics: map[string]Topic{"t": {Leaders: make([]engine.Leader, partitions)}}}) })
	case FetchOffsets:
		x.later(func() {
			ev := OffsetsFetched{Request: a.Request, Offsets: map[task.TopicPartition]engine.CommittedOffset{}}
			for _, tp := range a.Parts {
				ev.Offsets[tp] = engine.CommittedOffset{Offset: g.kept[tp]}
			}
			x.step(ev)
		})
	case ListOffsets:
		x.later(func() {
			ev := OffsetsListed{Request: a.Request, Offsets: map[Ask]int64{}}
			for _, ask := range a.Asks {
				ev.Offsets[ask] = 0
			}
			x.step(ev)
		})
	case CommitOffsets:
		x.later(func() {
			ev := OffsetsCommitted{Request: a.Request, Codes: map[task.TopicPartition]kcode.Code{}}
			for _, o := range a.Offsets {
				ev.Codes[o.TopicPartition] = g.commit(a, o)
			}
			x.step(ev)
		})
	case Fetch:
		switch ev := a.Event.(type) {
		case engine.FetchAdd:
			x.sources[ev.Source] = ev.Offset
		case engine.FetchRemove:
			delete(x.sources, ev.Source)
		}
	case MemberAction:
		x.member(a.Action)
	case Ended:
		x.ended = true
	}
}

func (g *groupWorld) commit(a CommitOffsets, o task.InputOffset) kcode.Code {
	switch {
	case g.byID(a.MemberID) == nil:
		return kcode.UnknownMemberID
	case a.Generation != g.generation:
		return kcode.IllegalGeneration
	}
	g.kept[o.TopicPartition] = o.Offset
	return kcode.None
}

func (g *groupWorld) byID(id string) *groupMember {
	for _, x := range g.members {
		if id != "" && x.id == id {
			return x
		}
	}
	return nil
}

// member answers the member's requests; joins and syncs are parked.
func (x *groupMember) member(a group.Action) {
	g := x.g
	switch a := a.(type) {
	case group.FindCoordinator:
		x.later(func() { x.step(Member{group.CoordinatorFound{Req: a.Req, Addr: "h:1"}}) })
	case group.SendJoin:
		x.later(func() {
			if x.ended || x.m.State() == group.Stopped { // its connection was closed
				return
			}
			if a.MemberID != "" && g.byID(a.MemberID) == nil {
				x.step(Member{group.JoinDone{Req: a.Req, Sent: g.now, Code: kcode.UnknownMemberID}})
				return
			}
			if x.id == "" {
				g.names++
				x.id = fmt.Sprintf("m%03d", g.names)
			}
			x.join = &a
			g.rebalance()
		})
	case group.SendSync:
		x.later(func() {
			if a.Generation != g.generation || g.joining || x.id == "" {
				x.step(Member{group.SyncDone{Req: a.Req, Sent: g.now, Code: kcode.RebalanceInProgress}})
				return
			}
			x.sync = &a
			g.plan()
		})
	case group.SendHeartbeat:
		x.later(func() {
			code := kcode.None
			switch {
			case g.byID(a.MemberID) == nil:
				code = kcode.UnknownMemberID
			case a.Generation != g.generation:
				code = kcode.IllegalGeneration
			case g.joining:
				code = kcode.RebalanceInProgress
			}
			x.step(Member{group.HeartbeatDone{Req: a.Req, Sent: g.now, Code: code}})
		})
	case group.Disconnect:
		if x.join != nil && x.join.MemberID == "" { // nobody knows the id that it was to get
			x.id, x.join = "", nil
			g.complete()
		}
	case group.SendLeave:
		x.later(func() {
			x.out()
			x.step(Member{group.LeaveDone{Req: a.Req}})
		})
	}
}

// out takes a member out of the group.
func (x *groupMember) out() {
	if x.id == "" {
		return
	}
	if j := x.join; j != nil {
		x.later(func() { x.step(Member{group.JoinDone{Req: j.Req, Sent: x.g.now, Code: kcode.UnknownMemberID}}) })
	}
	if s := x.sync; s != nil {
		x.later(func() { x.step(Member{group.SyncDone{Req: s.Req, Sent: x.g.now, Code: kcode.UnknownMemberID}}) })
	}
	x.id, x.join, x.sync = "", nil, nil
	x.g.rebalance()
}

// rebalance begins a round, or looks whether it is complete.
func (g *groupWorld) rebalance() {
	g.joining = true
	for _, x := range g.members {
		if s := x.sync; s != nil {
			x.sync = nil
			x.later(func() { x.step(Member{group.SyncDone{Req: s.Req, Sent: g.now, Code: kcode.RebalanceInProgress}}) })
		}
	}
	g.complete()
}

// complete ends the barrier when all members have joined.
func (g *groupWorld) complete() {
	var all []*groupMember
	for _, x := range g.members {
		if x.id != "" {
			if x.join == nil {
				return
			}
			all = append(all, x)
		}
	}
	if !g.joining || len(all) == 0 {
		return
	}
	g.joining = false
	g.generation++
	slices.SortFunc(all, func(a, b *groupMember) int { return cmp.Compare(a.id, b.id) })
	g.leader = all[0].id
	var ms []group.JoinedMember
	for _, x := range all {
		ms = append(ms, group.JoinedMember{ID: x.id, Metadata: x.join.Metadata})
	}
	for _, x := range all {
		ev := group.JoinDone{Req: x.join.Req, Sent: g.now, MemberID: x.id, Generation: g.generation, Leader: x.id == g.leader}
		if ev.Leader {
			ev.Members = ms
		}
		x.join = nil
		x.later(func() { x.step(Member{ev}) })
	}
}

// plan hands the leader's plan out.
func (g *groupWorld) plan() {
	leader := g.byID(g.leader)
	if leader == nil || leader.sync == nil {
		return
	}
	plans := map[string][]byte{}
	for _, a := range leader.sync.Assignments {
		plans[a.MemberID] = a.Bytes
	}
	for _, x := range g.members {
		if s := x.sync; s != nil && x.id != "" && x != leader {
			x.sync = nil
			bytes := plans[x.id]
			x.later(func() { x.step(Member{group.SyncDone{Req: s.Req, Sent: g.now, Assignment: bytes}}) })
		}
	}
	// The leader's stays, so that who comes later is answered too.
	if s := leader.sync; len(s.Assignments) > 0 && s.Req != 0 {
		req := s.Req
		s.Req = 0
		leader.later(func() { leader.step(Member{group.SyncDone{Req: req, Sent: g.now, Assignment: plans[leader.id]}}) })
	}
}

func (g *groupWorld) something() {
	if len(g.members) == 0 || len(g.members) < 4 && g.rng.IntN(40) == 0 {
		g.start()
		return
	}
	x := g.members[g.rng.IntN(len(g.members))]
	switch n := g.rng.IntN(20); {
	case n < 8:
		x.work()
	case n < 11:
		x.deliver(1 + g.rng.Int64N(4))
	case n < 15:
		x.poll(1+g.rng.IntN(5), true)
	case n < 18:
		g.pass(time.Duration(g.rng.IntN(300)) * time.Millisecond)
	case n == 18 && g.rng.IntN(8) == 0:
		x.leave()
	case n == 19 && g.violent && g.rng.IntN(12) == 0 && x.id != "":
		for _, records := range x.since {
			g.again += int(records)
		}
		x.out()
	}
}

func (g *groupWorld) pass(d time.Duration) {
	g.now = g.now.Add(d)
	for _, x := range g.members {
		x.step(Tick{})
	}
}

// work carries one request out.
func (x *groupMember) work() bool {
	if len(x.queue) == 0 {
		return false
	}
	f := x.queue[0]
	x.queue = x.queue[1:]
	f()
	return true
}

func (x *groupMember) deliver(n int64) {
	for _, src := range slices.SortedFunc(maps.Keys(x.sources), func(a, b engine.FetchSource) int { return a.TopicPartition.Compare(b.TopicPartition) }) {
		from, end := x.sources[src], x.g.ends[src.Partition]
		if from >= end {
			continue
		}
		b := &task.Batch{From: from, Next: min(from+n, end), Bytes: int(n), HighWatermark: end}
		for o := from; o < b.Next; o++ {
			b.Records = append(b.Records, task.Record{Offset: o})
		}
		x.sources[src] = b.Next
		x.step(Arrived{Deliver: engine.Deliver{Source: src, Batch: b}})
	}
}

// poll is one round of a program: what it is told, records, and a commit.
func (x *groupMember) poll(n int, commit bool) {
	if x.ended {
		return
	}
	x.step(Polled{})
	x.hear()
	_, acts := x.m.Take(x.g.now, make([]task.Record, n), func(c Chunk) {
		require.True(x.g.t, x.has[c.TopicPartition] || !x.listens, "records of %v, which was not assigned", c.TopicPartition)
		for _, r := range c.Records {
			x.g.seen[taken{tp: c.TopicPartition, offset: r.Offset}]++
			x.since[c.TopicPartition]++
			if x.id == "" { // it has not heard yet that it is out
				x.g.again++
			}
		}
	})
	for _, a := range slices.Clone(acts) {
		x.carry(a)
	}
	if !commit {
		return
	}
	x.step(Commit{ID: uint64(x.g.rng.Uint64() | 1)})
	for range 200 { // until it has its outcome
		if !x.work() || len(x.m.commits.queue) == 0 {
			break
		}
	}
	if len(x.m.commits.queue) == 0 {
		clear(x.since)
	}
}

func (x *groupMember) hear() {
	for t := x.m.NextTell(); t != nil; t = x.m.NextTell() {
		switch t := t.(type) {
		case TellAssigned:
			for _, tp := range t.Parts {
				x.has[tp] = true
			}
		case TellRevoked:
			x.without(t.Parts)
			x.step(Told{Revocation: t.Revocation})
		case TellLost:
			x.without(t.Parts)
		}
	}
}

func (x *groupMember) without(tps []task.TopicPartition) {
	for _, tp := range tps {
		require.True(x.g.t, x.has[tp] || !x.listens, "%v goes, which was not assigned", tp)
		delete(x.has, tp)
	}
}

// leave closes a member and lets it end.
func (x *groupMember) leave() {
	x.step(Close{})
	for range 500 {
		if x.ended {
			break
		}
		x.hear()
		if !x.work() {
			x.g.everybodyWorks()
			x.g.pass(50 * time.Millisecond)
		}
	}
	require.True(x.g.t, x.ended, "a member that is closed ends")
	if x.id != "" { // it has closed its connection before it knew its id, which brokers have members say once more before they take them in
		x.out()
	}
	x.hear()
	require.True(x.g.t, len(x.has) == 0 || !x.listens, "%v never went", x.has)
	x.g.members = slices.DeleteFunc(x.g.members, func(y *groupMember) bool { return y == x })
}

func (g *groupWorld) everybodyWorks() {
	for range 200 {
		busy := false
		for _, x := range slices.Clone(g.members) {
			busy = x.work() || busy
		}
		if !busy {
			return
		}
	}
}

// finish lets everything be read.
func (g *groupWorld) finish() {
	if len(g.members) == 0 {
		g.start()
	}
	for range 400 {
		g.everybodyWorks()
		for _, x := range slices.Clone(g.members) {
			x.deliver(40)
			x.poll(50, true)
		}
		g.pass(200 * time.Millisecond)
	}
	twice := 0
	for n := range int32(partitions) {
		require.EqualValues(g.t, g.ends[n], g.kept[at(n)], "all of %v is committed", at(n))
		for o := range g.ends[n] {
			times := g.seen[taken{tp: at(n), offset: o}]
			require.Positive(g.t, times, "record %d of %v is missing", o, at(n))
			twice += times - 1
		}
	}
	require.LessOrEqual(g.t, twice, g.again, "records came again that had no reason to")
	running := 0
	for _, x := range g.members {
		running += len(x.m.Assignment())
	}
	require.Equal(g.t, partitions, running, "each partition is one member's")
}
