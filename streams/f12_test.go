package streams_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

var (
	skipUndecodable = retry.Ordered(retry.OnDecode(retry.Ordered(retry.Attempts(1), retry.ThenSkip())))
	buryUndecodable = retry.Ordered(retry.OnDecode(retry.Ordered(retry.Attempts(1), retry.ThenDeadLetter())))
)

func numbers(p retry.Policy) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.Int64, streams.OnFailure(p)).Filter(func(string, int64) bool { return true }).To("out")
	return b
}

var number7 = []byte{0, 0, 0, 0, 0, 0, 0, 7}

// F12: what cannot be decoded and is skipped is done as well: the offset passes it, and a restart reads nothing again.
func TestF12SkippedRecordsAreCommitted(t *testing.T) {
	for _, c := range []struct {
		name   string
		values [][]byte
		bad    int64
	}{
		{"nothing but bad ones", [][]byte{{1, 2, 3}, {4, 5, 6}, {7, 8, 9}, {1, 2, 3}, {1, 2, 3}}, 5},
		{"good, bad, bad", [][]byte{number7, {1, 2, 3}, {4, 5, 6}}, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := streamstest.New(t, numbers(skipUndecodable))
			for _, v := range c.values {
				d.PipeRaw("in", []byte("k"), v)
			}
			require.EqualValues(t, len(c.values), d.Committed("in", 0))
			require.Equal(t, c.bad, d.Failures(streams.TaskID{}).Skipped)
			require.Len(t, streamstest.OutRaw(d, "out").ReadAll(), len(c.values)-int(c.bad))
			d.Restart(true)
			require.Zero(t, d.Failures(streams.TaskID{}).Skipped, "nothing is read again")
			require.EqualValues(t, len(c.values), d.Committed("in", 0))
		})
	}
}

// F12 (d): dead letters are acknowledged before the commit, with the record as it was read.
func TestF12DeadLettersAreThereBeforeTheCommit(t *testing.T) {
	d := streamstest.New(t, numbers(buryUndecodable))
	d.SetBrokers(streamstest.BrokersSilent)
	headers := []streams.Header{{Key: "h", Value: []byte{0xff}}, {Key: "n"}}
	for i := range 5 {
		d.PipeRaw("in", []byte{0xfe, byte(i)}, []byte{1, 2, byte(i)}, streamstest.ToPartition(0), streamstest.AtMillis(int64(i)), streamstest.Headers(headers...))
	}
	require.Zero(t, d.Committed("in", 0), "nobody has acknowledged them")
	d.SetBrokers(streamstest.BrokersUp)
	require.EqualValues(t, 5, d.Committed("in", 0))
	letters := d.DeadLetters("in")
	require.Len(t, letters, 5)
	for i, l := range letters {
		require.Equal(t, []byte{0xfe, byte(i)}, l.Key)
		require.Equal(t, []byte{1, 2, byte(i)}, l.Value)
		require.EqualValues(t, i, l.Time.UnixMilli())
		require.Equal(t, headers, l.Headers)
		require.Equal(t, retry.Origin{Topic: "in", Offset: int64(i)}, l.Origin)
	}
}

// F13 (a): a restore brings nothing back that the policy has thrown out, and buries nothing a second time.
func TestF13RestoreBringsNoPoisonBack(t *testing.T) {
	b := streams.NewBuilder()
	b.Table("in", serde.String, serde.Int64, streams.As("t"), streams.OnFailure(buryUndecodable)).ToStream().To("out")
	d := streamstest.New(t, b)
	for i, r := range []struct {
		key   string
		value []byte
	}{{"k1", number7}, {"k1", []byte{1, 2, 3}}, {"k2", []byte{1, 2, 3}}, {"k3", []byte{0, 0, 0, 0, 0, 0, 0, 9}}} {
		d.PipeRaw("in", []byte(r.key), r.value, streamstest.AtMillis(int64(i+1)))
	}
	want := []streams.KeyValue[string, int64]{{Key: "k1", Value: 7}, {Key: "k3", Value: 9}}
	rows := streamstest.Store(d, "t", serde.String, serde.Int64)
	require.Equal(t, want, rows.All())
	for range 2 {
		d.Restart(false)
		require.Equal(t, want, rows.All())
		_, found := rows.Get("k2")
		require.False(t, found)
		require.Len(t, d.DeadLetters("in"), 2, "two in total")
	}
}

// F13 (c): with stop both lives end with the same error, and not later when a row is read.
func TestF13StopEndsBothLivesWithTheSameError(t *testing.T) {
	var said []string
	for range 2 {
		b := streams.NewBuilder()
		b.Table("in", serde.String, serde.Int64, streams.OnFailure(retry.Stop())).ToStream().To("out")
		d := streamstest.New(t, b)
		d.PipeRaw("in", []byte("k1"), number7)
		err := d.TryPipeRaw("in", []byte("k1"), []byte{1, 2, 3})
		var failed *streams.RecordError
		require.ErrorAs(t, err, &failed)
		require.Equal(t, "in", failed.Topic)
		require.EqualValues(t, 1, failed.Offset)
		require.Equal(t, streams.KindDecode, failed.Kind)
		require.EqualValues(t, 1, d.Committed("in", 0))
		said = append(said, err.Error())
	}
	require.Equal(t, said[0], said[1])
}

// F11: headers come through the retry topic as they were, and into the dead letters ahead of what is said of the failure.
func TestF11HeadersOfRecordsThatFail(t *testing.T) {
	headers := []streams.Header{
		{Key: "a", Value: []byte{1}}, {Key: "b", Value: []byte{2}}, {Key: "a", Value: []byte{3}}, {Key: "c"}, {Key: "d", Value: []byte{}},
		{Key: "kafka_x", Value: []byte{0x31}}, {Key: "", Value: []byte{9}}, {Key: "attempt", Value: []byte{0xff}},
	}
	for name, p := range map[string]retry.Policy{
		"ordered": retry.Ordered(retry.Attempts(2), retry.ThenDeadLetter()), "keys": retry.KeyOrdered(retry.Attempts(2), retry.ThenDeadLetter()),
		"workers": retry.Parallel(retry.Workers(2), retry.Attempts(2), retry.ThenDeadLetter()),
	} {
		t.Run(name, func(t *testing.T) {
			left := map[string]int{"once": 1, "always": -1}
			b := streams.NewBuilder()
			b.Stream("in", serde.String, serde.String, streams.OnFailure(p)).
				TryPeek("step", func(_ context.Context, r streams.Record[string, string]) error {
					if left[r.Value] == 0 {
						return nil
					}
					left[r.Value]--
					return errFlaky
				}).
				To("out")
			d := streamstest.New(t, b)
			in := streamstest.In(d, "in", serde.String, serde.String)
			for _, v := range []string{"once", "always"} {
				in.Pipe(v, v, streamstest.AtMillis(1), streamstest.Headers(headers...))
			}
			d.AdvanceWallClock(10e9)
			out := streamstest.OutRaw(d, "out").ReadAll()
			require.Equal(t, []string{`"once":"once"@1`}, showRaw(out))
			require.Equal(t, headers, out[0].Headers, "and none of the runtime's")
			dead := streamstest.OutRaw(d, d.Topology().ApplicationID()+"-in-dlq").ReadAll()
			require.Len(t, dead, 1)
			require.Equal(t, headers, dead[0].Headers[:len(headers)], "first, and as they were")
			require.Equal(t, headers, d.DeadLetters("in")[0].Headers)
		})
	}
}
