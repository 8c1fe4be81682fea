package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

func ofPattern(b *streams.Builder, name string, topics streams.TopicPattern, opts ...streams.SourceOption) text {
	return b.StreamPattern(name, topics, serde.String, serde.String, opts...)
}

func TestFaultsOfPatterns(t *testing.T) {
	for _, c := range []struct {
		name string
		add  func(*streams.Builder)
		want string
	}{
		{"no pattern", func(b *streams.Builder) { ofPattern(b, "p", streams.Matching()).To("out") }, `source "p": there is no pattern`},
		{"no regular expression", func(b *streams.Builder) { ofPattern(b, "p", streams.Matching("a(")).To("out") }, `the include pattern "a(" is no Go regular expression`},
		{"nor that", func(b *streams.Builder) { ofPattern(b, "p", streams.Matching("a").Except("[")).To("out") }, `the exclude pattern "[" is no Go regular expression`},
		{"no name", func(b *streams.Builder) { ofPattern(b, "", streams.Matching("a")).To("out") }, "name of a StreamPattern"},
		{"one name twice", func(b *streams.Builder) {
			ofPattern(b, "p", streams.Matching("a")).To("out")
			ofPattern(b, "p", streams.Matching("b")).To("out")
		}, `two sources that read a pattern have the name "p"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.add(b)
			_, err := b.Build("app")
			var faults *streams.TopologyError
			require.ErrorAs(t, err, &faults)
			require.ErrorContains(t, err, c.want)
		})
	}
}

func TestTopicsThatPatternsMatch(t *testing.T) {
	b := streams.NewBuilder()
	ofPattern(b, "all", streams.Matching(".*").Except("x.*")).To("out")
	ofPattern(b, "some", streams.Matching("x1", "y.*")).To("out")
	b.Stream("named", serde.String, serde.String).To("out")
	first, err := b.Build("app")
	require.NoError(t, err)
	require.Equal(t, []string{"named"}, first.Sources)
	same, err := first.Match([]string{"named", "out", "__consumer_offsets", "app-all-dlq", "other-n-changelog"})
	require.NoError(t, err)
	require.Same(t, first, same, "those are named, or internal")

	next, err := first.Match([]string{"b", "a", "x1", "x2"})
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b", "named", "x1"}, next.Sources)
	require.Equal(t, []string{"named"}, first.Sources, "what there was is not changed")
	again, err := next.Match([]string{"x1", "b", "a"})
	require.NoError(t, err)
	require.Same(t, next, again)
	less, err := next.Match([]string{"a", "b"})
	require.NoError(t, err)
	require.Len(t, less.Subtopologies, len(first.Subtopologies))
	var kept int
	for i := range less.Subtopologies {
		require.Equal(t, first.Subtopologies[i].Source, less.Subtopologies[i].Source, "subtopologies keep their numbers")
		if less.Subtopologies[i] == next.Subtopologies[i] {
			kept++
		}
	}
	require.Equal(t, 2, kept, "only the one whose topics have changed is another")

	_, err = next.Match([]string{"y"})
	var faults *streams.TopologyError
	require.ErrorAs(t, err, &faults)
	require.ErrorContains(t, err, `topic "y" matches the patterns of both "all" and "some", which are not processed together: leave it out of one, with Except("y")`)
}

// A subtopology that reads nothing yet is named by its source.
func TestRecoveryOfAPatternThatIsRefused(t *testing.T) {
	b := streams.NewBuilder()
	ofPattern(b, "orders", streams.Matching("x.*"), streams.RecoverParallel, streams.OnFailure(retry.Ordered())).To("out")
	err := recoveryOf(streams.Config{}, b)
	var refused *streams.RecoveryError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, []string{"orders"}, refused.Topics)
	require.Contains(t, refused.Remedy, "give the source of orders RecoverSerial")
}
