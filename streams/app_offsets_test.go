package streams_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Records that are gone before they were read: the application stops by default, and goes on where it is told to, never without a word.
func TestAppOffsetOutOfRange(t *testing.T) {
	onBrokersInTurn(t, func(t *testing.T, b *bed) {
		soon(t)
		tooFar := errors.New("too far")
		for name, c := range map[string]struct {
			policy streams.Reset
			to     int64
			want   []string
		}{
			"default":  {policy: streams.ResetDefault},
			"stop":     {policy: streams.ResetStop},
			"earliest": {streams.ResetEarliest, 8, []string{"v8", "v9", "last"}},
			"latest":   {streams.ResetLatest, 10, []string{"last"}},
		} {
			in, to := b.topic("in-"+name, 1), b.topic("out-"+name, 1)
			for i := range 10 {
				b.values(in, 0, fmt.Sprint("v", i))
			}
			build := func(limit string) *streams.Builder {
				sb := streams.NewBuilder()
				sb.Stream(in, serde.String, serde.String).TryMapValues("limit", func(_ ctxType, r streams.Record[string, string]) (string, error) {
					if r.Value == limit {
						return "", tooFar
					}
					return r.Value, nil
				}).To(to)
				return sb
			}
			config := b.config(name)
			require.ErrorIs(t, b.run(build("v5"), config).fails(), tooFar)
			require.EqualValues(t, 5, b.committedAt(name, in, 0))
			b.deleteBelow(in, 0, 8)

			type move struct {
				topic     string
				partition int32
				from, to  int64
			}
			var moves []move
			told := make(chan struct{}, 10)
			config.OutOfRange = c.policy
			config.Listener.Reset = func(topic string, partition int32, from, to int64) {
				moves = append(moves, move{topic, partition, from, to})
				told <- struct{}{}
			}
			r := b.run(build(""), config)
			if c.want == nil {
				var oe *streams.OffsetOutOfRangeError
				err := r.fails()
				require.ErrorAs(t, err, &oe)
				require.Equal(t, streams.OffsetOutOfRangeError{Part: task.TopicPartition{Topic: in}, Offset: 5, Earliest: 8, End: 10}, *oe)
				require.ErrorContains(t, err, "8 to 10")
				require.ErrorContains(t, err, "Config.OutOfRange")
				require.EqualValues(t, 5, b.committedAt(name, in, 0))
				require.Empty(t, moves)
				continue
			}
			select { // the Listener's calls come on one goroutine, before anything is read
			case <-told:
			case err := <-r.done:
				require.Fail(t, "it has ended", "%v", err)
			}
			b.values(in, 0, "last")
			r.until("the rest", func() bool { return len(b.all(to)) == 5+len(c.want) })
			require.NoError(t, r.end())
			var got []string
			for _, rec := range b.all(to)[5:] {
				got = append(got, string(rec.Value))
			}
			require.Equal(t, c.want, got)
			require.Equal(t, []move{{in, 0, 5, c.to}}, moves)
			require.EqualValues(t, 11, b.committedAt(name, in, 0))
		}
	})
}

func TestAppNothingCommittedAndNoReset(t *testing.T) {
	t.Parallel()
	b := embeddedBed(t)
	in, to := b.topic("in", 1), b.topic("out", 1)
	b.values(in, 0, "a", "b")
	c := b.config("nothing")
	c.NoOffset = streams.ResetStop
	var oe *streams.OffsetOutOfRangeError
	require.ErrorAs(t, b.run(copyTopic(in, to), c).fails(), &oe)
	require.Equal(t, streams.OffsetOutOfRangeError{Part: task.TopicPartition{Topic: in}, Offset: -1, End: 2}, *oe)
	require.ErrorContains(t, oe, "NoOffset")
}

// What was committed may lie beyond the end of a log that was cut off: its offsets belong to other records now, and these are not taken for done.
func TestAppGoesOnInALogThatWasCutOff(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		for policy, want := range map[streams.Reset][]string{streams.ResetEarliest: {"a", "b", "c", "last"}, streams.ResetLatest: {"last"}} {
			app := fmt.Sprint("cut-off-", policy)
			in, to := b.topic("in-"+app, 1), b.topic("out-"+app, 1)
			b.values(in, 0, "a", "b", "c")
			b.leftBehind(app, in, 0, 50)
			config := b.config(app)
			config.OutOfRange = policy
			told := make(chan int64, 10)
			config.Listener.Reset = func(_ string, _ int32, from, to int64) { told <- to }
			r := b.run(copyTopic(in, to), config)
			select {
			case at := <-told:
				require.EqualValues(t, 3-(len(want)-1), at)
			case err := <-r.done:
				require.Fail(t, "it has ended", "%v", err)
			}
			b.values(in, 0, "last")
			r.until("all", func() bool { return len(b.all(to)) == len(want) })
			require.NoError(t, r.end())
			var got []string
			for _, rec := range b.all(to) {
				got = append(got, string(rec.Value))
			}
			require.Equal(t, want, got)
			require.EqualValues(t, 4, b.committedAt(app, in, 0))
		}
	})
}
