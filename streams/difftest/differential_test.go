package difftest_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// A plan is a topology and what happens to it, as plain numbers, so that it shrinks and prints.
type (
	plan struct {
		Partitions int32
		Hold       bool
		PerUpdate  bool
		Booms      bool // some functions fail until the first restart after it
		Sources    []sourcePlan
		Steps      []stepPlan
		Ends       []stepPlan
		Acts       []act
	}
	sourcePlan struct {
		Key, Value   kind
		Keys, Values serdeID
		Table        bool
		Emission     streams.Emission
		Unlogged     bool
		Same         bool // it reads the topic of the first one too
	}
	stepPlan struct {
		Op, On, To, Seed, Mode int
		Keys, Values           serdeID
		Flags                  int
	}
	act struct {
		What, Source, Key, Value, Headers int
		Time                              int64
	}
)

func drawPlan(rt *rapid.T) plan {
	small := func(n int) *rapid.Generator[int] { return rapid.IntRange(0, n-1) }
	id := rapid.SampledFrom([]serdeID{byType, byType, byType, usual, other})
	kinds := rapid.SampledFrom([]kind{kStr, kBytes, kInt, kDoc})
	src := rapid.Custom(func(rt *rapid.T) sourcePlan {
		return sourcePlan{
			kinds.Draw(rt, "key"), kinds.Draw(rt, "value"), id.Draw(rt, "keys"), id.Draw(rt, "values"), small(3).Draw(rt, "table") == 2,
			streams.Emission(small(3).Draw(rt, "emission")), small(6).Draw(rt, "unlogged") == 5, small(4).Draw(rt, "same") == 3,
		}
	})
	step := rapid.Custom(func(rt *rapid.T) stepPlan {
		return stepPlan{
			small(19).Draw(rt, "op"), small(12).Draw(rt, "on"), small(12).Draw(rt, "to"), small(1000).Draw(rt, "seed"), small(12).Draw(rt, "mode"),
			id.Draw(rt, "keys"), id.Draw(rt, "values"), small(64).Draw(rt, "flags"),
		}
	})
	acts := rapid.Custom(func(rt *rapid.T) act {
		return act{
			small(10).Draw(rt, "what"), small(2).Draw(rt, "source"), small(7).Draw(rt, "key"), small(7).Draw(rt, "value"), small(4).Draw(rt, "headers"),
			rapid.Int64Range(0, 20).Draw(rt, "time"),
		}
	})
	return plan{
		rapid.Int32Range(1, 2).Draw(rt, "partitions"), rapid.Bool().Draw(rt, "hold"), rapid.Bool().Draw(rt, "per update"), rapid.Bool().Draw(rt, "booms"),
		rapid.SliceOfN(src, 1, 2).Draw(rt, "sources"), rapid.SliceOfN(step, 0, 7).Draw(rt, "steps"), rapid.SliceOfN(step, 4, 4).Draw(rt, "ends"),
		rapid.SliceOfN(acts, 1, 25).Draw(rt, "acts"),
	}
}

// bench is a plan being run: the driver and the reference beside each other.
type bench struct {
	rt      *rapid.T
	p       plan
	w       *world
	b       *streams.Builder
	booming bool
	smooth  bool // nothing fails, and nothing is restarted
	streams []*rstream
	tables  []*rtable
	outs    []string
	d       *streamstest.Driver
	tb      *catcher
	said    []string
}

// catcher is the TB of the driver: what is fatal is a panic here, and checked.
type catcher struct{ cleanups []func() }

type fatal struct{ text string }

func (*catcher) Helper()                           {}
func (*catcher) Errorf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }
func (*catcher) Fatalf(format string, args ...any) { panic(fatal{fmt.Sprintf(format, args...)}) }
func (c *catcher) Cleanup(f func())                { c.cleanups = append(c.cleanups, f) }

func (c *catcher) try(f func()) (said string) {
	defer func() {
		if p := recover(); p != nil {
			said = p.(fatal).text
		}
	}()
	f()
	return ""
}

// The runtime does with any topology and any input what a naive interpreter of plain values does: outputs, stores, changelogs, counters.
func TestAnyTopologyDoesWhatItSays(t *testing.T) {
	rounds := 20 // of as many cases as -rapid.checks says, 100 otherwise
	if testing.Short() {
		rounds = 2
	}
	for i := range rounds {
		t.Run(fmt.Sprint(i), func(t *testing.T) { rapid.Check(t, oneCase) })
	}
}

func oneCase(rt *rapid.T) {
	x := &bench{rt: rt, p: drawPlan(rt)}
	x.run()
	if !x.p.Booms || !x.oneOrder() {
		return
	}
	smooth := &bench{rt: rt, p: x.p, smooth: true}
	smooth.p.Booms = false
	smooth.run()
	for i, info := range x.w.order {
		if got, want := x.w.rowsOf(info), smooth.w.rowsOf(smooth.w.order[i]); !maps.Equal(got, want) {
			x.fatalf("store %s: %q, without failures and restarts %q", info.name, got, want)
		}
	}
}

// oneOrder says that records can come in one order only, whatever fails and restarts, that it does not matter when they are committed, and
// that no store is ever lost.
func (x *bench) oneOrder() bool {
	subs := x.d.Topology().Subtopologies
	return len(subs) == 1 && len(subs[0].Inputs) == 1 && !slices.ContainsFunc(x.w.order, func(info *storeInfo) bool {
		return info.unlogged || info.atCommit
	})
}

func (x *bench) run() {
	x.tb = &catcher{}
	x.build()
	for i, a := range x.p.Acts {
		x.act(i, a)
	}
	x.finish()
	for _, f := range x.tb.cleanups {
		f()
	}
}

func (x *bench) note(format string, args ...any) {
	x.said = append(x.said, fmt.Sprintf(format, args...))
}

func (x *bench) fatalf(format string, args ...any) {
	x.rt.Helper()
	x.rt.Fatalf("%s\n%s\n%s", fmt.Sprintf(format, args...), strings.Join(x.said, "\n"), func() string {
		if x.d == nil {
			return ""
		}
		return x.d.Topology().Describe()
	}())
}

func (x *bench) build() {
	var builderOpts []streams.BuilderOption
	if x.p.PerUpdate {
		builderOpts = append(builderOpts, streams.EmitPerUpdate)
	}
	x.b = streams.NewBuilder(builderOpts...)
	x.b.Register(serde.JSON[*doc]())
	x.w = newWorld(x.p.Partitions, x.p.Hold)
	x.booming = x.p.Booms
	for i, s := range x.p.Sources {
		if s.Same {
			first := x.p.Sources[0]
			s.Key, s.Value, s.Keys, s.Values = first.Key, first.Value, first.Keys, first.Values
			x.source("in0", i, s)
			continue
		}
		x.source(fmt.Sprint("in", i), i, s)
	}
	for i, s := range x.p.Steps {
		x.step(i, s)
	}
	x.end()
	options := []streamstest.Option{streamstest.Partitions("dyn0", x.p.Partitions), streamstest.Partitions("dyn1", x.p.Partitions)}
	if x.p.Hold {
		options = append(options, streamstest.HoldCommits())
	}
	for i := range x.p.Sources {
		options = append(options, streamstest.Partitions(fmt.Sprintf("in%d", i), x.p.Partitions))
	}
	for _, out := range x.outs {
		options = append(options, streamstest.Partitions(out, x.p.Partitions))
	}
	if said := x.tb.try(func() { x.d = streamstest.New(x.tb, x.b, options...) }); said != "" {
		x.fatalf("does not build: %s", said)
	}
	counts, err := x.d.Topology().Partitions(func(string) (int32, bool) { return x.p.Partitions, true })
	if err != nil {
		x.fatalf("%v", err)
	}
	x.w.start(x.d.Topology(), counts)
}

func (x *bench) emission(e streams.Emission) streams.Emission {
	if e == 0 && x.p.PerUpdate {
		return streams.EmitPerUpdate
	}
	return e
}

func (x *bench) source(topic string, i int, p sourcePlan) {
	o := opts{keys: p.Keys, values: p.Values, emission: p.Emission, unlogged: p.Unlogged}
	if p.Table {
		o.name = fmt.Sprint("t", i)
	}
	f, r := source(x.b, topic, p.Key, p.Value, o)
	s := &rstream{w: x.w, f: f, k: p.Key, v: p.Value, keys: p.Keys, values: p.Values}
	x.w.entries[topic] = append(x.w.entries[topic], s.push)
	x.note("%s %+v", topic, p)
	if !p.Table {
		x.streams = append(x.streams, s)
		return
	}
	o.emission = x.emission(p.Emission)
	x.tables = append(x.tables, s.tableOf(o, r))
}

// step adds one step, if it finds something to stand behind.
func (x *bench) step(i int, p stepPlan) {
	o := opts{name: fmt.Sprintf("n%d", i), keys: p.Keys, values: p.Values, emission: x.emission(streams.Emission(p.Mode % 3)), mode: p.Mode % 4}
	o.try, o.not, o.unlogged = p.Flags&1 != 0, p.Flags&2 != 0, p.Flags&60 == 60
	if p.Flags&12 == 12 {
		o.boom = func(k, v val) bool { return x.booming && mix(k, v, p.Seed+1)%5 == 0 }
	}
	const tableOps = 16
	if p.Op >= tableOps || len(x.streams) == 0 {
		if len(x.tables) > 0 {
			x.tableStep(p, x.tables[p.On%len(x.tables)], o)
		}
		return
	}
	x.streamStep(p, x.streams[p.On%len(x.streams)], o)
}

func (x *bench) tableStep(p stepPlan, on *rtable, o opts) {
	x.note("%s: table op %d on %s %+v", o.name, p.Op%3, on.info.name, p)
	switch p.Op % 3 {
	case 0:
		x.tables = append(x.tables, on.filter(o, keeps(p.Seed)))
	case 1:
		to := []kind{kStr, kDoc}[p.To%2]
		x.tables = append(x.tables, on.mapValues(o, to, newValue(to, p.Seed)))
	default:
		x.streams = append(x.streams, on.toStream())
	}
}

func (x *bench) streamStep(p stepPlan, on *rstream, o opts) {
	anyKind := kind(p.To % 4)
	name := []string{"filter", "mapKeys", "mapValues", "flatMap", "flatMapValues", "selectKey", "peek", "split", "merge", "repartition",
		"aggregate", "aggregate", "toTable", "process", "to", "toTopic"}[p.Op]
	x.note("%s: %s on stream %d (%v, %v) %+v", o.name, name, p.On%len(x.streams), on.k, on.v, p)
	add := func(s ...*rstream) { x.streams = append(x.streams, s...) }
	switch name {
	case "filter", "peek":
		if o.try {
			o.keys, o.values = byType, byType
		}
		if name == "peek" {
			add(on.peek(o))
			return
		}
		add(on.filter(o, keeps(p.Seed)))
	case "mapKeys":
		to := []kind{kInt, kDoc}[p.To%2]
		add(on.mapKeys(o, to, newKey(to, p.Seed), newValue(on.v, p.Seed)))
	case "mapValues":
		add(on.mapValues(o, anyKind, newValue(anyKind, p.Seed)))
	case "flatMap":
		add(on.flatMap(o, newValues(on.v, p.Seed)))
	case "flatMapValues":
		to := []kind{kStr, kBytes}[p.To%2]
		add(on.flatMapValues(o, to, newValues(to, p.Seed)))
	case "selectKey":
		add(on.selectKey(o, anyKind, newKey(anyKind, p.Seed)))
	case "split":
		add(on.split(keeps(p.Seed), keeps(p.Seed+1))...)
	case "merge":
		add(on.merge(x.mergeable(on, p)))
	case "repartition":
		add(on.repartition(o))
	case "aggregate":
		x.tables = append(x.tables, on.aggregate(o, x.aggregation(p, on, &o)))
	case "toTable":
		x.tables = append(x.tables, on.toTable(o))
	case "process":
		add(on.process(o))
	case "to":
		x.outs = append(x.outs, "out"+o.name)
		on.to(o, "out"+o.name)
	case "toTopic":
		on.toTopic(o, func(k, v val) string { return fmt.Sprint("dyn", mix(k, v, p.Seed)%2) })
	}
}

// mergeable are other streams of the same types.
func (x *bench) mergeable(on *rstream, p stepPlan) (all []*rstream) {
	for i, s := range x.streams {
		if s != on && s.k == on.k && s.v == on.v && (p.Seed>>i)&1 == 0 {
			all = append(all, s)
		}
	}
	return all
}

func (x *bench) aggregation(p stepPlan, on *rstream, o *opts) aggregation {
	a := aggregation{how: p.To % 3, to: []kind{kBytes, kDoc}[p.To/3%2], group: opts{name: "g" + o.name, keys: byType, values: byType, boom: o.boom}}
	if p.Flags&16 != 0 { // the serdes are named at the grouping
		a.group.keys, a.group.values = p.Keys, p.Values
		o.keys, o.values = byType, byType
	}
	if p.Op == 10 {
		a.byTo = []kind{kStr, kBytes}[p.To/6%2]
		a.by = newKey(a.byTo, p.Seed)
	}
	to := on.v
	if a.how == 2 {
		to = a.to
	}
	a.f = newValue(to, p.Seed)
	return a
}

// end writes what nobody listens to to a topic, with serdes of its own or those that it has; some of it is left alone.
func (x *bench) end() {
	for i, s := range x.streams {
		p := x.p.Ends[i%len(x.p.Ends)]
		if len(s.subs) > 0 && p.Flags&1 == 0 || p.Flags == 0 {
			continue
		}
		topic := fmt.Sprintf("out%d", i)
		x.outs = append(x.outs, topic)
		x.note("%s: stream %d, %v %v", topic, i, p.Keys, p.Values)
		s.to(opts{keys: p.Keys, values: p.Values}, topic)
	}
	for i, r := range slices.Clone(x.tables) {
		p := x.p.Ends[i%len(x.p.Ends)]
		if len(r.subs) > 0 && p.Flags&2 == 0 || p.Flags == 0 {
			continue
		}
		topic := fmt.Sprintf("outt%d", i)
		x.outs = append(x.outs, topic)
		x.note("%s: table %d, %v %v", topic, i, p.Keys, p.Values)
		r.toStream().to(opts{keys: p.Keys, values: p.Values}, topic)
	}
}

func (x *bench) act(i int, a act) {
	switch {
	case a.What <= 6:
		x.pipe(i, a)
	case a.What == 7 && x.smooth:
	case a.What == 7 || x.w.err != nil:
		x.restart(a)
	default:
		x.note("%d commit", i)
		x.w.commit()
		x.agree(x.d.TryCommit())
		x.checkErr()
	}
}

func (x *bench) pipe(i int, a act) {
	n := a.Source % len(x.p.Sources)
	if x.p.Sources[n].Same {
		n = 0
	}
	p, topic := x.p.Sources[n], fmt.Sprintf("in%d", n)
	keys, values := samples(p.Key, p.Keys), samples(p.Value, p.Values)
	k, v := keys[a.Key%len(keys)], values[a.Value%len(values)]
	headers := [][]streams.Header{nil, {{Key: "a", Value: []byte("1")}}, {{Key: "a"}, {Key: "a", Value: []byte{}}, {Key: "b", Value: []byte("2")}}, {}}[a.Headers]
	at := a.Time
	if a.Headers == 0 {
		at += int64(i) // mostly in order
	}
	x.note("%d %s %q:%q@%d", i, topic, k.b, v.b, at)
	err := x.d.TryPipeRaw(topic, k.b, v.b, streamstest.AtMillis(at), streamstest.Headers(headers...))
	partition := int32(0)
	if k.b != nil {
		partition = partitionFor(k.b, x.p.Partitions)
	}
	x.w.append(topic, partition, entry{rec: rec{k.val, v.val, at, headers}})
	x.w.settle()
	x.agree(err)
	x.checkErr()
}

// agree checks that what is returned is what Err says.
func (x *bench) agree(err error) {
	x.rt.Helper()
	if !errors.Is(err, x.d.Err()) {
		x.fatalf("it returned %v, Err says %v", err, x.d.Err())
	}
}

func (x *bench) restart(a act) {
	keep := a.Time%2 == 0
	x.note("restart, state kept: %v", keep)
	x.booming = x.booming && x.w.err == nil // what has failed is mended
	x.w.restart(keep)
	said := x.tb.try(func() { x.d.Restart(keep) })
	if (said != "") != (x.w.err != nil) {
		x.fatalf("restart: %q, the reference %+v", said, x.w.err)
	}
	x.checkErr()
}

func (x *bench) checkErr() {
	x.rt.Helper()
	var failed *streams.RecordError
	err := x.d.Err()
	switch {
	case err == nil && x.w.err == nil:
		return
	case err == nil || x.w.err == nil || !errors.As(err, &failed) || !errors.Is(err, errBoom):
		x.fatalf("it failed with %v, the reference with %+v", err, x.w.err)
	}
	x.note("failed: %v", err)
	if got := (failure{failed.Node, failed.Kind, failed.Topic, failed.Partition, failed.Offset}); got != *x.w.err {
		x.fatalf("it failed with %+v, the reference with %+v", got, *x.w.err)
	}
}

// finish mends what is broken, commits, and compares everything.
func (x *bench) finish() {
	for x.w.err != nil {
		x.restart(act{})
	}
	x.w.commit()
	x.agree(x.d.TryCommit())
	x.checkErr()
	for x.w.err != nil {
		x.restart(act{})
		x.w.commit()
		x.agree(x.d.TryCommit())
	}
	topics := append([]string{"dyn0", "dyn1"}, x.outs...)
	for _, in := range x.d.Topology().Internal {
		topics = append(topics, in.Name)
	}
	for _, topic := range topics {
		x.compareTopic(topic)
	}
	for _, info := range x.w.order {
		x.compareStore(info)
	}
	for _, reason := range []string{"null-key", "null-value"} {
		if got, want := x.d.Dropped(reason), x.w.drops[reason]; got != want {
			x.fatalf("dropped for %s: %d, the reference %d", reason, got, want)
		}
	}
}

func (x *bench) compareTopic(topic string) {
	got := make([][]string, x.w.partitions(topic))
	for _, r := range streamstest.OutRaw(x.d, topic).ReadAll() {
		got[r.Partition] = append(got[r.Partition], show(r.Key, r.Value, r.Time.UnixMilli(), r.Headers))
	}
	for p, entries := range x.w.log(topic) {
		var want []string
		for _, e := range entries {
			want = append(want, show(e.rawKey, e.rawValue, e.ts, e.headers))
		}
		if !slices.Equal(got[p], want) {
			x.fatalf("topic %s, partition %d:\n%s\nthe reference:\n%s", topic, p, strings.Join(got[p], "\n"), strings.Join(want, "\n"))
		}
	}
}

func (x *bench) compareStore(info *storeInfo) {
	want := x.w.rowsOf(info)
	got := map[string]string{}
	for _, kv := range streamstest.Store(x.d, info.name, serde.Bytes, serde.Bytes).All() {
		got[string(kv.Key)] = string(kv.Value)
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		x.fatalf("store %s: %q, the reference %q", info.name, got, want)
	}
}

func show(key, value []byte, ts int64, headers []streams.Header) string {
	text := func(b []byte) string {
		if b == nil {
			return "null"
		}
		return fmt.Sprintf("%q", b)
	}
	out := fmt.Sprintf("%s:%s@%d", text(key), text(value), ts)
	for _, h := range headers {
		out += fmt.Sprintf(" %s=%s", h.Key, text(h.Value))
	}
	return out
}
