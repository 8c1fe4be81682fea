package streams_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

type text = streams.Stream[string, string]

// Each step gets the same five records, two of them with a null, and is held to what it lets out and what its function was called with.
func TestStatelessSteps(t *testing.T) {
	var calls []string
	called := func(k, v string) { calls = append(calls, k+":"+v) }
	for _, c := range []struct {
		name  string
		step  func(in text) text
		want  []string
		calls []string // all records unless said
	}{
		{
			name: "Filter",
			step: func(in text) text {
				return in.Filter(func(k, v string) bool { called(k, v); return v != "2" })
			},
			want: []string{"a:1@1 h=x", "null:3@3", "b:null@4"},
		},
		{
			name: "FilterNot",
			step: func(in text) text {
				return in.FilterNot(func(k, v string) bool { called(k, v); return v != "2" })
			},
			want: []string{"b:2@2"},
		},
		{
			name: "Map",
			step: func(in text) text {
				return in.Map(func(k, v string) (string, string) { called(k, v); return k + "!", v + "?" })
			},
			want: []string{"a!:1?@1 h=x", "b!:2?@2", "!:3?@3", "b!:?@4"},
		},
		{
			name: "MapValues leaves nulls alone",
			step: func(in text) text {
				return in.MapValues(func(v string) string { called("", v); return v + "?" })
			},
			want:  []string{"a:1?@1 h=x", "b:2?@2", "null:3?@3", "b:null@4"},
			calls: []string{":1", ":2", ":3"},
		},
		{
			name: "FlatMap",
			step: func(in text) text {
				return in.FlatMap(func(k, v string) []streams.KeyValue[string, string] {
					called(k, v)
					if v == "2" {
						return nil
					}
					return []streams.KeyValue[string, string]{{Key: k, Value: v}, {Key: v, Value: k}}
				})
			},
			want: []string{"a:1@1 h=x", "1:a@1 h=x", ":3@3", "3:@3", "b:@4", ":b@4"},
		},
		{
			name: "FlatMapValues gives nothing for a null",
			step: func(in text) text {
				return in.FlatMapValues(func(v string) []string { called("", v); return []string{v, v} })
			},
			want:  []string{"a:1@1 h=x", "a:1@1 h=x", "b:2@2", "b:2@2", "null:3@3", "null:3@3"},
			calls: []string{":1", ":2", ":3"},
		},
		{
			name: "SelectKey",
			step: func(in text) text {
				return in.SelectKey(func(k, v string) string { called(k, v); return k + v })
			},
			want: []string{"a1:1@1 h=x", "b2:2@2", "3:3@3", "b:null@4"},
		},
		{
			name: "Peek",
			step: func(in text) text { return in.Peek(called) },
			want: []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"},
		},
		{
			name: "ForEach beside",
			step: func(in text) text { in.ForEach(called); return in },
			want: []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"},
		},
		{
			name: "Merge with itself",
			step: func(in text) text { in = in.Peek(called); return in.Merge(in) },
			want: []string{"a:1@1 h=x", "a:1@1 h=x", "b:2@2", "b:2@2", "null:3@3", "null:3@3", "b:null@4", "b:null@4"},
		},
		{
			name: "Repartition keeps null keys",
			step: func(in text) text { return in.Peek(called).Repartition("again") },
			want: []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls = nil
			b := streams.NewBuilder()
			c.step(b.Stream("in", serde.String, serde.String)).To("out")
			d := streamstest.New(t, b)
			pipeFour(d)
			require.Equal(t, c.want, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
			if c.calls == nil {
				c.calls = []string{"a:1", "b:2", ":3", "b:"}
			}
			require.Equal(t, c.calls, calls)
		})
	}
}

func pipeFour(d *streamstest.Driver) {
	d.PipeRaw("in", []byte("a"), []byte("1"), streamstest.AtMillis(1), streamstest.Headers(streams.Header{Key: "h", Value: []byte("x")}))
	d.PipeRaw("in", []byte("b"), []byte("2"), streamstest.AtMillis(2))
	d.PipeRaw("in", nil, []byte("3"), streamstest.AtMillis(3))
	d.PipeRaw("in", []byte("b"), nil, streamstest.AtMillis(4))
}

func TestSplitGivesARecordToTheFirstBranchThatWantsIt(t *testing.T) {
	b := streams.NewBuilder()
	branches := b.Stream("in", serde.String, serde.Int64).Split(
		func(_ string, v int64) bool { return v > 100 },
		func(_ string, v int64) bool { return v > 10 },
	)
	require.Len(t, branches, 3)
	for i, name := range []string{"big", "medium", "small"} {
		branches[i].To(name)
	}
	d := streamstest.New(t, b)
	in := streamstest.In(d, "in", serde.String, serde.Int64)
	for i, v := range []int64{5, 50, 500, 10, 11} {
		in.Pipe("k", v, streamstest.AtMillis(int64(i)))
	}
	for topic, want := range map[string][]string{"big": {"k:500@2"}, "medium": {"k:50@1", "k:11@4"}, "small": {"k:5@0", "k:10@3"}} {
		require.Equal(t, want, show(streamstest.Out(d, topic, serde.String, serde.Int64).ReadAll()), topic)
	}
}

func TestMergeOfStreamsWithDifferentSerdes(t *testing.T) {
	b := streams.NewBuilder()
	hex := hexSerde{}
	b.Register[string](hex)
	plain := b.Stream("plain", serde.String, serde.String)
	coded := b.Stream("coded", serde.String, serde.Serde[string](hex))
	plain.Merge(coded).To("out")
	plain.Merge(b.Stream("more", serde.String, serde.String)).To("same")
	d := streamstest.New(t, b)
	d.PipeRaw("plain", []byte("k"), []byte("a"), streamstest.AtMillis(1))
	d.PipeRaw("coded", []byte("k"), []byte("61"), streamstest.AtMillis(2))
	d.PipeRaw("more", []byte("k"), []byte("a"), streamstest.AtMillis(3))
	require.Equal(t, []string{`"k":"61"@1`, `"k":"61"@2`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()), "both in the registered serde")
	require.Equal(t, []string{`"k":"a"@1`, `"k":"a"@3`}, showRaw(streamstest.OutRaw(d, "same").ReadAll()), "both in their own")
}

func TestToTopicChoosesForEachRecord(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).ToTopic(func(k, _ string) string { return "to-" + k })
	d := streamstest.New(t, b, streamstest.Partitions("to-c", 0))
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("a", "1", streamstest.AtMillis(1))
	in.Pipe("b", "2", streamstest.AtMillis(2))
	in.Pipe("a", "3", streamstest.AtMillis(3))
	require.Equal(t, []string{"a:1@1", "a:3@3"}, show(streamstest.Out(d, "to-a", serde.String, serde.String).ReadAll()))
	require.Equal(t, []string{"b:2@2"}, show(streamstest.Out(d, "to-b", serde.String, serde.String).ReadAll()))
	err := in.TryPipe("c", "4", streamstest.AtMillis(4))
	var failed *streams.RecordError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, streams.KindProduce, failed.Kind)
	require.Equal(t, "totopic", failed.Node)
	require.ErrorContains(t, err, `topic "to-c" is not known`)
}

func TestOneTopicReadTwiceIsOneInput(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).MapValues(strings.ToUpper).To("upper")
	b.Stream("in", serde.String, serde.Bytes).To("same")
	topology, err := b.Build("app")
	require.NoError(t, err)
	require.Len(t, topology.Subtopologies, 1)
	require.Len(t, topology.Subtopologies[0].Inputs, 1)
	d := streamstest.New(t, b)
	streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v", streamstest.AtMillis(1))
	require.Equal(t, []string{"k:V@1"}, show(streamstest.Out(d, "upper", serde.String, serde.String).ReadAll()))
	require.Equal(t, []string{"k:v@1"}, show(streamstest.Out(d, "same", serde.String, serde.String).ReadAll()))
}

func TestNegativeTimestamps(t *testing.T) {
	build := func(n streams.NegativeTimestamp) *streams.Builder {
		b := streams.NewBuilder()
		b.Stream("in", serde.String, serde.String, streams.OnNegativeTimestamp(n)).To("out")
		return b
	}
	t.Run("fail", func(t *testing.T) {
		d := streamstest.New(t, build(streams.FailRecord))
		var failed *streams.RecordError
		require.ErrorAs(t, streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "v", streamstest.AtMillis(-1)), &failed)
		require.Equal(t, streams.KindTimestamp, failed.Kind)
	})
	t.Run("drop", func(t *testing.T) {
		d := streamstest.New(t, build(streams.DropRecord))
		streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v", streamstest.AtMillis(-1))
		require.EqualValues(t, 1, d.Dropped("negative-timestamp"))
		require.EqualValues(t, 1, d.Committed("in", 0))
	})
	t.Run("stream time", func(t *testing.T) {
		d := streamstest.New(t, build(streams.UseStreamTime))
		in := streamstest.In(d, "in", serde.String, serde.String)
		in.Pipe("k", "v", streamstest.AtMillis(7))
		in.Pipe("k", "w", streamstest.AtMillis(-1))
		require.Equal(t, []string{"k:v@7", "k:w@7"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
	})
}

func TestToTopicWritesNoTopicOfTheApplication(t *testing.T) {
	b := streams.NewBuilder()
	in := b.Stream("in", serde.String, serde.String)
	in.ToTable("t")
	in.ToTopic(func(_, v string) string { return v })
	d := streamstest.New(t, b)
	err := streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "test-t-changelog")
	require.ErrorContains(t, err, `topic "test-t-changelog" belongs to the application itself: choose another`)
}
