package streams_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

type textRecord = streams.Record[string, string]

var errTry = errors.New("no")

// trySteps are all steps that can fail. Each fails for the value "bad".
var trySteps = []struct {
	name string
	step func(in text, saw func(textRecord) error) text
	want []string
}{
	{"TryFilter", func(in text, saw func(textRecord) error) text {
		return in.TryFilter("try", func(_ context.Context, r textRecord) (bool, error) { return r.Value != "2", saw(r) })
	}, []string{"a:1@1 h=x", "null:3@3", "b:null@4"}},
	{"TryMap", func(in text, saw func(textRecord) error) text {
		return in.TryMap("try", func(_ context.Context, r textRecord) (string, string, error) { return r.Value, r.Key, saw(r) })
	}, []string{"1:a@1 h=x", "2:b@2", "3:@3", ":b@4"}},
	{"TryMapValues", func(in text, saw func(textRecord) error) text {
		return in.TryMapValues("try", func(_ context.Context, r textRecord) (string, error) { return r.Value + "?", saw(r) })
	}, []string{"a:1?@1 h=x", "b:2?@2", "null:3?@3", "b:?@4"}},
	{"TryFlatMap", func(in text, saw func(textRecord) error) text {
		return in.TryFlatMap("try", func(_ context.Context, r textRecord) ([]streams.KeyValue[string, string], error) {
			return []streams.KeyValue[string, string]{{Key: r.Key, Value: r.Value}, {Key: "x", Value: "y"}}, saw(r)
		})
	}, []string{"a:1@1 h=x", "x:y@1 h=x", "b:2@2", "x:y@2", ":3@3", "x:y@3", "b:@4", "x:y@4"}},
	{"TryFlatMapValues", func(in text, saw func(textRecord) error) text {
		return in.TryFlatMapValues("try", func(_ context.Context, r textRecord) ([]string, error) { return []string{r.Value, "y"}, saw(r) })
	}, []string{"a:1@1 h=x", "a:y@1 h=x", "b:2@2", "b:y@2", "null:3@3", "null:y@3", "b:@4", "b:y@4"}},
	{"TrySelectKey", func(in text, saw func(textRecord) error) text {
		return in.TrySelectKey("try", func(_ context.Context, r textRecord) (string, error) { return r.Value, saw(r) })
	}, []string{"1:1@1 h=x", "2:2@2", "3:3@3", ":null@4"}},
	{"TryPeek", func(in text, saw func(textRecord) error) text {
		return in.TryPeek("try", func(_ context.Context, r textRecord) error { return saw(r) })
	}, []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"}},
	{"TryForEach", func(in text, saw func(textRecord) error) text {
		in.TryForEach("try", func(_ context.Context, r textRecord) error { return saw(r) })
		return in
	}, []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"}},
}

func TestTrySteps(t *testing.T) {
	for _, c := range trySteps {
		t.Run(c.name, func(t *testing.T) {
			var saw []string
			b := streams.NewBuilder()
			c.step(b.Stream("in", serde.String, serde.String), func(r textRecord) error {
				saw = append(saw, showOne(r))
				if r.Value == "bad" {
					return errTry
				}
				return nil
			}).To("out")
			d := streamstest.New(t, b)
			pipeFour(d)
			out := streamstest.Out(d, "out", serde.String, serde.String)
			require.Equal(t, c.want, show(out.ReadAll()))
			require.Equal(t, []string{"a:1@1 h=x", "b:2@2", "null:3@3", "b:null@4"}, saw)

			err := d.TryPipeRaw("in", []byte("k"), []byte("bad"), streamstest.AtMillis(5))
			var failed *streams.RecordError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, errTry)
			require.Equal(t, streams.RecordError{
				Topic: "in", Offset: 4, Node: "try", Kind: streams.KindProcess, Err: errTry, Attempts: 1,
			}, *failed)
			require.ErrorContains(t, err, `streams: task 0_0, in-0 at offset 4, node "try": process: no`)
			require.Empty(t, out.ReadAll(), "nothing of the failed record is left")
			require.EqualValues(t, 4, d.Committed("in", 0), "what came before it is committed, it is not")
		})
	}
}

// A failure undoes what sibling branches and steps above did for the record, and a panic is a failure.
func TestAFailedRecordLeavesNothingBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		kind streams.Kind
		fail func() error
	}{
		{"error", streams.KindProcess, func() error { return errTry }},
		{"panic", streams.KindPanic, func() error { panic(errTry) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			failing := true
			b := streams.NewBuilder()
			in := b.Stream("in", serde.String, serde.String)
			in.To("before")
			in.GroupByKey().Count("counts", streams.EmitPerUpdate).ToStream().To("counted")
			in.TryForEach("fails", func(_ context.Context, r textRecord) error {
				if r.Value == "bad" && failing {
					return c.fail()
				}
				return nil
			})
			in.To("after")
			d := streamstest.New(t, b)
			pipe := streamstest.In(d, "in", serde.String, serde.String)
			pipe.Pipe("k", "good", streamstest.AtMillis(1))
			err := pipe.TryPipe("k", "bad", streamstest.AtMillis(2))
			var failed *streams.RecordError
			require.ErrorAs(t, err, &failed)
			require.ErrorIs(t, err, errTry)
			require.Equal(t, c.kind, failed.Kind)
			require.Equal(t, "fails", failed.Node)
			require.Equal(t, c.kind == streams.KindPanic, len(failed.Stack) > 0)
			for _, topic := range []string{"before", "counted", "after", "test-counts-changelog"} {
				require.Len(t, streamstest.OutRaw(d, topic).ReadAll(), 1, topic)
			}
			n, _ := streamstest.Store(d, "counts", serde.String, serde.Int64).Get("k")
			require.EqualValues(t, 1, n)

			failing = false
			d.Restart(true)
			require.Equal(t, []string{"k:1@1", "k:2@2"}, show(streamstest.Out(d, "counted", serde.String, serde.Int64).ReadAll()))
		})
	}
}
