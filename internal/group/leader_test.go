package group

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/assignor"
	"github.com/understudy-streams/understudy/task"
)

// word is the bytes that a member of the small topology joins with.
func word(s assignor.Subscription, d assignor.MemberData) []byte {
	if d.Hashes == nil {
		d.Hashes = []assignor.Hash{{Subtopology: 0, Sum: 1}}
	}
	s.UserData = d.Append(nil)
	return s.Append(nil)
}

func owned(topic string, parts ...int32) (out []task.TopicPartition) {
	for _, p := range parts {
		out = append(out, task.TopicPartition{Topic: topic, Partition: p})
	}
	return out
}

// leads makes a machine the leader over members with these bytes, and returns what it sends, decoded.
func leads(t *testing.T, topo Topology, members ...JoinedMember) (map[string]assignor.Assignment, map[string]assignor.PlanData, SendSync) {
	r := newRig(t)
	r.step(Start{Topology: topo}).found("a:1").prepared()
	r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, MemberID: "me", Generation: 5, Leader: true, Members: members})
	s := want[SendSync](r)
	std, plans := map[string]assignor.Assignment{}, map[string]assignor.PlanData{}
	for _, a := range s.Assignments {
		x, err := assignor.DecodeAssignment(a.Bytes)
		require.NoError(t, err)
		p, err := assignor.DecodePlanData(x.UserData)
		require.NoError(t, err)
		std[a.MemberID], plans[a.MemberID] = x, p
	}
	return std, plans, s
}

func TestLeaderPlans(t *testing.T) {
	std, plans, _ := leads(t, smallTopology(),
		JoinedMember{ID: "a", Metadata: word(assignor.Subscription{Owned: owned("in", 0, 1), Generation: 4}, assignor.MemberData{Claims: []task.ID{id(0, 0), id(0, 1)}})},
		JoinedMember{ID: "b", Metadata: word(assignor.Subscription{Generation: -1}, assignor.MemberData{})},
	)
	require.Equal(t, owned("in", 0, 1), std["a"].Partitions)
	require.Empty(t, std["b"].Partitions)
	a, b := plans["a"], plans["b"]
	require.Equal(t, []assignor.Mark{{Task: id(0, 0), Receiver: "b", Ready: true}}, a.Marks)
	require.Equal(t, []assignor.Incoming{{Task: id(0, 0), Owner: "a", Instant: true}}, b.Learners)
	require.Equal(t, assignor.Now, b.FollowUp.Kind)
	require.Equal(t, int32(5), a.Generation)
	require.Equal(t, 2, a.Members)
	require.Equal(t, []Count{{Subtopology: 0, Partitions: 2}}, a.Counts)
	require.Equal(t, []assignor.Hash{{Subtopology: 0, Sum: 1}}, a.Hashes)
	require.NotZero(t, a.Digest)
	require.Equal(t, a.Digest, b.Digest)
}

// The leader tells its owner what the plan could not do.
func TestLeaderReports(t *testing.T) {
	r := newRig(t).preparing().prepared()
	nobody := word(assignor.Subscription{Generation: -1}, assignor.MemberData{Hashes: []assignor.Hash{{Subtopology: 7, Sum: 1}}})
	r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, MemberID: "me", Generation: 1, Leader: true, Members: []JoinedMember{{ID: "me", Metadata: nobody}}})
	a := want[Assigned](r.syncDone(assignor.PlanData{}))
	require.Equal(t, []task.ID{id(0, 0), id(0, 1)}, a.Unassigned)

	r = newRig(t).preparing().prepared()
	r.step(JoinDone{Req: want[SendJoin](r).Req, Sent: r.now, MemberID: "me", Generation: 1, Leader: true, Members: []JoinedMember{{ID: "me"}}})
	require.NotEmpty(t, want[Assigned](r.syncDone(assignor.PlanData{})).Degraded)
	require.Empty(t, want[Assigned](r.step(Rejoin{Reason: "test"}).prepared().joinDone(2).syncDone(assignor.PlanData{})).Degraded, "it leads no more")
}

// A claim is one if either the standard part or our own says so; a member that cannot be read keeps what it says it has.
func TestLeaderReadsClaims(t *testing.T) {
	newcomer := JoinedMember{ID: "z", Metadata: word(assignor.Subscription{Generation: -1}, assignor.MemberData{})}
	unread := func(s assignor.Subscription) []byte {
		s.UserData = []byte{9, 9, 9}
		return s.Append(nil)
	}
	both := []task.ID{id(0, 0), id(0, 1)}
	cases := []struct {
		name   string
		bytes  []byte
		keeps  []task.ID // the member's tasks
		others []task.ID // the newcomer's
		marks  int
	}{
		{"standard part only", word(assignor.Subscription{Owned: owned("in", 0, 1)}, assignor.MemberData{}), both, nil, 1},
		{"our part only", word(assignor.Subscription{}, assignor.MemberData{Claims: both}), both, nil, 1},
		{"a half each", word(assignor.Subscription{Owned: owned("in", 1)}, assignor.MemberData{Claims: both[:1]}), both, nil, 1},
		{"our part cannot be read", unread(assignor.Subscription{Owned: owned("in", 0, 1)}), both, nil, 0},
		{"our part cannot be read, one task free", unread(assignor.Subscription{Owned: owned("in", 0)}), both[:1], both[1:], 0},
		{"nothing of ours", assignor.Subscription{Owned: owned("in", 0, 1)}.Append(nil), both, nil, 0},
		{"claims left out and not to be read", unread(assignor.Subscription{Topics: []string{elided}}), nil, nil, 0},
		{"no subscription at all", []byte("{}"), nil, nil, 0},
		{"no bytes", nil, nil, nil, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, plans, _ := leads(t, smallTopology(), JoinedMember{ID: "a", Metadata: c.bytes}, newcomer)
			require.Equal(t, c.keeps, plans["a"].Active)
			require.Equal(t, c.others, plans["z"].Active)
			require.Len(t, plans["a"].Marks, c.marks)
		})
	}
}

// What a leader of an older topology does not know stays with whom it is.
func TestLeaderKeepsWhatItDoesNotKnow(t *testing.T) {
	claims := func(generation int32, parts ...int32) []byte {
		return word(assignor.Subscription{Owned: owned("new", parts...), Generation: generation}, assignor.MemberData{TopologyVersion: 2})
	}
	std, _, _ := leads(t, smallTopology(),
		JoinedMember{ID: "a", Metadata: claims(4, 0, 1, 2)},
		JoinedMember{ID: "b", Metadata: claims(4, 2)},
		JoinedMember{ID: "c", Metadata: claims(3, 1, 3)},
	)
	foreign := func(member string) (out []int32) {
		for _, tp := range std[member].Partitions {
			if tp.Topic == "new" {
				out = append(out, tp.Partition)
			}
		}
		return out
	}
	require.Equal(t, []int32{0, 1}, foreign("a"), "of two claims the newer is right")
	require.Empty(t, foreign("b"), "equal claims: both drop it")
	require.Equal(t, []int32{3}, foreign("c"))
}

func wideTopology(topics int) Topology {
	topo := Topology{Partitions: map[string]int32{}}
	s := Subtopology{ID: 0, Hash: 1}
	for i := range topics {
		name := fmt.Sprintf("%s-%04d", strings.Repeat("a-long-name-", 5), i)
		s.Topics = append(s.Topics, name)
		topo.Partitions[name] = 50
	}
	topo.Subtopologies = []Subtopology{s}
	return topo
}

// A group whose metadata and plan do not fit into one record can never sync: the leader leaves out what can be left out (I16).
func TestPlanFits(t *testing.T) {
	topo := wideTopology(400) // 50 tasks of 400 partitions each: the standard lists alone take 80 kB
	members := func(n, ballast int) (out []JoinedMember) {
		for i := range n {
			b := word(assignor.Subscription{Generation: -1, Topics: []string{strings.Repeat("x", ballast)}}, assignor.MemberData{})
			out = append(out, JoinedMember{ID: fmt.Sprintf("m%02d", i), Metadata: b})
		}
		return out
	}
	total := func(s SendSync) (n int) {
		for _, a := range s.Assignments {
			n += len(a.Bytes)
		}
		return n
	}
	std, _, s := leads(t, topo, members(10, 10)...)
	require.NotEmpty(t, std["m00"].Partitions)
	require.Less(t, total(s), planBudget)

	std, plans, s := leads(t, topo, members(30, 25_000)...)
	require.Empty(t, std["m00"].Partitions, "the members can do without")
	require.NotEmpty(t, plans["m00"].Active)
	require.Less(t, total(s), planBudget-30*25_000)
}

// A member with more to say than its share of the record leaves out copies first, and the standard lists then; claims never.
func TestMetadataFits(t *testing.T) {
	r := newRig(t)
	r.step(Start{Topology: wideTopology(20)}).found("a:1")
	p := Prepared{Join: want[Prepare](r).Join, Claims: []task.ID{id(0, 1), id(0, 2)}}
	for i := range int32(2000) {
		p.Replicas = append(p.Replicas, assignor.Replica{Task: id(0, i), Kind: assignor.OnDisk, Lag: 1 << 40})
	}
	r.m.applied.members = 60
	b := want[SendJoin](r.step(p)).Metadata
	require.Less(t, len(b), metadataBudget/60)
	d := decode(t, b)
	require.Empty(t, d.Replicas)
	require.Equal(t, p.Claims, d.Claims)

	r.m.applied.members = 200
	b = r.m.metadata()
	require.Less(t, len(b), metadataBudget/200)
	s, err := assignor.DecodeSubscription(b)
	require.NoError(t, err)
	require.Equal(t, []string{elided}, s.Topics)
	require.Empty(t, s.Owned)
	require.Equal(t, p.Claims, decode(t, b).Claims)
	require.Contains(t, r.m.read(JoinedMember{ID: "a", Metadata: b}, foreigners{}).Claims, id(0, 2), "and the leader finds them there")

	r.m.applied.members, r.m.shrink = 1, 0
	require.Len(t, decode(t, r.m.metadata()).Replicas, 2000)
	r.m.shrink = 5 // the plan was too large, again and again
	require.Empty(t, decode(t, r.m.metadata()).Replicas)
}

func FuzzLeader(f *testing.F) {
	f.Add([]byte(nil), []byte{1})
	f.Add(word(assignor.Subscription{Owned: owned("in", 0)}, assignor.MemberData{Claims: []task.ID{id(0, 0)}}), word(assignor.Subscription{}, assignor.MemberData{Released: []task.ID{id(0, 1)}}))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		std, _, _ := leads(t, smallTopology(), JoinedMember{ID: "a", Metadata: a}, JoinedMember{ID: "b", Metadata: b})
		for name, bytes := range map[string][]byte{"a": a, "b": b} {
			other := map[string][]byte{"a": b, "b": a}[name]
			mine, err := assignor.DecodeSubscription(bytes)
			if err != nil {
				continue
			}
			for _, tp := range mine.Owned { // a claim that nobody else makes is never given away (I15)
				theirs, err := assignor.DecodeSubscription(other)
				if err == nil && len(theirs.Owned) == 0 && tp.Topic == "in" && tp.Partition >= 0 {
					x := map[string]string{"a": "b", "b": "a"}[name]
					d, err := assignor.DecodeMemberData(theirs.UserData)
					if err == nil && len(d.Claims) == 0 {
						require.NotContains(t, std[x].Partitions, tp)
					}
				}
			}
		}
	})
}

// 200 members with 5000 tasks fit into one record, with all the lists for Kafka's tools (I16, I17).
func TestBigGroupFits(t *testing.T) {
	topo := Topology{Partitions: map[string]int32{}}
	for i := range int32(25) {
		name := fmt.Sprintf("orders-service-some-topic-%02d", i)
		topo.Subtopologies = append(topo.Subtopologies, Subtopology{ID: i, Topics: []string{name}, Stateful: i%2 == 0, Hash: uint64(i) + 1})
		topo.Partitions[name] = 200
	}
	machines := map[string]*rig{}
	var members []JoinedMember
	size := 0
	join := func(claims func(name string) []task.ID) {
		members, size = nil, 0
		for i := range 200 {
			name := fmt.Sprintf("understudy-0123456789abcdef0123456789ab-%03d", i)
			r := newRig(t)
			r.step(Start{Topology: topo}).found("a:1")
			r.m.applied.members = 200
			machines[name] = r.step(Prepared{Join: want[Prepare](r).Join, Claims: claims(name)})
			b := want[SendJoin](r).Metadata
			members = append(members, JoinedMember{ID: name, Metadata: b})
			size += len(b)
		}
	}
	join(func(string) []task.ID { return nil })
	_, plans, _ := leads(t, topo, members...)
	join(func(name string) []task.ID { return plans[name].Active })
	std, again, s := leads(t, topo, members...)
	for _, a := range s.Assignments {
		size += len(a.Bytes) + memberOverhead
	}
	require.Less(t, size, planBudget)
	for name, p := range again {
		require.Len(t, p.Active, 25)
		require.Equal(t, plans[name].Active, p.Active)
		require.Len(t, std[name].Partitions, 25)
	}
}
