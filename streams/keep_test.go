package streams_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

type keyed = streams.Stream[[]byte, []byte]

// Steps that keep the key pass it on as it came, whether or not anybody downstream makes it decode it: bytes, empty and null.
func TestStepsThatKeepTheKeyKeepItsBytes(t *testing.T) {
	same := func(v []byte) []byte { return v }
	steps := map[string]func(keyed) keyed{
		"Filter":         func(s keyed) keyed { return s.Filter(func(_, _ []byte) bool { return true }) },
		"FilterNot":      func(s keyed) keyed { return s.FilterNot(func(_, _ []byte) bool { return false }) },
		"MapValues":      func(s keyed) keyed { return s.MapValues(same) },
		"MapValues x3":   func(s keyed) keyed { return s.MapValues(same).MapValues(same).MapValues(same) },
		"FlatMapValues":  func(s keyed) keyed { return s.FlatMapValues(func(v []byte) [][]byte { return [][]byte{v} }) },
		"Peek":           func(s keyed) keyed { return s.Peek(func(_, _ []byte) {}) },
		"Split":          func(s keyed) keyed { return s.Split(func(_, _ []byte) bool { return false })[1] },
		"Repartition":    func(s keyed) keyed { return s.Repartition("through") },
		"MapValues+Rep.": func(s keyed) keyed { return s.MapValues(same).Repartition("through").MapValues(same) },
		"Map":            func(s keyed) keyed { return s.Map(func(k, v []byte) ([]byte, []byte) { return k, v }) },
		"SelectKey":      func(s keyed) keyed { return s.SelectKey(func(k, _ []byte) []byte { return k }) },
		"TryMapValues": func(s keyed) keyed {
			return s.TryMapValues("try", func(_ context.Context, r streams.Record[[]byte, []byte]) ([]byte, error) { return r.Value, nil })
		},
		"TryFilter": func(s keyed) keyed {
			return s.TryFilter("try", func(context.Context, streams.Record[[]byte, []byte]) (bool, error) { return true, nil })
		},
		"Process": func(s keyed) keyed {
			return s.Process("same", func(*streams.Init) streams.Processor[[]byte, []byte, []byte, []byte] {
				return streams.ProcessorFunc[[]byte, []byte, []byte, []byte](func(c *streams.Context[[]byte, []byte], r streams.Record[[]byte, []byte]) error {
					c.Forward(r)
					return nil
				})
			})
		},
	}
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			step(b.Stream("in", serde.Bytes, serde.Bytes)).To("out")
			d := streamstest.New(t, b)
			for i, key := range [][]byte{[]byte("a"), {}, nil, {0xff, 0x00, 0xfe}} {
				d.PipeRaw("in", key, []byte("v"), streamstest.AtMillis(int64(i+1)))
			}
			require.Equal(t, []string{`"a":"v"@1`, `"":"v"@2`, `null:"v"@3`, `"\xff\x00\xfe":"v"@4`}, showRaw(streamstest.OutRaw(d, "out").ReadAll()))
		})
	}
}
