package streams_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// F17: a retry changes neither the order of its key nor a tombstone of it, and sees its record where it was.
func TestF17KeyOrderedRetry(t *testing.T) {
	type crash = func(d *streamstest.Driver)
	kill := func(keep bool) crash { return func(d *streamstest.Driver) { d.Crash(keep) } }
	for _, c := range []struct {
		name  string
		amid  crash // after the second try of K:0
		after bool  // K's followers come after that
	}{
		{"undisturbed", func(*streamstest.Driver) {}, false},
		{"killed after the second try", kill(true), false},
		{"killed, and its disk lost", kill(false), false},
		{"followers after the restart", kill(true), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var calls, good []string
			left := 2
			b := streams.NewBuilder()
			policy := retry.KeyOrdered(retry.Attempts(5), retry.Backoff(100*time.Millisecond, 100*time.Millisecond), retry.Jitter(0))
			b.Stream("in", serde.String, serde.String, streams.OnFailure(policy)).
				Process("step", func(*streams.Init) streams.Processor[string, string, string, string] {
					return streams.ProcessorFunc[string, string, string, string](
						func(c *streams.Context[string, string], r streams.Record[string, string]) error {
							topic, partition, offset, _ := c.Source()
							calls = append(calls, fmt.Sprintf("%s:%s@%d %s-%d@%d try %d", r.Key, r.Value, c.Timestamp().UnixMilli(), topic, partition, offset, c.Attempt()))
							c.Forward(r)
							if r.Value == "0" && left > 0 {
								left--
								return errFlaky
							}
							good = append(good, showOne(r))
							return nil
						})
				}).
				To("out")
			d := streamstest.New(t, b)
			in, out := streamstest.In(d, "in", serde.String, serde.String), streamstest.OutRaw(d, "out")
			followers := func() {
				in.Pipe("K", "1", streamstest.AtMillis(2))
				in.Pipe("J", "a", streamstest.AtMillis(3))
				in.Pipe("K", "2", streamstest.AtMillis(4))
				in.PipeTombstone("K", streamstest.AtMillis(5))
				in.Pipe("K", "4", streamstest.AtMillis(6))
			}
			in.Pipe("K", "0", streamstest.AtMillis(1))
			if !c.after {
				followers()
			}
			d.AdvanceWallClock(100 * time.Millisecond)
			require.Zero(t, left, "it has failed twice")
			if !c.after {
				require.Equal(t, []string{"J:a@3"}, good, "J does not wait for K")
				require.Equal(t, 5, d.Failures(streams.TaskID{}).Deepest)
				require.True(t, tombstoneIsPutAside(t, d), "a tombstone is one in the retry topic too")
			}
			c.amid(d)
			if c.after {
				followers()
			}
			d.AdvanceWallClock(99 * time.Millisecond)
			require.Zero(t, d.Failures(streams.TaskID{}).Recovered, "never early")
			d.AdvanceWallClock(10 * time.Second)

			require.Equal(t, []string{"K:0@1 in-0@0 try 1", "K:0@1 in-0@0 try 2", "K:0@1 in-0@0 try 3"}, of(calls, "K:0"))
			require.Equal(t, []string{"K:0@1", "K:1@2", "K:2@4", "K:null@5", "K:4@6"}, of(good, "K"))
			require.Equal(t, []string{`"K":"0"@1`, `"K":"1"@2`, `"K":"2"@4`, `"K":null@5`, `"K":"4"@6`}, of(showRaw(out.ReadAll()), `"K"`))
			require.EqualValues(t, 6, d.Committed("in", 0))
			f := d.Failures(streams.TaskID{})
			require.Zero(t, f.Parked+f.Gates+f.Deepest)
		})
	}
}

// of keeps the lines that begin so.
func of(lines []string, prefix string) (out []string) {
	for _, l := range lines {
		if len(l) >= len(prefix) && l[:len(prefix)] == prefix {
			out = append(out, l)
		}
	}
	return out
}

// tombstoneIsPutAside says whether a record with a null value lies in the retry topic as one.
func tombstoneIsPutAside(t *testing.T, d *streamstest.Driver) (is bool) {
	for _, r := range streamstest.OutRaw(d, d.Topology().ApplicationID()+"-in-retry").ReadAll() {
		o, payload, err := retry.ParseKey(r.Key)
		require.NoError(t, err)
		if !payload || r.Value == nil {
			continue
		}
		p, err := retry.DecodePayload(o, r.Value)
		require.NoError(t, err)
		is = is || p.NullValue
	}
	return is
}
