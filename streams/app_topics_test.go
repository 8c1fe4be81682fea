package streams_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/internal/shell"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// impatient lets an application look at its topics often and wait for missing ones not long.
func impatient(c *shell.Config) {
	c.Engine.MissingFor, c.Engine.RefreshEvery, c.Sender.UnknownFor = 400*time.Millisecond, 200*time.Millisecond, 400*time.Millisecond
}

// soon fails a test whose application ended for the right reason, but late.
func soon(t *testing.T) {
	began := time.Now()
	t.Cleanup(func() { require.Less(t, time.Since(began), 10*time.Second, "it ends soon") })
}

func TestAppMissingTopics(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		there, missing := b.topic("there", 1), b.name("missing")
		for name, build := range map[string]*streams.Builder{"source": copyTopic(missing, there), "sink": copyTopic(there, missing)} {
			var me *streams.MissingTopicError
			err := b.run(build, b.config(name)).fails()
			require.ErrorAs(t, err, &me)
			require.Equal(t, streams.MissingTopicError{Topic: missing}, *me)
			require.ErrorContains(t, err, fmt.Sprintf("topic %q does not exist: create it", missing))
			require.Zero(t, b.partitions(missing), "it is not created")
		}
	})
}

func TestAppInternalTopicsAreMadeAsTheTopologySays(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 3), b.topic("out", 1)
		r := b.run(countWords(in, to), b.config("made"))
		r.ready()
		internal := r.app.Topology().Internal
		require.Len(t, internal, 2)
		for _, topic := range internal {
			require.Equal(t, 3, b.partitions(topic.Name))
			have := b.configs(topic.Name)
			for key, want := range topic.Configs {
				require.Equal(t, want, have[key], "%s of %s", key, topic.Name)
			}
		}
		require.NoError(t, r.end())
		r = b.run(countWords(in, to), b.config("made"))
		r.ready()
		require.NoError(t, r.end(), "what it made itself fits")
	})
}

func TestAppInternalTopicThatDoesNotFit(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		in, to := b.topic("in", 2), b.topic("out", 1)
		for _, c := range []struct {
			name, topic string
			partitions  int32
			configs     map[string]string
			tweak       func(*streams.Config)
			want        streams.InternalTopicError
			remedy      string
		}{
			{name: "policy", topic: "changelog", partitions: 2, configs: map[string]string{"cleanup.policy": "delete"},
				want: streams.InternalTopicError{Kind: streams.ChangelogTopic, What: "cleanup.policy", Have: "delete", Want: "compact"}, remedy: "--add-config cleanup.policy=compact"},
			{name: "narrow", topic: "changelog", partitions: 1, configs: map[string]string{"cleanup.policy": "compact"},
				want: streams.InternalTopicError{Kind: streams.ChangelogTopic, What: "partitions", Have: "1", Want: "2"}, remedy: "delete the internal topics"},
			{name: "wide", topic: "repartition", partitions: 3, configs: noRetention,
				want: streams.InternalTopicError{Kind: streams.RepartitionTopic, What: "partitions", Have: "3", Want: "2"}, remedy: "another application id"},
			{name: "retention", topic: "repartition", partitions: 2, configs: map[string]string{"retention.ms": "604800000"},
				want: streams.InternalTopicError{Kind: streams.RepartitionTopic, What: "retention.ms", Have: "604800000", Want: "-1"}, remedy: "--add-config retention.ms=-1"},
			{name: "small", topic: "changelog", partitions: 2, configs: map[string]string{"cleanup.policy": "compact", "max.message.bytes": "2000000"},
				tweak: func(c *streams.Config) { c.MaxRecordBytes = 3_000_000 },
				want:  streams.InternalTopicError{Kind: streams.ChangelogTopic, What: "max.message.bytes", Have: "2000000", Want: "3065536"}, remedy: "--add-config max.message.bytes=3065536"},
		} {
			topic := b.topicWith(c.name+"-word-counts-"+c.topic, c.partitions, c.configs)
			config := b.config(c.name)
			if c.tweak != nil {
				c.tweak(&config)
			}
			var ie *streams.InternalTopicError
			err := b.run(countWords(in, to), config).fails()
			require.ErrorAs(t, err, &ie, c.name)
			c.want.Topic = topic
			require.Equal(t, c.want, *ie)
			require.ErrorContains(t, err, topic)
			require.ErrorContains(t, err, c.remedy)
		}
	})
}

func TestAppTopicsWhoseRecordsMeetMustHaveEqualPartitions(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		left, right, to := b.topic("left", 2), b.topic("right", 3), b.topic("out", 1)
		store := streams.NewStore("both", serde.String, serde.String)
		sb := streams.NewBuilder()
		for _, in := range []string{left, right} {
			sb.Stream(in, serde.String, serde.String).Process("of-"+in, func(i *streams.Init) streams.Processor[string, string, string, string] {
				rows := store.Open(i)
				return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
					rows.Put(r.Key, r.Value)
					c.Forward(r)
					return nil
				})
			}, streams.WithStores(store)).To(to)
		}
		var te *streams.TopologyError
		err := b.run(sb, b.config("uneven")).fails()
		require.ErrorAs(t, err, &te)
		require.ErrorContains(t, err, "not co-partitioned")
		require.ErrorContains(t, err, left+" has 2")
		require.ErrorContains(t, err, right+" has 3")
		require.Zero(t, b.partitions(b.name("uneven-both-changelog")), "nothing is made before everything is checked")
	})
}

func TestAppSourceTopicDeletedWhileItRuns(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		in, to := b.topic("in", 1), b.topic("out", 1)
		r := b.run(countWords(in, to), b.config("deleted"), impatient)
		b.values(in, 0, "a b")
		r.until("the counts", func() bool { return len(b.counts(to)) == 2 })
		require.NoError(t, b.client.DeleteTopic(b.ctx(), in))
		var me *streams.MissingTopicError
		err := r.fails()
		require.ErrorAs(t, err, &me)
		require.Equal(t, in, me.Topic)
		require.ErrorContains(t, err, "was deleted while the application ran")
		require.Zero(t, b.partitions(in), "it is not created again")
	})
}

// Topics of the application itself are not made again either: their records are gone.
func TestAppInternalTopicDeletedWhileItRuns(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		for _, kind := range []string{"changelog", "repartition"} {
			in, to := b.topic("in-"+kind, 1), b.topic("out-"+kind, 1)
			r := b.run(countWords(in, to), b.config(kind), impatient)
			b.values(in, 0, "a b")
			r.until("the counts", func() bool { return len(b.counts(to)) == 2 })
			topic := b.name(kind + "-word-counts-" + kind)
			require.NoError(t, b.client.DeleteTopic(b.ctx(), topic))
			err := r.fails()
			var me *streams.MissingTopicError
			require.ErrorAs(t, err, &me)
			require.Equal(t, topic, me.Topic)
			require.Zero(t, b.partitions(topic), "it is not created again")
		}
	})
}

func TestAppTopicsThatAreChosenByRecord(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		in, even, odd := b.topic("in", 1), b.topic("even", 2), b.topic("odd", 1)
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.String).ToTopic(func(_, v string) string {
			switch {
			case v == "elsewhere":
				return b.name("missing")
			case len(v)%2 == 0:
				return even
			}
			return odd
		})
		b.values(in, 0, "ab", "abc", "elsewhere", "a")
		var re *streams.RecordError
		err := b.run(sb, b.config("chosen")).fails()
		require.ErrorAs(t, err, &re)
		require.Equal(t, streams.KindProduce, re.Kind)
		require.EqualValues(t, 2, re.Offset)
		require.ErrorContains(t, err, b.name("missing"))
		require.EqualValues(t, 2, b.committedAt("chosen", in, 0))
		require.Len(t, b.all(even), 1)
		require.Len(t, b.all(odd), 1)
		require.Zero(t, b.partitions(b.name("missing")))
	})
}

func TestAppSinkTopicDeletedWhileItRuns(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		in, to := b.topic("in", 1), b.topic("out", 1)
		r := b.run(copyTopic(in, to), b.config("deleted"), impatient)
		b.values(in, 0, "a")
		r.until("a commit", func() bool { return b.committedAt("deleted", in, 0) == 1 })
		require.NoError(t, b.client.DeleteTopic(b.ctx(), to))
		b.values(in, 0, "b")
		var pe *streams.ProduceError
		err := r.fails()
		require.ErrorAs(t, err, &pe)
		require.ErrorIs(t, err, kcode.UnknownTopicOrPartition)
		require.Equal(t, to, pe.To.Topic)
		require.EqualValues(t, 1, b.committedAt("deleted", in, 0), "nothing is committed that was not written")
		require.Zero(t, b.partitions(to), "it is not created again")
	})
}

// Records that come to a new partition before anybody has noticed it are read, also by an application that begins at the end.
func TestAppNewPartitionsAreReadFromTheirBeginning(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		c := b.config("grows")
		c.NoOffset = streams.ResetLatest
		b.values(in, 0, "before the application")
		r := b.run(copyTopic(in, to), c, impatient)
		r.ready()
		r.until("its position", func() bool {
			b.values(in, 0, "after")
			return len(b.all(to)) > 0
		})
		b.grow(in, 3)
		for p := range int32(2) {
			b.values(in, p+1, "early", "too")
		}
		count := func(value string) (n int) {
			for _, rec := range b.all(to) {
				if string(rec.Value) == value {
					n++
				}
			}
			return n
		}
		r.until("all of the new partitions", func() bool { return count("too") == 2 })
		require.NoError(t, r.end())
		require.Equal(t, 2, count("early"))
		require.Zero(t, count("before the application"))
	})
}

func TestAppTopicsThatGrowBeyondTheInternalOnes(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		for name, c := range map[string]struct {
			grow func(in string) string
			want streams.InternalTopicError
		}{
			"source":    {func(in string) string { return in }, streams.InternalTopicError{Topic: "changelog", Kind: streams.ChangelogTopic, What: "partitions", Have: "1", Want: "2"}},
			"changelog": {func(string) string { return b.name("changelog-word-counts-changelog") }, streams.InternalTopicError{Topic: "changelog", Kind: streams.ChangelogTopic, What: "partitions", Have: "2", Want: "1"}},
		} {
			in, to := b.topic("in-"+name, 1), b.topic("out-"+name, 1)
			r := b.run(countWords(in, to), b.config(name), impatient)
			b.values(in, 0, "a b")
			r.until("the counts", func() bool { return len(b.counts(to)) == 2 })
			b.grow(c.grow(in), 2)
			var ie *streams.InternalTopicError
			require.ErrorAs(t, r.fails(), &ie)
			c.want.Topic = b.name(name + "-word-counts-" + c.want.Topic)
			require.Equal(t, c.want, *ie)
		}
	})
}

func TestAppRepartitionTopicsArePurgedBelowCommittedOffsets(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		r := b.run(countWords(in, to), b.config("purge"), func(c *shell.Config) { c.Engine.PurgeEvery = 100 * time.Millisecond })
		b.values(in, 0, strings.Repeat("a b c ", 50))
		repartition := b.name("purge-word-counts-repartition")
		r.ready()
		r.until("a purge of what is committed", func() bool { return b.begins(repartition)[0] == 150 })
		require.EqualValues(t, 150, b.committedAt("purge", repartition, 0))
		require.Equal(t, map[string]int64{"a": 50, "b": 50, "c": 50}, b.counts(to))
		b.values(in, 0, "a")
		r.until("the next count", func() bool { return b.counts(to)["a"] == 51 })
		require.NoError(t, r.end())
		require.Zero(t, b.begins(b.name("purge-word-counts-changelog"))[0])
		require.Zero(t, b.begins(in)[0])
	})
}
