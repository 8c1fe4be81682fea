package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

type basket struct {
	Items []string `json:"items"`
}

func TestAggregations(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(g streams.Grouped[string, string], e streams.Emission) text
		want  []string // per update
		final []string // in one commit
	}{
		{
			name: "Count",
			build: func(g streams.Grouped[string, string], e streams.Emission) text {
				return g.Count("s", e).ToStream().MapValues(func(n int64) string { return string('0' + byte(n)) })
			},
			want:  []string{"a:1@5", "b:1@3", "a:2@5", "a:3@9"},
			final: []string{"a:3@9", "b:1@3"},
		},
		{
			name: "Reduce",
			build: func(g streams.Grouped[string, string], e streams.Emission) text {
				return g.Reduce("s", func(a, v string) string { return a + "+" + v }, e).ToStream()
			},
			want:  []string{"a:1@5", "b:2@3", "a:1+3@5", "a:1+3+4@9"},
			final: []string{"a:1+3+4@9", "b:2@3"},
		},
		{
			name: "Aggregate in place",
			build: func(g streams.Grouped[string, string], e streams.Emission) text {
				return g.Aggregate("s", func() *basket { return &basket{} }, func(_, v string, b *basket) *basket {
					b.Items = append(b.Items, v)
					return b
				}, e, streams.WithSerdes[string](nil, serde.JSON[*basket]())).
					ToStream().MapValues(func(b *basket) string { return b.Items[0] + b.Items[len(b.Items)-1] })
			},
			want:  []string{"a:11@5", "b:22@3", "a:13@5", "a:14@9"},
			final: []string{"a:14@9", "b:22@3"},
		},
		{
			name: "Aggregate that deletes",
			build: func(g streams.Grouped[string, string], e streams.Emission) text {
				return g.Aggregate("s", func() *basket { return nil }, func(_, v string, b *basket) *basket {
					if v == "3" || v == "2" {
						return nil
					}
					return &basket{Items: []string{v}}
				}, e, streams.WithSerdes[string](nil, serde.JSON[*basket]())).
					ToStream().MapValues(func(b *basket) string { return b.Items[0] })
			},
			want:  []string{"a:1@5", "a:null@5", "a:4@9"},
			final: []string{"a:4@9"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, regroup := range []bool{false, true} {
				require.Equal(t, c.want, runAggregation(t, c.build, streams.EmitPerUpdate, regroup), "per update, regrouped: %v", regroup)
				require.Equal(t, c.final, runAggregation(t, c.build, streams.EmitAtCommit, regroup), "at commit, regrouped: %v", regroup)
			}
		})
	}
}

func runAggregation(t *testing.T, build func(streams.Grouped[string, string], streams.Emission) text, e streams.Emission, regroup bool) []string {
	b := streams.NewBuilder()
	in := b.Stream("in", serde.String, serde.String)
	g := in.GroupByKey()
	if regroup {
		g = in.GroupBy(func(k, _ string) string { return k })
	}
	build(g, e).To("out")
	d := streamstest.New(t, b, streamstest.HoldCommits())
	for _, r := range []struct {
		key, value []byte
		at         int64
	}{
		{[]byte("a"), []byte("1"), 5}, {[]byte("b"), []byte("2"), 3}, {[]byte("a"), nil, 4}, {[]byte("a"), []byte("3"), 4},
		{[]byte("a"), []byte("4"), 9},
	} {
		d.PipeRaw("in", r.key, r.value, streamstest.AtMillis(r.at))
	}
	if !regroup {
		d.PipeRaw("in", nil, []byte("5"), streamstest.AtMillis(1))
	}
	d.Commit()
	require.EqualValues(t, 1, d.Dropped("null-value"))
	if !regroup {
		require.EqualValues(t, 1, d.Dropped("null-key"))
	}
	return show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll())
}

func TestAnAggregateOfBytesMayBeChangedInPlace(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.Bytes).GroupByKey().
		Aggregate("s", func() []byte { return nil }, func(_ string, v, sum []byte) []byte {
			for i := range sum {
				sum[i]++
			}
			return append(sum, v...)
		}, streams.EmitPerUpdate).
		Filter(func(_ string, v []byte) bool { return v[0] != 'b' }). // reads old and new
		ToStream().To("out")
	d := streamstest.New(t, b)
	in := streamstest.In(d, "in", serde.String, serde.Bytes)
	for i, v := range []string{"a", "x", "x"} {
		in.Pipe("k", []byte(v), streamstest.AtMillis(int64(i)))
	}
	require.Equal(t, []string{`"k":"a"@0`, `"k":null@1`, `"k":"cyx"@2`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
}

func TestRepartitionTopicOfAGrouping(t *testing.T) {
	group := func(named ...streams.RepartitionOption) (*streams.Builder, streams.Grouped[string, string]) {
		b := streams.NewBuilder()
		return b, b.Stream("in", serde.String, serde.String).GroupBy(func(_, v string) string { return v }, named...)
	}
	internal := func(t *testing.T, b *streams.Builder) []string {
		topology, err := b.Build("app")
		require.NoError(t, err)
		var names []string
		for _, topic := range topology.Internal {
			names = append(names, topic.Name)
		}
		return names
	}
	t.Run("is named after the store", func(t *testing.T) {
		b, g := group()
		g.Count("counts")
		require.Equal(t, []string{"app-counts-changelog", "app-counts-repartition"}, internal(t, b))
	})
	t.Run("is shared by the aggregations of a named grouping", func(t *testing.T) {
		b, g := group(streams.As("by-value"), streams.Partitions(7))
		g.Count("counts")
		g.Reduce("last", func(_, v string) string { return v }, streams.WithoutChangelog())
		require.Equal(t, []string{"app-by-value-repartition", "app-counts-changelog"}, internal(t, b))
	})
	t.Run("is not needed where the key is the source's", func(t *testing.T) {
		b := streams.NewBuilder()
		b.Stream("in", serde.String, serde.String).MapValues(func(v string) string { return v }).GroupByKey().Count("counts")
		require.Equal(t, []string{"app-counts-changelog"}, internal(t, b))
	})
	t.Run("drops null keys and counts them", func(t *testing.T) {
		b := streams.NewBuilder()
		b.Stream("in", serde.String, serde.String).
			GroupBy(func(_, v string) []byte {
				if v == "" {
					return nil
				}
				return []byte(v)
			}).Count("counts").ToStream().To("out")
		d := streamstest.New(t, b)
		in := streamstest.In(d, "in", serde.String, serde.String)
		in.Pipe("k", "v", streamstest.AtMillis(0))
		in.Pipe("k", "", streamstest.AtMillis(0))
		require.EqualValues(t, 1, d.Dropped("null-key"))
		require.Len(t, streamstest.OutRaw(d, "out").ReadAll(), 1)
	})
}

func TestToTableBehindANewKeyIsRepartitioned(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).SelectKey(func(_, v string) string { return v[:1] }).
		ToTable("latest").ToStream().To("out")
	d := streamstest.New(t, b, streamstest.Partitions("in", 3))
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("1", "a1", streamstest.AtMillis(1))
	in.Pipe("2", "a2", streamstest.AtMillis(2))
	in.Pipe("3", "b3", streamstest.AtMillis(3))
	require.Equal(t, []string{"a:a1@1", "a:a2@2", "b:b3@3"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
	require.Len(t, streamstest.OutRaw(d, "test-latest-repartition").ReadAll(), 3)
}

func TestALateRecordOverwritesARowOfATable(t *testing.T) {
	b := streams.NewBuilder()
	b.Table("in", serde.String, serde.String).ToStream().To("out")
	d := streamstest.New(t, b)
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("k", "new", streamstest.AtMillis(10))
	in.Pipe("k", "late", streamstest.AtMillis(7))
	in.PipeTombstone("k", streamstest.AtMillis(6))
	in.PipeTombstone("k", streamstest.AtMillis(5))
	in.PipeTombstone("other", streamstest.AtMillis(5))
	require.Equal(t, []string{"k:new@10", "k:late@7", "k:null@6"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()),
		"in the order of offsets, and nothing for a row that is not there")
}

func TestATableOfNullableValuesHasNoRowForNull(t *testing.T) {
	for _, emission := range []streams.Emission{streams.EmitAtCommit, streams.EmitPerUpdate} {
		b := streams.NewBuilder()
		b.Table("in", serde.String, serde.String, emission).
			MapValues(func(v string) *basket {
				if v == "none" {
					return nil
				}
				return &basket{Items: []string{v}}
			}, streams.WithSerdes[string](nil, serde.JSON[*basket]())).
			ToStream().To("out")
		d := streamstest.New(t, b)
		in := streamstest.In(d, "in", serde.String, serde.String)
		for i, v := range []string{"none", "none", "a", "none", "none"} {
			in.Pipe("k", v, streamstest.AtMillis(int64(i)))
		}
		require.Equal(t, []string{`"k":"{\"items\":[\"a\"]}"@2`, `"k":null@3`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
	}
}
