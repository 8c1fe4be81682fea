package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kafka"
	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

func TestGroupList(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, addrs []string) {
		app := uniqueName()
		topic := topicOf(t, addrs, app+"-in", 1)
		produce(t, addrs, partOf(topic, 0), since(time.Minute, "a", "b", "c")...)
		joins(t, addrs, app+"-a", 1)
		commits(t, addrs, app+"-b", at(partOf(topic, 0), 1, &retry.Metadata{StreamTime: 9, Main: 2, Running: true, Suspect: -1}))
		commits(t, addrs, app+"-c", at(partOf(topic, 0), 3, &retry.Metadata{StreamTime: 9, Main: 3, Suspect: -1}))
		commits(t, addrs, app+"-d", at(partOf(topic, 0), 0, nil))
		list := func(args ...string) (v groupsView) {
			out, _, err := command(t, append([]string{"group", "list", "-brokers", addrs[0], "-json", "-prefix", app}, args...)...)
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal([]byte(out), &v))
			return v
		}
		want := []groupRow{
			{Group: app + "-a", Kind: "understudy", State: "Stable", Protocol: "learner-v1", Members: 1},
			{Group: app + "-b", Kind: "understudy", State: "Empty", Lag: 1},
			{Group: app + "-c", Kind: "streams", State: "Empty"},
			{Group: app + "-d", Kind: "consumer", State: "Empty", Lag: 3},
		}
		require.Eventually(t, func() bool {
			v := list()
			return len(v.Groups) == 4 && v.Groups[0].State == "Stable"
		}, 20*time.Second, 100*time.Millisecond)
		require.Equal(t, want, list().Groups)
		require.Equal(t, want[1:3], list("-match", ".*-[bc]").Groups)
		require.Empty(t, list("-match", "b").Groups, "the whole name has to match")
		for i := range want {
			want[i].Lag, want[i].Unknown = -1, 0
			if i > 0 {
				want[i].Kind = ""
			}
		}
		require.Equal(t, want, list("-fast").Groups)
	})
}

func TestGroupsView(t *testing.T) {
	v := groupsView{Groups: []groupRow{
		{Group: "billing", Kind: "streams", State: "Empty", Lag: 12},
		{Group: "connect-jdbc", Kind: "connect", State: "Stable", Protocol: "sessioned", Members: 2},
		{Group: "mail", Kind: "consumer", State: "Stable", Protocol: "range", Members: 3, Lag: 400, Unknown: 2},
		{Group: "new", Kind: "consumer", State: "Stable", Members: -1, Lag: 7},
		{Group: "orders", Kind: "understudy", State: "PreparingRebalance", Protocol: "", Members: 12, Lag: 1034},
		{Group: "secret", State: "Stable", Members: -1, Lag: -1, Problem: "GROUP_AUTHORIZATION_FAILED (30)"},
	}}
	golden(t, "group_list.txt", v.text())
	require.ErrorContains(t, v.problems(), "1 of 6 groups")
	require.Equal(t, "No groups.\n", (&groupsView{}).text())
}

// What is not known of a partition is neither a lag of 0 nor hides that of the others.
func TestRowOfAGroup(t *testing.T) {
	committed := func(topic string, offset int64, metadata string) kafka.FetchedOffset {
		return kafka.FetchedOffset{TopicPartition: partOf(topic, 0), Offset: offset, Metadata: metadata}
	}
	ends := map[task.TopicPartition]kafka.ListedOffset{
		partOf("in", 0): {Offset: 10}, partOf("gone", 0): {Offset: -1, Err: kcode.UnknownTopicOrPartition}, partOf("app-counts-changelog", 0): {Offset: 500},
	}
	row := func(offsets ...kafka.FetchedOffset) (lag int64, unknown int) {
		f := found{facts: facts{GroupDescription: kafka.GroupDescription{Group: "app"}, kind: outside.Understudy, offsets: offsets}}
		r := f.row(ends, true)
		return r.Lag, r.Unknown
	}
	for name, c := range map[string]struct {
		offsets []kafka.FetchedOffset
		lag     int64
		unknown int
	}{
		"nothing":                {nil, 0, 0},
		"one":                    {[]kafka.FetchedOffset{committed("in", 4, "")}, 6, 0},
		"a topic that is gone":   {[]kafka.FetchedOffset{committed("in", 4, ""), committed("gone", 4, "")}, 6, 1},
		"nothing else":           {[]kafka.FetchedOffset{committed("gone", 4, "")}, -1, 1},
		"a position of learners": {[]kafka.FetchedOffset{committed("in", 4, ""), committed("app-counts-changelog", 1, outside.BoardPrefix+"1 5 m")}, 6, 0},
		"one without its note":   {[]kafka.FetchedOffset{committed("in", 4, ""), committed("app-counts-changelog", 1, "")}, 6, 0},
	} {
		lag, unknown := row(c.offsets...)
		require.Equal(t, c.lag, lag, name)
		require.Equal(t, c.unknown, unknown, name)
	}
}
