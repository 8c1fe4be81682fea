package streams_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// forwarding is a topology whose processor does one thing for each record.
func forwarding(do func(c *textContext, r textRecord, h *streams.StoreHandle[string, string])) *streams.Builder {
	store := streams.NewStore("s", serde.String, serde.String)
	return processing(func(init *streams.Init) textProcessor {
		h := store.Open(init)
		return textFunc(func(c *textContext, r textRecord) error { do(c, r, h); return nil })
	}, streams.WithStores(store))
}

// What is before 1970 cannot be written to a topic. It fails where it was made, and not at the commit, where nobody could tell whose it was.
func TestATimestampBefore1970FailsTheRecordThatMadeIt(t *testing.T) {
	for name, do := range map[string]func(c *textContext, r textRecord, h *streams.StoreHandle[string, string]){
		"forward": func(c *textContext, r textRecord, _ *streams.StoreHandle[string, string]) {
			r.Time = time.UnixMilli(-1)
			c.Forward(r)
		},
		"put": func(_ *textContext, r textRecord, h *streams.StoreHandle[string, string]) {
			h.PutTime("k", "v", time.UnixMilli(-1))
		},
		"put at no time": func(_ *textContext, r textRecord, h *streams.StoreHandle[string, string]) {
			h.PutTime("k", "v", time.Time{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := streamstest.New(t, forwarding(do))
			var failed *streams.RecordError
			require.ErrorAs(t, streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "v"), &failed)
			require.Equal(t, streams.KindTimestamp, failed.Kind)
			require.Equal(t, "p", failed.Node)
		})
	}
}

// A null is null, whatever is beside the flag.
func TestForwardOfANullWithAValueBesideIt(t *testing.T) {
	b := streams.NewBuilder()
	var saw []string
	b.Stream("in", serde.String, serde.String).Process("p", func(*streams.Init) textProcessor {
		return textFunc(func(c *textContext, r textRecord) error {
			c.Forward(textRecord{Key: "k", NullKey: true, Value: "v", NullValue: true})
			return nil
		})
	}).Peek(func(k, v string) { saw = append(saw, k+":"+v) }).To("out")
	d := streamstest.New(t, b)
	streamstest.In(d, "in", serde.String, serde.String).Pipe("a", "b", streamstest.AtMillis(1))
	require.Equal(t, []string{":"}, saw)
	require.Equal(t, []string{"null:null@1"}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
}

// What a callback of a commit forwards has nothing of the record that happened to be the last one.
func TestACommitCallbackForwardsNothingOfTheLastRecord(t *testing.T) {
	d := streamstest.New(t, forwarding(func(c *textContext, r textRecord, h *streams.StoreHandle[string, string]) {
		if r.Value != "ask" {
			return
		}
		c.CommitAsync(func(error) {
			_, _, _, ok := c.Source()
			require.False(t, ok)
			h.Put("k", "v")
			c.Forward(textRecord{Key: "done"})
		})
	}), streamstest.HoldCommits())
	in := streamstest.In(d, "in", serde.String, serde.String)
	in.Pipe("k", "late", streamstest.AtMillis(9))
	in.Pipe("k", "ask", streamstest.AtMillis(5), streamstest.Headers(streams.Header{Key: "x", Value: []byte("1")}))
	d.Commit()
	require.Equal(t, []string{"done:@9"}, show(streamstest.Out(d, "out", serde.String, serde.String).ReadAll()))
	log := showRaw(streamstest.OutRaw(d, "test-s-changelog").ReadAll())
	require.Equal(t, []string{`"k":"v"@9`}, log)
}

func TestAScheduleNeedsAMillisecond(t *testing.T) {
	nothing := func(*textContext, time.Time) error { return nil }
	err := startErr(t, processing(func(*streams.Init) textProcessor {
		return &starting{start: func(c *textContext) error { c.Schedule(0, streams.StreamTime, nothing); return nil }}
	}))
	require.ErrorContains(t, err, `step "p": a schedule of every 0s: give it a millisecond or more`)
	d := streamstest.New(t, forwarding(func(c *textContext, _ textRecord, _ *streams.StoreHandle[string, string]) {
		c.Schedule(time.Second, streams.WallClock, nil)()
	}))
	require.ErrorContains(t, streamstest.In(d, "in", serde.String, serde.String).TryPipe("k", "v"), "and a function")
}
