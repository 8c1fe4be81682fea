package streams_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// fails is a function that could.
func fails(context.Context, textRecord) error { return nil }

func from(b *streams.Builder, topic string, opts ...streams.SourceOption) text {
	return b.Stream(topic, serde.String, serde.String, opts...)
}

func TestSpecWithoutAPolicyStopsAndOwnsNothing(t *testing.T) {
	b := streams.NewBuilder()
	from(b, "in").To("out")
	topology := build(t, b)
	require.Equal(t, retry.ModeStop, topology.Subtopologies[0].Failure.Settings().Mode)
	require.Zero(t, topology.Subtopologies[0].Retries)
	require.Empty(t, topology.Internal)

	topology, err := b.Build("app", streams.OnFailure(retry.Ordered()))
	require.NoError(t, err)
	require.Equal(t, retry.ModeOrdered, topology.Subtopologies[0].Failure.Settings().Mode)
	require.Empty(t, topology.Internal)
}

func TestSpecOfAPolicyThatPutsAsideAndBuries(t *testing.T) {
	b := streams.NewBuilder()
	orders := from(b, "orders", streams.OnFailure(retry.KeyOrdered(retry.ThenDeadLetter())), streams.OnNegativeTimestamp(streams.DropRecord))
	orders.Merge(from(b, "again")).GroupByKey().Count("counts").ToStream().To("out")
	topology := build(t, b)
	spec := topology.Subtopologies[0]
	require.Equal(t, retry.ModeKeyOrdered, spec.Failure.Settings().Mode)
	require.Equal(t, []task.Input{
		{Topic: "again", DeadLetters: 2},
		{Topic: "orders", NegativeTimestamp: streams.DropRecord, DeadLetters: 3},
		{Topic: "app-again-redrive", DeadLetters: 2, Redrives: 1},
		{Topic: "app-orders-redrive", NegativeTimestamp: streams.DropRecord, DeadLetters: 3, Redrives: 2},
	}, spec.Inputs)
	require.Equal(t, []task.Dest{{Topic: "out"}, {Topic: "app-again-dlq"}, {Topic: "app-orders-dlq"}}, spec.Dests)
	require.Equal(t, 2, spec.Retries, "it comes behind the stores of the user, whose numbers stay")
	require.Equal(t, "again-retry", spec.Stores[1].Spec.Name, "named by the smallest source")
	require.True(t, spec.Stores[1].Spec.Ordered)
	require.Equal(t, "app-again-retry", spec.Stores[1].Changelog)

	kinds := make(map[string]streams.InternalKind)
	for _, in := range topology.Internal {
		kinds[in.Name] = in.Kind
		switch in.Kind {
		case streams.RetryTopic:
			require.Equal(t, "compact", in.Configs["cleanup.policy"])
		case streams.DeadLetterTopic, streams.RedriveTopic:
			require.Equal(t, "delete", in.Configs["cleanup.policy"])
			require.Equal(t, "-1", in.Configs["retention.ms"])
			require.NotEmpty(t, in.Source)
		}
	}
	require.Equal(t, map[string]streams.InternalKind{
		"app-counts-changelog": streams.ChangelogTopic, "app-again-retry": streams.RetryTopic,
		"app-again-dlq": streams.DeadLetterTopic, "app-orders-dlq": streams.DeadLetterTopic,
		"app-again-redrive": streams.RedriveTopic, "app-orders-redrive": streams.RedriveTopic,
	}, kinds)
	counts, err := topology.Partitions(func(string) (int32, bool) { return 4, true })
	require.NoError(t, err)
	for name := range kinds {
		require.EqualValues(t, 4, counts[name], name)
	}
}

// The retry store has a partition for each task, dead letters and redriven records as many as their own source.
func TestPartitionsOfFailureTopics(t *testing.T) {
	b := streams.NewBuilder()
	from(b, "narrow", streams.OnFailure(retry.Parallel(retry.ThenDeadLetter()))).Merge(from(b, "wide")).To("out")
	counts, err := build(t, b).Partitions(func(topic string) (int32, bool) { return map[string]int32{"narrow": 2, "wide": 5}[topic], true })
	require.NoError(t, err)
	require.Equal(t, map[string]int32{
		"narrow": 2, "wide": 5, "app-narrow-retry": 5, "app-narrow-dlq": 2, "app-wide-dlq": 5, "app-narrow-redrive": 2, "app-wide-redrive": 5,
	}, counts)
}

func TestDeadLettersInATopicOfTheUser(t *testing.T) {
	b := streams.NewBuilder()
	from(b, "in", streams.OnFailure(retry.Ordered(retry.ThenDeadLetterTo("letters")))).To("out")
	topology := build(t, b)
	require.Equal(t, []string{"letters", "out"}, topology.Sinks, "it is to exist, like other topics of the user")
	require.Len(t, topology.Internal, 1)
	require.Equal(t, "app-in-redrive", topology.Internal[0].Name)
	require.Equal(t, "letters", topology.Subtopologies[0].Dests[topology.Subtopologies[0].Inputs[0].DeadLetters-1].Topic)
}

// Policies for one kind of failure have needs too.
func TestPartsOfAPolicyHaveNeeds(t *testing.T) {
	for name, p := range map[string]retry.Policy{
		"decode":  retry.Ordered(retry.OnDecode(retry.Ordered(retry.ThenDeadLetter()))),
		"produce": retry.Ordered(retry.OnProduce(retry.Ordered(retry.ThenDeadLetter()))),
		"rows":    retry.Ordered(retry.Rows(retry.EndDeadLetter)),
	} {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			from(b, "in", streams.OnFailure(p)).To("out")
			topology, err := b.Build("app")
			require.NoError(t, err)
			require.NotZero(t, topology.Subtopologies[0].Inputs[0].DeadLetters)
		})
	}
}

func TestPoliciesReachRepartitionTopics(t *testing.T) {
	modes := func(b *streams.Builder) map[string]retry.Mode {
		topology, err := b.Build("app", streams.OnFailure(retry.Ordered()))
		require.NoError(t, err)
		out := make(map[string]retry.Mode)
		for _, s := range topology.Subtopologies {
			out[s.Inputs[0].Topic] = s.Failure.Settings().Mode
		}
		return out
	}
	t.Run("from upstream", func(t *testing.T) {
		b := streams.NewBuilder()
		from(b, "in", streams.OnFailure(retry.Parallel())).Repartition("one").Repartition("two").To("out")
		require.Equal(t, map[string]retry.Mode{
			"in": retry.ModeParallel, "app-one-repartition": retry.ModeParallel, "app-two-repartition": retry.ModeParallel,
		}, modes(b))
	})
	t.Run("unless it is named", func(t *testing.T) {
		b := streams.NewBuilder()
		from(b, "in", streams.OnFailure(retry.Parallel())).
			GroupBy(func(_, v string) string { return v }, streams.As("by"), streams.OnFailure(retry.KeyOrdered())).Count("c")
		require.Equal(t, map[string]retry.Mode{"in": retry.ModeParallel, "app-by-repartition": retry.ModeKeyOrdered}, modes(b))
	})
	t.Run("round a loop", func(t *testing.T) {
		b := streams.NewBuilder()
		in := from(b, "in")
		loop := in.Repartition("a")
		again := loop.Merge(from(b, "named", streams.OnFailure(retry.KeyOrdered()))).Repartition("b")
		again.Merge(in).To("out") // the subtopology of in reads what it feeds
		require.Equal(t, map[string]retry.Mode{"app-a-repartition": retry.ModeKeyOrdered, "app-b-repartition": retry.ModeKeyOrdered}, modes(b))
	})
}

func TestRetryTopicOfARepartitionTopic(t *testing.T) {
	b := streams.NewBuilder()
	from(b, "in").Repartition("r", streams.OnFailure(retry.Parallel(retry.ThenDeadLetter()))).To("out")
	topology, err := b.Build("app", streams.OnFailure(retry.Parallel(retry.ThenDeadLetter())))
	require.NoError(t, err)
	var names []string
	for _, in := range topology.Internal {
		names = append(names, in.Name)
	}
	require.Equal(t, []string{
		"app-in-dlq", "app-in-redrive", "app-in-retry",
		"app-r-repartition", "app-r-repartition-dlq", "app-r-repartition-redrive", "app-r-repartition-retry",
	}, names)
}

func TestPolicyFaults(t *testing.T) {
	processor := func(*streams.Init) textProcessor { return nil }
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
		want  string
	}{
		{"an empty policy", func(b *streams.Builder) { from(b, "in", streams.OnFailure(retry.Policy{})).To("out") },
			`step "source-in": OnFailure has an empty policy`},
		{"a policy with a fault", func(b *streams.Builder) { from(b, "in", streams.OnFailure(retry.Stop(retry.Workers(4)))).To("out") },
			`step "source-in": `},
		{"two policies for one task", func(b *streams.Builder) {
			from(b, "a", streams.OnFailure(retry.Stop())).Merge(from(b, "b", streams.OnFailure(retry.Parallel()))).To("out")
		}, `sources "source-a" and "source-b" name different policies, and one task reads both (topics a, b)`},
		{"upstreams that differ", func(b *streams.Builder) {
			from(b, "a", streams.OnFailure(retry.Parallel())).Repartition("x").Merge(from(b, "b").Repartition("y")).To("out")
		}, "the records of app-x-repartition, app-y-repartition come from subtopologies with different policies (those of a and of b)"},
		{"a grouping without a topic", func(b *streams.Builder) { from(b, "in").GroupByKey(streams.OnFailure(retry.Stop())).Count("c") },
			`the grouping behind step "source-in" makes no repartition topic`},
		{"a processor for one record at a time", func(b *streams.Builder) {
			from(b, "in", streams.OnFailure(retry.Parallel(retry.Workers(2)))).Process("p", processor).To("out")
		}, `processor "p" would run on 2 workers at a time: mark it Concurrent`},
		{"dead letters into the source", func(b *streams.Builder) {
			from(b, "in", streams.OnFailure(retry.Ordered(retry.ThenDeadLetterTo("in")))).To("out")
		}, `topic "in" is to take the dead letters of the records that are read from it`},
		{"two topics for dead letters", func(b *streams.Builder) {
			from(b, "in", streams.OnFailure(retry.Ordered(retry.ThenDeadLetterTo("x"), retry.OnDecode(retry.Ordered(retry.ThenDeadLetterTo("y")))))).To("out")
		}, `the policy of in names several topics for dead letters, ["x" "y"]`},
		{"a store with the name of the retry store", func(b *streams.Builder) {
			from(b, "in", streams.OnFailure(retry.Parallel())).GroupByKey().Count("in-retry")
		}, `store "in-retry" has the name of the store for records that are to be tried again`},
		{"two topics of one name", func(b *streams.Builder) {
			buries := streams.OnFailure(retry.Ordered(retry.ThenDeadLetter()))
			from(b, "in", buries).Repartition("x").To("out")
			from(b, "x-repartition", buries).To("other")
		}, `topic "app-x-repartition-dlq" would be both a dead-letter and a dead-letter topic`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			_, err := b.Build("app")
			require.ErrorContains(t, err, c.want)
		})
	}
	b := streams.NewBuilder()
	from(b, "in", streams.OnFailure(retry.Parallel(retry.Workers(2)))).Process("p", processor, streams.Concurrent()).To("out")
	build(t, b)
	_, err := b.Build("app", streams.OnFailure(retry.Policy{}))
	require.ErrorContains(t, err, "Build: OnFailure has an empty policy")
}

// What a table sends at a commit belongs to no record that could be put aside.
func TestTablesBeforeFallibleStepsEmitPerUpdate(t *testing.T) {
	emissions := func(p retry.Policy) (keeps map[string]bool) {
		b := streams.NewBuilder()
		in := from(b, "in", streams.OnFailure(p))
		in.GroupByKey().Count("plain").ToStream().To("out")
		in.ToTable("before").Filter(func(string, string) bool { return true }).ToStream().TryForEach("fallible", fails)
		keeps = make(map[string]bool)
		for _, s := range build(t, b).Subtopologies[0].Stores {
			keeps[s.Spec.Name] = s.KeepBefore
		}
		return keeps
	}
	require.Equal(t, map[string]bool{"plain": true, "before": true}, emissions(retry.Ordered()))
	require.Equal(t, map[string]bool{"plain": true, "before": false, "in-retry": false}, emissions(retry.KeyOrdered()))
}

func TestConfigChecksItsPolicy(t *testing.T) {
	b := streams.NewBuilder()
	from(b, "in").To("out")
	c := streams.Config{ApplicationID: "a", Brokers: []string{"localhost:1"}}
	app, err := streams.New(b, c)
	require.NoError(t, err)
	require.Equal(t, retry.ModeOrdered, app.Topology().Subtopologies[0].Failure.Settings().Mode, "the default")
	c.OnFailure = retry.KeyOrdered(retry.Backoff(-time.Second, time.Second))
	_, err = streams.New(b, c)
	require.ErrorContains(t, err, "Backoff")
	var e *streams.ConfigError
	require.ErrorAs(t, err, &e)
	require.ErrorContains(t, err, "StateDir is empty", "records that are put aside are state")
}

// scheduling is a processor with a schedule.
type scheduling struct{ clock streams.Clock }

func (s *scheduling) Start(c *streams.Context[string, string]) error {
	c.Schedule(time.Second, s.clock, func(*streams.Context[string, string], time.Time) error { return nil })
	return nil
}

func (s *scheduling) Process(c *streams.Context[string, string], r textRecord) error {
	c.Forward(r)
	return nil
}

func TestSchedulesByStreamTimeAndWorkers(t *testing.T) {
	start := func(clock streams.Clock, workers int) error {
		b := streams.NewBuilder()
		from(b, "in", streams.OnFailure(retry.Parallel(retry.Workers(workers)))).
			Process("p", func(*streams.Init) textProcessor { return &scheduling{clock} }, streams.Concurrent()).To("out")
		_, err := newOwner(build(t, b), 0)
		return err
	}
	require.NoError(t, start(streams.StreamTime, 1))
	require.NoError(t, start(streams.WallClock, 2))
	require.ErrorContains(t, start(streams.StreamTime, 2), `step "p": a schedule by stream time with a policy of several workers`)
}
