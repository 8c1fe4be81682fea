package streams_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// ticker schedules both clocks and forwards a record at each punctuation.
type ticker struct {
	sources []bool // whether a source was seen in a punctuation
	fail    error
}

func (p *ticker) Start(c *streams.Context[string, string]) error {
	c.Schedule(10*time.Millisecond, streams.StreamTime, p.send("stream"))
	c.Schedule(time.Second, streams.WallClock, p.send("wall"))
	return nil
}

func (p *ticker) send(value string) func(*streams.Context[string, string], time.Time) error {
	return func(c *streams.Context[string, string], _ time.Time) error {
		_, _, _, ok := c.Source()
		p.sources = append(p.sources, ok)
		c.Forward(streams.Record[string, string]{Key: "p", Value: value})
		return p.fail
	}
}

func (p *ticker) Process(*streams.Context[string, string], streams.Record[string, string]) error {
	return nil
}

// stamper adds a header n with a count to each record.
type stamper struct{ n int }

func (p *stamper) Process(c *streams.Context[string, string], r streams.Record[string, string]) error {
	p.n++
	r.Headers = append(r.Headers, streams.Header{Key: "n", Value: []byte(strconv.Itoa(p.n))})
	c.Forward(r)
	return nil
}

// ticking is F6's topology.
func ticking(p *ticker) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).
		Process("ticker", func(*streams.Init) streams.Processor[string, string, string, string] { return p }).
		Process("stamper", func(*streams.Init) streams.Processor[string, string, string, string] { return &stamper{} }).
		To("out")
	return b
}

// F6: what a timer sends has the timer's time and no headers but its own, and no source.
func TestF6PunctuationHasATimeOfItsOwn(t *testing.T) {
	p := &ticker{}
	d := streamstest.New(t, ticking(p), streamstest.StartAt(time.UnixMilli(1_000_000)))
	in := streamstest.In(d, "in", serde.String, serde.String)
	out := streamstest.Out(d, "out", serde.String, serde.String)
	for i, r := range []struct {
		value string
		at    int64
	}{{"a", 20}, {"b", 25}, {"c", 31}} {
		in.Pipe("k", r.value, streamstest.AtMillis(r.at), streamstest.Headers(streams.Header{Key: "x", Value: []byte{byte('1' + i)}}))
	}
	d.AdvanceWallClock(time.Second)
	d.AdvanceWallClock(time.Second)
	require.Equal(t, []string{"p:stream@20 n=1", "p:stream@31 n=2", "p:wall@1001000 n=3", "p:wall@1002000 n=4"}, show(out.ReadAll()))
	require.Equal(t, []bool{false, false, false, false}, p.sources)
}

func TestF6PunctuationErrorNamesItsNodeAndNoRecord(t *testing.T) {
	boom := errors.New("boom")
	d := streamstest.New(t, ticking(&ticker{fail: boom}))
	err := streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "a", streamstest.AtMillis(20))
	var failed *streams.RecordError
	require.ErrorAs(t, err, &failed)
	require.ErrorIs(t, err, boom)
	require.Equal(t, streams.KindPunctuate, failed.Kind)
	require.Equal(t, "ticker", failed.Node)
	require.Empty(t, failed.Topic)
	require.EqualValues(t, -1, failed.Offset)
	require.EqualValues(t, 1, d.Committed("in", 0), "the record is not to blame")
	require.Empty(t, streamstest.OutRaw(d, "out").ReadAll())
}
