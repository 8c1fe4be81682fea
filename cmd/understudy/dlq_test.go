package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/broker"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// bed is an application's topics, on the embedded broker.
type bed struct {
	t      *testing.T
	broker *broker.Broker // nil on a real one
	addrs  []string
	client *broker.Client
	app    string
}

// newBed makes them for a source "in" with three partitions.
func newBed(t *testing.T) *bed {
	b, err := broker.Start(broker.Options{Topics: map[string]int32{"shop-in-dlq": 3, "shop-in-redrive": 3, "shop-in-retry": 3}})
	require.NoError(t, err)
	t.Cleanup(b.Close)
	made := bedOn(t, b.Addrs(), "shop")
	made.broker = b
	return made
}

func bedOn(t *testing.T, addrs []string, app string) *bed {
	c, err := broker.NewClient(addrs)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return &bed{t: t, addrs: addrs, client: c, app: app}
}

// origin is a record of the source.
func origin(partition int32, offset int64) retry.Origin {
	return retry.Origin{Topic: "in", Partition: partition, Offset: offset}
}

// died appends dead letters to a partition of the dead-letter topic.
func (b *bed) died(partition int32, records ...task.OutRecord) {
	b.t.Helper()
	require.NoError(b.t, b.client.Produce(b.t.Context(), task.TopicPartition{Topic: b.app + "-in-dlq", Partition: partition}, records...))
}

// letter is the record of a dead letter.
func letter(l retry.Letter, key, value string, original ...retry.Header) task.OutRecord {
	if l.Class == "" {
		l.Class = "*app.NotFound"
	}
	if l.Node == "" {
		l.Node = "lookup"
	}
	if l.First == 0 {
		l.First = 1_000_000
	}
	out := task.OutRecord{Key: []byte(key), Value: []byte(value), Timestamp: 5_000}
	for _, h := range l.AppendHeaders(nil, original) {
		out.Headers = append(out.Headers, task.Header{Key: h.Key, Value: h.Value})
	}
	return out
}

// many are n letters of records of one partition.
func many(n int, partition int32, key string) (out []task.OutRecord) {
	for i := range n {
		out = append(out, letter(retry.Letter{Origin: origin(partition, int64(i))}, key, fmt.Sprint(i)))
	}
	return out
}

// command runs a command on the bed's application.
func (b *bed) command(args ...string) (string, error) {
	b.t.Helper()
	out, _, err := command(b.t, append(args, "-brokers", b.addrs[0], "-app", b.app)...)
	return out, err
}

// redrive runs dlq redrive and reads what it says.
func (b *bed) redrive(args ...string) (v redriveView, err error) {
	b.t.Helper()
	out, err := b.command(append([]string{"dlq", "redrive", "-json"}, args...)...)
	if err == nil {
		require.NoError(b.t, json.Unmarshal([]byte(out), &v))
	}
	return v, err
}

// back are the values that came back to the application, by partition.
func (b *bed) back() map[int32][]string {
	b.t.Helper()
	got, err := b.client.Consume(b.t.Context(), b.app+"-in-redrive")
	require.NoError(b.t, err)
	out := map[int32][]string{}
	for p, records := range got {
		for _, r := range records {
			out[p] = append(out[p], string(r.Value))
		}
	}
	return out
}

func (b *bed) count() (n int) {
	b.t.Helper()
	for _, values := range b.back() {
		n += len(values)
	}
	return n
}

func TestDLQList(t *testing.T) {
	b := newBed(t)
	b.died(0, letter(retry.Letter{Origin: origin(0, 4), First: 1_000}, "a", "1"), letter(retry.Letter{Origin: origin(0, 5), First: 9_000}, "a", "2"))
	b.died(2, letter(retry.Letter{Origin: origin(1, 4), First: 500, Class: "panic", Node: "sum"}, "b", "3"), task.OutRecord{Value: []byte("no letter")})
	out, err := b.command("dlq", "list", "-json")
	require.NoError(t, err)
	var v listView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, []*kindView{
		{Topic: "shop-in-dlq", Class: "*app.NotFound", Node: "lookup", Letters: 2, Bytes: 4, First: 1_000, Last: 9_000},
		{Topic: "shop-in-dlq", Letters: 1, Bytes: 9, First: -1, Last: -1},
		{Topic: "shop-in-dlq", Class: "panic", Node: "sum", Letters: 1, Bytes: 2, First: 500, Last: 500},
	}, v.Kinds)

	_, err = b.redrive("-apply", "-class", "panic")
	require.NoError(t, err)
	out, err = b.command("dlq", "list")
	require.NoError(t, err)
	golden(t, "dlq_list.txt", out)

	_, err = b.command("dlq", "list", "-source", "out")
	require.ErrorContains(t, err, "no topic shop-out-dlq")
	b.app = "bakery"
	_, err = b.command("dlq", "list")
	require.ErrorContains(t, err, "no topic bakery-*-dlq")
}

func TestDLQListOfTopicThatThePolicyNames(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.CreateTopic(t.Context(), "graveyard", 1, nil))
	out, err := b.command("dlq", "list", "-topic", "graveyard")
	require.NoError(t, err)
	require.Equal(t, "No dead letters.\n", out)
	_, err = b.command("dlq", "list", "-topic", "nowhere")
	require.ErrorContains(t, err, `there is no topic "nowhere"`)
}

// Whoever can write to the topic must not be able to fill the memory of who looks, nor to move the cursor.
func TestRegressionForgedClassesAreBoundedAndEscaped(t *testing.T) {
	b := newBed(t)
	var forged []task.OutRecord
	for i := range maxKinds + 50 {
		forged = append(forged, letter(retry.Letter{Origin: origin(0, 1), Class: fmt.Sprintf("\x1b[2J%d", i)}, "k", "v"))
	}
	b.died(0, forged...)
	out, err := b.command("dlq", "list")
	require.NoError(t, err)
	require.NotContains(t, out, "\x1b")
	require.Contains(t, out, "(others)")
	require.LessOrEqual(t, strings.Count(out, "\n"), maxKinds+2)
}

func TestDLQShow(t *testing.T) {
	b := newBed(t)
	_, err := b.command("dlq", "show")
	require.ErrorContains(t, err, "has no letters")
	b.died(1, letter(retry.Letter{Origin: origin(0, 4)}, "a", "first"),
		letter(retry.Letter{
			Origin: origin(2, 77), Exception: "*app.NotFound", Message: "no customer 5\nof that name", Stack: "main.lookup\n\tmain.go:5", Task: "0_2",
			Attempts: 10, Redriven: 2, Root: retry.Origin{Topic: "orders", Partition: 3, Offset: 9},
		}, "customer-5", `{"id": 5}`, retry.Header{Key: "trace", Value: []byte("abc")}, retry.Header{Key: "bin", Value: []byte{0xff, 0}}, retry.Header{Key: "none"}))
	out, err := b.command("dlq", "show", "-partition", "1", "-offset", "1")
	require.NoError(t, err)
	golden(t, "dlq_show.txt", out)
	out, err = b.command("dlq", "show", "-partition", "1", "-offset", "1", "-as", "hex", "-bytes", "4")
	require.NoError(t, err)
	require.Contains(t, out, "key  10 bytes, the first 4 are\n00000000  63 75 73 74")
	out, err = b.command("dlq", "show", "-json")
	require.NoError(t, err)
	var v letterView
	require.NoError(t, json.Unmarshal([]byte(out), &v))
	require.Equal(t, "first", v.Value.Text)
	require.Equal(t, originViewOf(origin(0, 4)), v.Letter.Record)
	_, err = b.command("dlq", "show", "-partition", "1", "-offset", "2")
	require.ErrorContains(t, err, "has no letter at offset 2 or above")
	_, err = b.command("dlq", "show", "-partition", "9")
	require.ErrorContains(t, err, "3 partitions, and no number 9")
}

func TestRedrive(t *testing.T) {
	b := newBed(t)
	b.died(0, many(3, 2, "a")...)
	b.died(1, many(2, 0, "b")...)
	out, err := b.command("dlq", "redrive")
	require.NoError(t, err)
	golden(t, "redrive_dry.txt", out)
	require.Zero(t, b.count(), "nothing is written without -apply")

	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, redriveView{App: "shop", Topic: "shop-in-dlq", To: "shop-in-redrive", Group: "shop-redrive", Applied: true, Letters: 5, Sent: 5}, v)
	require.Equal(t, map[int32][]string{0: {"0", "1"}, 2: {"0", "1", "2"}}, b.back(), "each into the partition of its record, in order")

	b.died(1, many(1, 1, "c")...)
	v, err = b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	require.Equal(t, 6, b.count())
}

func TestRedriveKeepsTheRecord(t *testing.T) {
	b := newBed(t)
	rec := letter(retry.Letter{Origin: origin(1, 7), Redriven: 1}, "k", "v", retry.Header{Key: "trace", Value: []byte("abc")})
	rec.Value = nil
	b.died(0, rec)
	_, err := b.redrive("-apply")
	require.NoError(t, err)
	got, err := b.client.Consume(t.Context(), "shop-in-redrive")
	require.NoError(t, err)
	require.Len(t, got[1], 1)
	back := got[1][0]
	require.Equal(t, "k", string(back.Key))
	require.Nil(t, back.Value)
	require.Equal(t, int64(5_000), back.Timestamp)
	l, original, ok := letterOf(&back)
	require.True(t, ok)
	require.Equal(t, origin(1, 7), l.Origin, "so that the task knows which record it is")
	require.Equal(t, 2, l.Redriven)
	require.Equal(t, []retry.Header{{Key: "trace", Value: []byte("abc")}}, original)
}

func TestRedriveFilters(t *testing.T) {
	b := newBed(t)
	day := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	first := func(hours int) int64 { return day.Add(time.Duration(hours) * time.Hour).UnixMilli() }
	null := letter(retry.Letter{Origin: origin(0, 3), First: first(3)}, "", "3")
	null.Key = nil
	b.died(0,
		letter(retry.Letter{Origin: origin(0, 0), First: first(0), Class: "panic"}, "a", "0"),
		letter(retry.Letter{Origin: origin(0, 1), First: first(1), Node: "sum"}, "b", "1"),
		letter(retry.Letter{Origin: origin(0, 2), First: first(2)}, "\x00\xff", "2"),
		null,
		letter(retry.Letter{Origin: retry.Origin{Topic: "other", Offset: 4}, First: first(4)}, "a", "4"),
	)
	for _, c := range []struct {
		args []string
		want int64
	}{
		{nil, 5},
		{[]string{"-class", "panic"}, 1},
		{[]string{"-class", "*app.NotFound"}, 4},
		{[]string{"-node", "sum"}, 1},
		{[]string{"-key", "a"}, 2},
		{[]string{"-key", "hex:00ff"}, 1},
		{[]string{"-key", ""}, 0},
		{[]string{"-topic-of-record", "other"}, 1},
		{[]string{"-from", "2026-03-01T01:00:00Z"}, 4},
		{[]string{"-from", "2026-03-01T01:00:00Z", "-to", "2026-03-01T03:00:00Z"}, 2},
		{[]string{"-key", "a", "-class", "panic"}, 1},
		{[]string{"-key", "a", "-node", "sum"}, 0},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			v, err := b.redrive(c.args...)
			require.NoError(t, err)
			require.Equal(t, c.want, v.Sent)
			require.Equal(t, 5-c.want, v.LeftOut)
		})
	}
}

// What one redrive leaves out is there for the next, and what it sent is not sent again.
func TestRegressionRedriveIsResumable(t *testing.T) {
	b := newBed(t)
	b.died(0, letter(retry.Letter{Origin: origin(0, 0)}, "a", "0"), letter(retry.Letter{Origin: origin(0, 1)}, "b", "1"), letter(retry.Letter{Origin: origin(0, 2)}, "a", "2"),
		letter(retry.Letter{Origin: origin(0, 3)}, "b", "3"))
	v, err := b.redrive("-apply", "-key", "b")
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Sent)
	v, err = b.redrive("-apply", "-key", "b")
	require.NoError(t, err)
	require.Zero(t, v.Sent)
	v, err = b.redrive()
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Sent)
	require.Equal(t, int64(2), v.Before)
	_, err = b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, []string{"1", "3", "0", "2"}, b.back()[0])
	v, err = b.redrive("-apply")
	require.NoError(t, err)
	require.Zero(t, v.Letters)

	v, err = b.redrive("-apply", "-again")
	require.NoError(t, err)
	require.Equal(t, int64(4), v.Sent)
}

// A record that dies each time it comes back must not go round for ever.
func TestRegressionRedriveLoopIsGuarded(t *testing.T) {
	b := newBed(t)
	b.died(0, letter(retry.Letter{Origin: origin(0, 0), Redriven: retry.MaxRedrives}, "a", "0"), letter(retry.Letter{Origin: origin(0, 1), Redriven: retry.MaxRedrives - 1}, "a", "1"))
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	require.Equal(t, int64(1), v.Looped)
	require.Equal(t, []string{"1"}, b.back()[0])
}

// A row of a store is a dead letter like others, and can be looked at. It is no record that could be run, and neither is what is left of one that could
// not be read.
func TestLettersThatHoldNoRecord(t *testing.T) {
	b := newBed(t)
	row := letter(retry.Letter{
		Origin: retry.Origin{Partition: -1, Offset: -1}, Class: retry.ClassRow, Row: "counts", Node: "count-counts", Message: "no answer", First: 1_000,
	}, "k", "7")
	b.died(0, row, letter(retry.Letter{Origin: origin(0, 4), Class: retry.ClassEnvelope}, "a", "garbage"), letter(retry.Letter{Origin: origin(0, 5)}, "a", "5"))
	out, err := b.command("dlq", "list", "-json")
	require.NoError(t, err)
	var list listView
	require.NoError(t, json.Unmarshal([]byte(out), &list))
	require.Contains(t, list.Kinds, &kindView{Topic: "shop-in-dlq", Class: "row", Node: "count-counts", Letters: 1, Bytes: 2, First: 1_000, Last: 1_000})
	out, err = b.command("dlq", "show", "-partition", "0")
	require.NoError(t, err)
	require.Regexp(t, `row of +counts\n`, out)
	require.NotContains(t, out, "at offset -1")
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	require.Equal(t, int64(2), v.NoRecord)
	require.Equal(t, []string{"5"}, b.back()[0])
	v, err = b.redrive("-apply", "-class", "envelope")
	require.NoError(t, err)
	require.Zero(t, v.Sent)
}

// sentry/arroyo#431 and the like: where a letter goes is said by the topic it lies in, and a partition that is not there is no partition.
func TestRegressionForgedRoutingIsRefused(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.CreateTopic(t.Context(), "shop-victim-redrive", 9, nil))
	b.died(0,
		letter(retry.Letter{Origin: retry.Origin{Topic: "victim", Partition: 1}}, "a", "goes to its own source"),
		letter(retry.Letter{Origin: origin(3, 0)}, "a", "beyond the last"),
		letter(retry.Letter{Origin: origin(-1, 0)}, "a", "below the first"),
		task.OutRecord{Key: []byte("a"), Value: []byte("no letter")},
	)
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	require.Equal(t, int64(3), v.Unreadable)
	require.Equal(t, map[int32][]string{1: {"goes to its own source"}}, b.back())
	ends, err := b.client.Ends(t.Context(), "shop-victim-redrive")
	require.NoError(t, err)
	for _, end := range ends {
		require.Zero(t, end)
	}
}

func TestRedriveFromTopicThatThePolicyNames(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.CreateTopic(t.Context(), "graveyard", 1, nil))
	require.NoError(t, b.client.Produce(t.Context(), task.TopicPartition{Topic: "graveyard"},
		letter(retry.Letter{Origin: origin(0, 0)}, "a", "ours"), letter(retry.Letter{Origin: retry.Origin{Topic: "other"}}, "a", "of another source")))
	_, err := b.redrive("-topic", "graveyard")
	require.ErrorIs(t, err, errUsage)
	v, err := b.redrive("-topic", "graveyard", "-source", "in", "-apply")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	require.Equal(t, int64(1), v.LeftOut)
	require.Equal(t, []string{"ours"}, b.back()[0])
}

func TestRedriveOfSeveralSources(t *testing.T) {
	b := newBed(t)
	require.NoError(t, b.client.CreateTopic(t.Context(), "shop-other-dlq", 1, nil))
	_, err := b.redrive()
	require.ErrorContains(t, err, "say which one with -source: in, other")
	_, err = b.redrive("-source", "in")
	require.NoError(t, err)
	_, err = b.redrive("-source", "other")
	require.ErrorContains(t, err, `there is no topic "shop-other-redrive"`)
}

func TestRedriveHoldsItsRate(t *testing.T) {
	b := newBed(t)
	b.died(0, many(21, 0, "a")...)
	began := time.Now()
	v, err := b.redrive("-apply", "-rate", "20")
	require.NoError(t, err)
	require.Equal(t, int64(21), v.Sent)
	require.GreaterOrEqual(t, time.Since(began), 900*time.Millisecond)
	_, err = b.redrive("-rate", "-1")
	require.ErrorIs(t, err, errUsage)
}

// Offsets of a group that is idle expire. Then nobody knows what has been sent, and that is said instead of sending it again.
func TestRedriveWhoseProgressIsLost(t *testing.T) {
	b := newBed(t)
	b.died(0, many(2, 0, "a")...)
	require.NoError(t, b.client.Produce(t.Context(), task.TopicPartition{Topic: "shop-in-redrive"}, task.OutRecord{Value: []byte("of an earlier redrive")}))
	_, err := b.redrive("-apply")
	require.ErrorContains(t, err, "-again")
	require.Equal(t, 1, b.count())
	v, err := b.redrive("-apply", "-again")
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Sent)
}

func TestRedriveBesideAnApplicationOfItsGroupsName(t *testing.T) {
	b := newBed(t)
	b.died(0, many(1, 0, "a")...)
	require.NoError(t, b.client.CreateTopic(t.Context(), "in", 4, nil))
	joins(t, b.addrs, "shop-redrive", 1)
	require.Eventually(t, func() bool {
		d, err := openClient(t, b.addrs).DescribeGroup(t.Context(), "shop-redrive")
		return err == nil && d.State == "Stable"
	}, 20*time.Second, 50*time.Millisecond)
	_, err := b.redrive("-apply")
	require.ErrorContains(t, err, "somebody is in the group")
	require.Zero(t, b.count(), "nothing is sent whose progress cannot be noted")
}

// Letters that come while it runs are those of the next redrive: what dies again must not be sent again at once.
func TestRedriveStopsAtTheEndThatItFound(t *testing.T) {
	b := newBed(t)
	b.died(0, many(8, 0, "a")...)
	done := make(chan error, 1)
	go func() {
		_, err := b.redrive("-apply", "-rate", "8")
		done <- err
	}()
	require.Eventually(t, func() bool { return b.count() > 0 }, 20*time.Second, 10*time.Millisecond)
	b.died(0, many(4, 0, "later")...)
	require.NoError(t, <-done)
	require.Equal(t, 8, b.count())
	v, err := b.redrive()
	require.NoError(t, err)
	require.Equal(t, int64(4), v.Sent)
}
