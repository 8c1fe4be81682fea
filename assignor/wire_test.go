package assignor

import (
	"encoding/hex"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/task"
)

func id(sub, part int32) task.ID { return task.ID{Subtopology: sub, Partition: part} }

func sampleMember() MemberData {
	return MemberData{
		Process: [16]byte{0: 0xaa, 15: 0xbb}, JoinSeq: 300, Draining: true, TopologyVersion: -2, Capacity: 3,
		Tags:     map[string]string{"zone": "z1", "az": "a"},
		Hashes:   []Hash{{0, 0x0102030405060708}, {2, math.MaxUint64}},
		Claims:   []task.ID{id(0, 1), id(0, 2), id(2, 130)},
		Released: []task.ID{id(0, 0)}, Learned: []task.ID{id(0, 2)}, Unfit: []task.ID{id(1, 7)},
		Replicas: []Replica{
			{Task: id(0, 3), Kind: Learner, Ready: true, Lag: 0, CatchUp: 1},
			{Task: id(0, 4), Kind: Standby, Lag: LagUnknown},
			{Task: id(1, 4), Kind: OnDisk, Lag: 1000},
			{Task: id(1, 4), Kind: Learner, Lag: 1000, Stalled: true},
			{Task: id(1, 5), Kind: Promised, Ready: true, Lag: LagRunning},
		},
	}
}

func samplePlan() PlanData {
	return PlanData{
		Generation: 7, Members: 200, Draining: 3, Active: []task.ID{id(0, 0), id(0, 5), id(3, 1)},
		Marks:    []Mark{{id(0, 0), "b", true}, {id(0, 5), "c", false}, {id(3, 1), "b", false}},
		Learners: []Incoming{{Task: id(1, 1), Owner: "bob", Instant: true}, {Task: id(1, 3)}}, Standbys: []Copy{{id(2, 2), "bo"}, {id(2, 3), ""}},
		Moves:  []Move{{id(1, 1), Marked, "bob", "c", "why"}, {id(1, 9), Placed, "", "c", ""}},
		Counts: []Count{{0, 6}, {3, 200}}, Hashes: []Hash{{0, 9}}, FollowUp: FollowUp{Kind: At, AtMs: 3000},
		Code: TopologyConflict, Digest: 0xfeedface,
	}
}

// The bytes are a promise to members of other versions: a change here is a change of the protocol.
func TestWireBytes(t *testing.T) {
	sub := sampleSubscription()
	cases := []struct {
		name string
		got  []byte
		want []string
	}{
		{"empty member", MemberData{}.Append(nil), []string{"0101", "0110", "00000000000000000000000000000000", "00"}},
		{"member", sampleMember().Append(nil), []string{
			"0101",                                   // version, oldest reader
			"0110aa0000000000000000000000000000bb",   // process
			"0202ac02", "030101", "040103", "050103", // join 300, flags, topology version, capacity
			"060d" + "02617a0161" + "047a6f6e65027a31", // tags
			"0712" + "000102030405060708" + "02ffffffffffffffff",
			"0808" + "00020101" + "02018201", // claims: subtopology, how many, gaps
			"0903000100", "0a03000102", "0b03010107",
			"0c1a" + "0002" + "03810201" + "01020000" + "0103" + "0403ea0700" + "0041ea0700" + "01840100", // kind and flags, lag + 2, seconds
			"00", // end
		}},
		{"empty plan", PlanData{}.Append(nil), []string{"0101", "0d08", "0000000000000000", "00"}},
		{"plan", samplePlan().Append(nil), []string{
			"0101", "01010e", "0202c801", "0e0103",
			"0307" + "00020005" + "030101",
			"040c" + "000162" + "01016f" + "020162" + "000163",  // names: what is as before, and the rest
			"050a" + "0002" + "0003" + "0508" + "0301" + "0102", // tasks with the receiver's number
			"0606" + "0102" + "0107" + "0200", "0706" + "0202" + "0202" + "0100",
			"080f" + "0102" + "01000304" + "03776879" + "08020004" + "00",
			"0905" + "0006" + "03c801", "0a09" + "000000000000000009", "0b03" + "02b817", "0c0101", "0d0800000000feedface", "00",
		}},
		{"subscription", sub.Append(nil), []string{
			"0003", "00000002" + "000161" + "000162", "00000002" + "0102",
			"00000002" + "000161" + "00000002" + "00000000" + "00000002" + "000162" + "00000001" + "00000001",
			"00000004", "000172",
		}},
		{"empty subscription", Subscription{Generation: -1}.Append(nil), []string{"0003", "00000000", "00000000", "00000000", "ffffffff", "ffff"}},
		{"assignment", Assignment{Partitions: sub.Owned, UserData: []byte{9}}.Append(nil), []string{
			"0003", "00000002" + "000161" + "00000002" + "00000000" + "00000002" + "000162" + "00000001" + "00000001", "00000001" + "09",
		}},
		{"empty assignment", Assignment{}.Append(nil), []string{"0003", "00000000", "00000000"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) { require.Equal(t, strings.Join(c.want, ""), hex.EncodeToString(c.got)) })
	}
}

func sampleSubscription() Subscription {
	return Subscription{
		Topics: []string{"b", "a"}, Generation: 4, Rack: "r", UserData: []byte{1, 2},
		Owned: []task.TopicPartition{{Topic: "b", Partition: 1}, {Topic: "a", Partition: 2}, {Topic: "a", Partition: 0}},
	}
}

func TestWireRoundTrip(t *testing.T) {
	m, err := DecodeMemberData(sampleMember().Append(nil))
	require.NoError(t, err)
	require.Equal(t, sampleMember(), m)
	p, err := DecodePlanData(samplePlan().Append(nil))
	require.NoError(t, err)
	require.Equal(t, samplePlan(), p)
	s, err := DecodeSubscription(sampleSubscription().Append(nil))
	require.NoError(t, err)
	require.Equal(t, sampleSubscription().Append(nil), s.Append(nil))
	require.Equal(t, []string{"a", "b"}, s.Topics)
}

func TestWireIsExtensible(t *testing.T) {
	b := sampleMember().Append(nil)
	b[0] = wireVersion + 1 // a newer writer that this reader may read
	b = append(b[:len(b)-1], 100, 3, 1, 2, 3, fieldEnd)
	m, err := DecodeMemberData(b)
	require.NoError(t, err)
	require.Equal(t, sampleMember(), m, "a field that is not known is skipped")

	b[1] = wireVersion + 1
	_, err = DecodeMemberData(b)
	require.ErrorIs(t, err, ErrTooNew)
	_, err = DecodePlanData(b)
	require.ErrorIs(t, err, ErrTooNew)
}

// I15: a plan decodes to itself, and cut off anywhere it is refused.
func TestPlanDataProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawPlanData(t)
		b := want.Append(nil)
		got, err := DecodePlanData(b)
		require.NoError(t, err)
		require.Equal(t, want, got)
		_, err = DecodePlanData(b[:rapid.IntRange(0, len(b)-1).Draw(t, "cut")])
		require.Error(t, err)
	})
}

func drawPlanData(t *rapid.T) PlanData {
	p := PlanData{
		Generation: rapid.Int32().Draw(t, "generation"), Members: rapid.IntRange(0, 500).Draw(t, "members"),
		Draining: rapid.IntRange(0, 500).Draw(t, "draining"),
		FollowUp: FollowUp{Kind: FollowUpKind(rapid.IntRange(0, 1).Draw(t, "follow-up"))}, Digest: rapid.Uint64().Draw(t, "digest"),
	}
	name := rapid.SampledFrom([]string{"", "a", "ab", "abc", "b-6f1c", "b-6f2d", "\xff\x00"})
	next := int32(0)
	tasks := func(what string) (out []task.ID) {
		for range rapid.IntRange(0, 4).Draw(t, what) {
			next += rapid.Int32Range(0, 300).Draw(t, "gap")
			out = append(out, id(next%7, next))
		}
		slices.SortFunc(out, task.ID.Compare)
		return slices.Compact(out)
	}
	if ids := tasks("active"); len(ids) > 0 {
		p.Active = ids
	}
	for _, x := range tasks("marks") {
		p.Marks = append(p.Marks, Mark{x, name.Draw(t, "receiver"), rapid.Bool().Draw(t, "ready")})
	}
	for _, x := range tasks("learners") {
		p.Learners = append(p.Learners, Incoming{x, name.Draw(t, "owner"), rapid.Bool().Draw(t, "instant")})
	}
	for _, x := range tasks("standbys") {
		p.Standbys = append(p.Standbys, Copy{x, name.Draw(t, "owner")})
	}
	for _, x := range tasks("moves") {
		p.Moves = append(p.Moves, Move{x, MoveKind(rapid.IntRange(0, 2).Draw(t, "kind")), name.Draw(t, "from"), name.Draw(t, "to"), rapid.String().Draw(t, "reason")})
	}
	return p
}

// A claim that gets lost lets a task run twice. Cut off anywhere, also between two fields, the bytes are refused.
func TestTruncatedBytesAreRefused(t *testing.T) {
	b := sampleMember().Append(nil)
	for n := range b {
		_, err := DecodeMemberData(b[:n])
		require.Error(t, err, n)
	}
}

func TestWireBounds(t *testing.T) {
	field := func(n byte, body ...byte) []byte {
		return append(append([]byte{1, 1, n, byte(len(body))}, body...), fieldEnd)
	}
	cases := []struct {
		name string
		b    []byte
		plan bool
	}{
		{"no header", nil, false},
		{"half a header", []byte{1}, false},
		{"a process that is too short", field(fieldProcess, 1, 2), false},
		{"a capacity beyond reason", field(fieldCapacity, 0xff, 0xff, 0xff, 0x7f), false},
		{"more tasks than bytes", field(fieldClaims, 0, 200, 1, 1), false},
		{"a partition beyond 32 bits", field(fieldClaims, 0, 2, 0xff, 0xff, 0xff, 0xff, 7, 1), false},
		{"a version beyond 32 bits", field(fieldTopology, 0xff, 0xff, 0xff, 0xff, 0x7f), false},
		{"a hash without its sum", field(fieldHashes, 0, 1, 2), false},
		{"a tag without a value", field(fieldTags, 1, 'a'), false},
		{"a number without an end", field(fieldJoinSeq, 0x80), false},
		{"a mark for a name that is not there", field(fieldMarks, 0, 1, 0, 2), true},
		{"an owner that is not there", field(fieldLearners, 0, 1, 0, 2), true},
		{"a copy of nobody known", field(fieldStandbys, 0, 1, 0, 1), true},
		{"a move without a reason", field(fieldMoves, 0, 1, 0, 0, 0, 0), true},
		{"a name with more in common than there is", field(fieldNames, 1, 1, 'a'), true},
		{"a name that is too short", field(fieldNames, 0, 2, 'a'), true},
		{"a field longer than the rest", []byte{1, 1, fieldActive, 9, 0}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var err error
			if c.plan {
				_, err = DecodePlanData(c.b)
			} else {
				_, err = DecodeMemberData(c.b)
			}
			require.Error(t, err)
		})
	}
}

func TestStandardVersions(t *testing.T) {
	full := sampleSubscription().Append(nil)
	v0 := slices.Clone(full[:2+4+6+4+2])
	v0[1] = 0
	s, err := DecodeSubscription(v0)
	require.NoError(t, err)
	require.Equal(t, Subscription{Topics: []string{"a", "b"}, UserData: []byte{1, 2}, Generation: -1}, s)

	newer := append(slices.Clone(full), 1, 2, 3)
	newer[1] = 9
	s, err = DecodeSubscription(newer)
	require.NoError(t, err)
	require.Len(t, s.Owned, 3)

	for n := range full {
		_, err := DecodeSubscription(full[:n])
		require.Error(t, err, n)
	}
	_, err = DecodeSubscription([]byte{0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0})
	require.Error(t, err, "a negative version")

	a, err := DecodeAssignment(nil)
	require.NoError(t, err, "left out by the leader")
	require.Empty(t, a.Partitions)
	_, err = DecodeAssignment([]byte{0, 3, 0, 0})
	require.Error(t, err)
	_, err = DecodeAssignment([]byte{0x80, 3, 0, 0, 0, 0, 0, 0, 0, 0})
	require.Error(t, err)
}

// Kafka's tools must be able to read what we write; sarama's decoder stands for them.
func TestSaramaReadsOurs(t *testing.T) {
	sub := sampleSubscription()
	join := sarama.JoinGroupResponse{Members: []sarama.GroupMember{{MemberId: "m", Metadata: sub.Append(nil)}}}
	members, err := join.GetMembers()
	require.NoError(t, err)
	got := members["m"]
	require.Equal(t, []string{"a", "b"}, got.Topics)
	require.Equal(t, sub.UserData, got.UserData)
	require.Equal(t, int32(4), got.GenerationID)
	require.Equal(t, "r", *got.RackID)
	require.Equal(t, []*sarama.OwnedPartition{{Topic: "a", Partitions: []int32{0, 2}}, {Topic: "b", Partitions: []int32{1}}}, got.OwnedPartitions)

	sync := sarama.SyncGroupResponse{MemberAssignment: Assignment{Partitions: sub.Owned, UserData: []byte{7}}.Append(nil)}
	a, err := sync.GetMemberAssignment()
	require.NoError(t, err)
	require.Equal(t, map[string][]int32{"a": {0, 2}, "b": {1}}, a.Topics)
	require.Equal(t, []byte{7}, a.UserData)
}

func TestOursReadsSarama(t *testing.T) {
	rack := "r"
	var req sarama.JoinGroupRequest
	require.NoError(t, req.AddGroupProtocolMetadata("p", &sarama.ConsumerGroupMemberMetadata{
		Version: 3, Topics: []string{"x"}, UserData: []byte{5}, GenerationID: 8, RackID: &rack,
		OwnedPartitions: []*sarama.OwnedPartition{{Topic: "x", Partitions: []int32{3, 1}}},
	}))
	s, err := DecodeSubscription(req.OrderedGroupProtocols[0].Metadata)
	require.NoError(t, err)
	require.Equal(t, Subscription{Topics: []string{"x"}, UserData: []byte{5}, Generation: 8, Rack: "r",
		Owned: []task.TopicPartition{{Topic: "x", Partition: 3}, {Topic: "x", Partition: 1}}}, s)
}

func TestMemberDataProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawMemberData(t)
		got, err := DecodeMemberData(want.Append(nil))
		require.NoError(t, err)
		require.Equal(t, want.Append(nil), got.Append(nil))
		require.Equal(t, want.Claims, got.Claims)
		require.Equal(t, want.Replicas, got.Replicas)
	})
}

func drawMemberData(t *rapid.T) MemberData {
	ids := rapid.Custom(func(t *rapid.T) task.ID {
		return id(rapid.Int32Range(0, 5).Draw(t, "sub"), rapid.Int32Range(0, math.MaxInt32).Draw(t, "part"))
	})
	tasks := func(name string) []task.ID {
		out := rapid.SliceOfDistinct(ids, func(x task.ID) task.ID { return x }).Draw(t, name)
		slices.SortFunc(out, task.ID.Compare)
		if len(out) == 0 {
			return nil
		}
		return out
	}
	d := MemberData{
		JoinSeq: rapid.Uint64().Draw(t, "seq"), TopologyVersion: rapid.Int32().Draw(t, "version"), Capacity: rapid.IntRange(0, 99).Draw(t, "cap"),
		Claims: tasks("claims"), Released: tasks("released"), Learned: tasks("learned"), Unfit: tasks("unfit"),
	}
	for _, x := range tasks("replicas") {
		d.Replicas = append(d.Replicas, Replica{Task: x, Kind: Kind(rapid.IntRange(1, 5).Draw(t, "kind")), Ready: rapid.Bool().Draw(t, "ready"), Stalled: rapid.Bool().Draw(t, "stalled"),
			Lag: Lag(rapid.Int64Range(-2, math.MaxInt64-2).Draw(t, "lag")), CatchUp: rapid.Int32Range(0, math.MaxInt32).Draw(t, "s")})
	}
	return d
}
