package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// drain runs retry drain and reads what it says of the only topic.
func (b *bed) drain(args ...string) (drainedTopic, error) {
	b.t.Helper()
	out, err := b.command(append([]string{"retry", "drain", "-json"}, args...)...)
	var v drainView
	if out != "" {
		require.NoError(b.t, json.Unmarshal([]byte(out), &v))
		require.Len(b.t, v.Topics, 1)
		return *v.Topics[0], err
	}
	return drainedTopic{}, err
}

// dead are the letters of a topic, by value and in order.
func (b *bed) dead(topic string) (values []string, says map[string]retry.Letter, records map[string]task.Record) {
	b.t.Helper()
	got, err := b.client.Consume(b.t.Context(), topic)
	require.NoError(b.t, err)
	says, records = map[string]retry.Letter{}, map[string]task.Record{}
	for _, part := range got {
		for _, r := range part {
			l, _, ok := letterOf(&r)
			require.True(b.t, ok)
			values = append(values, string(r.Value))
			says[string(r.Value)], records[string(r.Value)] = l, r
		}
	}
	return values, says, records
}

// lies says how many records are left in the retry topic.
func (b *bed) lies() (n int) {
	b.t.Helper()
	client := openClient(b.t, b.addrs)
	all, err := outside.Spans(b.t.Context(), client, b.app+"-in-retry")
	require.NoError(b.t, err)
	r := outside.Reader{Client: client}
	for _, s := range all {
		rows, err := r.Parked(b.t.Context(), s, false)
		require.NoError(b.t, err)
		n += len(rows)
	}
	return n
}

func TestDrainMakesDeadLettersOfWhatIsParked(t *testing.T) {
	b := newBed(t)
	b.retries(0,
		parks(retry.Entry{Origin: origin(0, 4), Key: []byte("a"), Seq: 1, Attempt: 3, First: 1_000, Due: 2_000, Class: "*app.NotFound", Node: "lookup", Message: "no customer", Redriven: 2}, "a4"),
		parks(retry.Entry{Origin: origin(0, 5), Key: []byte("a"), Seq: 2, Due: retry.Follows}, "a5"),
		parks(retry.Entry{Origin: origin(0, 6), Key: []byte("b"), Seq: 3}, "done"), unparks(origin(0, 6)),
		parks(retry.Entry{Origin: retry.Origin{Topic: "shop-in-redrive", Offset: 1}, NullKey: true, Root: origin(0, 1)}, "back"),
	)
	v, err := b.drain()
	require.NoError(t, err)
	require.Equal(t, drainedTopic{Topic: "shop-in-retry", To: []string{"shop-in-dlq"}, Drained: 3}, v)
	require.Equal(t, 3, b.lies(), "without -apply nothing is written")
	values, _, _ := b.dead("shop-in-dlq")
	require.Empty(t, values)

	v, err = b.drain("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(3), v.Drained)
	require.Zero(t, b.lies())
	values, says, records := b.dead("shop-in-dlq")
	require.ElementsMatch(t, []string{"a4", "a5", "back"}, values)
	require.Less(t, strings.Index(strings.Join(values, " "), "a4"), strings.Index(strings.Join(values, " "), "a5"), "the order of a key")
	require.Equal(t, retry.Letter{
		Origin: origin(0, 4), Exception: "*app.NotFound", Message: "no customer", Attempts: 3, First: 1_000, Class: "drained", Node: "lookup", Redriven: 2,
	}, says["a4"])
	require.Equal(t, "a", string(records["a4"].Key))
	require.Nil(t, records["back"].Key)
	require.Equal(t, origin(0, 1), says["back"].Origin, "of the record that was redriven, not of the redrive")

	v, err = b.drain("-apply")
	require.NoError(t, err)
	require.Zero(t, v.Drained, "nothing is left")
}

func TestDrainOfRowsThatCannotBeRead(t *testing.T) {
	b := newBed(t)
	damaged := parks(retry.Entry{Origin: origin(0, 1), Key: []byte("a")}, "lost")
	damaged[0].Value[len(damaged[0].Value)-1] ^= 0xff
	half := parks(retry.Entry{Origin: origin(0, 3), Key: []byte("c")}, "done")[:1]
	b.retries(0, damaged, half)
	v, err := b.drain("-apply")
	require.NoError(t, err)
	require.Equal(t, drainedTopic{Topic: "shop-in-retry", To: []string{"shop-in-dlq"}, Drained: 1, Unreadable: 1, Done: 1}, v)
	require.Zero(t, b.lies())
	_, says, records := b.dead("shop-in-dlq")
	require.Equal(t, "envelope", says["lost"].Class, "its key is, and its value is not")
	require.Equal(t, damaged[0].Key, records["lost"].Key)
}

// What is left of a run that was cut off between the letters and the deletions is drained again: twice there, never lost.
func TestRegressionDrainThatIsCutOffIsResumed(t *testing.T) {
	b := newBed(t)
	rows := parks(retry.Entry{Origin: origin(1, 7), Key: []byte("a")}, "a7")
	b.retries(1, rows, parks(retry.Entry{Origin: origin(1, 8), Key: []byte("a")}, "a8"))
	b.retries(1, []task.OutRecord{{Key: rows[1].Key}}) // the payload's deletion, and not the entry's
	v, err := b.drain("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Drained)
	require.Equal(t, int64(1), v.Done)
	require.Zero(t, b.lies())
	values, _, _ := b.dead("shop-in-dlq")
	require.Equal(t, []string{"a8"}, values)
}

func TestDrainOfOneTopicOfSeveral(t *testing.T) {
	b := newBed(t)
	b.retries(0, parks(retry.Entry{Origin: origin(0, 1), Key: []byte("a")}, "a1"), parks(retry.Entry{Origin: retry.Origin{Topic: "gone", Offset: 1}, Key: []byte("a")}, "g1"))
	v, err := b.drain("-apply", "-topic-of-record", "gone")
	require.NoError(t, err)
	require.Equal(t, drainedTopic{Topic: "shop-in-retry", To: []string{"shop-gone-dlq"}, Drained: 1, LeftOut: 1}, v)
	values, _, _ := b.dead("shop-gone-dlq")
	require.Equal(t, []string{"g1"}, values, "the topic is made")
	require.Equal(t, 1, b.lies())
}

// One record whose dead letter is too large stays where it is; all others are drained.
func TestRegressionDrainOfARecordThatIsTooLarge(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.CreateTopic(t.Context(), "small", 1, map[string]string{"max.message.bytes": "2000"}))
	b.retries(0, parks(retry.Entry{Origin: origin(0, 1), Key: []byte("a")}, "a1"), parks(retry.Entry{Origin: origin(0, 2), Key: []byte("a")}, strings.Repeat("x", 5000)))
	v, err := b.drain("-apply", "-topic", "small")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Drained)
	require.Equal(t, int64(1), v.Refused)
	require.Contains(t, v.Why, "takes no such record")
	require.Equal(t, 1, b.lies())
}

func TestDrainBesideARunningApplication(t *testing.T) {
	b := newBed(t)
	b.retries(0, parks(retry.Entry{Origin: origin(0, 1), Key: []byte("a")}, "a1"))
	joins(t, b.addrs, b.app, 1)
	isStable(t, b.addrs, b.app)
	_, err := b.drain("-apply")
	require.ErrorContains(t, err, "stop them all first")
	require.Equal(t, 1, b.lies())
}

// The retry topic of application "shop-in" would be that of a source of application "shop".
func TestRegressionDrainLeavesTheTopicsOfOthers(t *testing.T) {
	s, err := broker.Start(broker.Options{Topics: map[string]int32{"shop-v2-in-retry": 1, "in": 1}})
	require.NoError(t, err)
	t.Cleanup(s.Close)
	b := bedOn(t, s.Addrs(), "shop")
	require.NoError(t, b.client.Produce(t.Context(), task.TopicPartition{Topic: "shop-v2-in-retry"}, parks(retry.Entry{Origin: origin(0, 1), Key: []byte("a")}, "a1")...))
	group := outside.GroupOffsets{Client: openClient(t, b.addrs), Group: "shop-v2"}
	t.Cleanup(group.Close)
	require.NoError(t, group.Commit(t.Context(), []task.InputOffset{{TopicPartition: task.TopicPartition{Topic: "in"}, Offset: 2}}))
	_, err = b.drain("-apply")
	require.ErrorContains(t, err, `a topic of application "shop-v2"`)
}
