package streams_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// tableModel is a table of sums, kept naively.
type tableModel map[string]int64

func (m tableModel) view(keep func(string, int64) bool) tableModel {
	out := tableModel{}
	for k, v := range m {
		if keep(k, v) {
			out[k] = -v
		}
	}
	return out
}

// Whatever comes, whenever it is committed and wherever the task is restarted: who follows the output of a filtered and mapped table has the
// same rows as the table, and is never told to delete a row that he has not.
func TestAFilteredTableIsFollowedExactly(t *testing.T) {
	keep := func(k string, v int64) bool { return v > 0 && k != "c" }
	for _, emission := range []streams.Emission{streams.EmitAtCommit, streams.EmitPerUpdate} {
		t.Run(fmt.Sprint(emission), func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) {
				b := streams.NewBuilder(emission)
				b.Stream("in", serde.String, serde.Int64).
					GroupBy(func(k string, _ int64) string { return k }, streams.Partitions(2)).
					Reduce("sums", func(sum, v int64) int64 { return sum + v }).
					Filter(keep).
					MapValues(func(v int64) int64 { return -v }).
					ToStream().To("out")
				d := streamstest.New(t, b, streamstest.HoldCommits(), streamstest.Partitions("in", 2), streamstest.Partitions("out", 3))
				in, out := streamstest.In(d, "in", serde.String, serde.Int64), streamstest.Out(d, "out", serde.String, serde.Int64)
				model, followed := tableModel{}, tableModel{}
				rt.Repeat(map[string]func(*rapid.T){
					"record": func(rt *rapid.T) {
						k := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(rt, "key")
						v := rapid.Int64Range(-3, 3).Draw(rt, "value")
						model[k] += v
						in.Pipe(k, v)
					},
					"commit": func(*rapid.T) {
						d.Commit()
						follow(rt, followed, out.ReadAll())
						require.Equal(rt, model.view(keep), followed)
					},
					"restart": func(rt *rapid.T) {
						d.Commit() // what is not committed is written twice
						d.Restart(rapid.Bool().Draw(rt, "state is kept"))
					},
				})
			})
		})
	}
}

func follow(t require.TestingT, rows tableModel, changes []streams.Record[string, int64]) {
	for _, r := range changes {
		if !r.NullValue {
			rows[r.Key] = r.Value
			continue
		}
		require.Contains(t, rows, r.Key, "a row is deleted that is not there")
		delete(rows, r.Key)
	}
}

// Tables in a row emit within one commit, upstream first.
func TestATableOfATableEmitsInTheSameCommit(t *testing.T) {
	b := streams.NewBuilder()
	b.Table("in", serde.String, serde.String).ToStream().GroupByKey().Count("changes").ToStream().To("out")
	d := streamstest.New(t, b, streamstest.HoldCommits())
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("k", "1", streamstest.AtMillis(1))
	in.Pipe("k", "2", streamstest.AtMillis(2))
	in.Pipe("l", "3", streamstest.AtMillis(3))
	d.Commit()
	in.Pipe("k", "4", streamstest.AtMillis(4))
	d.Commit()
	require.Equal(t, []string{"k:1@2", "l:1@3", "k:2@4"}, show(streamstest.Out(d, "out", serde.String, serde.Int64).ReadAll()))
}

// A row that cannot be decoded, such as one restored from a changelog that somebody else wrote to, fails where it is used.
func TestACorruptRowFailsTheRecordThatReadsIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		build func(b *streams.Builder)
		kind  streams.Kind
		node  string
	}{
		{"aggregation", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.String).GroupByKey().Count("s")
		}, streams.KindDecode, "count-s"},
		{"old row of a change, per update", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).ToTable("s", streams.EmitPerUpdate).
				Filter(func(string, int64) bool { return true }).ToStream().To("out")
		}, streams.KindDecode, "table-s"},
		{"old row of a change, at commit", func(b *streams.Builder) {
			b.Stream("in", serde.String, serde.Int64).ToTable("s").
				Filter(func(string, int64) bool { return true }).ToStream().To("out")
		}, streams.KindDecode, "table-s"},
		{"processor", func(b *streams.Builder) {
			store := streams.NewStore("s", serde.String, serde.Int64, streams.Ordered())
			b.Stream("in", serde.String, serde.String).Process("p", func(init *streams.Init) textProcessor {
				h := store.Open(init)
				return textFunc(func(*textContext, textRecord) error {
					for range h.All() {
						panic("a row")
					}
					return nil
				})
			}, streams.WithStores(store))
		}, streams.KindDecode, "p"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			d := streamstest.New(t, b)
			d.PipeRaw("test-s-changelog", []byte("k"), []byte("abc"))
			d.Restart(false)
			err := d.TryPipeRaw("in", []byte("k"), []byte("12345678"))
			var failed *streams.RecordError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind)
			require.Equal(t, c.node, failed.Node)
			require.ErrorContains(t, err, "int64 takes 8 bytes, there are 3")
		})
	}
}
