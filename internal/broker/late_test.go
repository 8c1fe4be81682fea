package broker

import (
	"crypto/tls"
	"flag"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/understudy-streams/understudy/task"
)

func TestLateRequests(t *testing.T) {
	late := Late{}
	require.NoError(t, late.Set("Produce=150ms"))
	b, err := Start(Options{Topics: map[string]int32{"in": 1}, Late: late})
	require.NoError(t, err)
	defer b.Close()
	c, err := NewClient(b.Addrs())
	require.NoError(t, err)
	defer c.Close()
	began := time.Now()
	require.NoError(t, c.Produce(t.Context(), task.TopicPartition{Topic: "in"}, task.OutRecord{Value: make([]byte, 100_000), Timestamp: 1}))
	require.GreaterOrEqual(t, time.Since(began), 150*time.Millisecond)
	got, err := c.Consume(t.Context(), "in")
	require.NoError(t, err)
	require.Len(t, got[0], 1)
	require.Len(t, got[0][0].Value, 100_000)
}

func TestLateWithTLS(t *testing.T) {
	_, err := Start(Options{TLS: &tls.Config{}, Late: Late{0: time.Second}})
	require.ErrorContains(t, err, "use one of the two")
}

func TestLateIsAFlag(t *testing.T) {
	late := Late{}
	f := flag.NewFlagSet("", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Var(late, "late", "")
	require.NoError(t, f.Parse([]string{"-late", "OffsetCommit=100ms,Fetch=20ms"}))
	require.Equal(t, Late{int16(kmsg.OffsetCommit): 100 * time.Millisecond, int16(kmsg.Fetch): 20 * time.Millisecond}, late)
	again := Late{}
	require.NoError(t, again.Set(late.String()))
	require.Equal(t, late, again)
	require.ErrorContains(t, f.Parse([]string{"-late", "Commit=100ms"}), `"Commit" is no kind of request`)
	require.ErrorContains(t, f.Parse([]string{"-late", "Fetch"}), "as in OffsetCommit=100ms")
}
