package modelbroker

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
)

func TestLeaderFailure_Realkafka8(t *testing.T) {
	w := newWorld(t, Config{Brokers: 3, Topics: map[string]TopicConfig{"in": {Partitions: 3}}})
	in := tp("in", 0)
	batch := ProduceBatch{TopicPartition: in, ProducerID: 7, Records: outs("a")}
	require.Equal(t, kcode.None, w.produce(0, batch)[0].Code)
	poll := w.poll(1, false, FetchPart{TopicPartition: tp("in", 1)})
	w.b.Crash(w.now, 0)
	w.b.Crash(w.now, 0)
	require.Equal(t, kcode.NotLeaderOrFollower, w.produce(1, batch)[0].Code)
	w.wait(8300 * time.Millisecond)
	out := w.produce(1, batch)[0]
	require.Equal(t, ProducedPart{TopicPartition: in}, out, "a new leader after 8.3 s, which knows the batch")
	leader, epoch := w.b.Leader(in)
	require.Equal(t, [2]int32{1, 1}, [2]int32{leader, epoch})
	require.True(t, w.parked(poll), "other partitions do not notice")

	w.b.Restart(w.now, 0)
	w.b.Restart(w.now, 0)
	leader, _ = w.b.Leader(in)
	require.EqualValues(t, 1, leader, "a leader stays")
	w.b.Shutdown(w.now, 1)
	w.b.Shutdown(w.now, 1)
	leader, epoch = w.b.Leader(in)
	require.Equal(t, [2]int32{0, 2}, [2]int32{leader, epoch}, "SIGTERM: at once")
}

func TestRestartBeforeTheFailover(t *testing.T) {
	w := newWorld(t, Config{Topics: map[string]TopicConfig{"in": {}}})
	in := tp("in", 0)
	w.plainly(in, "a")
	c := w.dial(0)
	w.b.Crash(w.now, 0)
	w.take()
	require.True(t, w.closed[c])
	_, err := w.b.Dial(1)
	require.Error(t, err, "no such node")
	w.wait(time.Minute)
	w.b.Restart(w.now, 0)
	require.Equal(t, kcode.FencedLeaderEpoch, w.fetch(0, FetchPart{TopicPartition: in})[0].Code)
	_, epoch := w.b.Leader(in)
	require.Equal(t, []int64{0}, offsets(w.fetch(0, FetchPart{TopicPartition: in, LeaderEpoch: epoch})[0]), "the log survives")
}

func TestMoveLeaderToANodeWithoutReplica(t *testing.T) {
	w := newWorld(t, Config{Brokers: 3, Topics: map[string]TopicConfig{"in": {Replication: 1}}})
	in := tp("in", 0)
	require.Equal(t, kcode.NotLeaderOrFollower, w.fetch(2, FetchPart{TopicPartition: in, LeaderEpoch: -1})[0].Code)
	w.b.MoveLeader(w.now, in, 2)
	require.Equal(t, kcode.None, w.fetch(2, FetchPart{TopicPartition: in, LeaderEpoch: 1})[0].Code)
	w.b.MoveLeader(w.now, in, 9)
	w.b.MoveLeader(w.now, tp("no", 0), 0)
	w.b.MoveCoordinator(w.now, "g", 9)
	leader, _ := w.b.Leader(in)
	require.EqualValues(t, 2, leader)
}

func TestAddr(t *testing.T) {
	require.EqualValues(t, 12, Node(Addr(12)))
	for _, bad := range []string{"", "broker-1", "broker-x:9092", "broker--1:9092", "localhost:9092"} {
		require.EqualValues(t, -1, Node(bad), bad)
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	w := groupWorld(t)
	a := w.party("a")
	a.session = time.Second
	w.settle(a)
	w.wait(900 * time.Millisecond)
	w.b.Advance(epoch)
	require.Equal(t, kcode.None, a.beat())
	at, ok := w.b.Wake()
	require.True(t, ok)
	require.Equal(t, epoch.Add(1900*time.Millisecond), at)
}

func TestUnknownRequestPanics(t *testing.T) {
	w := groupWorld(t)
	c := w.dial(0)
	require.PanicsWithValue(t, "modelbroker: unknown request modelbroker.strange", func() { w.sendOn(c, strange{}) })
}

type strange struct{}

func (strange) request() {}
