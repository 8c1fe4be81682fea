package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// lookup enriches records with the row of a table.
func lookup(use func(h *streams.StoreHandle[string, string], c *textContext, r textRecord)) *streams.Builder {
	b := streams.NewBuilder()
	names := b.Table("names", serde.String, serde.String)
	b.Stream("visits", serde.String, serde.String).Process("enrich", func(init *streams.Init) textProcessor {
		h := names.Store().Open(init)
		return textFunc(func(c *textContext, r textRecord) error {
			use(h, c, r)
			return nil
		})
	}, streams.WithStores(names.Store())).To("out")
	return b
}

func TestAProcessorReadsATable(t *testing.T) {
	d := streamstest.New(t, lookup(func(h *streams.StoreHandle[string, string], c *textContext, r textRecord) {
		name, ok := h.Get(r.Key)
		if !ok {
			name = "nobody"
		}
		c.Forward(textRecord{Key: r.Key, Value: name + " " + r.Value})
	}), streamstest.Partitions("names", 2), streamstest.Partitions("visits", 2), streamstest.HoldCommits())
	require.Equal(t, [][]string{{"names", "visits"}}, d.Topology().Copartitioned)
	names, visits := streamstest.In(d, "names", serde.String, serde.String), streamstest.In(d, "visits", serde.String, serde.String)
	visits.Pipe("a", "early", streamstest.AtMillis(1))
	names.Pipe("a", "Ann", streamstest.AtMillis(2))
	visits.Pipe("a", "now", streamstest.AtMillis(3))
	require.Equal(t, []string{"a:nobody early@1", "a:Ann now@3"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
}

func TestTheStoreOfATableIsReadOnly(t *testing.T) {
	d := streamstest.New(t, lookup(func(h *streams.StoreHandle[string, string], _ *textContext, r textRecord) { h.Put(r.Key, r.Value) }))
	err := streamstest.In(d, "visits", serde.String, serde.String).TryPipe("a", "b")
	require.ErrorContains(t, err, `store "names" is written by its table only`)
}

func TestADerivedTableHasNoStore(t *testing.T) {
	b := streams.NewBuilder()
	b.Table("in", serde.String, serde.String).Filter(func(string, string) bool { return true }).Store()
	_, err := b.Build("app")
	require.ErrorContains(t, err, `step "tablefilter" has no store of its own`)
}

// A table that is declared ordered can be iterated over.
func TestAnOrderedTable(t *testing.T) {
	b := streams.NewBuilder()
	names := b.Table("names", serde.String, serde.String, streams.Ordered())
	b.Stream("asks", serde.String, serde.String).Process("all", func(init *streams.Init) textProcessor {
		h := names.Store().Open(init)
		return textFunc(func(c *textContext, r textRecord) error {
			for k, v := range h.Range("a", "b") {
				c.Forward(textRecord{Key: k, Value: v})
			}
			return nil
		})
	}, streams.WithStores(names.Store())).To("out")
	d := streamstest.New(t, b)
	in := streamstest.In(d, "names", serde.String, serde.String)
	for _, k := range []string{"b", "c", "a"} {
		in.Pipe(k, "of "+k, streamstest.AtMillis(1))
	}
	streamstest.In(d, "asks", serde.String, serde.String).Pipe("q", "", streamstest.AtMillis(2))
	require.Equal(t, []string{"a:of a@2", "b:of b@2"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
}
