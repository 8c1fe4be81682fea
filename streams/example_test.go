package streams_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// exampleT stands in for a *testing.T, which an example has not.
type exampleT struct{}

func (exampleT) Helper()                           {}
func (exampleT) Cleanup(func())                    {}
func (exampleT) Errorf(format string, args ...any) { fmt.Printf(format+"\n", args...) }
func (exampleT) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// printAll prints what a topic has.
func printAll[K, V any](d *streamstest.Driver, topic string, keys serde.Serde[K], values serde.Serde[V]) {
	for _, r := range streamstest.Out(d, topic, keys, values).ReadAll() {
		if r.NullValue {
			fmt.Printf("%s: %v deleted\n", topic, r.Key)
			continue
		}
		fmt.Printf("%s: %v=%v\n", topic, r.Key, r.Value)
	}
}

func Example() {
	b := streams.NewBuilder()
	b.Stream("lines", serde.String, serde.String).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("word-counts").
		ToStream().
		To("counts")

	d := streamstest.New(exampleT{}, b)
	streamstest.In(d, "lines", serde.String, serde.String).Pipe("", "to be or not to be")
	printAll(d, "counts", serde.String, serde.Int64)
	// Output:
	// counts: to=2
	// counts: be=2
	// counts: or=1
	// counts: not=1
}

func ExampleBuilder_Build() {
	b := streams.NewBuilder()
	b.Stream("orders", serde.String, serde.String).
		MapValues(func(v string) time.Time { return time.Time{} }).
		GroupByKey().
		Reduce("", func(_, last time.Time) time.Time { return last })
	_, err := b.Build("shop")
	fmt.Println(err)
	// Output:
	// streams: the topology has 2 faults:
	// the store of a reduce is missing: it must be given and must survive a change of the code
	// step "reduce-" needs a serde for its value of type time.Time: register one with Builder.Register, or name it at the step with WithSerdes
}

func ExampleTopology_Describe() {
	b := streams.NewBuilder()
	b.Stream("lines", serde.String, serde.String).MapValues(strings.ToUpper).To("loud")
	topology, err := b.Build("shout")
	if err != nil {
		panic(err)
	}
	fmt.Print(topology.Describe())
	// Output:
	// Topologies:
	//    Sub-topology: 0
	//     Source: source-lines (topics: [lines])
	//       --> mapvalues-strings.ToUpper
	//     Processor: mapvalues-strings.ToUpper (stores: [])
	//       --> to-loud
	//       <-- source-lines
	//     Sink: to-loud (topic: loud)
	//       <-- mapvalues-strings.ToUpper
}

func ExampleBuilder_Register() {
	type order struct {
		Customer string `json:"customer"`
		Cent     int64  `json:"cent"`
	}
	b := streams.NewBuilder()
	b.Register(serde.JSON[order]())
	b.Stream("lines", serde.String, serde.String).
		MapValues(func(line string) order {
			var o order
			fmt.Sscan(line, &o.Customer, &o.Cent)
			return o
		}).
		To("orders")

	d := streamstest.New(exampleT{}, b)
	streamstest.In(d, "lines", serde.String, serde.String).Pipe("1", "ann 250")
	printAll(d, "orders", serde.String, serde.String)
	// Output:
	// orders: 1={"customer":"ann","cent":250}
}

func ExampleStream_Split() {
	b := streams.NewBuilder()
	branches := b.Stream("numbers", serde.String, serde.Int64).Split(
		func(_ string, n int64) bool { return n < 0 },
		func(_ string, n int64) bool { return n%2 == 0 },
	)
	branches[0].To("negative")
	branches[1].To("even")
	branches[2].To("rest")

	d := streamstest.New(exampleT{}, b)
	numbers := streamstest.In(d, "numbers", serde.String, serde.Int64)
	for _, n := range []int64{1, 2, -2} {
		numbers.Pipe("n", n)
	}
	printAll(d, "negative", serde.String, serde.Int64)
	printAll(d, "even", serde.String, serde.Int64)
	printAll(d, "rest", serde.String, serde.Int64)
	// Output:
	// negative: n=-2
	// even: n=2
	// rest: n=1
}

func ExampleStream_TryMapValues() {
	lookup := func(_ context.Context, r streams.Record[string, string]) (string, error) {
		if r.Value == "nowhere" {
			return "", errors.New("no such place")
		}
		return r.Value + ", Earth", nil
	}
	b := streams.NewBuilder()
	b.Stream("places", serde.String, serde.String).TryMapValues("geo", lookup).To("addresses")

	d := streamstest.New(exampleT{}, b)
	places := streamstest.In(d, "places", serde.String, serde.String)
	places.Pipe("a", "Oslo")
	fmt.Println(places.TryPipe("b", "nowhere"))
	printAll(d, "addresses", serde.String, serde.String)
	// Output:
	// streams: task 0_0, places-0 at offset 1, node "geo": process: no such place
	// addresses: a=Oslo, Earth
}

func ExampleGrouped_Aggregate() {
	b := streams.NewBuilder()
	b.Stream("visits", serde.String, serde.String).
		GroupByKey().
		Aggregate("pages", func() string { return "" }, func(_, page, seen string) string { return seen + "/" + page }).
		ToStream().
		To("paths")

	d := streamstest.New(exampleT{}, b)
	visits := streamstest.In(d, "visits", serde.String, serde.String)
	visits.Pipe("ann", "home")
	visits.Pipe("ann", "shop")
	printAll(d, "paths", serde.String, serde.String)
	// Output:
	// paths: ann=/home
	// paths: ann=/home/shop
}

func ExampleTable_Filter() {
	b := streams.NewBuilder()
	b.Table("stock", serde.String, serde.Int64).
		Filter(func(_ string, pieces int64) bool { return pieces < 10 }).
		ToStream().
		To("low-stock")

	d := streamstest.New(exampleT{}, b)
	stock := streamstest.In(d, "stock", serde.String, serde.Int64)
	for _, pieces := range []int64{50, 30, 8, 5, 40, 60} {
		stock.Pipe("screws", pieces)
	}
	printAll(d, "low-stock", serde.String, serde.Int64)
	// Output:
	// low-stock: screws=8
	// low-stock: screws=5
	// low-stock: screws deleted
}

// changes forwards a value only if it differs from the last one of its key.
type changes struct {
	last *streams.StoreHandle[string, string]
}

func (p *changes) Process(c *streams.Context[string, string], r streams.Record[string, string]) error {
	if last, ok := p.last.Get(r.Key); ok && last == r.Value {
		return nil
	}
	p.last.Put(r.Key, r.Value)
	c.Forward(r)
	return nil
}

func ExampleStream_Process() {
	last := streams.NewStore("last-values", serde.String, serde.String)
	b := streams.NewBuilder()
	b.Stream("readings", serde.String, serde.String).
		Process("changes", func(init *streams.Init) streams.Processor[string, string, string, string] {
			return &changes{last: last.Open(init)}
		}, streams.WithStores(last)).
		To("changed")

	d := streamstest.New(exampleT{}, b)
	readings := streamstest.In(d, "readings", serde.String, serde.String)
	for _, v := range []string{"on", "on", "off", "off", "on"} {
		readings.Pipe("lamp", v)
	}
	printAll(d, "changed", serde.String, serde.String)
	// Output:
	// changed: lamp=on
	// changed: lamp=off
	// changed: lamp=on
}

// heartbeat counts records and forwards the count once a minute of wall clock.
type heartbeat struct{ n int64 }

func (p *heartbeat) Start(c *streams.Context[string, int64]) error {
	c.Schedule(time.Minute, streams.WallClock, func(c *streams.Context[string, int64], _ time.Time) error {
		c.Forward(streams.Record[string, int64]{Key: "records", Value: p.n})
		return nil
	})
	return nil
}

func (p *heartbeat) Process(*streams.Context[string, int64], streams.Record[string, string]) error {
	p.n++
	return nil
}

func ExampleContext_Schedule() {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		Process("heartbeat", func(*streams.Init) streams.Processor[string, string, string, int64] { return &heartbeat{} }).
		To("beats")

	d := streamstest.New(exampleT{}, b)
	streamstest.In(d, "in", serde.String, serde.String).Pipe("k", "v")
	d.AdvanceWallClock(time.Minute)
	d.AdvanceWallClock(time.Minute)
	printAll(d, "beats", serde.String, serde.Int64)
	// Output:
	// beats: records=1
	// beats: records=1
}
