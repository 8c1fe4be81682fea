package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/understudy-streams/understudy/examples/internal/kit"
	"github.com/understudy-streams/understudy/streams"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestPipeShowsWhatComesOut(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &kit.Flags{App: "pipe"}, &out))
	require.ElementsMatch(t, []string{ // of two partitions, in any order
		`key "a", value "FIRST", header trace=42`,
		`no key, value "WITHOUT A KEY"`,
	}, strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"))
}

func TestPipeKeepsEverythingButTheCase(t *testing.T) {
	d := streamstest.New(t, topology())
	at := time.UnixMilli(1_700_000_000_123).UTC()
	headers := []streams.Header{{Key: "trace", Value: []byte("42")}, {Key: "trace"}, {Key: "", Value: []byte{}}}
	d.PipeRaw("in", []byte{0xff, 0xfe}, []byte("first"), streamstest.At(at), streamstest.Headers(headers...))
	d.PipeRaw("in", []byte("b"), []byte{})
	d.PipeRaw("in", []byte("c"), nil)
	got := streamstest.OutRaw(d, "out").ReadAll()
	require.Equal(t, []streamstest.RawRecord{{Key: []byte{0xff, 0xfe}, Value: []byte("FIRST"), Time: at, Headers: headers}}, got)
}

func TestPipeHasNoState(t *testing.T) {
	built, err := topology().Build("pipe")
	require.NoError(t, err)
	require.Empty(t, built.Internal)
}
