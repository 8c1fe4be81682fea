package streams_test

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
)

// parallel is a source that may be recovered in parallel, if what is behind it lets it.
func parallel(b *streams.Builder, topic string, opts ...streams.SourceOption) text {
	return from(b, topic, append(opts, streams.OnFailure(retry.Parallel()))...)
}

func sumText(_ string, _ string, n int64) int64 { return n + 1 }
func zero() int64                               { return 0 }

// passesOn is a processor that passes all on.
func passesOn(*streams.Init) streams.Processor[string, string, string, string] {
	return streams.ProcessorFunc[string, string, string, string](func(c *streams.Context[string, string], r streams.Record[string, string]) error {
		c.Forward(r)
		return nil
	})
}

func recoveryOf(c streams.Config, b *streams.Builder) error {
	c.ApplicationID, c.Brokers, c.StateDir = "app", []string{"localhost:9092"}, "/var/lib/x"
	_, err := streams.New(b, c)
	return err
}

var inParallel = streams.Config{Recovery: streams.RecoverParallel}

// recoverySteps is every step of the DSL, by receiver and method, and what forbids the parallel recovery of what is in front of it.
var recoverySteps = []struct {
	step  string // method, and a variant behind a blank
	add   func(b *streams.Builder, s text)
	names string // the step that forbids it; empty: nothing does
	why   string
}{
	{"Stream.Filter", func(_ *streams.Builder, s text) { s.Filter(func(string, string) bool { return true }).To("out") }, "", ""},
	{"Stream.FilterNot", func(_ *streams.Builder, s text) { s.FilterNot(func(string, string) bool { return true }).To("out") }, "", ""},
	{"Stream.Map", func(_ *streams.Builder, s text) { s.Map(func(k, v string) (string, string) { return k, v }).To("out") }, "", ""},
	{"Stream.MapValues", func(_ *streams.Builder, s text) { s.MapValues(strings.ToUpper).To("out") }, "", ""},
	{"Stream.FlatMap", func(_ *streams.Builder, s text) {
		s.FlatMap(func(string, string) []streams.KeyValue[string, string] { return nil }).To("out")
	}, "", ""},
	{"Stream.FlatMapValues", func(_ *streams.Builder, s text) { s.FlatMapValues(strings.Fields).To("out") }, "", ""},
	{"Stream.SelectKey", func(_ *streams.Builder, s text) { s.SelectKey(func(_, v string) string { return v }).To("out") }, "", ""},
	{"Stream.Peek", func(_ *streams.Builder, s text) { s.Peek(func(string, string) {}).To("out") }, "", ""},
	{"Stream.ForEach", func(_ *streams.Builder, s text) { s.ForEach(func(string, string) {}) }, "", ""},
	{"Stream.Split", func(_ *streams.Builder, s text) { s.Split(func(string, string) bool { return true })[0].To("out") }, "", ""},
	{"Stream.Merge", func(b *streams.Builder, s text) { s.Merge(from(b, "more")).To("out") }, "", ""},
	{"Stream.TryFilter", func(_ *streams.Builder, s text) {
		s.TryFilter("try", func(context.Context, textRecord) (bool, error) { return true, nil }).To("out")
	}, "", ""},
	{"Stream.TryMap", func(_ *streams.Builder, s text) {
		s.TryMap("try", func(context.Context, textRecord) (string, string, error) { return "", "", nil }).To("out")
	}, "", ""},
	{"Stream.TryMapValues", func(_ *streams.Builder, s text) {
		s.TryMapValues("try", func(context.Context, textRecord) (string, error) { return "", nil }).To("out")
	}, "", ""},
	{"Stream.TryFlatMap", func(_ *streams.Builder, s text) {
		s.TryFlatMap("try", func(context.Context, textRecord) ([]streams.KeyValue[string, string], error) { return nil, nil }).To("out")
	}, "", ""},
	{"Stream.TryFlatMapValues", func(_ *streams.Builder, s text) {
		s.TryFlatMapValues("try", func(context.Context, textRecord) ([]string, error) { return nil, nil }).To("out")
	}, "", ""},
	{"Stream.TrySelectKey", func(_ *streams.Builder, s text) {
		s.TrySelectKey("try", func(context.Context, textRecord) (string, error) { return "", nil }).To("out")
	}, "", ""},
	{"Stream.TryPeek", func(_ *streams.Builder, s text) { s.TryPeek("try", fails).To("out") }, "", ""},
	{"Stream.TryForEach", func(_ *streams.Builder, s text) { s.TryForEach("try", fails) }, "", ""},
	{"Stream.To", func(_ *streams.Builder, s text) { s.To("out") }, "", ""},
	{"Stream.ToTopic", func(_ *streams.Builder, s text) { s.ToTopic(func(string, string) string { return "out" }) }, "", ""},
	{"Stream.Repartition", func(_ *streams.Builder, s text) { s.Repartition("again").To("out") }, "", ""},
	{"Stream.GroupByKey", func(_ *streams.Builder, s text) { s.GroupByKey().Count("n").ToStream().To("out") }, "", ""},
	{"Stream.GroupBy", func(_ *streams.Builder, s text) {
		s.GroupBy(func(_, v string) string { return v }).Count("n").ToStream().To("out")
	}, "", ""},
	{"Stream.ToTable", func(_ *streams.Builder, s text) { s.ToTable("rows") }, "table-rows", "put back an older one"},
	{"Stream.Process without a store", func(_ *streams.Builder, s text) { s.Process("p", passesOn).To("out") }, "", ""},
	{"Stream.Process with a store", func(_ *streams.Builder, s text) {
		s.Process("p", passesOn, streams.WithStores(streams.NewStore("seen", serde.String, serde.String))).To("out")
	}, "p", `store "seen"`},
	{"Stream.Process with an unordered store", func(_ *streams.Builder, s text) {
		s.Process("p", passesOn, streams.WithStores(streams.NewStore("seen", serde.String, serde.String, streams.Unordered()))).To("out")
	}, "", ""},
	{"Stream.Process with an unordered store and another", func(_ *streams.Builder, s text) {
		s.Process("p", passesOn, streams.WithStores(streams.NewStore("seen", serde.String, serde.String, streams.Unordered()),
			streams.NewStore("last", serde.String, serde.String))).To("out")
	}, "p", `store "last"`},
	{"Grouped.Count", func(_ *streams.Builder, s text) { s.GroupByKey().Count("n", streams.Commutative()) }, "", ""},
	{"Grouped.Reduce", func(_ *streams.Builder, s text) {
		s.GroupByKey().Reduce("longest", func(a, b string) string { return max(a, b) })
	}, "reduce-longest", "the first value of a key"},
	{"Grouped.Aggregate", func(_ *streams.Builder, s text) { s.GroupByKey().Aggregate("sum", zero, sumText) }, "aggregate-sum", "depend on the order"},
	{"Grouped.Aggregate that commutes", func(_ *streams.Builder, s text) {
		s.GroupByKey().Aggregate("sum", zero, sumText, streams.Commutative()).ToStream().To("out")
	}, "", ""},
	{"Builder.Stream", func(b *streams.Builder, s text) { s.To("out"); from(b, "in").To("out") }, "", ""},
	{"Builder.Table", func(b *streams.Builder, s text) {
		b.Table("rows", serde.String, serde.String, streams.OnFailure(retry.Parallel()))
		s.To("out")
	}, "table-rows", "put back an older one"},
	{"Builder.AddStore", func(b *streams.Builder, s text) {
		b.AddStore(streams.NewStore("unused", serde.String, serde.String))
		s.To("out")
	}, "", ""},
	{"Table.Filter", func(_ *streams.Builder, s text) {
		s.GroupByKey().Count("n").Filter(func(string, int64) bool { return true }).ToStream().To("out")
	}, "", ""},
	{"Table.MapValues", func(_ *streams.Builder, s text) {
		s.GroupByKey().Count("n").MapValues(func(n int64) int64 { return n }).ToStream().To("out")
	}, "", ""},
	{"Table.ToStream", func(_ *streams.Builder, s text) { s.GroupByKey().Count("n").ToStream().To("out") }, "", ""},
	{"Table.Store", func(_ *streams.Builder, s text) {
		s.Process("p", passesOn, streams.WithStores(s.GroupByKey().Count("n").Store())).To("out")
	}, "p", `store "n"`},
	{"Builder.StreamPattern", func(b *streams.Builder, s text) {
		s.Merge(b.StreamPattern("p", streams.Matching("x.*"), serde.String, serde.String)).To("out")
	}, "", ""},
	{"Table.Store that is unordered", func(_ *streams.Builder, s text) {
		s.Process("p", passesOn, streams.WithStores(s.GroupByKey().Count("n", streams.Unordered()).Store())).To("out")
	}, "", ""},
}

func TestRecoveryParallelAcceptsAndRefusesEachStep(t *testing.T) {
	for _, c := range recoverySteps {
		t.Run(c.step, func(t *testing.T) {
			for place, lead := range map[string]func(text) text{
				"behind the source":           func(s text) text { return s },
				"behind a repartition":        func(s text) text { return s.Repartition("r") },
				"behind a repartition of one": func(s text) text { return s.Repartition("r", streams.RecoverSerial).Repartition("rr") },
			} {
				b := streams.NewBuilder()
				c.add(b, lead(parallel(b, "in")))
				err := recoveryOf(inParallel, b)
				if c.names == "" {
					require.NoError(t, err, place)
					continue
				}
				var config *streams.ConfigError
				require.ErrorAs(t, err, &config, place)
				var refused *streams.RecoveryError
				require.ErrorAs(t, config, &refused, place)
				require.Equal(t, c.names, refused.Step, place)
				require.Contains(t, refused.Why, c.why, place)
				require.NotEmpty(t, refused.Remedy, place)
				require.Len(t, config.Faults, 1, place)
			}
		})
	}
}

// A step that is added to the DSL is to be thought about.
func TestRecoveryKnowsEveryStepOfTheDSL(t *testing.T) {
	none := map[string]bool{"Builder.Register": true, "Builder.Build": true} // no steps
	known := map[string]bool{}
	for _, c := range recoverySteps {
		name, _, _ := strings.Cut(c.step, " ")
		known[name] = true
	}
	set := token.NewFileSet()
	files, err := parser.ParseDir(set, ".", nil, parser.SkipObjectResolution) //nolint:staticcheck // files of one folder is what is wanted
	require.NoError(t, err)
	methods := map[string]bool{}
	for _, f := range files["streams"].Files {
		for _, d := range f.Decls {
			if name := methodOf(d); name != "" && !none[name] {
				methods[name] = true
			}
		}
	}
	require.Equal(t, slices.Sorted(maps.Keys(methods)), slices.Sorted(maps.Keys(known)))
}

// methodOf is an exported method of what topologies are made with.
func methodOf(d ast.Decl) string {
	f, ok := d.(*ast.FuncDecl)
	if !ok || f.Recv == nil || !f.Name.IsExported() {
		return ""
	}
	on := f.Recv.List[0].Type
	if p, ok := on.(*ast.StarExpr); ok {
		on = p.X
	}
	if g, ok := on.(*ast.IndexListExpr); ok {
		on = g.X
	}
	name, ok := on.(*ast.Ident)
	if !ok || !slices.Contains([]string{"Builder", "Stream", "Grouped", "Table"}, name.Name) {
		return ""
	}
	return name.Name + "." + f.Name.Name
}

func TestRecoveryParallelNeedsAParallelPolicy(t *testing.T) {
	for name, p := range map[string]retry.Policy{"Stop": retry.Stop(), "Ordered": retry.Ordered(), "KeyOrdered": retry.KeyOrdered()} {
		b := streams.NewBuilder()
		from(b, "in", streams.OnFailure(p)).To("out")
		require.EqualError(t, recoveryOf(inParallel, b), "streams: the configuration has faults:\n"+
			`  - topics in (subtopology 0) cannot be recovered in parallel: step "source-in" has the failure policy `+name+
			`, which keeps the order of records: give it OnFailure(retry.Parallel(...)), or Config.OnFailure that policy, or give the source of in RecoverSerial`)
	}
	b := streams.NewBuilder()
	from(b, "in").To("out")
	var refused *streams.RecoveryError
	require.ErrorAs(t, recoveryOf(inParallel, b), &refused, "the default policy is Ordered")
	c := inParallel
	c.OnFailure = retry.Parallel()
	require.NoError(t, recoveryOf(c, b))
	b = streams.NewBuilder()
	parallel(b, "in").Repartition("r", streams.OnFailure(retry.Ordered())).To("out")
	require.ErrorAs(t, recoveryOf(inParallel, b), &refused)
	require.Equal(t, []string{"app-r-repartition"}, refused.Topics)
}

func TestRecoveryErrorSaysWhoseOrderIsGone(t *testing.T) {
	b := streams.NewBuilder()
	parallel(b, "orders", streams.RecoverParallel).GroupBy(func(_, v string) string { return v }).Reduce("last", func(_, v string) string { return v })
	require.EqualError(t, recoveryOf(streams.Config{}, b), "streams: the configuration has faults:\n"+
		"  - topics orders cannot be recovered in parallel, because of topics app-last-repartition (subtopology 0) behind them: "+
		`step "reduce-last" takes the first value of a key as it is and may delete rows, so it depends on the order of records: `+
		"use an Aggregate marked Commutative in its place if the order of values does not matter, or give the source of orders RecoverSerial")
}

// Whoever asks for parallel recovery must not find out at the first crash that half of the application is not.
func TestRecoveryParallelOfAllSourcesOrOfThoseThatSaySo(t *testing.T) {
	app := func(rows, in *streams.RecoveryMode) *streams.Builder {
		b := streams.NewBuilder()
		tableOpts := []streams.TableSourceOption{streams.OnFailure(retry.Parallel())}
		if rows != nil {
			tableOpts = append(tableOpts, *rows)
		}
		b.Table("rows", serde.String, serde.String, tableOpts...)
		var opts []streams.SourceOption
		if in != nil {
			opts = append(opts, *in)
		}
		parallel(b, "in", opts...).GroupBy(func(_, v string) string { return v }).Count("n").ToStream().To("out")
		return b
	}
	serial, both := streams.RecoverSerial, streams.RecoverParallel
	require.Error(t, recoveryOf(inParallel, app(nil, nil)))
	b := app(&serial, nil)
	require.NoError(t, recoveryOf(inParallel, b))
	require.Equal(t, map[string]bool{"rows": false, "in": true, "app-n-repartition": true}, recovers(t, b, streams.RecoverParallel))
	b = app(nil, &both)
	require.NoError(t, recoveryOf(streams.Config{}, b))
	require.Equal(t, map[string]bool{"rows": false, "in": true, "app-n-repartition": true}, recovers(t, b))
	require.Equal(t, map[string]bool{"rows": false, "in": false, "app-n-repartition": false}, recovers(t, app(nil, nil)))
	require.Error(t, recoveryOf(streams.Config{}, app(&both, nil)))
}

// recovers says which topics are recovered in parallel.
func recovers(t *testing.T, b *streams.Builder, opts ...streams.BuildOption) map[string]bool {
	topology, err := b.Build("app", opts...)
	require.NoError(t, err)
	out := map[string]bool{}
	for _, s := range topology.Subtopologies {
		for _, in := range s.Inputs {
			if in.Redrives == 0 {
				out[in.Topic] = s.Recovers
			}
		}
	}
	return out
}

func TestRecoveryFollowsTheUsersOwnTopics(t *testing.T) {
	b := streams.NewBuilder()
	parallel(b, "in", streams.RecoverParallel).To("between")
	b.Table("between", serde.String, serde.String, streams.OnFailure(retry.Parallel()))
	var refused *streams.RecoveryError
	require.ErrorAs(t, recoveryOf(streams.Config{}, b), &refused)
	require.Equal(t, "table-between", refused.Step)
	require.Equal(t, []string{"in"}, refused.Behind)
}

func TestRecoveryInALoopOfTopics(t *testing.T) {
	b := streams.NewBuilder()
	again := parallel(b, "in").Repartition("a")
	again.Merge(again.Repartition("b")).To("out")
	require.NoError(t, recoveryOf(inParallel, b))
	for topic, parallel := range recovers(t, b, streams.RecoverParallel) {
		require.True(t, parallel, topic)
	}
}

func TestRecoveryFaultsOfOptions(t *testing.T) {
	for says, add := range map[string]func(b *streams.Builder){
		"say different things about recovery": func(b *streams.Builder) {
			parallel(b, "a", streams.RecoverParallel).Merge(from(b, "b", streams.RecoverSerial)).To("out")
		},
		"recovery mode 9 is none": func(b *streams.Builder) { parallel(b, "a", streams.RecoveryMode(9)).To("out") },
		"Commutative is about the function of an Aggregate": func(b *streams.Builder) {
			parallel(b, "a").ToTable("rows", streams.Commutative())
		},
		"say how to recover at the source": func(b *streams.Builder) { parallel(b, "a").GroupByKey(streams.RecoverParallel).Count("n") },
	} {
		b := streams.NewBuilder()
		add(b)
		require.ErrorContains(t, recoveryOf(streams.Config{}, b), says)
	}
	b := streams.NewBuilder()
	parallel(b, "a").To("out")
	require.ErrorContains(t, recoveryOf(streams.Config{Recovery: 7}, b), "Recovery is 7: use RecoverSerial or RecoverParallel")
	require.ErrorContains(t, recoveryOf(streams.Config{RecoverAbove: -1}, b), "RecoverAbove is -1")
	_, err := b.Build("app", streams.RecoverParallel)
	require.NoError(t, err)
	b.Table("rows", serde.String, serde.String)
	_, err = b.Build("app", streams.RecoverParallel)
	var topology *streams.TopologyError
	require.ErrorAs(t, err, &topology)
}
