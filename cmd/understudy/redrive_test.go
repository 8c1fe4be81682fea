package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/internal/outside"
	"github.com/understudy-streams/understudy/internal/realkafka"
	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/task"
)

// An interrupted redrive says so, and the next one sends what is left: each letter once.
func TestRegressionInterruptedRedriveGoesOn(t *testing.T) {
	b := newBed(t)
	b.died(0, many(10, 0, "a")...)
	b.died(1, many(10, 1, "b")...)
	ctx, interrupt := context.WithCancel(t.Context())
	done := make(chan error, 1)
	var out, diagnostics bytes.Buffer
	go func() {
		done <- run(ctx, []string{"dlq", "redrive", "-brokers", b.addrs[0], "-app", b.app, "-apply", "-rate", "20", "-json"}, &out, &diagnostics)
	}()
	require.Eventually(t, func() bool { return b.count() > 5 }, 20*time.Second, 5*time.Millisecond)
	interrupt()
	require.ErrorIs(t, <-done, context.Canceled)
	var v redriveView
	require.NoError(t, json.Unmarshal(out.Bytes(), &v), "it says what it has done")
	require.Equal(t, int64(b.count()), v.Sent)
	require.Less(t, v.Sent, int64(20))

	rest, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, 20-v.Sent, rest.Sent)
	for p, values := range b.back() {
		require.Equal(t, []string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}, values, "partition %d", p)
	}
}

// A record that the broker will never take keeps no other one back (kafkaflow-retry-extensions #158), and stays a dead letter.
func TestRegressionLetterThatIsTooLargeStaysAlone(t *testing.T) {
	b := newBed(t)
	b.died(0, letter(retry.Letter{Origin: origin(0, 0)}, "a", "0"), letter(retry.Letter{Origin: origin(0, 1)}, "b", strings.Repeat("x", 10_000)),
		letter(retry.Letter{Origin: origin(0, 2)}, "c", "2"))
	large := func(r kmsg.Request) bool {
		p, ok := r.(*kmsg.ProduceRequest)
		return ok && len(p.Topics[0].Partitions[0].Records) > 10_000
	}
	b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "shop-in-redrive", Err: kerr.MessageTooLarge, Count: -1, When: large})
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Sent)
	require.Equal(t, int64(1), v.RefusedAll)
	require.Len(t, v.Refused, 1)
	require.Equal(t, int64(1), v.Refused[0].Offset)
	require.Contains(t, v.Refused[0].Why, "MESSAGE_TOO_LARGE")
	require.Equal(t, []string{"0", "2"}, b.back()[0])
	v, err = b.redrive()
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent, "it is still to be redriven")
}

// What the embedded broker does not have: limits of topics, and a coordinator that takes commits of nobody's group.
func TestRedriveOnARealBroker(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a broker")
	}
	b := bedOn(t, realkafka.Shared(t).Addrs(), uniqueName())
	require.NoError(t, b.client.CreateTopic(t.Context(), b.app+"-in-dlq", 2, nil))
	require.NoError(t, b.client.CreateTopic(t.Context(), b.app+"-in-redrive", 2, map[string]string{"max.message.bytes": "20000"}))
	b.died(0, many(5, 1, "a")...)
	b.died(1, letter(retry.Letter{Origin: origin(0, 0)}, "b", strings.Repeat("x", 30_000)), letter(retry.Letter{Origin: origin(0, 1)}, "c", "1"))
	v, err := b.redrive("-apply", "-key", "c")
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent)
	v, err = b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(5), v.Sent)
	require.Equal(t, int64(1), v.Before)
	require.Len(t, v.Refused, 1)
	require.Contains(t, v.Refused[0].Why, "MESSAGE_TOO_LARGE")
	require.Equal(t, map[int32][]string{0: {"1"}, 1: {"0", "1", "2", "3", "4"}}, b.back())
	v, err = b.redrive()
	require.NoError(t, err)
	require.Equal(t, int64(1), v.Sent, "the large one is still to be redriven")
}

// A batch whose answer is lost is sent again, and is there once.
func TestRegressionBatchThatIsSentAgainIsThereOnce(t *testing.T) {
	b := newBed(t)
	s := sender{client: openClient(t, b.addrs)}
	defer s.close()
	tp := task.TopicPartition{Topic: "shop-in-redrive", Partition: 1}
	batch := []task.OutRecord{{Value: []byte("0")}, {Value: []byte("1")}}
	require.NoError(t, s.send(t.Context(), tp, batch))
	s.next[tp] = 0 // as if the answer had not come
	require.NoError(t, s.send(t.Context(), tp, batch))
	require.NoError(t, s.send(t.Context(), tp, []task.OutRecord{{Value: []byte("2")}}))
	require.Equal(t, []string{"0", "1", "2"}, b.back()[1])
}

func TestRedriveOnABrokerThatIsNotThereYet(t *testing.T) {
	b := newBed(t)
	b.died(0, many(3, 0, "a")...)
	for _, key := range []kmsg.Key{kmsg.Produce, kmsg.Fetch} {
		b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Err: kerr.NotLeaderForPartition, Count: 2})
	}
	b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.InitProducerID}, Err: kerr.CoordinatorLoadInProgress})
	b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.NotCoordinator})
	b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.CoordinatorNotAvailable})
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(3), v.Sent)
	require.Equal(t, []string{"0", "1", "2"}, b.back()[0])
}

func TestRedriveThatIsNotAllowed(t *testing.T) {
	b := newBed(t)
	b.died(0, many(3, 0, "a")...)
	b.broker.Cluster().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "shop-in-redrive", Err: kerr.TopicAuthorizationFailed})
	_, err := b.redrive("-apply")
	require.ErrorContains(t, err, "TOPIC_AUTHORIZATION_FAILED")
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(3), v.Sent)
}

// Two at once would send letters twice: one of them notices, within the second in which nothing is noted.
func TestTwoRedrivesAtOnce(t *testing.T) {
	b := newBed(t)
	b.died(0, many(60, 0, "a")...)
	done := make(chan error, 1)
	go func() {
		_, err := b.redrive("-apply", "-rate", "20")
		done <- err
	}()
	require.Eventually(t, func() bool { return b.count() > 0 }, 20*time.Second, 5*time.Millisecond)
	_, second := b.redrive("-apply")
	require.ErrorContains(t, errors.Join(<-done, second), "somebody else has changed the progress")
}

// Retention takes letters away in the middle: what is left is redriven.
func TestRedriveOfLettersThatRetentionTakes(t *testing.T) {
	b := newBed(t)
	b.died(0, many(10, 0, "a")...)
	_, err := b.redrive("-apply", "-key", "none of them")
	require.NoError(t, err)
	require.NoError(t, b.client.DeleteRecords(t.Context(), task.TopicPartition{Topic: "shop-in-dlq"}, 7))
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(3), v.Sent)
	require.Equal(t, []string{"7", "8", "9"}, b.back()[0])
}

// The topic was deleted and made anew. Brokers delete its offsets with it, as they do when these expire.
func TestRedriveOfATopicThatWasMadeAnew(t *testing.T) {
	b := newBed(t)
	b.died(0, many(5, 0, "a")...)
	_, err := b.redrive("-apply")
	require.NoError(t, err)
	require.NoError(t, b.client.DeleteTopic(t.Context(), "shop-in-dlq"))
	require.NoError(t, b.client.CreateTopic(t.Context(), "shop-in-dlq", 3, nil))
	b.died(0, many(2, 0, "new")...)
	_, err = b.redrive("-apply")
	require.ErrorContains(t, err, "-again begins with the oldest letter")
	v, err := b.redrive("-apply", "-again")
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Sent)
}

// Letters in transactions that were aborted are none, and markers leave nothing to do.
func TestRedriveReadsWhatIsCommitted(t *testing.T) {
	b := newBed(t)
	tp := task.TopicPartition{Topic: "shop-in-dlq"}
	require.NoError(t, b.client.Transact(t.Context(), "x", false, tp, many(3, 0, "aborted")...))
	require.NoError(t, b.client.Transact(t.Context(), "y", true, tp, many(2, 0, "committed")...))
	v, err := b.redrive("-apply")
	require.NoError(t, err)
	require.Equal(t, int64(2), v.Letters)
	v, err = b.redrive("-apply")
	require.NoError(t, err)
	require.Zero(t, v.Letters, "nothing is left to be read")
}

// The metadata of a commit has a bound. Nothing is sent beyond what can be noted.
func TestRegressionRedriveThatCannotBeNotedStops(t *testing.T) {
	p := progress{parts: []task.TopicPartition{{Topic: "t"}}, done: make([]runs, 1)}
	random := rand.New(rand.NewPCG(1, 2))
	var offsets []int64
	for o := range int64(60_000) {
		if random.IntN(2) == 0 {
			offsets = append(offsets, o)
		}
	}
	require.NoError(t, p.fits(0, offsets[:5_000]))
	require.ErrorIs(t, p.fits(0, offsets), errManyHoles)
	require.NoError(t, p.fits(0, []int64{50_000}), "one hole, however wide")
}

// What is noted is what is read.
func TestProgressIsReadAsItWasNoted(t *testing.T) {
	tp := task.TopicPartition{Topic: "t"}
	for name, done := range map[string]runs{
		"nothing": nil, "a part": {{From: 0, To: 5}}, "the middle": {{From: 3, To: 5}}, "several": {{From: 0, To: 2}, {From: 3, To: 5}, {From: 9, To: 10}},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := noted(tp, done)
			require.NoError(t, err)
			got, err := doneBelow(o, outside.Span{TopicPartition: tp, To: 10})
			require.NoError(t, err)
			require.True(t, slices.Equal(withoutEmpty(done), withoutEmpty(got)), "%v %v", done, got)
		})
	}
	got, err := doneBelow(task.InputOffset{TopicPartition: tp, Offset: 11}, outside.Span{From: 2, To: 10})
	require.NoError(t, err)
	require.Equal(t, runs{{From: 0, To: 2}}, got, "an offset beyond the end is of another topic of that name")
	_, err = doneBelow(task.InputOffset{TopicPartition: tp, Offset: 1, Metadata: "!1damaged"}, outside.Span{To: 10})
	require.ErrorContains(t, err, "the progress of the redrive on t-0")
}

func withoutEmpty(r runs) runs {
	return slices.DeleteFunc(slices.Clone(r), func(x retry.Run) bool { return x.From == x.To })
}

// sentry #86751, arroyo #431: however much lies there, who looks at it holds one fetch.
func TestRegressionLookingAtLettersKeepsNoneOfThem(t *testing.T) {
	b := newBed(t)
	const n, size = 128, 1 << 20
	value := strings.Repeat("x", size)
	for i := range int64(n) {
		b.died(0, letter(retry.Letter{Origin: origin(0, i)}, "a", value))
	}
	live := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before, most, looks := live(), int64(0), 0
	done := make(chan error, 1)
	go func() {
		_, err := b.command("dlq", "list")
		done <- err
	}()
	for running := true; running; {
		select {
		case err := <-done:
			require.NoError(t, err)
			running = false
		default:
			most = max(most, live()-before)
			looks++
		}
	}
	require.Greater(t, looks, 2)
	require.Less(t, most, int64(n*size/2))
	t.Logf("at most %d kB in %d looks", most>>10, looks)
}
