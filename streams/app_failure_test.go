package streams_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

func TestAppOrderedWaitsForTheRecordAndOtherPartitionsGoOn(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 1)
		f := newFlaky(map[string]int{"a2": -1})
		r := b.run(through(f, retry.Ordered(quick(retry.Attempts(retry.Forever))...), in, out), b.config("ordered"))
		b.keyed(in, 0, "a1", "a2", "b1", "a3")
		b.keyed(in, 1, "c1", "c2")
		r.until("the other partition", func() bool { return slices.Contains(b.texts(out), "c2") && f.tried("a2") >= 3 })
		require.ElementsMatch(t, []string{"a1", "c1", "c2"}, b.texts(out), "nothing passes the record that fails, whatever its key is")
		r.until("the commit of what precedes it", func() bool { return b.offset("ordered", in, 0) == 1 })
		b.keyed(in, 1, "c3")
		r.until("more of the other partition", func() bool { return slices.Contains(b.texts(out), "c3") })
		f.mend()
		r.until("the rest", func() bool { return len(b.texts(out)) == 7 })
		require.NoError(t, r.end())
		require.Equal(t, []string{"a1", "a2", "b1", "a3"}, slices.DeleteFunc(b.texts(out), func(v string) bool { return keyOf(v) == "c" }))
		require.Equal(t, int64(4), b.offset("ordered", in, 0))
	})
}

func TestAppOrderedCountsItsAttemptsOverARestart(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a2": -1})
		p := retry.Ordered(retry.Backoff(time.Second, time.Second), retry.Jitter(0), retry.Attempts(4), retry.ThenDeadLetter())
		c := b.config("deploy")
		b.keyed(in, 0, "a1", "a2", "a3")
		r := b.run(through(f, p, in, out), c)
		r.until("two attempts", func() bool { return f.tried("a2") == 2 })
		require.NoError(t, r.end())
		r = b.run(through(f, p, in, out), c)
		r.until("the dead letter", func() bool { return len(b.texts(out)) == 2 })
		require.NoError(t, r.end())
		require.Equal(t, 4, f.tried("a2"), "the deployment gives no attempts anew")
		require.Equal(t, 4, b.letters(b.name("deploy-" + in + "-dlq"))["a2"].says.Attempts)
		require.Equal(t, []string{"a1", "a3"}, b.texts(out))
	})
}

func TestAppKeyOrderedLetsOtherKeysPassAndKeepsTheOrderOfTheKey(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": -1})
		r := b.run(through(f, retry.KeyOrdered(quick(retry.Attempts(retry.Forever))...), in, out), b.config("keys"))
		b.keyed(in, 0, "a1", "b1", "a2", "c1", "a3", "b2")
		r.until("the other keys", func() bool { return len(b.texts(out)) == 3 && f.tried("a1") >= 3 })
		require.Equal(t, []string{"b1", "c1", "b2"}, b.texts(out))
		r.until("a commit of all", func() bool { return b.offset("keys", in, 0) == 6 })
		require.Zero(t, f.tried("a2"), "what follows is not tried before")
		parked := b.parked(b.name("keys-" + in + "-retry"))
		require.Len(t, parked, 3)
		require.Equal(t, int64(retry.Follows), parked["a3"].Due)
		f.mend()
		r.until("the rest", func() bool { return len(b.texts(out)) == 6 })
		b.keyed(in, 0, "a4")
		r.until("the key's gate to be open", func() bool { return len(b.texts(out)) == 7 })
		require.NoError(t, r.end())
		require.Equal(t, []string{"b1", "c1", "b2", "a1", "a2", "a3", "a4"}, b.texts(out))
		require.Empty(t, b.parked(b.name("keys-"+in+"-retry")))
		require.Equal(t, 1, f.tried("a2"))
	})
}

func TestAppParallelLetsEverythingPass(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": -1})
		r := b.run(through(f, retry.Parallel(quick(retry.Attempts(retry.Forever))...), in, out), b.config("parallel"))
		b.keyed(in, 0, "a1", "a2", "b1", "a3")
		r.until("what comes later", func() bool { return len(b.texts(out)) == 3 && b.offset("parallel", in, 0) == 4 })
		f.mend()
		r.until("the record", func() bool { return len(b.texts(out)) == 4 })
		require.NoError(t, r.end())
		require.Equal(t, []string{"a2", "b1", "a3", "a1"}, b.texts(out))
		require.Empty(t, b.parked(b.name("parallel-"+in+"-retry")))
	})
}

// Each retry is due by its own delay, never early.
func TestRegressionRetriesOfOneTopicKeepTheirOwnDelays(t *testing.T) {
	b := embeddedBed(t)
	in, out := b.topic("in", 1), b.topic("out", 1)
	f := newFlaky(map[string]int{"a1": 3})
	r := b.run(through(f, retry.Parallel(retry.Backoff(200*time.Millisecond, time.Minute), retry.Jitter(0)), in, out), b.config("delays"))
	b.keyed(in, 0, "a1")
	r.until("the record", func() bool { return len(b.texts(out)) == 1 })
	require.NoError(t, r.end())
	for i, want := range []time.Duration{200, 400, 800} {
		took := f.tries["a1"][i+1].Sub(f.tries["a1"][i])
		require.GreaterOrEqual(t, took, want*time.Millisecond-time.Millisecond, "the clock of the policy counts whole milliseconds")
		require.Less(t, took, 2*want*time.Millisecond+time.Second, "retry %d", i)
	}
}

func TestAppDeadLetterIsTheRawRecordWithKafkaStreamsHeaders(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		for _, mode := range []struct {
			name   string
			policy func(...retry.Option) retry.Policy
		}{{"ordered", retry.Ordered}, {"keys", retry.KeyOrdered}, {"parallel", retry.Parallel}} {
			in, out := b.topic("in-"+mode.name, 2), b.topic("out-"+mode.name, 1)
			f := newFlaky(map[string]int{"a1": -1})
			r := b.run(through(f, mode.policy(quick(retry.Attempts(3), retry.ThenDeadLetter())...), in, out), b.config(mode.name))
			b.keyed(in, 1, "b1")
			b.put(in, 1, task.OutRecord{
				Key: []byte("a"), Value: []byte("a1"), Timestamp: 1_700_000_000_000,
				Headers: []task.Header{{Key: "trace", Value: []byte{0, 1}}, {Key: "none"}},
			})
			b.keyed(in, 1, "a2")
			dead := b.name(mode.name + "-" + in + "-dlq")
			r.until("what comes after it", func() bool { return len(b.texts(out)) == 2 && len(b.all(dead)) == 1 })
			require.NoError(t, r.end())
			require.Equal(t, 3, f.tried("a1"))

			all := b.letters(dead)
			require.Len(t, all, 1)
			l := all["a1"]
			require.Equal(t, 1, l.copies)
			require.Equal(t, "a", string(l.Key))
			require.Equal(t, int64(1_700_000_000_000), l.Timestamp)
			require.Equal(t, []retry.Header{{Key: "trace", Value: []byte{0, 1}}, {Key: "none"}}, l.original)
			require.Equal(t, retry.Origin{Topic: in, Partition: 1, Offset: 1}, l.says.Origin)
			require.Equal(t, 3, l.says.Attempts)
			require.Equal(t, "call", l.says.Node)
			require.Contains(t, l.says.Message, "the dependency is down")
			headers := map[string]string{}
			for _, h := range l.Headers {
				headers[h.Key] = string(h.Value)
			}
			require.Equal(t, "1", headers["__streams.errors.partition"])
			require.Equal(t, "1", headers["__streams.errors.offset"])
			require.Equal(t, in, headers["__streams.errors.topic"])
			require.NotEmpty(t, headers["__streams.errors.exception"])
			require.Contains(t, headers["__streams.errors.message"], `for "a1"`)
			require.Contains(t, headers, "__streams.errors.stacktrace")
		}
	})
}

func TestAppRestartGoesOnWithWhatIsParked(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": -1, "b2": -1})
		p := retry.KeyOrdered(quick(retry.Attempts(retry.Forever))...)
		c := b.config("parked")
		r := b.run(through(f, p, in, out), c)
		b.keyed(in, 0, "a1", "b1", "a2", "b2", "b3", "c1")
		r.until("the rest to pass", func() bool { return len(b.texts(out)) == 2 && b.offset("parked", in, 0) == 6 })
		require.NoError(t, r.end())
		for _, dir := range []string{c.StateDir, t.TempDir()} { // with its disk, and on another host
			c.StateDir = dir
			before := f.tried("a1")
			r = b.run(through(f, p, in, out), c)
			r.until("more tries", func() bool { return f.tried("a1") > before+1 })
			require.NoError(t, r.end())
			require.Len(t, b.parked(b.name("parked-"+in+"-retry")), 4)
		}
		f.mend()
		r = b.run(through(f, p, in, out), c)
		b.keyed(in, 0, "a3", "b4")
		r.until("everything", func() bool { return len(b.texts(out)) == 8 })
		require.NoError(t, r.end())
		requireInOrder(t, b.texts(out))
		require.Empty(t, b.parked(b.name("parked-"+in+"-retry")))
	})
}

// requireInOrder: the values of each key come for the first time in their order.
func requireInOrder(t *testing.T, values []string) {
	t.Helper()
	newest, seen := map[string]int{}, map[string]bool{}
	for _, v := range values {
		k, n := keyOf(v), numberOf(v)
		if !seen[v] {
			require.Greater(t, n, newest[k], "%q comes late", v)
		}
		seen[v], newest[k] = true, max(newest[k], n)
	}
}

// many are n values of each of some keys, in a shuffled but regular order.
func many(keys, n int) (out []string) {
	for i := range n {
		for k := range keys {
			out = append(out, "k"+string(rune('a'+k%26))+strings.Repeat("x", k/26)+strconv.Itoa(i+1))
		}
	}
	return out
}

func TestAppRebalanceWithThousandsOfRetriesLosesNothing(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		for _, mode := range []struct {
			name   string
			policy func(...retry.Option) retry.Policy
		}{{"keys", retry.KeyOrdered}, {"parallel", retry.Parallel}} {
			const partitions, keys, each = 4, 150, 10
			in, out := b.topic("in-"+mode.name, partitions), b.topic("out-"+mode.name, 1)
			values, fails := many(keys, each), map[string]int{}
			for i, v := range values {
				for p := range partitions {
					if i%2 == 0 {
						fails[strconv.Itoa(p)+v] = 1 + i%3
					}
				}
			}
			f := newFlaky(fails)
			policy := mode.policy(retry.Backoff(300*time.Millisecond, 2*time.Second), retry.NoBreaker())
			first := b.run(through(f, policy, in, out), b.config(mode.name))
			first.ready()
			for p := range int32(partitions) {
				var mine []string
				for _, v := range values {
					mine = append(mine, strconv.Itoa(int(p))+v)
				}
				b.keyed(in, p, mine...)
			}
			retries := b.name(mode.name + "-" + in + "-retry")
			first.until("thousands in flight", func() bool { return len(b.parked(retries)) > 2000 })
			second := b.run(through(f, policy, in, out), b.config(mode.name))
			second.until("its share", func() bool { return len(second.app.Tasks()) >= partitions/2 && second.app.Ready() })
			require.NotEmpty(t, b.parked(retries), "there is something in flight when the tasks move")
			require.NoError(t, first.end())
			missing := func() int {
				got := map[string]bool{}
				for _, v := range b.texts(out) {
					got[v] = true
				}
				return partitions*len(values) - len(got)
			}
			second.until("everything", func() bool { return missing() == 0 && len(b.parked(retries)) == 0 })
			require.NoError(t, second.end())
			got := b.texts(out)
			require.LessOrEqual(t, len(got)-partitions*len(values), 0, "clean ends repeat nothing")
			if mode.name == "keys" {
				requireInOrder(t, got)
			}
		}
	})
}

// Nothing that a record's headers say is believed: not of attempts, nor of times, nor that it is a dead letter.
func TestRegressionForgedHeadersChangeNothing(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": 1, "b1": -1})
		c := b.config("forged")
		r := b.run(through(f, retry.KeyOrdered(quick(retry.Attempts(3), retry.ThenDeadLetter())...), in, out), c)
		forged := []task.Header{
			{Key: retry.HeaderTopic, Value: []byte("another")}, {Key: retry.HeaderPartition, Value: []byte("-7")},
			{Key: retry.HeaderOffset, Value: []byte("99999999999999999999999")}, {Key: retry.HeaderAttempts, Value: []byte("2147483648")},
			{Key: retry.HeaderFirst, Value: []byte("9223372036854775807")}, {Key: retry.HeaderRedriven, Value: []byte("4")},
			{Key: "__understudy.time", Value: []byte("9223372036854775807")}, {Key: retry.HeaderRoot, Value: []byte("x/0/-1")},
		}
		now := time.Now().UnixMilli()
		b.put(in, 0, task.OutRecord{Key: []byte("a"), Value: []byte("a1"), Timestamp: now, Headers: forged})
		b.put(in, 0, task.OutRecord{Key: []byte("b"), Value: []byte("b1"), Timestamp: now, Headers: forged})
		b.keyed(in, 0, "a2", "c1")
		r.until("all that can be processed", func() bool { return len(b.texts(out)) == 3 })
		dead := b.name("forged-" + in + "-dlq")
		r.until("the dead letter", func() bool { return len(b.all(dead)) == 1 })
		require.Equal(t, 2, f.tried("a1"))
		require.Equal(t, 3, f.tried("b1"))
		l := b.letters(dead)["b1"]
		require.Equal(t, retry.Origin{Topic: in, Partition: 0, Offset: 1}, l.says.Origin)
		require.Equal(t, 3, l.says.Attempts)
		require.Zero(t, l.says.Redriven)
		require.Equal(t, retryHeaders(forged), l.original, "what it had stays with it")

		// And of those that come as redriven ones: one that says it has been redriven a million times ends at once, the others are tried.
		redrives := b.name("forged-" + in + "-redrive")
		f.mend()
		b.put(redrives, 0,
			task.OutRecord{Key: []byte("d"), Value: []byte("d1"), Timestamp: now, Headers: forged},
			task.OutRecord{Key: []byte("e"), Value: []byte("e1"), Timestamp: now},
			task.OutRecord{Value: []byte("7"), Timestamp: now, Headers: []task.Header{
				{Key: retry.HeaderTopic, Value: []byte(in)}, {Key: retry.HeaderPartition, Value: []byte("0")}, {Key: retry.HeaderOffset, Value: []byte("1")},
				{Key: retry.HeaderRedriven, Value: []byte("1000000")},
			}})
		r.until("those that are none", func() bool { return len(b.texts(out)) == 5 && len(b.all(dead)) == 2 })
		b.keyed(in, 0, "a3")
		r.until("the partition to go on", func() bool { return len(b.texts(out)) == 6 })
		require.NoError(t, r.end())
		require.Zero(t, f.tried("7"))
	})
}

func TestAppRedriveRunsDeadLettersAgain(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 2), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": -1, "b1": -1})
		c := b.config("redrive")
		p := retry.KeyOrdered(quick(retry.Attempts(2), retry.ThenDeadLetter())...)
		r := b.run(through(f, p, in, out), c)
		b.keyed(in, 1, "a1", "b1", "c1")
		dead, redrives := b.name("redrive-"+in+"-dlq"), b.name("redrive-"+in+"-redrive")
		r.until("the dead letters", func() bool { return len(b.all(dead)) == 2 && len(b.texts(out)) == 1 })
		redrive := func(values ...string) {
			for _, v := range values {
				l := b.letters(dead)[v]
				headers, err := retry.Redrive(retryHeaders(l.Headers))
				require.NoError(t, err)
				var hs []task.Header
				for _, h := range headers {
					hs = append(hs, task.Header(h))
				}
				b.put(redrives, l.says.Partition, task.OutRecord{Key: l.Key, Value: l.Value, Timestamp: l.Timestamp, Headers: hs})
			}
		}
		redrive("a1") // it fails once more
		r.until("it to be dead again", func() bool { return len(b.all(dead)) == 3 })
		l := b.letters(dead)["a1"]
		require.Equal(t, 1, l.says.Redriven)
		require.Equal(t, retry.Origin{Topic: in, Partition: 1, Offset: 0}, l.says.Origin, "where it was read first")
		require.Empty(t, l.original)
		f.mend()
		redrive("a1", "b1")
		r.until("both", func() bool { return len(b.texts(out)) == 3 })
		require.NoError(t, r.end())
		require.ElementsMatch(t, []string{"a1", "b1", "c1"}, b.texts(out))
		require.Len(t, b.all(dead), 3)
		require.Empty(t, b.parked(b.name("redrive-"+in+"-retry")))
		require.Equal(t, int64(3), b.offset("redrive", redrives, 1))
	})
}

func TestAppDecodeErrorsAreDeadLetteredAtOnce(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		sb := streams.NewBuilder()
		sb.Stream(in, serde.Bytes, serde.Int64, streams.OnFailure(retry.Ordered(retry.ThenDeadLetter()))).
			MapValues(func(n int64) string { return fmt.Sprint(n) }, streams.WithValueSerde(serde.String)).
			To(out)
		b.values(in, 0, "\x00\x00\x00\x00\x00\x00\x00\x07", "short", "\x00\x00\x00\x00\x00\x00\x00\x08")
		r := b.run(sb, b.config("decode"))
		r.until("the good ones", func() bool { return len(b.texts(out)) == 2 })
		require.NoError(t, r.end())
		require.Equal(t, []string{"7", "8"}, b.texts(out))
		l := b.letters(b.name("decode-" + in + "-dlq"))["short"]
		require.Equal(t, int64(1), l.says.Offset)
		require.Equal(t, 1, l.says.Attempts)
	})
}

func TestAppRetryTopicThatDoesNotFit(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		builder := func(in, out string) *streams.Builder {
			return through(newFlaky(nil), retry.KeyOrdered(retry.ThenDeadLetter()), in, out)
		}
		for _, c := range []struct {
			name, suffix string
			partitions   int32
			configs      map[string]string
			kind         streams.InternalKind
			what         string
		}{
			{"narrow", "-retry", 1, map[string]string{"cleanup.policy": "compact"}, streams.RetryTopic, "partitions"},
			{"aged", "-retry", 2, map[string]string{"cleanup.policy": "delete"}, streams.RetryTopic, "cleanup.policy"},
			{"small", "-retry", 2, map[string]string{"cleanup.policy": "compact", "max.message.bytes": "1000"}, streams.RetryTopic, "max.message.bytes"},
			{"smalldlq", "-dlq", 2, map[string]string{"max.message.bytes": "1000", "retention.ms": "-1"}, streams.DeadLetterTopic, "max.message.bytes"},
			{"smallredrive", "-redrive", 1, map[string]string{"max.message.bytes": "1000", "retention.ms": "-1"}, streams.RedriveTopic, "max.message.bytes"},
		} {
			in, out := b.topic("in-"+c.name, 2), b.topic("out-"+c.name, 1)
			topic := b.name(c.name + "-" + in + c.suffix)
			configs := map[string]string{"message.timestamp.type": "CreateTime"}
			for k, v := range c.configs {
				configs[k] = v
			}
			require.NoError(t, b.client.CreateTopic(b.ctx(), topic, c.partitions, configs))
			err := b.run(builder(in, out), b.config(c.name)).fails()
			var wrong *streams.InternalTopicError
			require.ErrorAs(t, err, &wrong, c.name)
			require.Equal(t, topic, wrong.Topic)
			require.Equal(t, c.kind, wrong.Kind)
			require.Equal(t, c.what, wrong.What)
			require.Contains(t, err.Error(), topic)
		}
	})
}

func TestAppRetryTopicDeletedWhileItRuns(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		f := newFlaky(map[string]int{"a1": -1})
		r := b.run(through(f, retry.KeyOrdered(quick(retry.Attempts(retry.Forever))...), in, out), b.config("gone"))
		b.keyed(in, 0, "b1")
		r.until("it to run", func() bool { return b.offset("gone", in, 0) == 1 })
		topic := b.name("gone-" + in + "-retry")
		require.NoError(t, b.client.DeleteTopic(b.ctx(), topic))
		b.keyed(in, 0, "a1", "b2")
		err := r.fails()
		require.ErrorContains(t, err, topic)
		require.Equal(t, int64(1), b.offset("gone", in, 0), "a record that could not be put aside is not committed")
	})
}

// A record that is too large to be put aside with what is said of it concerns nobody else.
func TestRegressionARecordTooLargeToBePutAsideConcernsItsKeyOnly(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, out := b.topic("in", 1), b.topic("out", 1)
		large := "a" + strings.Repeat("7", 1_000_000) + "1"
		f := newFlaky(map[string]int{large: 1})
		r := b.run(through(f, retry.KeyOrdered(quick(retry.ThenDeadLetter())...), in, out), b.config("large"))
		b.keyed(in, 0, "b1", large, "a2", "b2")
		r.until("everything", func() bool { return len(b.texts(out)) == 4 })
		require.NoError(t, r.end())
	})
}
