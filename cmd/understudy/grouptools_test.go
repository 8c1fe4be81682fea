package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/group"
	"github.com/understudy-streams/understudy/internal/realkafka"
)

// onReal runs a test against a real broker only.
func onReal(t *testing.T) (*realkafka.Cluster, []string) {
	if testing.Short() {
		t.Skip("starts a broker")
	}
	cluster := realkafka.Shared(t)
	return cluster, cluster.Addrs()
}

// Kafka's own tool sees what was done here.
func TestKafkasOwnToolSeesTheGroup(t *testing.T) {
	t.Parallel()
	cluster, addrs := onReal(t)
	g := uniqueName()
	topic := topicOf(t, addrs, g+"-in", 1)
	produce(t, addrs, partOf(topic, 0), since(time.Hour, "0", "1", "2", "3", "4")...)
	for _, name := range []string{g, g + "-gone"} {
		commits(t, addrs, name, at(partOf(topic, 0), 5, nil))
	}
	require.Len(t, parts(t, addrs, "-group", g, "-to", "2", "-execute"), 1)
	_, _, err := command(t, "group", "delete", "-brokers", addrs[0], "-group", g+"-gone", "-execute")
	require.NoError(t, err)

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	out, err := cluster.Tool(ctx, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", "--describe", "--all-groups", "--offsets")
	require.NoError(t, err)
	require.NotContains(t, out, g+"-gone")
	var row []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, g+" ") {
			row = strings.Fields(line)
		}
	}
	require.GreaterOrEqual(t, len(row), 6, out)
	require.Equal(t, []string{g, topic, "0", "2", "5", "3"}, row[:6], "partition, committed, end, lag")
}

// It prints a group that is alive, too: whose each partition is, how far it has come, and what everybody has.
func TestKafkasOwnToolPrintsAGroupThatIsAlive(t *testing.T) {
	t.Parallel()
	cluster, addrs := onReal(t)
	c := newCounter(t, addrs)
	c.write(time.Hour, "a", "b", "c", "d")
	running, stop := context.WithCancel(t.Context())
	done := c.start(running)
	defer func() {
		stop()
		require.NoError(t, <-done)
	}()
	var printed string
	rows := func(args ...string) (rows [][]string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var err error
		printed, err = cluster.Tool(ctx, "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand", append([]string{"--describe", "--group", c.app}, args...)...)
		require.NoError(t, err)
		for line := range strings.Lines(printed) {
			if strings.HasPrefix(line, c.app+" ") {
				rows = append(rows, strings.Fields(line))
			}
		}
		return rows
	}
	var offsets [][]string
	require.Eventually(t, func() bool {
		offsets = rows()
		return slices.ContainsFunc(offsets, func(r []string) bool { return r[1] == c.in && r[3] == "2" })
	}, 2*time.Minute, 10*time.Millisecond)
	for part := range counterParts {
		i := slices.IndexFunc(offsets, func(r []string) bool { return r[1] == c.in && r[2] == fmt.Sprint(part) })
		require.GreaterOrEqual(t, i, 0, printed)
		require.Equal(t, "2", offsets[i][4], printed)
		require.Contains(t, offsets[i][6], c.app, "the member that has it\n%s", printed)
	}
	members := rows("--members", "--verbose")
	require.Len(t, members, 1, printed)
	require.Contains(t, printed, c.in+":0,1", "the tasks of the input")
	require.Contains(t, printed, "-repartition:0,1", "and those behind it")
	state := rows("--state")
	require.Len(t, state, 1, printed)
	require.Contains(t, printed, "Stable")
	require.Contains(t, printed, group.Protocol)
}

// Members of the newer protocol are not told by the request for classic groups: the group must not be taken for an empty one.
func TestGroupOfTheNewerProtocol(t *testing.T) {
	t.Parallel()
	_, addrs := onReal(t)
	g := uniqueName()
	topic := topicOf(t, addrs, g+"-in", 1)
	produce(t, addrs, partOf(topic, 0), since(time.Hour, "0", "1")...)
	c, err := kgo.NewClient(kgo.SeedBrokers(addrs...))
	require.NoError(t, err)
	defer c.Close()
	id := make([]byte, 16)
	_, _ = rand.Read(id)
	beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = g, base64.RawURLEncoding.EncodeToString(id), 10_000
	beat.SubscribedTopicNames, beat.Topics = []string{topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	require.Eventually(t, func() bool { // the first group of a cluster waits for its coordinator
		res, err := beat.RequestWith(t.Context(), c)
		return err == nil && res.ErrorCode == 0
	}, 20*time.Second, 100*time.Millisecond)

	out, _, err := command(t, "group", "list", "-brokers", addrs[0], "-prefix", g, "-json")
	require.NoError(t, err)
	var v groupsView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Len(t, v.Groups, 1)
	require.Equal(t, "consumer", v.Groups[0].Kind)
	require.Equal(t, -1, v.Groups[0].Members)
	_, _, err = command(t, "group", "reset", "-brokers", addrs[0], "-group", g, "-to", "0", "-topic", topic, "-execute")
	require.ErrorContains(t, err, "so it has members, which kafka-consumer-groups")

	beat.MemberEpoch = -1 // leaves
	_, err = beat.RequestWith(t.Context(), c)
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		_, _, err = command(t, "group", "reset", "-brokers", addrs[0], "-group", g, "-to", "1", "-topic", topic, "-execute")
		return err == nil
	}, 10*time.Second, 100*time.Millisecond, "%v", err)
	out, _, err = command(t, "group", "lag", "-brokers", addrs[0], "-group", g)
	require.NoError(t, err)
	require.Contains(t, out, "lag    1\n")
	_, _, err = command(t, "group", "delete", "-brokers", addrs[0], "-group", g, "-execute")
	require.NoError(t, err)
}
