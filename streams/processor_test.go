package streams_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

type (
	textContext   = streams.Context[string, string]
	textProcessor = streams.Processor[string, string, string, string]
	textFunc      = streams.ProcessorFunc[string, string, string, string]
)

// processing is a topology of one processor.
func processing(supplier func(*streams.Init) textProcessor, opts ...streams.ProcessOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).Process("p", supplier, opts...).To("out")
	return b
}

func TestContext(t *testing.T) {
	var seen []string
	b := processing(func(init *streams.Init) textProcessor {
		task := init.Task()
		return textFunc(func(c *textContext, r textRecord) error {
			topic, partition, offset, ok := c.Source()
			seen = append(seen, fmt.Sprintf("%v %s-%d@%d %v record %d stream %d wall %d headers %d", c.Task() == task, topic, partition, offset, ok,
				c.Timestamp().UnixMilli(), c.StreamTime().UnixMilli(), c.WallClock().UnixMilli(), len(c.Headers())))
			require.NoError(t, c.Context().Err())
			c.Forward(streams.Record[string, string]{Key: "same", Value: r.Value})
			c.Forward(streams.Record[string, string]{Key: "other", NullValue: true, Time: time.UnixMilli(99), Headers: []streams.Header{}})
			return nil
		})
	})
	d := streamstest.New(t, b, streamstest.StartAt(time.UnixMilli(1000)))
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("k", "v", streamstest.AtMillis(20), streamstest.Headers(streams.Header{Key: "h"}))
	in.Pipe("k", "w", streamstest.AtMillis(10))
	require.Equal(t, []string{
		"true in-0@0 true record 20 stream 20 wall 1000 headers 1",
		"true in-0@1 true record 10 stream 20 wall 1000 headers 0",
	}, seen)
	require.Equal(t, []string{"same:v@20 h=null", "other:null@99", "same:w@10", "other:null@99"},
		show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
}

func TestStreamTimeIsZeroBeforeTheFirstRecord(t *testing.T) {
	var at []time.Time
	d := streamstest.New(t, processing(func(*streams.Init) textProcessor {
		return &starting{start: func(c *textContext) error { at = append(at, c.StreamTime()); return nil }}
	}))
	require.Len(t, d.Topology().Subtopologies, 1)
	require.Equal(t, []time.Time{{}}, at)
}

// starting is a processor with a Start and a Close.
type starting struct {
	start  func(c *textContext) error
	closed *int
}

func (p *starting) Start(c *textContext) error                 { return p.start(c) }
func (p *starting) Process(c *textContext, r textRecord) error { c.Forward(r); return nil }
func (p *starting) Close() error {
	if p.closed != nil {
		*p.closed++
	}
	return nil
}

func TestProcessorsAreClosed(t *testing.T) {
	closed := 0
	t.Run("driver", func(t *testing.T) {
		d := streamstest.New(t, processing(func(*streams.Init) textProcessor {
			return &starting{start: func(*textContext) error { return nil }, closed: &closed}
		}), streamstest.Partitions("in", 2))
		d.Restart(true)
		require.Equal(t, 2, closed)
	})
	require.Equal(t, 4, closed)
}

func TestATaskWhoseProcessorCannotBeMadeDoesNotStart(t *testing.T) {
	store := streams.NewStore("s", serde.String, serde.String)
	for _, c := range []struct {
		name     string
		supplier func(*streams.Init) textProcessor
		opts     []streams.ProcessOption
		want     string
	}{
		{"no processor", func(*streams.Init) textProcessor { return nil }, nil, `step "p": the supplier returned no processor`},
		{"nil pointer", func(*streams.Init) textProcessor { return (*starting)(nil) }, nil, `step "p": the supplier returned no processor`},
		{"start fails", func(*streams.Init) textProcessor {
			return &starting{start: func(*textContext) error { return errTry }}
		}, nil, `task 0_0, step "p": no`},
		{"store not attached", func(init *streams.Init) textProcessor { store.Open(init); return &starting{} }, nil,
			`step "p": store "s" is not attached to it: name it in WithStores`},
		{"start writes", func(init *streams.Init) textProcessor {
			h := store.Open(init)
			return &starting{start: func(*textContext) error { h.Put("k", "v"); h.Delete("k"); return nil }}
		}, []streams.ProcessOption{streams.WithStores(store)}, `step "p": it wrote to a store or forwarded a record in its supplier or in Start`},
		{"start forwards", func(*streams.Init) textProcessor {
			return &starting{start: func(c *textContext) error { c.Forward(textRecord{}); return nil }}
		}, nil, `step "p": it wrote to a store or forwarded a record`},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.ErrorContains(t, startErr(t, processing(c.supplier, c.opts...)), c.want)
		})
	}
}

// word is a processor over a store that does what the value of a record says.
type word struct {
	t     *testing.T
	store *streams.StoreHandle[string, string]
	saw   *[]string
}

func (p *word) Process(c *textContext, r textRecord) error {
	switch r.Key {
	case "put":
		p.store.Put(r.Value[:1], r.Value)
	case "delete":
		p.store.Delete(r.Value)
	case "all":
		p.note(p.store.All())
	case "range":
		p.note(p.store.Range(r.Value[:1], r.Value[1:]))
	case "prefix":
		p.note(p.store.Prefix([]byte(r.Value)))
	case "get":
		v, at, ok := p.store.GetTime(r.Value)
		*p.saw = append(*p.saw, fmt.Sprintf("%s@%d %v", v, at.UnixMilli(), ok))
	case "delete while iterating":
		for k := range p.store.All() {
			p.store.Delete(k)
			*p.saw = append(*p.saw, k)
		}
	case "put, then fail":
		p.store.Put("z", "lost")
		return errTry
	}
	return nil
}

func (p *word) note(rows func(func(string, string) bool)) {
	for k, v := range rows {
		*p.saw = append(*p.saw, k+"="+v)
		if v == "stop" {
			break
		}
	}
	*p.saw = append(*p.saw, ".")
}

func TestStoreHandle(t *testing.T) {
	var saw []string
	store := streams.NewStore("s", serde.String, serde.String, streams.Ordered())
	d := streamstest.New(t, processing(func(init *streams.Init) textProcessor {
		return &word{t: t, store: store.Open(init), saw: &saw}
	}, streams.WithStores(store)))
	in := streamstest.In(d, "in", serde.String, serde.String)
	for i, r := range []struct{ op, arg string }{
		{"put", "a1"}, {"put", "c3"}, {"put", "b2"}, {"put", "a4"},
		{"get", "a"}, {"get", "x"}, {"all", ""}, {"range", "bc"}, {"range", "cb"}, {"prefix", "c"}, {"prefix", ""},
		{"delete", "b"}, {"all", ""}, {"delete while iterating", ""}, {"all", ""},
	} {
		in.Pipe(r.op, r.arg, streamstest.AtMillis(int64(i)))
	}
	require.Equal(t, []string{
		"a4@3 true", "@-62135596800000 false",
		"a=a4", "b=b2", "c=c3", ".",
		"b=b2", "c=c3", ".",
		".",
		"c=c3", ".",
		"a=a4", "b=b2", "c=c3", ".",
		"a=a4", "c=c3", ".",
		"a", "c", ".",
	}, saw)

	require.ErrorIs(t, in.TryPipe("put, then fail", ""), errTry)
	_, ok := streamstest.Store(d, "s", serde.String, serde.String).Get("z")
	require.False(t, ok, "the write of the failed record is undone")
}

func TestStoreErrorsAreSticky(t *testing.T) {
	texts := streams.NewStore("s", serde.String, serde.String)
	numbers := streams.NewStore("s", serde.Int64, serde.String, streams.Ordered())
	hexes := streams.NewStore[string, string]("s", hexSerde{}, hexSerde{})
	bytes := streams.NewStore("s", serde.Bytes, serde.Bytes)
	for _, c := range []struct {
		name  string
		store streams.AnyStore
		use   func(*streams.Init) func()
		kind  streams.Kind
		want  string
	}{
		{"iterating over a store that is not ordered", texts, func(init *streams.Init) func() {
			h := texts.Open(init)
			return func() {
				for range h.All() {
					panic("a row")
				}
				h.Put("a", "b") // does nothing any more
				if _, ok := h.Get("a"); ok {
					panic("a value")
				}
			}
		}, streams.KindStore, `store "s" is not ordered: declare it with streams.Ordered`},
		{"inverted bounds", numbers, func(init *streams.Init) func() {
			h := numbers.Open(init)
			return func() { h.Range(-1, 1)(func(int64, string) bool { panic("a row") }) }
		}, streams.KindStore, `the bounds of a range over store "s" are inverted in byte order`},
		{"a key that cannot be written", hexes, func(init *streams.Init) func() {
			h := hexes.Open(init)
			return func() { h.Delete("unwritable") }
		}, streams.KindEncode, `key for store "s": string: unwritable`},
		{"a value that cannot be written", hexes, func(init *streams.Init) func() {
			h := hexes.Open(init)
			return func() { h.Put("k", "unwritable") }
		}, streams.KindEncode, `value for store "s": string: unwritable`},
		{"a null key", bytes, func(init *streams.Init) func() {
			h := bytes.Open(init)
			return func() { h.Put(nil, []byte("v")) }
		}, streams.KindEncode, `a null key for store "s"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := streamstest.New(t, processing(func(init *streams.Init) textProcessor {
				use := c.use(init)
				return textFunc(func(ctx *textContext, r textRecord) error {
					use()
					ctx.Forward(r)
					return nil // the processor does not look at errors
				})
			}, streams.WithStores(c.store)))
			err := streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "v")
			var failed *streams.RecordError
			require.ErrorAs(t, err, &failed)
			require.Equal(t, c.kind, failed.Kind)
			require.Equal(t, "p", failed.Node)
			require.ErrorContains(t, err, c.want)
			require.Empty(t, streamstest.OutRaw(d, "out").ReadAll())
		})
	}
}

func TestARangeErrorIsTyped(t *testing.T) {
	var e *streams.RangeError
	require.ErrorAs(t, fmt.Errorf("x: %w", &streams.RangeError{Store: "s"}), &e)
	require.Equal(t, "s", e.Store)
}

func TestBytesOfAStoreBelongToTheReader(t *testing.T) {
	store := streams.NewStore("s", serde.String, serde.Bytes)
	var got [][]byte
	d := streamstest.New(t, processing(func(init *streams.Init) textProcessor {
		h := store.Open(init)
		return textFunc(func(c *textContext, r textRecord) error {
			if v, ok := h.Get("k"); ok {
				got = append(got, v)
			}
			h.Put("k", []byte(r.Value))
			h.PutTime("empty", []byte{}, time.UnixMilli(7))
			h.Put("gone", nil)
			v, at, ok := h.GetTime("empty")
			require.True(t, ok && v != nil && len(v) == 0 && at.UnixMilli() == 7)
			return nil
		})
	}, streams.WithStores(store)))
	in := streamstest.In(d, "in", serde.String, serde.String)
	for _, v := range []string{"one", "two", "six"} {
		in.Pipe("k", v)
	}
	require.Equal(t, "one two", string(slices.Concat(got[0], []byte(" "), got[1])))
}

func TestCommitAndCommitAsync(t *testing.T) {
	var answers []error
	d := streamstest.New(t, processing(func(*streams.Init) textProcessor {
		return textFunc(func(c *textContext, r textRecord) error {
			switch r.Value {
			case "commit":
				c.Commit()
			case "async":
				c.CommitAsync(func(err error) { answers = append(answers, err) })
			case "async, then fail":
				c.CommitAsync(func(err error) { answers = append(answers, err) })
				return errTry
			}
			return nil
		})
	}), streamstest.HoldCommits())
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("k", "nothing")
	require.EqualValues(t, 0, d.Committed("in", 0))
	in.Pipe("k", "commit")
	require.EqualValues(t, 2, d.Committed("in", 0))
	in.Pipe("k", "async")
	require.EqualValues(t, 3, d.Committed("in", 0))
	require.Equal(t, []error{nil}, answers)
	require.Error(t, in.TryPipe("k", "async, then fail"))
	require.Len(t, answers, 2)
	require.Error(t, answers[1])
}

func TestProcessorsThatShareAStoreAreOneSubtopology(t *testing.T) {
	store := streams.NewStore("shared", serde.String, serde.String)
	b := streams.NewBuilder()
	b.AddStore(store)
	b.Stream("a", serde.String, serde.String).Process("put", func(init *streams.Init) textProcessor {
		h := store.Open(init)
		return textFunc(func(_ *textContext, r textRecord) error { h.Put(r.Key, r.Value); return nil })
	}, streams.WithStores(store))
	b.Stream("b", serde.String, serde.String).Process("get", func(init *streams.Init) textProcessor {
		h := store.Open(init)
		return textFunc(func(c *textContext, r textRecord) error {
			r.Value, _ = h.Get(r.Key)
			c.Forward(r)
			return nil
		})
	}, streams.WithStores(store)).To("out")
	d := streamstest.New(t, b)
	require.Len(t, d.Topology().Subtopologies, 1)
	require.Equal(t, [][]string{{"a", "b"}}, d.Topology().Copartitioned)
	streamstest.In(d, "a", serde.String, serde.String).Pipe("k", "from a", streamstest.AtMillis(1))
	streamstest.In(d, "b", serde.String, serde.String).Pipe("k", "", streamstest.AtMillis(2))
	require.Equal(t, []string{"k:from a@2"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
}

// startErr is the error with which the first task of a topology fails to start.
func startErr(t *testing.T, b *streams.Builder) error {
	t.Helper()
	topology, err := b.Build("app")
	require.NoError(t, err)
	_, err = newOwner(topology, 0)
	return err
}
