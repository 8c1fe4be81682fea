package main

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestWordsAreCounted(t *testing.T) {
	d := streamstest.New(t, topology())
	lines := streamstest.In(d, "lines", serde.String, serde.String)
	counts := streamstest.Out(d, "counts", serde.String, serde.Int64)

	lines.Pipe("", "to be or not to be")
	lines.Pipe("", "to do")
	d.Restart(false) // the process dies and its disk is gone: state comes back from the changelog
	lines.Pipe("", "to err")

	last := map[string]int64{}
	for _, r := range counts.ReadAll() {
		last[r.Key] = r.Value
	}
	require.Equal(t, map[string]int64{"to": 4, "be": 2, "or": 1, "not": 1, "do": 1, "err": 1}, last)
}
