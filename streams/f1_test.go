package streams_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// tableFilter is a table of sums, or of the values themselves, of which only positive ones are let through.
func tableFilter(emission streams.Emission, sums, mapped bool) *streams.Builder {
	b := streams.NewBuilder()
	var table streams.Table[string, int64]
	if sums {
		table = b.Stream("in", serde.String, serde.Int64).GroupByKey().
			Reduce("sums", func(a, v int64) int64 { return a + v }, emission)
	} else {
		table = b.Table("in", serde.String, serde.Int64, emission)
	}
	table = table.Filter(func(_ string, v int64) bool { return v > 0 })
	if mapped {
		table = table.MapValues(func(v int64) int64 { return v })
	}
	table.ToStream().To("out")
	return b
}

// F1: a filter never deletes a row that was not in its result, and the knowledge of what was in it is in the state.
func TestF1TableFilterDeletesOnlyWhatWasThere(t *testing.T) {
	for _, c := range []struct {
		name     string
		sums     bool
		emission streams.Emission
		hold     bool
		want     []string
	}{
		{"sums, per update", true, streams.EmitPerUpdate, false, []string{"k:1@2", "k:null@3", "k:1@5"}},
		{"sums, a commit after each record", true, streams.EmitAtCommit, false, []string{"k:1@2", "k:null@3", "k:1@5"}},
		{"sums, one commit", true, streams.EmitAtCommit, true, []string{"k:1@5"}},
		{"source table, per update", false, streams.EmitPerUpdate, false, []string{"k:6@2", "k:null@3", "k:3@5"}},
		{"source table, a commit after each record", false, streams.EmitAtCommit, false, []string{"k:6@2", "k:null@3", "k:3@5"}},
		{"source table, one commit", false, streams.EmitAtCommit, true, []string{"k:3@5"}},
	} {
		for _, mapped := range []bool{false, true} {
			name := c.name
			if mapped {
				name += ", mapped"
			}
			t.Run(name, func(t *testing.T) {
				for restart := range 6 { // before which record; 5: never
					if c.hold && restart < 5 {
						continue
					}
					for _, keep := range []bool{true, false} {
						require.Equal(t, c.want, runF1(t, tableFilter(c.emission, c.sums, mapped), c.hold, restart, keep),
							"restart before record %d, state kept: %v", restart, keep)
					}
				}
			})
		}
	}
}

func runF1(t *testing.T, b *streams.Builder, hold bool, restart int, keepState bool) []string {
	var opts []streamstest.Option
	if hold {
		opts = append(opts, streamstest.HoldCommits())
	}
	d := streamstest.New(t, b, opts...)
	in := streamstest.In(d, "in", serde.String, serde.Int64)
	for i, v := range []int64{-5, 6, -2, -1, 3} {
		if i == restart {
			d.Restart(keepState)
		}
		in.Pipe("k", v, streamstest.AtMillis(int64(i+1)))
	}
	d.Commit()
	return show(streamstest.Out(d, "out", serde.String, serde.Int64).ReadAll())
}
