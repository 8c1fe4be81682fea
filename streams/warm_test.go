package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/statestore"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/task"
)

// Keys that come next are shown to the stores in which they will be looked up as they are, and to no others.
func TestWarmStores(t *testing.T) {
	positive := func(_ string, v int64) bool { return v > 0 }
	for _, c := range []struct {
		name  string
		build func(*streams.Builder)
		want  []int
	}{
		{"a count", func(b *streams.Builder) { b.Stream("in", serde.String, serde.Int64).GroupByKey().Count("c") }, []int{0}},
		{"a table", func(b *streams.Builder) { b.Table("in", serde.String, serde.Int64) }, []int{0}},
		{"behind steps that keep the key", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).Filter(positive).Peek(func(string, int64) {}).
				MapValues(func(v int64) int64 { return v }).GroupByKey().Count("c")
		}, []int{0}},
		{"two stores", func(b *streams.Builder) {
			s := b.Stream("in", serde.String, serde.Int64)
			s.GroupByKey().Count("c")
			s.Filter(positive).GroupByKey().Count("d")
		}, []int{0, 1}},
		{"another key", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).SelectKey(func(k string, _ int64) string { return k + "!" }).To("out")
		}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			spec := build(t, b).Subtopologies[0]
			var graph *task.Graph
			inner := spec.Build
			watched := *spec
			watched.Build = func(env *task.Env) (*task.Graph, error) {
				g, err := inner(env)
				graph = g
				return g, err
			}
			_, err := task.New(task.Config{
				ID: task.ID{Subtopology: spec.Subtopology}, Spec: &watched, StreamTime: -1, Positions: make([]int64, len(spec.Inputs)),
				Stores: make([]statestore.Reader, len(spec.Stores)), Partitions: func(string) int32 { return 4 },
			})
			require.NoError(t, err)
			require.Equal(t, [][]int{c.want}, graph.Warm)
		})
	}
}
