package streams_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/internal/kcode"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

func out(key, value string, ts int64) task.OutRecord {
	return task.OutRecord{Key: []byte(key), Value: []byte(value), Timestamp: ts}
}

// noRetention keeps old records.
var noRetention = map[string]string{"retention.ms": "-1"}

func TestAppStopsAtARecordThatCannotBeDecoded(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 2), b.topic("out", 1)
		number := func(n byte) string { return string([]byte{0, 0, 0, 0, 0, 0, 0, n}) }
		b.put(in, 1, out("a", number(1), 10), out("b", number(2), 11), out("c", "abc", 12), out("d", number(4), 13))
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.Int64, streams.As("numbers")).MapValues(func(v int64) int64 { return v + 1 }).To(to)
		err := b.run(sb, b.config("decode")).fails()
		var re *streams.RecordError
		require.ErrorAs(t, err, &re)
		require.Equal(t, streams.RecordError{Task: streams.TaskID{Partition: 1}, Topic: in, Partition: 1, Offset: 2, Node: "numbers", Kind: streams.KindDecode, Err: re.Err, Attempts: 1}, *re)
		require.ErrorContains(t, err, "value: ")
		require.EqualValues(t, 2, b.committedAt("decode", in, 1))
		require.Equal(t, []string{`"a":"\x00\x00\x00\x00\x00\x00\x00\x02"@10`, `"b":"\x00\x00\x00\x00\x00\x00\x00\x03"@11`}, showRecords(b.all(to)))
	})
}

func TestAppLargeRecords(t *testing.T) {
	const large = 5 << 20
	value := bytes.Repeat([]byte("0123456789abcdef"), large/16)
	roomy := map[string]string{"max.message.bytes": fmt.Sprint(large + 64<<10)}
	onBrokers(t, func(t *testing.T, b *bed) {
		t.Run("fit where both limits are raised", func(t *testing.T) {
			b := b.in(t)
			in, to := b.topicWith("in", 1, roomy), b.topicWith("out", 1, roomy)
			c := b.config("large")
			c.MaxRecordBytes = large + 1<<10
			b.put(in, 0, task.OutRecord{Key: []byte("k"), Value: value, Timestamp: 1}, out("k2", "small", 2))
			r := b.run(copyTopic(in, to), c)
			r.until("both", func() bool { return len(b.all(to)) == 2 })
			require.NoError(t, r.end())
			require.True(t, bytes.Equal(value, b.all(to)[0].Value))
		})
		t.Run("fit into the topics of the application", func(t *testing.T) {
			b := b.in(t)
			in, to := b.topicWith("in2", 1, roomy), b.topicWith("out2", 1, roomy)
			c := b.config("large2")
			c.MaxRecordBytes = large + 1<<10
			b.put(in, 0, task.OutRecord{Key: []byte("k"), Value: value, Timestamp: 1})
			sb := streams.NewBuilder()
			sb.Stream(in, serde.String, serde.Bytes).GroupBy(func(k string, _ []byte) string { return k + "!" }).
				Reduce("last", func(_, v []byte) []byte { return v }).ToStream().To(to)
			r := b.run(sb, c)
			r.until("the table's row", func() bool { return len(b.all(to)) == 1 })
			require.NoError(t, r.end())
			require.True(t, bytes.Equal(value, b.all(b.name("large2-last-changelog"))[0].Value))
		})
		t.Run("fail their unit where the application's limit is lower", func(t *testing.T) {
			b := b.in(t)
			in, to := b.topicWith("in3", 1, roomy), b.topicWith("out3", 1, roomy)
			b.put(in, 0, out("k", "small", 0), task.OutRecord{Key: []byte("k"), Value: value, Timestamp: 1})
			var re *streams.RecordError
			require.ErrorAs(t, b.run(copyTopic(in, to), b.config("large3")).fails(), &re)
			require.Equal(t, streams.KindProduce, re.Kind)
			require.EqualValues(t, 1, re.Offset)
			require.ErrorContains(t, re, "MaxRecordBytes")
			require.ErrorContains(t, re, to)
			require.EqualValues(t, 1, b.committedAt("large3", in, 0))
		})
		t.Run("fail their unit where the topic's limit is lower", func(t *testing.T) {
			b := b.in(t)
			in, to := b.topicWith("in5", 1, roomy), b.topic("out5", 1)
			c := b.config("large5")
			c.MaxRecordBytes = large + 1<<10
			b.put(in, 0, out("k", "small", 0), task.OutRecord{Key: []byte("k"), Value: value, Timestamp: 1})
			var re *streams.RecordError
			require.ErrorAs(t, b.run(copyTopic(in, to), c).fails(), &re)
			require.Equal(t, streams.KindProduce, re.Kind)
			require.ErrorContains(t, re, to)
			require.EqualValues(t, 1, b.committedAt("large5", in, 0))
		})
		t.Run("stop the application where the topic's limit was lowered meanwhile", func(t *testing.T) {
			b := b.in(t)
			in, to := b.topicWith("in4", 1, roomy), b.topicWith("out4", 1, roomy)
			c := b.config("large4")
			c.MaxRecordBytes = large + 1<<10
			r := b.run(copyTopic(in, to), c)
			b.put(in, 0, out("k", "small", 0))
			r.until("a commit, so that the limit of before is known", func() bool { return b.committedAt("large4", in, 0) == 1 })
			b.limit(to, 1_000_000)
			b.put(in, 0, task.OutRecord{Key: []byte("k"), Value: value, Timestamp: 1})
			began := time.Now()
			var pe *streams.ProduceError
			err := r.fails()
			require.ErrorAs(t, err, &pe)
			require.ErrorIs(t, err, kcode.MessageTooLarge)
			require.Equal(t, task.TopicPartition{Topic: to}, pe.To)
			require.ErrorContains(t, err, "max.message.bytes")
			require.EqualValues(t, 1, b.committedAt("large4", in, 0), "nothing more is committed")
			require.Less(t, time.Since(began), 10*time.Second, "it does not wait for an acknowledgement that cannot come")
		})
	})
}

// F7 end to end: absent and empty are told apart on the wire, in the table's changelog, and after a restore.
func TestAppF7EmptyIsNotNull(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to, looked := b.topic("in", 1), b.topic("out", 1), b.topic("looked", 1)
		b.put(in, 0, out("a", "", 1), out("", "x", 2), task.OutRecord{Key: []byte("a"), Timestamp: 3}, task.OutRecord{Value: []byte("y"), Timestamp: 4}, out("b", "", 5))
		build := func() *streams.Builder {
			sb := streams.NewBuilder()
			sb.Table(in, serde.String, serde.String, streams.As("t"), streams.EmitPerUpdate).ToStream().To(to)
			return sb
		}
		c := b.config("f7")
		r := b.run(build(), c)
		r.until("all of them", func() bool { return len(b.all(to)) == 4 })
		require.NoError(t, r.end())
		want := []string{`"a":""@1`, `"":"x"@2`, `"a":null@3`, `"b":""@5`}
		require.Equal(t, want, showRecords(b.all(to)))
		require.EqualValues(t, 5, b.committedAt("f7", in, 0), "the one without a key is done too")
		require.Subset(t, want, showRecords(b.all(b.name("f7-t-changelog"))))

		c.StateDir = t.TempDir()
		store := streams.NewStore("t", serde.String, serde.String)
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.String).Process("look", func(i *streams.Init) streams.Processor[string, string, string, string] {
			rows := store.Open(i)
			return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
				for _, k := range []string{"a", "", "b"} {
					v, found := rows.Get(k)
					c.Forward(streams.Record[string, string]{Key: k, Value: fmt.Sprintf("%q %t", v, found)})
				}
				return nil
			})
		}, streams.WithStores(store)).To(looked)
		r = b.run(sb, c)
		r.ready()
		b.put(in, 0, out("z", "", 9))
		r.until("what was looked up", func() bool { return len(b.all(looked)) == 3 })
		require.NoError(t, r.end())
		require.Equal(t, []string{`"a":"\"\" false"@9`, `"":"\"x\" true"@9`, `"b":"\"\" true"@9`}, showRecords(b.all(looked)))
	})
}

func TestAppNullsAndEmptiesPassThrough(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 1), b.topic("out", 1)
		b.put(in, 0, out("", "v", 1), task.OutRecord{Value: []byte("v"), Timestamp: 2}, task.OutRecord{Key: []byte("k"), Timestamp: 3}, task.OutRecord{Timestamp: 4}, out("", "", 5))
		sb := streams.NewBuilder()
		sb.Stream(in, serde.String, serde.Bytes).Filter(func(string, []byte) bool { return true }).To(to)
		r := b.run(sb, b.config("nulls"))
		r.until("all of them", func() bool { return len(b.all(to)) == 5 })
		require.NoError(t, r.end())
		require.Equal(t, []string{`"":"v"@1`, `null:"v"@2`, `"k":null@3`, `null:null@4`, `"":""@5`}, showRecords(b.all(to)))
	})
}

func TestAppNegativeTimestamps(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in := b.topic("in", 1)
		b.put(in, 0, out("a", "1", 7), out("b", "2", -5), out("c", "3", 9))
		run := func(app string, to string, opts ...streams.SourceOption) *running {
			sb := streams.NewBuilder()
			sb.Stream(in, serde.String, serde.String, opts...).To(to)
			return b.run(sb, b.config(app))
		}
		var re *streams.RecordError
		err := run("fail", b.topic("out", 1)).fails()
		require.ErrorAs(t, err, &re)
		require.Equal(t, streams.KindTimestamp, re.Kind)
		require.EqualValues(t, 1, re.Offset)
		require.ErrorContains(t, err, "-5")
		require.ErrorContains(t, err, "OnNegativeTimestamp")
		require.EqualValues(t, 1, b.committedAt("fail", in, 0))

		for rule, want := range map[streams.NegativeTimestamp][]string{
			streams.DropRecord:    {`"a":"1"@7`, `"c":"3"@9`},
			streams.UseStreamTime: {`"a":"1"@7`, `"b":"2"@7`, `"c":"3"@9`},
		} {
			app := fmt.Sprint("rule", rule)
			to := b.topic("out-"+app, 1)
			r := run(app, to, streams.OnNegativeTimestamp(rule))
			r.until("a commit", func() bool { return b.committedAt(app, in, 0) == 3 })
			require.NoError(t, r.end())
			require.Equal(t, want, showRecords(b.all(to)))
		}
	})
}

var eightHeaders = []task.Header{
	{Key: "a", Value: []byte{1}}, {Key: "b", Value: []byte{2}}, {Key: "a", Value: []byte{3}}, {Key: "c"}, {Key: "d", Value: []byte{}},
	{Key: "kafka_x", Value: []byte{0x31}}, {Key: "", Value: []byte{9}}, {Key: "attempt", Value: []byte{0xff}},
}

// F11 end to end: headers keep order, duplicates, nulls and empties, and none of ours come to them.
func TestAppF11Headers(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in := b.topic("in", 1)
		many := task.OutRecord{Key: []byte("m"), Value: []byte("v"), Timestamp: 2}
		for i := range 200 {
			many.Headers = append(many.Headers, task.Header{Key: fmt.Sprint("h", i%7), Value: bytes.Repeat([]byte{byte(i)}, i)})
		}
		b.put(in, 0, task.OutRecord{Key: []byte("k"), Value: []byte("v"), Timestamp: 1, Headers: eightHeaders}, many)
		for name, build := range map[string]func(streams.Stream[string, string]) streams.Stream[string, string]{
			"map":       func(s streams.Stream[string, string]) streams.Stream[string, string] { return s },
			"partition": func(s streams.Stream[string, string]) streams.Stream[string, string] { return s.Repartition("again") },
		} {
			to := b.topic("out-"+name, 1)
			sb := streams.NewBuilder()
			build(sb.Stream(in, serde.String, serde.String).Map(func(k, v string) (string, string) { return k, v + "!" })).To(to)
			r := b.run(sb, b.config(name))
			r.until("both", func() bool { return len(b.all(to)) == 2 })
			require.NoError(t, r.end())
			got := b.all(to)
			require.Equal(t, []string{`"k":"v!"@1`, `"m":"v!"@2`}, showRecords(got))
			require.Equal(t, eightHeaders, got[0].Headers)
			require.Equal(t, many.Headers, normal(got[1].Headers, many.Headers))
		}
	})
}

// normal gives empty values the form that want has, where both are there and empty.
func normal(got, want []task.Header) []task.Header {
	got = slices.Clone(got)
	for i := range got {
		if got[i].Value != nil && len(got[i].Value) == 0 && i < len(want) && want[i].Value != nil {
			got[i].Value = want[i].Value
		}
	}
	return got
}

// F18 a and b end to end: keys that are no text are counted apart, also after a restore, and come out as they went in.
func TestAppF18BinaryKeys(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topic("in", 2), b.topic("out", 2)
		keys := []string{"\x00\x00\x00\x80", "\x00\x00\x00\x81", "\x00\x00\x00\x80", "\xff\xfe", "\x00\x00\x00\x81", "\x00", "\x00\x00\x00\x81", "caf\xe9", "caf\xe8", "caf\xe9"}
		put := func() {
			for _, k := range keys {
				b.put(in, task.PartitionFor([]byte(k), 2), out(k, "v", 1))
			}
		}
		build := func() *streams.Builder {
			sb := streams.NewBuilder()
			sb.Stream(in, serde.String, serde.Bytes).GroupByKey().Count("counts").ToStream().To(to)
			return sb
		}
		put()
		c := b.config("f18")
		r := b.run(build(), c)
		want := map[string]int64{"\x00\x00\x00\x80": 2, "\x00\x00\x00\x81": 3, "\xff\xfe": 1, "\x00": 1, "caf\xe9": 2, "caf\xe8": 1}
		r.until("the counts", func() bool { return fmt.Sprint(b.counts(to)) == fmt.Sprint(want) })
		require.NoError(t, r.end())
		c.StateDir = t.TempDir()
		r = b.run(build(), c)
		r.ready()
		put()
		for k := range want {
			want[k] *= 2
		}
		r.until("the counts after a restore", func() bool { return fmt.Sprint(b.counts(to)) == fmt.Sprint(want) })
		require.NoError(t, r.end())
	})
}

// F14 a: old records survive a repartition topic, whatever the broker's retention.
func TestAppF14OldRecordsPassARepartitionTopic(t *testing.T) {
	onBrokers(t, func(t *testing.T, b *bed) {
		in, to := b.topicWith("in", 1, noRetention), b.topicWith("out", 1, noRetention)
		ts := time.Now().AddDate(0, 0, -400).UnixMilli()
		b.put(in, 0, out("", "a b", ts), out("", "a", ts+1), out("", "b", ts+2), out("", "a c", ts+3))
		r := b.run(countWords(in, to), b.config("f14"))
		r.until("the counts", func() bool { n := b.counts(to); return n["a"] == 3 && n["b"] == 2 && n["c"] == 1 })
		repartition := b.name("f14-word-counts-repartition")
		require.Equal(t, "-1", b.configs(repartition)["retention.ms"])
		require.NoError(t, r.end())
		require.Equal(t, ts+3, slices.MaxFunc(b.all(repartition), func(a, b task.Record) int { return int(a.Timestamp - b.Timestamp) }).Timestamp)
		if b.embedded != nil {
			b.embedded.Cluster().ApplyRetention()
			require.Len(t, b.all(repartition), 6)
		}
	})
}
