package modelbroker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// side is a broker that a script talks to: the model, or the embedded broker over real sockets.
type side interface {
	// send sends a request on a connection of its own, and returns once the broker has it; the function waits for the answer, which is nil
	// if none comes.
	send(Request) func() Response
	pause(time.Duration)
}

type modelSide struct{ w *world }

func (s modelSide) send(r Request) func() Response {
	id := s.w.send(0, r)
	return func() Response {
		for range 30 {
			if r, ok := s.w.answered[id]; ok {
				return r
			}
			s.w.wait(100 * time.Millisecond)
		}
		return nil
	}
}

func (s modelSide) pause(d time.Duration) { s.w.wait(d) }

// fakeSide maps the model's requests to kmsg's.
type fakeSide struct {
	t       *testing.T
	cluster *kfake.Cluster
	arrived chan struct{}
}

func newFakeSide(t *testing.T) fakeSide {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.GroupMinSessionTimeout(10*time.Millisecond), kfake.SeedTopics(400, "in"))
	require.NoError(t, err)
	t.Cleanup(c.Close)
	s := fakeSide{t: t, cluster: c, arrived: make(chan struct{}, 100)}
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.JoinGroup, kmsg.Heartbeat, kmsg.LeaveGroup, kmsg.SyncGroup} {
		c.ControlKey(int16(key), func(kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			s.arrived <- struct{}{}
			return nil, nil, false
		})
	}
	return s
}

func (fakeSide) pause(d time.Duration) { <-time.After(d) }

func (s fakeSide) send(r Request) func() Response {
	versions := kversion.Stable() // capped below those that name topics by id
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.OffsetCommit, kmsg.OffsetFetch} {
		versions.SetMaxKeyVersion(int16(key), 9)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.ListenAddrs()...), kgo.DisableClientMetrics(), kgo.MaxVersions(versions))
	require.NoError(s.t, err)
	s.t.Cleanup(cl.Close)
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	s.t.Cleanup(cancel)
	answer := make(chan Response, 1)
	go func() {
		resp, err := cl.SeedBrokers()[0].Request(ctx, toWire(r))
		if err != nil {
			answer <- nil
			return
		}
		answer <- fromWire(resp)
	}()
	select {
	case <-s.arrived:
	case <-ctx.Done():
		require.Fail(s.t, "request never arrived", "%T", r)
	}
	return func() Response { return <-answer }
}

// actor is a member in a script. What it says it saw is free of ids.
type actor struct {
	s        side
	id       string
	gen      int32
	metadata string
	session  time.Duration
	say      func(format string, args ...any)
}

// join sends JoinGroup, after a first one for an id if need be.
func (a *actor) join(metadata string) (done func()) {
	a.metadata = metadata
	if a.id == "" {
		a.id = a.s.send(a.joinRequest())().(JoinGroupResponse).MemberID
	}
	wait := a.s.send(a.joinRequest())
	return func() {
		r, ok := wait().(JoinGroupResponse)
		if !ok {
			a.say("join: no answer")
			return
		}
		a.say("join: %v generation %d, leads %v, sees %d members", r.Code, r.Generation, r.Code == kcode.None && r.Leader == a.id, len(r.Members))
		if r.Code == kcode.None {
			a.gen = r.Generation
		}
	}
}

func (a *actor) joinRequest() JoinGroupRequest {
	return JoinGroupRequest{
		Group: "g", MemberID: a.id, Session: a.session, Rebalance: 300 * time.Millisecond, ProtocolType: "understudy",
		Protocols: []Protocol{{Name: "learner-v1", Metadata: []byte(a.metadata)}},
	}
}

func (a *actor) sync(gen int32, plan ...Assignment) (done func()) {
	wait := a.s.send(SyncGroupRequest{Group: "g", MemberID: a.id, Generation: gen, ProtocolType: "understudy", Protocol: "learner-v1", Plan: plan})
	return func() {
		if r, ok := wait().(SyncGroupResponse); ok {
			a.say("sync: %v %q", r.Code, r.Assignment)
			return
		}
		a.say("sync: no answer")
	}
}

func (a *actor) beat(gen int32) {
	a.say("beat: %v", a.s.send(HeartbeatRequest{Group: "g", MemberID: a.id, Generation: gen})().(HeartbeatResponse).Code)
}

func (a *actor) leave() {
	a.say("leave: %v", a.s.send(LeaveGroupRequest{Group: "g", MemberIDs: []string{a.id}})().(LeaveGroupResponse).Members)
}

func (a *actor) commit(id string, gen int32, metadata string, tps ...task.TopicPartition) {
	r := OffsetCommitRequest{Group: "g", MemberID: id, Generation: gen}
	for _, p := range tps {
		r.Offsets = append(r.Offsets, task.InputOffset{TopicPartition: p, Offset: 5, Metadata: metadata})
	}
	a.say("commit: %v", a.s.send(r)().(OffsetCommitResponse).Codes)
}

// commits tries all generations and members that there are.
func (a *actor) commits(gen int32) {
	for _, g := range []int32{gen, gen - 1, gen + 1, -1} {
		a.commit(a.id, g, "", tp("in", 0))
	}
	a.commit("nobody", gen, "", tp("in", 0))
	a.commit("", -1, "", tp("in", 0))
}

func (a *actor) fetch() {
	r := a.s.send(OffsetFetchRequest{Group: "g", Parts: []task.TopicPartition{tp("in", 0), tp("in", 1)}})().(OffsetFetchResponse)
	a.say("fetch: %v", r.Code)
	for _, p := range r.Parts {
		a.say("%v %v %d %q", p.TopicPartition, p.Code, p.Offset, p.Metadata)
	}
}

// stable brings a and b into generation 2, led by a.
func stable(a, b *actor) {
	a.join("a")()
	b.id = b.s.send(b.joinRequest())().(JoinGroupResponse).MemberID
	first, second := b.join("b"), a.join("a")
	first()
	second()
	planned(a, b)
}

func planned(a, b *actor) {
	follower := b.sync(b.gen)
	leader := a.sync(a.gen, Assignment{MemberID: a.id, Bytes: []byte("A")}, Assignment{MemberID: b.id, Bytes: []byte("B")})
	follower()
	leader()
}

type script struct {
	name string
	play func(s side, a, b *actor)
	// diverges says in which way the embedded broker is known to answer otherwise than a real one (realkafka.md, section 13).
	diverges string
}

var scripts = []script{
	{name: "two steps, a barrier, a plan", play: func(_ side, a, b *actor) {
		stable(a, b)
		a.beat(a.gen)
		b.beat(b.gen)
		b.sync(b.gen)()
	}},
	{name: "strangers", play: func(_ side, a, b *actor) {
		b.id = "nobody"
		b.join("b")()
		stable(a, &actor{s: b.s, session: b.session, say: b.say})
		b.join("b")()
		b.beat(2)
		b.sync(2)()
		b.leave()
	}},
	{name: "a follower rejoins with equal bytes", play: func(_ side, a, b *actor) {
		stable(a, b)
		b.join("b")()
		a.beat(a.gen)
	}},
	{name: "a follower rejoins with other bytes", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower := b.join("b2")
		a.beat(a.gen)
		b.beat(b.gen)
		b.sync(b.gen)()
		leader := a.join("a")
		follower()
		leader()
		planned(a, b)
	}},
	{name: "a leader rejoins with equal bytes", play: func(_ side, a, b *actor) {
		stable(a, b)
		leader := a.join("a")
		b.beat(b.gen)
		follower := b.join("b")
		leader()
		follower()
		planned(a, b)
	}},
	{name: "joins repeated in CompletingRebalance", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower, leader := b.join("b2"), a.join("a2")
		follower()
		leader()
		a.join("a2")()
		b.join("b2")()
		planned(a, b)
	}},
	{name: "generations at SyncGroup and Heartbeat", play: func(_ side, a, b *actor) {
		stable(a, b)
		for _, gen := range []int32{a.gen - 1, a.gen + 1} {
			a.beat(gen)
			a.sync(gen)()
		}
	}},
	{name: "commits in Stable", play: func(_ side, a, b *actor) { stable(a, b); a.commits(a.gen); a.fetch() }},
	{name: "commits in PreparingRebalance", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower := b.join("b2")
		a.commits(a.gen)
		b.commits(b.gen)
		leader := a.join("a2")
		follower()
		leader()
	}},
	{name: "commits and heartbeats in CompletingRebalance", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower, leader := b.join("b2"), a.join("a2")
		follower()
		leader()
		a.commits(a.gen)
		b.beat(b.gen)
		b.beat(b.gen - 1)
	}},
	{name: "commits to a group that is empty", play: func(_ side, a, _ *actor) {
		a.commit("", -1, "m", tp("in", 0), tp("in", 1))
		a.fetch()
	}},
	{name: "commits for unknown partitions", play: func(_ side, a, _ *actor) {
		a.commit("", -1, "", tp("in", 1000), tp("nowhere", 0), tp("in", 0))
	}},
	{name: "the leader leaves", play: func(_ side, a, b *actor) {
		stable(a, b)
		a.leave()
		b.beat(b.gen)
		b.join("b")()
		b.leave()
		b.leave()
	}},
	{name: "the leader leaves before its sync", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower, leader := b.join("b2"), a.join("a2")
		follower()
		leader()
		follower = b.sync(b.gen)
		a.leave()
		follower()
	}},
	{name: "who does not rejoin is out after the rebalance timeout", play: func(_ side, a, b *actor) {
		stable(a, b)
		a.join("a2")()
		b.beat(b.gen)
		b.join("b")()
	}},
	{name: "another protocol type", play: func(s side, a, b *actor) {
		stable(a, b)
		r := b.joinRequest()
		r.MemberID, r.ProtocolType = "", "connect"
		a.say("%v", s.send(r)().(JoinGroupResponse).Code)
	}},
	{name: "sequences", play: func(s side, a, _ *actor) {
		for _, c := range [][2]int32{{0, 2}, {3, 1}, {2, 1}, {0, 2}, {3, 1}, {4, 1}, {5, 1}, {6, 1}, {7, 1}, {0, 2}, {4, 1}, {7, 1}, {7, 2}, {8, 2}} {
			in := ProduceBatch{TopicPartition: tp("in", 0), ProducerID: 9, FirstSequence: c[0], Records: outs(make([]string, c[1])...)}
			p := s.send(ProduceRequest{Batches: []ProduceBatch{in}})().(ProduceResponse).Parts[0]
			if p.Code != kcode.None {
				p.BaseOffset = -1
			}
			a.say("%v: %v %d", c, p.Code, p.BaseOffset)
		}
	}},
	{name: "the first sequence of a producer is not 0", diverges: "it wants 0", play: func(s side, a, _ *actor) {
		in := ProduceBatch{TopicPartition: tp("in", 0), ProducerID: 9, FirstSequence: 7, Records: outs("k")}
		a.say("%v", s.send(ProduceRequest{Batches: []ProduceBatch{in}})().(ProduceResponse).Parts[0].Code)
	}},
	{name: "4097 bytes of metadata", diverges: "it has no limit", play: func(_ side, a, _ *actor) {
		a.commit("", -1, string(make([]byte, 4097)), tp("in", 0))
	}},
	{name: "metadata that is not UTF-8", diverges: "it keeps the bytes", play: func(_ side, a, _ *actor) {
		a.commit("", -1, "\xff", tp("in", 0))
		a.fetch()
	}},
	{name: "a plan too large", diverges: "it has no limit", play: func(_ side, a, _ *actor) {
		a.join("a")()
		wait := a.s.send(SyncGroupRequest{
			Group: "g", MemberID: a.id, Generation: a.gen, ProtocolType: "understudy", Protocol: "learner-v1",
			Plan: []Assignment{{MemberID: a.id, Bytes: make([]byte, 1_100_000)}},
		})
		a.say("%v", wait().(SyncGroupResponse).Code)
	}},
	{name: "offsets of an unknown group", diverges: "it says GROUP_ID_NOT_FOUND", play: func(_ side, a, _ *actor) { a.fetch() }},
	{name: "a heartbeat to an unknown group", diverges: "it says GROUP_ID_NOT_FOUND", play: func(_ side, a, _ *actor) { a.beat(1) }},
	{name: "a member's commit to a group that is empty", diverges: "it says ILLEGAL_GENERATION", play: func(_ side, a, _ *actor) {
		a.commit("", -1, "", tp("in", 0))
		a.commit("nobody", 1, "", tp("in", 0))
	}},
	{name: "a follower that never syncs", diverges: "it does not evict it", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower, leader := b.join("b2"), a.join("a2")
		follower()
		leader()
		a.sync(a.gen, Assignment{MemberID: a.id, Bytes: []byte("A")})()
		a.s.pause(400 * time.Millisecond)
		b.beat(b.gen)
	}},
	{name: "leaving while the own join is parked", diverges: "the join is never answered", play: func(_ side, a, b *actor) {
		stable(a, b)
		follower := b.join("b2")
		b.leave()
		leader := a.join("a2")
		leader()
		follower()
	}},
}

// TestConformance plays each script against the model and against the embedded broker and compares what was seen.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("talks to real sockets")
	}
	for _, sc := range scripts {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			play := func(s side) (seen []string) {
				say := func(who string) func(string, ...any) {
					return func(format string, args ...any) { seen = append(seen, who+" "+fmt.Sprintf(format, args...)) }
				}
				a, b := &actor{s: s, metadata: "a", session: 5 * time.Second, say: say("a")}, &actor{s: s, metadata: "b", session: 5 * time.Second, say: say("b")}
				sc.play(s, a, b)
				return seen
			}
			model := play(modelSide{w: newWorld(t, Config{Brokers: 1, MinSession: time.Millisecond, Topics: map[string]TopicConfig{"in": {Partitions: 400}}})})
			fake := play(newFakeSide(t))
			if sc.diverges != "" {
				require.NotEqual(t, model, fake, "the embedded broker no longer diverges: %s", sc.diverges)
				return
			}
			require.Equal(t, model, fake)
		})
	}
}
