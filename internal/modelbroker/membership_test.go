package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

func TestSessionExpiry_Kafka2(t *testing.T) {
	w := groupWorld(t)
	a, b := w.party("a"), w.party("b")
	b.session = time.Second
	w.settle(a, b)
	w.wait(999 * time.Millisecond)
	require.Equal(t, kcode.None, b.beat(), "a heartbeat starts the session anew")
	w.wait(999 * time.Millisecond)
	require.Equal(t, kcode.None, a.beat())
	w.wait(time.Millisecond)
	require.Equal(t, kcode.RebalanceInProgress, a.beat())
	require.Equal(t, kcode.UnknownMemberID, b.beat())
	require.Equal(t, kcode.UnknownMemberID, b.commitAt(b.gen))
}

func TestLeave(t *testing.T) {
	t.Run("realkafka 4: while the own join is parked, that is answered", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		b.rejoin()
		require.Equal(t, kcode.None, b.leave())
		require.Equal(t, kcode.UnknownMemberID, got[JoinGroupResponse](w, b.join).Code)
		require.Equal(t, kcode.RebalanceInProgress, a.beat())
		a.rejoin()
		require.Len(t, a.joined().Members, 1)
	})
	t.Run("the leader's leaving has the followers rebalance", func(t *testing.T) {
		w := groupWorld(t)
		a, b := w.party("a"), w.party("b")
		w.settle(a, b)
		a.leave()
		require.Equal(t, kcode.RebalanceInProgress, b.beat())
		require.Equal(t, b.id, b.enter().joined().Leader)
	})
	t.Run("the last one leaves an empty group of the next generation", func(t *testing.T) {
		w := groupWorld(t)
		a := w.party("a")
		w.settle(a)
		a.leave()
		require.Equal(t, GroupView{State: Empty, Generation: 2}, w.b.Group("g"))
		require.Equal(t, kcode.UnknownMemberID, a.beat())
		require.Equal(t, kcode.UnknownMemberID, a.leave())
		require.EqualValues(t, 3, w.party("b").enter().joined().Generation)
	})
}

func TestHeartbeat_Realkafka3(t *testing.T) {
	w := groupWorld(t)
	require.Equal(t, kcode.UnknownMemberID, do[HeartbeatResponse](w, 0, HeartbeatRequest{Group: "g", MemberID: "x"}).Code, "no such group")
	a, b := w.party("a"), w.party("b")
	w.settle(a, b)
	require.Equal(t, kcode.IllegalGeneration, a.beatAt(a.gen-1))
	require.Equal(t, kcode.IllegalGeneration, a.beatAt(a.gen+1))
	a.rejoin()
	require.Equal(t, kcode.RebalanceInProgress, b.beat())
	b.rejoin()
	a.joined()
	require.Equal(t, kcode.None, a.beat(), "new generation in CompletingRebalance")
	require.Equal(t, kcode.IllegalGeneration, b.beat(), "old generation in CompletingRebalance")
}

func TestCommitFencing_Realkafka3(t *testing.T) {
	w := groupWorld(t)
	a, b := w.party("a"), w.party("b")
	w.settle(a, b)
	gen := a.gen
	table := func(state string, want map[string]kcode.Code) {
		require.Equal(t, state, string(w.b.Group("g").State))
		got := map[string]kcode.Code{
			"current": a.commitAt(gen), "old": a.commitAt(gen - 1), "next": a.commitAt(gen + 1), "unknown member": w.commit("x", gen, task.InputOffset{TopicPartition: tp("in", 0)})[0],
			"memberless": w.commit("", -1, task.InputOffset{TopicPartition: tp("in", 0)})[0], "member without generation": a.commitAt(-1),
		}
		require.Equal(t, want, got, state)
	}
	table("Stable", map[string]kcode.Code{
		"current": kcode.None, "old": kcode.IllegalGeneration, "next": kcode.IllegalGeneration, "unknown member": kcode.UnknownMemberID,
		"memberless": kcode.UnknownMemberID, "member without generation": kcode.IllegalGeneration,
	})
	a.rejoin()
	table("PreparingRebalance", map[string]kcode.Code{
		"current": kcode.None, "old": kcode.IllegalGeneration, "next": kcode.IllegalGeneration, "unknown member": kcode.UnknownMemberID,
		"memberless": kcode.UnknownMemberID, "member without generation": kcode.IllegalGeneration,
	})
	require.Equal(t, kcode.None, b.commitAt(gen), "who has not joined yet commits too")
	b.rejoin()
	table("CompletingRebalance", map[string]kcode.Code{
		"current": kcode.IllegalGeneration, "old": kcode.IllegalGeneration, "next": kcode.RebalanceInProgress, "unknown member": kcode.UnknownMemberID,
		"memberless": kcode.UnknownMemberID, "member without generation": kcode.IllegalGeneration,
	})
}

func TestCommit_Realkafka3(t *testing.T) {
	at := func(p int32, offset int64, meta string) task.InputOffset {
		return task.InputOffset{TopicPartition: tp("in", p), Offset: offset, Metadata: meta}
	}
	text := func(n int) string { return string(make([]byte, n)) }
	t.Run("memberless to an unknown group makes a simple group, a generation does not", func(t *testing.T) {
		w := groupWorld(t)
		require.Equal(t, []kcode.Code{kcode.IllegalGeneration}, w.commit("x", 1, at(0, 1, "")))
		require.Equal(t, []kcode.Code{kcode.None}, w.commit("", -1, at(0, 7, "")))
		require.EqualValues(t, 7, w.b.Committed("g", tp("in", 0)))
		require.Equal(t, []kcode.Code{kcode.UnknownMemberID}, w.commit("x", 1, at(0, 1, "")))
	})
	t.Run("an unknown partition is told first, also to a stale member", func(t *testing.T) {
		w := groupWorld(t)
		unknown := task.InputOffset{TopicPartition: tp("in", 400)}
		nowhere := task.InputOffset{TopicPartition: tp("nowhere", 0)}
		require.Equal(t, []kcode.Code{kcode.UnknownTopicOrPartition, kcode.UnknownTopicOrPartition}, w.commit("x", 1, unknown, nowhere))
		require.Equal(t, []kcode.Code{kcode.UnknownTopicOrPartition, kcode.IllegalGeneration}, w.commit("x", 1, unknown, at(0, 1, "")))
	})
	t.Run("backwards, negative, not owned: accepted", func(t *testing.T) {
		w := groupWorld(t)
		a := w.party("a")
		w.settle(a)
		for _, o := range []int64{9, 3, -5} {
			require.Equal(t, []kcode.Code{kcode.None}, w.commit(a.id, a.gen, at(399, o, "")))
			require.EqualValues(t, o, w.b.Committed("g", tp("in", 399)))
		}
	})
	t.Run("metadata of 4097 bytes fails its partition only", func(t *testing.T) {
		w := groupWorld(t)
		codes := w.commit("", -1, at(0, 1, text(4096)), at(1, 1, text(4097)))
		require.Equal(t, []kcode.Code{kcode.None, kcode.OffsetMetadataTooLarge}, codes)
	})
	t.Run("metadata that is not UTF-8 is lost byte by byte", func(t *testing.T) {
		w := groupWorld(t)
		w.commit("", -1, at(0, 1, "abc\xff\xfe"))
		r := do[OffsetFetchResponse](w, 0, OffsetFetchRequest{Group: "g"})
		require.Equal(t, []FetchedOffset{{TopicPartition: tp("in", 0), Offset: 1, Metadata: "abc\ufffd\ufffd"}}, r.Parts)
		require.Len(t, r.Parts[0].Metadata, 9)
	})
	t.Run("250 partitions with 4096 B each pass, 260 are one batch too large", func(t *testing.T) {
		w := groupWorld(t)
		for n, want := range map[int]kcode.Code{250: kcode.None, 260: kcode.Unknown} {
			var offsets []task.InputOffset
			for p := range n {
				offsets = append(offsets, at(int32(p), 1, text(4096)))
			}
			for _, code := range w.commit("", -1, offsets...) {
				require.Equal(t, want, code, "%d", n)
			}
		}
	})
	t.Run("a commit renews the session", func(t *testing.T) {
		w := groupWorld(t)
		a := w.party("a")
		a.session = time.Second
		w.settle(a)
		for range 3 {
			w.wait(900 * time.Millisecond)
			require.Equal(t, kcode.None, a.commitAt(a.gen))
		}
	})
	t.Run("the oracle's hook sees what was before", func(t *testing.T) {
		var seen []Commit
		w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}, Committed: func(c Commit) { seen = append(seen, c) }})
		w.commit("", -1, at(0, 4, ""))
		w.commit("", -1, at(0, 6, ""))
		require.Equal(t, []Commit{
			{At: epoch, Group: "g", Generation: -1, TopicPartition: tp("in", 0), Before: -1, Offset: 4},
			{At: epoch, Group: "g", Generation: -1, TopicPartition: tp("in", 0), Before: 4, Offset: 6},
		}, seen)
	})
}

func TestOffsetFetch_Realkafka3(t *testing.T) {
	w := groupWorld(t)
	ask := func(stable bool, tps ...task.TopicPartition) []FetchedOffset {
		r := do[OffsetFetchResponse](w, 0, OffsetFetchRequest{Group: "g", RequireStable: stable, Parts: tps})
		require.Equal(t, kcode.None, r.Code)
		return r.Parts
	}
	require.Equal(t, []FetchedOffset{{TopicPartition: tp("in", 0), Offset: -1}, {TopicPartition: tp("no", 0), Offset: -1}}, ask(true, tp("in", 0), tp("no", 0)),
		"unknown group, unknown topic: -1 and no error")
	w.commit("", -1, task.InputOffset{TopicPartition: tp("in", 2), Offset: 2}, task.InputOffset{TopicPartition: tp("in", 1), Offset: 1, Metadata: "m"})
	one, two := FetchedOffset{TopicPartition: tp("in", 1), Offset: 1, Metadata: "m"}, FetchedOffset{TopicPartition: tp("in", 2), Offset: 2}
	require.Equal(t, []FetchedOffset{one, two}, ask(true))
	w.b.HoldOffset(w.now, "g", tp("in", 1), true)
	require.Equal(t, []FetchedOffset{{TopicPartition: tp("in", 1), Offset: -1, Code: kcode.UnstableOffsetCommit}, two}, ask(true), "that partition only")
	require.Equal(t, []FetchedOffset{one, two}, ask(false))
	w.b.HoldOffset(w.now, "g", tp("in", 1), false)
	require.Equal(t, []FetchedOffset{one, two}, ask(true))
	do[DeleteTopicsResponse](w, 0, DeleteTopicsRequest{Topics: []string{"in"}})
	require.Empty(t, ask(true), "offsets go with their topic")
}
