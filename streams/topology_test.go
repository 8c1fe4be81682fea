package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func build(t *testing.T, b *streams.Builder) *streams.Topology {
	t.Helper()
	topology, err := b.Build("app")
	require.NoError(t, err)
	return topology
}

func TestSubtopologiesAreNumberedByTheirSmallestTopic(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("z", serde.String, serde.String).To("out-z")
	b.Stream("m", serde.String, serde.String).Merge(b.Stream("a", serde.String, serde.String)).To("out-a")
	b.Stream("b", serde.String, serde.String).Repartition("x").To("out-b")
	topology := build(t, b)
	var inputs [][]string
	for i, spec := range topology.Subtopologies {
		require.EqualValues(t, i, spec.Subtopology)
		var topics []string
		for _, in := range spec.Inputs {
			require.Equal(t, strings.HasSuffix(in.Topic, "-repartition"), in.Repartition)
			topics = append(topics, in.Topic)
		}
		inputs = append(inputs, topics)
	}
	require.Equal(t, [][]string{{"a", "m"}, {"app-x-repartition"}, {"b"}, {"z"}}, inputs)
	require.Equal(t, []string{"a", "b", "m", "z"}, topology.Sources)
	require.Equal(t, []string{"out-a", "out-b", "out-z"}, topology.Sinks)
	require.Equal(t, "app-x-repartition", topology.Subtopologies[2].Dests[0].Topic)
	require.Empty(t, topology.Copartitioned, "a merge alone needs no equal partitions")
}

func TestSpecOfAStore(t *testing.T) {
	b := streams.NewBuilder()
	in := b.Stream("in", serde.String, serde.String)
	in.GroupByKey().Count("silent")
	in.GroupByKey().Count("at-commit", streams.EmitAtCommit).ToStream().To("out")
	in.GroupByKey().Count("per-update", streams.EmitPerUpdate).ToStream().To("out")
	in.GroupByKey().Count("lost", streams.WithoutChangelog())
	in.Process("p", func(*streams.Init) textProcessor { return nil },
		streams.WithStores(streams.NewStore("sorted", serde.String, serde.String, streams.Ordered())))
	topology := build(t, b)
	stores := topology.Subtopologies[0].Stores
	var got []string
	for _, s := range stores {
		line := s.Spec.Name + " " + s.Changelog
		if s.KeepBefore {
			line += " keeps"
		}
		if s.Spec.Ordered {
			line += " sorted"
		}
		got = append(got, line)
	}
	require.Equal(t, []string{
		"at-commit app-at-commit-changelog keeps", "lost ", "per-update app-per-update-changelog", "silent app-silent-changelog",
		"sorted app-sorted-changelog sorted",
	}, got)
	require.Len(t, topology.Subtopologies[0].Dests, 1, "a topic written twice is one destination")
}

func TestInternalTopicsKeepOldRecords(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).GroupBy(func(_, v string) string { return v }, streams.Partitions(3)).Count("c")
	topology := build(t, b)
	require.Len(t, topology.Internal, 2)
	changelog, repartition := topology.Internal[0], topology.Internal[1]
	const widest = "9223372036854775807"
	require.Equal(t, streams.InternalTopic{
		Name: "app-c-changelog", Kind: streams.ChangelogTopic, Subtopology: 0,
		Configs: map[string]string{
			"cleanup.policy": "compact", "message.timestamp.type": "CreateTime",
			"message.timestamp.before.max.ms": widest, "message.timestamp.after.max.ms": widest,
		},
	}, changelog)
	require.Equal(t, streams.InternalTopic{
		Name: "app-c-repartition", Kind: streams.RepartitionTopic, Partitions: 3, Subtopology: 0,
		Configs: map[string]string{
			"cleanup.policy": "delete", "retention.ms": "-1", "segment.bytes": "52428800", "message.timestamp.type": "CreateTime",
			"message.timestamp.before.max.ms": widest, "message.timestamp.after.max.ms": widest,
		},
	}, repartition)
}

// The table of Kafka Streams' co-partitioning tests: topics of the user, free repartition topics, and ones with a number, all in one group.
func TestCopartitionedTopics(t *testing.T) {
	for _, c := range []struct {
		name     string
		external []int32
		free     []int32 // the number of partitions upstream of each
		enforced []int32
		want     int32
		err      string
		atBuild  bool // it is known without the topics of the user
	}{
		{name: "topics of the user decide", external: []int32{2, 2}, free: []int32{10}, want: 2},
		{name: "topics of the user differ", external: []int32{2, 3}, err: "topics are not co-partitioned, but records of equal keys meet: e0 has 2, e1 has 3"},
		{name: "the widest free one decides", free: []int32{1, 15, 5}, want: 15},
		{name: "numbers asked for differ", enforced: []int32{10, 5}, err: "app-n0-repartition has 10, app-n1-repartition has 5", atBuild: true},
		{name: "number asked for and topic of the user differ", external: []int32{2}, enforced: []int32{10}, err: "app-n0-repartition has 10, e0 has 2"},
		{name: "number asked for and topic of the user agree", external: []int32{2}, enforced: []int32{2}, want: 2},
		{name: "the number asked for decides", free: []int32{5}, enforced: []int32{2, 2}, want: 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			counts := make(map[string]int32)
			b := streams.NewBuilder()
			var all []text
			source := func(prefix string, i int, n int32) text {
				topic := prefix + string('0'+byte(i))
				counts[topic] = n
				return b.Stream(topic, serde.String, serde.String)
			}
			for i, n := range c.external {
				all = append(all, source("e", i, n))
			}
			for i, n := range c.free {
				all = append(all, source("f", i, n).Repartition("r"+string('0'+byte(i))))
			}
			for i, n := range c.enforced {
				all = append(all, source("x", i, 1).Repartition("n"+string('0'+byte(i)), streams.Partitions(int(n))))
			}
			all[0].Merge(all[1:]...).GroupByKey().Count("c")
			topology, err := b.Build("app")
			if c.atBuild {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Len(t, topology.Copartitioned, 1)
			external := func(topic string) (int32, bool) { n, ok := counts[topic]; return n, ok }
			got, err := topology.Partitions(external)
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				require.ErrorContains(t, topology.Check(external), c.err)
				return
			}
			require.NoError(t, err)
			for _, topic := range topology.Copartitioned[0] {
				require.Equal(t, c.want, got[topic], topic)
			}
			require.Equal(t, c.want, got["app-c-changelog"])
		})
	}
}

func TestRepartitionTopicsInherit(t *testing.T) {
	b := streams.NewBuilder()
	wide, narrow := b.Stream("wide", serde.String, serde.String), b.Stream("narrow", serde.String, serde.String)
	wide.Merge(narrow).Repartition("one").Repartition("two").GroupBy(func(_, v string) string { return v }).Count("c")
	topology := build(t, b)
	counts := map[string]int32{"wide": 6, "narrow": 2}
	got, err := topology.Partitions(func(topic string) (int32, bool) { n, ok := counts[topic]; return n, ok })
	require.NoError(t, err)
	require.Equal(t, map[string]int32{
		"wide": 6, "narrow": 2, "app-one-repartition": 6, "app-two-repartition": 6, "app-c-repartition": 6, "app-c-changelog": 6,
	}, got)
}

func TestALoopThroughTopicsHasAnEnd(t *testing.T) {
	b := streams.NewBuilder()
	in := b.Stream("in", serde.String, serde.String)
	back := b.Stream("back", serde.String, serde.String)
	loop := in.Merge(back).Repartition("a")
	loop.Filter(func(_, v string) bool { return v != "" }).To("back") // through a topic of the user: legal
	again := loop.Repartition("b")
	again.Merge(in).To("out") // the subtopology of in reads what it feeds
	got, err := build(t, b).Partitions(func(topic string) (int32, bool) { return map[string]int32{"in": 3, "back": 5}[topic], true })
	require.NoError(t, err)
	require.EqualValues(t, 5, got["app-a-repartition"])
	require.EqualValues(t, 5, got["app-b-repartition"])
}

func TestMissingTopicsAreNamed(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("here", serde.String, serde.String).Merge(b.Stream("gone", serde.String, serde.String)).GroupByKey().Count("c")
	err := build(t, b).Check(func(topic string) (int32, bool) { return 1, topic == "here" })
	require.ErrorContains(t, err, `topic "gone" is read and does not exist: create it`)
	var e *streams.TopologyError
	require.ErrorAs(t, err, &e)
	require.Len(t, e.Faults, 1)
}
