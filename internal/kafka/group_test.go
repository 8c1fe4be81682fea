package kafka

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

const protocolType, protocol = "consumer", "test"

// group makes a name and waits until its coordinator can be used.
func (k cluster) group(t *testing.T, c *Client) (group, addr string) {
	t.Helper()
	group = fmt.Sprintf("g%d-%d", os.Getpid(), topics.Add(1))
	require.Eventually(t, func() bool {
		a, code, err := c.Coordinator(within(t), group)
		require.NoError(t, err)
		if code != kcode.None {
			return false
		}
		addr = a
		g := dialGroup(t, c, addr)
		defer g.Close()
		res, err := g.FetchOffsets(FetchOffsetsRequest{Group: group, Parts: []task.TopicPartition{{Topic: "nobody"}}})
		require.NoError(t, err)
		return res.Code == kcode.None && res.Parts[0].Code == kcode.None
	}, 30*time.Second, 50*time.Millisecond)
	return group, addr
}

func dialGroup(t *testing.T, c *Client, addr string) *GroupConn {
	t.Helper()
	g, err := c.DialGroup(within(t), addr, 20*time.Second)
	require.NoError(t, err)
	require.Equal(t, addr, g.Addr())
	t.Cleanup(g.Close)
	return g
}

type joined struct {
	res JoinResponse
	err error
}

// join joins with whatever bytes, taking the member id that the broker hands out first.
func join(g *GroupConn, group, member string, metadata []byte) joined {
	r := JoinRequest{
		Group: group, MemberID: member, ProtocolType: protocolType, Protocol: protocol, Metadata: metadata,
		Session: 10 * time.Second, Rebalance: 10 * time.Second, Reason: "test",
	}
	res, err := g.Join(r)
	if err == nil && res.Code == kcode.MemberIDRequired {
		r.MemberID = res.MemberID
		res, err = g.Join(r)
	}
	return joined{res, err}
}

func TestTwoMembersWithBytesOfTheirOwn(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		a, b, beat := dialGroup(t, c, addr), dialGroup(t, c, addr), dialGroup(t, c, addr)
		metaA, metaB := []byte{0, 1, 255, 254}, []byte("b")

		first := join(a, group, "", metaA)
		require.NoError(t, first.err)
		require.Equal(t, kcode.None, first.res.Code)
		require.Equal(t, first.res.Leader, first.res.MemberID)
		require.Equal(t, []JoinMember{{MemberID: first.res.MemberID, Metadata: metaA}}, first.res.Members)
		idA := first.res.MemberID
		sync := func(g *GroupConn, id string, gen int32, plan ...SyncAssignment) SyncResponse {
			res, err := g.Sync(SyncRequest{Group: group, MemberID: id, Generation: gen, ProtocolType: protocolType, Protocol: protocol, Assignments: plan})
			require.NoError(t, err)
			return res
		}
		res := sync(a, idA, first.res.Generation, SyncAssignment{MemberID: idA, Assignment: []byte{7, 0, 255}})
		require.Equal(t, SyncResponse{Assignment: []byte{7, 0, 255}}, res)

		done := make(chan joined, 1)
		go func() { done <- join(b, group, "", metaB) }()
		hb := HeartbeatRequest{Group: group, MemberID: idA, Generation: first.res.Generation}
		require.Eventually(t, func() bool {
			code, err := beat.Heartbeat(hb)
			require.NoError(t, err)
			return code == kcode.RebalanceInProgress
		}, 20*time.Second, 5*time.Millisecond)
		again := join(a, group, idA, []byte("changed"))
		require.NoError(t, again.err)
		second := <-done
		require.NoError(t, second.err)
		require.Equal(t, again.res.Generation, second.res.Generation)
		require.Len(t, again.res.Members, 2)
		require.Empty(t, second.res.Members, "only the leader sees the members")
		idB := second.res.MemberID

		synced := make(chan SyncResponse, 1)
		go func() {
			res, err := b.Sync(SyncRequest{Group: group, MemberID: idB, Generation: second.res.Generation, ProtocolType: protocolType, Protocol: protocol})
			if err != nil {
				res.Code = kcode.Unknown
			}
			synced <- res
		}()
		res = sync(a, idA, again.res.Generation, SyncAssignment{MemberID: idA}, SyncAssignment{MemberID: idB, Assignment: []byte("for b")})
		require.Equal(t, kcode.None, res.Code)
		if k.real { // the embedded broker makes up an empty assignment of the consumer protocol
			require.Equal(t, []byte{}, res.Assignment, "nil is sent as empty")
		}
		require.Equal(t, SyncResponse{Assignment: []byte("for b")}, <-synced)

		hb.Generation = again.res.Generation
		code, err := beat.Heartbeat(hb)
		require.NoError(t, err)
		require.Equal(t, kcode.None, code)
		hb.Generation--
		code, err = beat.Heartbeat(hb)
		require.NoError(t, err)
		require.Equal(t, kcode.IllegalGeneration, code)

		for _, id := range []string{idA, idB} {
			code, err = beat.Leave(LeaveRequest{Group: group, MemberID: id, Reason: "done"})
			require.NoError(t, err)
			require.Equal(t, kcode.None, code)
		}
		code, err = beat.Leave(LeaveRequest{Group: group, MemberID: idA})
		require.NoError(t, err)
		require.Equal(t, kcode.UnknownMemberID, code)
	})
}

func TestNilMetadataIsSentAsEmpty(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		j := join(dialGroup(t, c, addr), group, "", nil)
		require.NoError(t, j.err)
		require.Equal(t, []byte{}, j.res.Members[0].Metadata)
	})
}

func TestCloseEndsAParkedJoin(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		a, b, beat := dialGroup(t, c, addr), dialGroup(t, c, addr), dialGroup(t, c, addr)
		first := join(a, group, "", []byte("a"))
		require.NoError(t, first.err)
		res, err := a.Sync(SyncRequest{
			Group: group, MemberID: first.res.MemberID, Generation: first.res.Generation, ProtocolType: protocolType, Protocol: protocol,
			Assignments: []SyncAssignment{{MemberID: first.res.MemberID}},
		})
		require.NoError(t, err)
		require.Equal(t, kcode.None, res.Code)
		done := make(chan joined, 1)
		go func() { done <- join(b, group, "", []byte("b")) }()
		require.Eventually(t, func() bool { // b waits for a, which does not come
			code, err := beat.Heartbeat(HeartbeatRequest{Group: group, MemberID: first.res.MemberID, Generation: first.res.Generation})
			require.NoError(t, err)
			return code == kcode.RebalanceInProgress
		}, 20*time.Second, 5*time.Millisecond)
		began := time.Now()
		b.Close()
		j := <-done
		require.Less(t, time.Since(began), 5*time.Second)
		require.ErrorIs(t, j.err, ErrClosed)
		var transport *TransportError
		require.True(t, errors.As(j.err, &transport))
		require.Equal(t, TransportError{Broker: addr, Request: "JoinGroup", Err: transport.Err}, *transport)
		_, err = b.Heartbeat(HeartbeatRequest{Group: group})
		require.ErrorIs(t, err, ErrClosed)
		b.Close() // twice is once
	})
}

func TestCommittedOffsets(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		topic := k.topic(t, c, 3, nil)
		group, addr := k.group(t, c)
		g := dialGroup(t, c, addr)
		tp := func(p int32) task.TopicPartition { return task.TopicPartition{Topic: topic, Partition: p} }
		commit := func(offsets ...task.InputOffset) []CommittedPart {
			res, err := g.CommitOffsets(CommitRequest{Group: group, Generation: -1, Offsets: offsets})
			require.NoError(t, err)
			return res.Parts
		}
		want := strings.Repeat("m", 4096)
		parts := commit(
			task.InputOffset{TopicPartition: tp(1), Offset: 11, Metadata: want},
			task.InputOffset{TopicPartition: tp(0), Offset: 0},
			task.InputOffset{TopicPartition: tp(9), Offset: 5},
		)
		if k.real {
			require.Equal(t, kcode.UnknownTopicOrPartition, parts[2].Code)
			parts = parts[:2]
		}
		require.Equal(t, []CommittedPart{{TopicPartition: tp(1)}, {TopicPartition: tp(0)}}, parts[:2])

		res, err := g.FetchOffsets(FetchOffsetsRequest{Group: group, RequireStable: true, Parts: []task.TopicPartition{tp(2), tp(1), tp(0)}})
		require.NoError(t, err)
		require.Equal(t, FetchOffsetsResponse{Parts: []FetchedOffset{
			{TopicPartition: tp(2), Offset: -1}, {TopicPartition: tp(1), Offset: 11, Metadata: want}, {TopicPartition: tp(0)},
		}}, res)

		seen, err := k.tools.Committed(within(t), group)
		require.NoError(t, err)
		require.Equal(t, int64(11), seen[tp(1)].Offset)

		refused, err := g.CommitOffsets(CommitRequest{Group: group, MemberID: "nobody", Generation: 3, Offsets: []task.InputOffset{{TopicPartition: tp(0), Offset: 1}}})
		require.NoError(t, err)
		require.Contains(t, []kcode.Code{kcode.UnknownMemberID, kcode.IllegalGeneration}, refused.Parts[0].Code)
	})
}

func TestAnUnknownGroupHasNoOffsets(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		topic := k.topic(t, c, 1, nil)
		group, addr := k.group(t, c)
		tp := task.TopicPartition{Topic: topic}
		res, err := dialGroup(t, c, addr).FetchOffsets(FetchOffsetsRequest{Group: group + "-never", Parts: []task.TopicPartition{tp}})
		require.NoError(t, err)
		require.Equal(t, FetchOffsetsResponse{Parts: []FetchedOffset{{TopicPartition: tp, Offset: -1}}}, res)
	})
}

func TestACommitIsSplitBelowTheBrokersLimit(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		topic := k.topic(t, c, 1, nil)
		group, addr := k.group(t, c)
		var offsets []task.InputOffset
		for i := range 300 { // 1.2 MB, which a real broker refuses in one piece
			tp := task.TopicPartition{Topic: topic, Partition: int32(i)}
			offsets = append(offsets, task.InputOffset{TopicPartition: tp, Offset: int64(i), Metadata: strings.Repeat("x", 4096)})
		}
		res, err := dialGroup(t, c, addr).CommitOffsets(CommitRequest{Group: group, Generation: -1, Offsets: offsets})
		require.NoError(t, err)
		require.Len(t, res.Parts, 300)
		for i, p := range res.Parts {
			require.Equal(t, offsets[i].TopicPartition, p.TopicPartition)
		}
		require.Equal(t, kcode.None, res.Parts[0].Code)
	})
}

func TestCommitChunks(t *testing.T) {
	sized := func(sizes ...int) (out []task.InputOffset) {
		for _, n := range sizes {
			out = append(out, task.InputOffset{Metadata: strings.Repeat("x", n)})
		}
		return out
	}
	require.Equal(t, 3, commitChunk(sized(0, 10, 4096)))
	require.Equal(t, 1, commitChunk(sized(900_000, 1)), "always at least one")
	many := make([]task.InputOffset, 9000)
	require.Equal(t, 8000, commitChunk(many), "100 bytes for each without metadata")
}

func TestCommitsThatABrokerWouldSpoilAreRefused(t *testing.T) {
	tp := task.TopicPartition{Topic: "t", Partition: 3}
	g := &GroupConn{} // nothing is sent
	for _, v := range []struct {
		name   string
		offset task.InputOffset
		want   string
	}{
		{name: "negative", offset: task.InputOffset{TopicPartition: tp, Offset: -5}, want: "t-3: offset -5 is negative"},
		{name: "long", offset: task.InputOffset{TopicPartition: tp, Metadata: strings.Repeat("x", 4097)}, want: "metadata of 4097 bytes"},
		{name: "not ASCII", offset: task.InputOffset{TopicPartition: tp, Metadata: "a\xff"}, want: "not ASCII at byte 1"},
	} {
		t.Run(v.name, func(t *testing.T) {
			_, err := g.CommitOffsets(CommitRequest{Group: "g", Offsets: []task.InputOffset{{TopicPartition: tp}, v.offset}})
			require.ErrorIs(t, err, ErrInvalidCommit)
			require.ErrorContains(t, err, v.want)
		})
	}
}

func TestAPendingTransactionIsUnstable(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		tp := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		group, addr := k.group(t, c)
		g := dialGroup(t, c, addr)
		_, err := g.CommitOffsets(CommitRequest{Group: group, Generation: -1, Offsets: []task.InputOffset{{TopicPartition: tp, Offset: 1}}})
		require.NoError(t, err)
		end := k.pendingOffset(t, c, group, tp, 5)
		res, err := g.FetchOffsets(FetchOffsetsRequest{Group: group, RequireStable: true, Parts: []task.TopicPartition{tp}})
		require.NoError(t, err)
		require.Equal(t, kcode.UnstableOffsetCommit, max(res.Code, res.partCode()))
		res, err = g.FetchOffsets(FetchOffsetsRequest{Group: group, Parts: []task.TopicPartition{tp}})
		require.NoError(t, err)
		require.Equal(t, int64(1), res.Parts[0].Offset)
		end()
	})
}

func (r FetchOffsetsResponse) partCode() kcode.Code {
	if len(r.Parts) == 0 {
		return kcode.None
	}
	return r.Parts[0].Code
}
