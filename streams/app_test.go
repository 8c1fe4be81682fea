package streams_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

func TestAppCountsWordsAndGoesOnWhereItStopped(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 3)
		c := b.config("count")
		b.values(in, 0, "to be or not to be")
		b.values(in, 1, "that is the question")
		r := b.run(countWords(in, out), c)
		r.until("the first counts", func() bool { n := b.counts(out); return n["be"] == 2 && n["question"] == 1 })
		require.NoError(t, r.end())
		before := len(b.all(out))

		r = b.run(countWords(in, out), c)
		r.ready()
		b.values(in, 0, "be it")
		r.until("the later counts", func() bool { n := b.counts(out); return n["be"] == 3 && n["it"] == 1 })
		require.NoError(t, r.end())
		require.Len(t, b.all(out), before+2, "nothing was read again")
		require.Equal(t, map[string]int64{"to": 2, "be": 3, "or": 1, "not": 1, "that": 1, "is": 1, "the": 1, "question": 1, "it": 1}, b.counts(out))
	})
}

func TestAppRestoresFromTheChangelog(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		c := b.config("count")
		b.values(in, 0, "a b a", "b c")
		r := b.run(countWords(in, out), c)
		r.until("the first counts", func() bool { return b.counts(out)["c"] == 1 })
		require.NoError(t, r.end())

		c.StateDir = t.TempDir() // another host
		restored := map[bool]int64{}
		c.Listener.Restore = func(p streams.RestoreProgress) { restored[p.Done] += p.Records }
		r = b.run(countWords(in, out), c)
		r.ready()
		b.values(in, 0, "a a c")
		r.until("the later counts", func() bool { return b.counts(out)["c"] == 2 })
		require.NoError(t, r.end())
		require.Equal(t, map[string]int64{"a": 4, "b": 2, "c": 2}, b.counts(out))
		require.Positive(t, restored[true])
	})
}

func TestAppRestartRestoresNothingThatIsOnDisk(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	c := b.config("count")
	b.values(in, 0, "a b a", "b c")
	r := b.run(countWords(in, out), c)
	r.until("the counts", func() bool { return b.counts(out)["c"] == 1 })
	require.NoError(t, r.end())
	c.Listener.Restore = func(p streams.RestoreProgress) { t.Errorf("restored %+v", p) }
	r = b.run(countWords(in, out), c)
	r.ready()
	require.NoError(t, r.end())
}

func TestAppStopsAtAFailedRecordAndCommitsWhatIsBeforeIt(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		bad := errors.New("bad luck")
		builder := func(fail func(v string) error) *streams.Builder {
			sb := streams.NewBuilder()
			sb.Stream(in, serde.String, serde.String).
				TryMapValues("check", func(_ ctxType, r streams.Record[string, string]) (string, error) { return r.Value, fail(r.Value) }).
				To(out)
			return sb
		}
		b.values(in, 0, "one", "two", "three", "four")
		r := b.run(builder(func(v string) error {
			if v == "three" {
				return bad
			}
			return nil
		}), b.config("try"))
		err := r.fails()
		var re *streams.RecordError
		require.ErrorAs(t, err, &re)
		require.ErrorIs(t, err, bad)
		require.Equal(t, in, re.Topic)
		require.Equal(t, int64(2), re.Offset)
		require.Equal(t, int64(2), b.committed(b.name("try"))[task.TopicPartition{Topic: in}], "what precedes it is committed, nothing past it")
		require.Len(t, b.all(out), 2)

		r = b.run(builder(func(string) error { return nil }), b.config("try"))
		r.until("all of them", func() bool { return len(b.all(out)) == 4 })
		require.NoError(t, r.end())
	})
}

func TestAppPanicBecomesAnErrorWithItsStack(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	sb := streams.NewBuilder()
	sb.Stream(in, serde.String, serde.String).MapValues(func(v string) string { return v[:3] }).To(out)
	b.values(in, 0, "fine", "x")
	var re *streams.RecordError
	require.ErrorAs(t, b.run(sb, b.config("panic")).fails(), &re)
	require.Equal(t, streams.KindPanic, re.Kind)
	require.Equal(t, int64(1), re.Offset)
	require.Contains(t, string(re.Stack), "app_test.go")
}
