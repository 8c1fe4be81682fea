package streams_test

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

// panicOf is the error of a record whose value is given to f.
func panicOf(t *testing.T, f func(string) string) *streams.RecordError {
	t.Helper()
	b := streams.NewBuilder()
	b.Stream("in", serde.String, serde.String).MapValues(f).To("out")
	err := streamstest.In(streamstest.New(t, b), "in", serde.String, serde.String).TryPipe("k", "v")
	var failed *streams.RecordError
	require.ErrorAs(t, err, &failed)
	require.Equal(t, streams.KindPanic, failed.Kind)
	return failed
}

func TestErrorOfAPanicSaysWhereItBegan(t *testing.T) {
	var none map[string]*streams.RecordError
	for name, f := range map[string]func(string) string{
		"a panic of its own":      func(string) string { panic("boom") },
		"a nil pointer":           func(v string) string { return none[v].Topic },
		"a panic while panicking": func(string) string { defer func() { panic("again") }(); panic("boom") },
		"an index out of range":   func(v string) string { return v[len(v)+1:] },
		"an error as a panic":     func(string) string { panic(errors.New("boom")) },
	} {
		t.Run(name, func(t *testing.T) {
			require.Regexp(t, `node "mapvalues[^"]*": panic: .*\(.*/panicplace_test\.go:\d+\)$`, panicOf(t, f).Error())
		})
	}
}

func TestErrorOfAPanicWithoutAStackSaysNoPlace(t *testing.T) {
	e := &streams.RecordError{Kind: streams.KindPanic, Node: "n", Partition: -1, Offset: -1, Err: errors.New("boom")}
	for _, stack := range []string{"", "no stack", "\npanic(", "\npanic(1)\n\tx.go:1\nruntime.f()\n\ty.go:2"} {
		e.Stack = []byte(stack)
		require.Equal(t, `streams: task 0_0, node "n": panic: boom`, e.Error())
	}
}
