package kafka

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/task"
)

// listed waits until the group is told of, or until it is not.
func listed(t *testing.T, c *Client, group string, want bool) (found ListedGroup) {
	t.Helper()
	require.Eventually(t, func() bool {
		all, err := c.ListGroups(within(t))
		require.NoError(t, err)
		i := slices.IndexFunc(all, func(g ListedGroup) bool { return g.Group == group })
		if i >= 0 {
			found = all[i]
		}
		return i >= 0 == want
	}, 10*time.Second, 20*time.Millisecond)
	return found
}

func TestGroupsAreListedAndDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		topic := k.topic(t, c, 2, nil)
		require.ErrorIs(t, c.DeleteGroup(within(t), group), kcode.GroupIDNotFound)

		g := dialGroup(t, c, addr)
		j := join(g, group, "", []byte("metadata"))
		require.NoError(t, j.err)
		_, err := g.Sync(SyncRequest{
			Group: group, MemberID: j.res.MemberID, Generation: j.res.Generation, ProtocolType: protocolType, Protocol: protocol,
			Assignments: []SyncAssignment{{MemberID: j.res.MemberID, Assignment: []byte("assignment")}},
		})
		require.NoError(t, err)
		require.Equal(t, ListedGroup{Group: group, ProtocolType: protocolType, State: "Stable"}, listed(t, c, group, true))
		require.ErrorIs(t, c.DeleteGroup(within(t), group), kcode.NonEmptyGroup)

		res, err := g.CommitOffsets(CommitRequest{Group: group, MemberID: j.res.MemberID, Generation: j.res.Generation, Offsets: []task.InputOffset{
			{TopicPartition: task.TopicPartition{Topic: topic}, Offset: 3},
		}})
		require.NoError(t, err)
		require.Equal(t, kcode.None, res.Parts[0].Code)
		code, err := g.Leave(LeaveRequest{Group: group, MemberID: j.res.MemberID})
		require.NoError(t, err)
		require.Equal(t, kcode.None, code)
		require.NoError(t, c.DeleteGroup(within(t), group))
		listed(t, c, group, false)
		found, err := g.FetchOffsets(FetchOffsetsRequest{Group: group, Parts: []task.TopicPartition{{Topic: topic}}})
		require.NoError(t, err)
		require.EqualValues(t, -1, found.Parts[0].Offset, "its offsets are gone with it")
	})
}

func TestOffsetsAreDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		group, addr := k.group(t, c)
		zero := task.TopicPartition{Topic: k.topic(t, c, 2, nil)}
		one := task.TopicPartition{Topic: zero.Topic, Partition: 1}
		_, err := c.DeleteOffsets(within(t), group, []task.TopicPartition{zero})
		require.ErrorIs(t, err, kcode.GroupIDNotFound)

		g := dialGroup(t, c, addr)
		_, err = g.CommitOffsets(CommitRequest{Group: group, Generation: -1, Offsets: []task.InputOffset{
			{TopicPartition: zero, Offset: 3}, {TopicPartition: one, Offset: 4},
		}})
		require.NoError(t, err)
		require.Empty(t, listed(t, c, group, true).ProtocolType, "nobody has ever joined")
		errs, err := c.DeleteOffsets(within(t), group, []task.TopicPartition{zero})
		require.NoError(t, err)
		require.Equal(t, map[task.TopicPartition]error{zero: nil}, errs)
		found, err := g.FetchOffsets(FetchOffsetsRequest{Group: group, Parts: []task.TopicPartition{zero, one}})
		require.NoError(t, err)
		require.EqualValues(t, -1, found.Parts[0].Offset)
		require.EqualValues(t, 4, found.Parts[1].Offset)
		none, err := c.DeleteOffsets(within(t), group, nil)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestTopicsAreDeleted(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		topic := k.topic(t, c, 2, nil)
		errs, err := c.DeleteTopics(within(t), []string{topic, "no-such-topic"})
		require.NoError(t, err)
		require.NoError(t, errs[topic])
		require.ErrorIs(t, errs["no-such-topic"], kcode.UnknownTopicOrPartition)
		require.ErrorContains(t, errs["no-such-topic"], "no-such-topic")
		require.Eventually(t, func() bool {
			m, err := c.Metadata(within(t), []string{topic})
			require.NoError(t, err)
			return m.Topics[topic].Err == kcode.UnknownTopicOrPartition
		}, 10*time.Second, 10*time.Millisecond)
		none, err := c.DeleteTopics(within(t), nil)
		require.NoError(t, err)
		require.Empty(t, none)
	})
}

func TestListOffsetsSince(t *testing.T) {
	onBoth(t, func(t *testing.T, k cluster) {
		c := k.client(t)
		zero := task.TopicPartition{Topic: k.topic(t, c, 1, nil)}
		missing := task.TopicPartition{Topic: zero.Topic, Partition: 7}
		p := producer(t, c, zero)
		for _, at := range []int64{1_000, 2_000, 1_500, 3_000} {
			mustSend(t, p, zero, task.OutRecord{Value: []byte("v"), Timestamp: at})
		}
		for at, want := range map[time.Time]int64{
			time.UnixMilli(-5): 0, time.UnixMilli(0): 0, time.UnixMilli(1_000): 0, time.UnixMilli(1_000).Add(1): 1, time.UnixMilli(1_001): 1,
			time.UnixMilli(2_000): 1, time.UnixMilli(2_001): 3, time.UnixMilli(3_000): 3, time.UnixMilli(3_001): -1,
		} {
			got, err := c.ListOffsetsSince(within(t), map[task.TopicPartition]time.Time{zero: at, missing: at})
			require.NoError(t, err)
			require.Equal(t, ListedOffset{Offset: want}, got[zero], at)
			require.ErrorIs(t, got[missing].Err, kcode.UnknownTopicOrPartition)
		}
	})
}

// A broker that does not answer hides its groups: that must not look as if there were none.
func TestListGroupsNamesTheBrokerThatDoesNotAnswer(t *testing.T) {
	k := embedded(t, broker.Options{Brokers: 2})
	c := k.client(t)
	_, err := c.Metadata(within(t), []string{})
	require.NoError(t, err)
	k.fake.Cluster().ControlKey(16, cutOnce)
	_, err = c.ListGroups(within(t))
	var failed *TransportError
	require.True(t, errors.As(err, &failed), "%v", err)
	require.Equal(t, "ListGroups", failed.Request)
	require.Contains(t, k.addrs, failed.Broker)
	_, err = c.ListGroups(within(t))
	require.NoError(t, err)
}
