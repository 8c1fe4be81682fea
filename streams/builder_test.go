package streams_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestFaults(t *testing.T) {
	store := streams.NewStore("s", serde.String, serde.String)
	in := func(b *streams.Builder) text { return b.Stream("in", serde.String, serde.String) }
	keep := func(string, string) bool { return true }
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
		want  []string
	}{
		{"nothing", func(*streams.Builder) {}, []string{"the topology is empty"}},
		{"no topic", func(b *streams.Builder) { b.Stream("", serde.String, serde.String).To("") },
			[]string{"the topic of a Stream is missing", "the topic of a To is missing"}},
		{"no names", func(b *streams.Builder) {
			in(b).GroupByKey().Count("")
			in(b).Repartition("")
			in(b).TryFilter("", func(context.Context, textRecord) (bool, error) { return true, nil })
			in(b).Process("", func(*streams.Init) textProcessor { return nil })
		}, []string{"the store of a count is missing", "the name of a Repartition is missing", "the name of a Try step is missing",
			"the name of a Process is missing"}},
		{"impossible names", func(b *streams.Builder) {
			in(b).ToTable("a b")
			in(b).GroupByKey(streams.As("ü"))
			b.Table(strings.Repeat("x", 250), serde.String, serde.String)
		}, []string{`the store of a Table "a b" has a ' ' in it`, `the name of a grouping "ü" has a 'ü' in it`, "is longer than 249 bytes"}},
		{"a name used twice", func(b *streams.Builder) {
			in(b).Filter(keep, streams.As("f")).Filter(keep, streams.As("f"))
			in(b).GroupByKey().Count("c")
			in(b).GroupByKey().Count("c")
			in(b).Repartition("r")
			in(b).Repartition("r")
		}, []string{`step name "f" is used twice`, `store name "c" is used twice`, `repartition name "r" is used twice`}},
		{"nil functions", func(b *streams.Builder) {
			in(b).Filter(nil).Map((func(string, string) (string, string))(nil)).To("out")
			in(b).Split(keep, nil)
			in(b).ToTopic(nil)
			in(b).GroupByKey().Aggregate("a", nil, func(_, _, a string) string { return a })
			in(b).GroupByKey().Reduce("b", nil)
			in(b).ToTable("t").Filter(nil)
			in(b).Process("p", (func(*streams.Init) textProcessor)(nil))
		}, []string{`step "filter" has a nil function`, `step "map" has a nil function`, `step "split-1" has a nil function`,
			`step "totopic" has a nil function`, `step "aggregate-a" has a nil function`, `step "reduce-b" has a nil function`,
			`step "tablefilter" has a nil function`, `step "p" has a nil function`}},
		{"no branches", func(b *streams.Builder) { in(b).Split() }, []string{`step "split" has no branches`}},
		{"no serde", func(b *streams.Builder) {
			in(b).MapValues(func(string) basket { return basket{} }).To("out")
			in(b).GroupByKey().Aggregate("a", func() basket { return basket{} }, func(_, _ string, a basket) basket { return a })
			b.Stream[basket, string]("baskets", nil, nil).To("out")
		}, []string{
			`step "to-out" needs a serde for its value of type streams_test.basket: register one with Builder.Register, or name it at the step with WithSerdes`,
			`step "aggregate-a" needs a serde for its value of type streams_test.basket`,
			`step "source-baskets" needs a serde for its key of type streams_test.basket`,
			`step "to-out-2" needs a serde for its key of type streams_test.basket`,
		}},
		{"a serde of another type", func(b *streams.Builder) { in(b).To("out", streams.WithSerdes(serde.Int64, serde.String)) },
			[]string{`step "to-out": WithSerdes names a serde.int64Serde for its keys, which are of type string`}},
		{"a serde for nothing", func(b *streams.Builder) {
			in(b).ForEach(func(string, string) {}, streams.WithSerdes(serde.String, serde.String))
		}, []string{`step "foreach" puts nothing out: take WithSerdes away from it`}},
		{"a nil serde", func(b *streams.Builder) { b.Register[basket](nil); in(b).To("out") },
			[]string{"the serde registered for streams_test.basket is nil"}},
		{"nil stores", func(b *streams.Builder) {
			supplier := func(*streams.Init) textProcessor { return nil }
			in(b).Process("p", supplier, streams.WithStores(nil, streams.NewStore[string, string]("s", nil, serde.String)))
			in(b).Process("q", supplier, streams.WithStores((*streams.Store[string, string])(nil)))
			b.AddStore(nil)
		}, []string{"a store is nil: make it with NewStore", `store "s" has a nil serde`, "a store is nil", "a store is nil"}},
		{"two stores of one name", func(b *streams.Builder) {
			in(b).ToTable("s")
			in(b).Process("p", func(*streams.Init) textProcessor { return nil }, streams.WithStores(store, store))
		}, []string{`store name "s" is used twice`}},
		{"streams of two builders", func(b *streams.Builder) { in(b).Merge(in(streams.NewBuilder())) },
			[]string{`step "merge" merges streams of two builders`}},
		{"the table of another builder", func(b *streams.Builder) {
			other := streams.NewBuilder().Table("names", serde.String, serde.String)
			in(b).Process("p", func(*streams.Init) textProcessor { return nil }, streams.WithStores(other.Store()))
		}, []string{`store "names" is that of a table of another builder`}},
		{"negative partitions", func(b *streams.Builder) { in(b).Repartition("r", streams.Partitions(-1)) },
			[]string{`repartition topic "r" has -1 partitions`}},
		{"no partitions", func(b *streams.Builder) { in(b).Repartition("r", streams.Partitions(0)) },
			[]string{`repartition topic "r" has 0 partitions: give it one or more, or leave Partitions away`}},
		{"partitions of no topic", func(b *streams.Builder) { in(b).GroupByKey(streams.Partitions(2)).Count("c") },
			[]string{`the grouping behind step "source-in" makes no repartition topic`}},
		{"a topic with two rules for timestamps", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String, streams.OnNegativeTimestamp(streams.DropRecord)).To("out")
			b.Stream("in", serde.String, serde.String, streams.OnNegativeTimestamp(streams.UseStreamTime)).To("out")
			in(b).To("out")
		}, []string{`topic "in" is read twice, with different options OnNegativeTimestamp`}},
		{"too long together", func(b *streams.Builder) { in(b).ToTable(strings.Repeat("x", 236)) },
			[]string{"-changelog\" is longer than 249 bytes: shorten the application id or the name of the step or store"}},
		{"a repartition with two names", func(b *streams.Builder) { in(b).Repartition("r", streams.As("s")) },
			[]string{`repartition "r" is named "s" by As too`}},
		{"its own internal topic", func(b *streams.Builder) {
			in(b).Repartition("r").To("app-s-changelog")
			in(b).ToTable("s")
			b.Stream("app-r-repartition", serde.String, serde.String)
		}, []string{`topic "app-r-repartition" belongs to the application itself`, `topic "app-s-changelog" belongs to the application itself`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			_, err := b.Build("app")
			var e *streams.TopologyError
			require.ErrorAs(t, err, &e)
			for _, want := range c.want {
				require.ErrorContains(t, err, want)
			}
			require.Len(t, e.Faults, len(c.want), "%v", err)
		})
	}
}

func TestBuildNeedsAnApplicationID(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).To("out")
	_, err := b.Build("")
	require.ErrorContains(t, err, "the application id is missing")
	topology, err := b.Build("app")
	require.NoError(t, err, "a builder can be built again")
	require.Equal(t, "app", topology.ApplicationID())
}

func TestErrorsIsSeesEachFault(t *testing.T) {
	e := &streams.TopologyError{Faults: []error{errors.New("x"), errTry}}
	require.ErrorIs(t, e, errTry)
	require.EqualError(t, e, "streams: the topology has 2 faults:\nx\nno")
}

func TestSerdesByTypeByRegistrationAndAtTheStep(t *testing.T) {
	b := streams.NewBuilder()
	b.Register(serde.JSON[basket]())
	in := b.Stream("in", serde.String, serde.String)
	in.MapValues(func(v string) basket { return basket{Items: []string{v}} }).To("registered")
	in.MapValues(func(v string) [16]byte { return [16]byte{v[0]} }).To("by-type")
	in.MapValues(func(v string) string { return v }, streams.WithSerdes[string, string](nil, hexSerde{})).To("kept")
	in.To("at-step", streams.WithSerdes[string, string](hexSerde{}, hexSerde{}))
	in.GroupBy(func(k, _ string) string { return k }, streams.WithSerdes[string, string](nil, hexSerde{})).
		Reduce("last", func(_, v string) string { return v }, streams.WithSerdes[string, string](hexSerde{}, nil)).ToStream().To("reduced")
	d := streamstest.New(t, b)
	streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v", streamstest.AtMillis(1))
	for topic, want := range map[string]string{
		"registered": `"k":"{\"items\":[\"v\"]}"@1`,
		"by-type":    `"k":"76000000-0000-0000-0000-000000000000"@1`,
		"kept":       `"k":"76"@1`, "at-step": `"6b":"76"@1`,
		"test-last-repartition": `"k":"76"@1`, "test-last-changelog": `"6b":"76"@1`, "reduced": `"6b":"76"@1`,
	} {
		require.Equal(t, []string{want}, showRaw(streamstest.OutRaw(d, topic).ReadAll()), topic)
	}
}

func TestRecordsThatCannotBeReadOrWritten(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
		key   string
		value string
		kind  streams.Kind
		node  string
		want  string
	}{
		{"value", func(b *streams.Builder) { b.Stream("in", serde.String, serde.Int64).To("out") }, "k", "abc",
			streams.KindDecode, "source-in", "value: serde: int64 takes 8 bytes, there are 3"},
		{"key", func(b *streams.Builder) { b.Stream("in", serde.Int32, serde.String).To("out") }, "k", "abc",
			streams.KindDecode, "source-in", "key: serde: int32 takes 4 bytes, there are 1"},
		{"value out", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).To("out", streams.WithSerdes[string, string](nil, hexSerde{}))
		}, "k", "unwritable", streams.KindEncode, "to-out", "value: string: unwritable"},
		{"key out", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).To("out", streams.WithSerdes[string, string](hexSerde{}, nil))
		}, "unwritable", "", streams.KindEncode, "to-out", "key: string: unwritable"},
		{"row", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).ToTable("t", streams.WithSerdes[string, string](nil, hexSerde{}))
		}, "k", "unwritable", streams.KindEncode, "table-t", "value: string: unwritable"},
		{"key of a row", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).GroupByKey().Count("c", streams.WithSerdes[string, int64](hexSerde{}, nil))
		}, "unwritable", "", streams.KindEncode, "count-c", "key: string: unwritable"},
		{"result", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).GroupByKey().
				Reduce("r", func(_, v string) string { return v }, streams.WithSerdes[string, string](nil, hexSerde{}))
		}, "k", "unwritable", streams.KindEncode, "reduce-r", "value: string: unwritable"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			d := streamstest.New(t, b)
			err := d.TryPipeRaw("in", []byte(c.key), []byte(c.value), streamstest.AtMillis(1))
			var failed *streams.RecordError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind)
			require.Equal(t, c.node, failed.Node)
			require.ErrorContains(t, err, "in-0 at offset 0")
			require.ErrorContains(t, err, c.want)
		})
	}
}
