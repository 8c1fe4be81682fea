package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/streams/serde"
	"github.com/understudy-streams/understudy/streams/streamstest"
)

func TestALongCollectionLosesNothing(t *testing.T) {
	c := streamstest.NewCluster(t, topology(), streamstest.Members(2), streamstest.Partitions("lines", 4))
	lines := streamstest.In(c, "lines", serde.String, serde.String)
	lines.Pipe("a", "to be")
	c.Run(2 * time.Second)
	c.Member(0).Freeze(time.Minute) // longer than its session: the other one takes its tasks over
	lines.Pipe("b", "or not to be")
	c.Run(2 * time.Minute)

	counts := streamstest.Store(c, "word-counts", serde.String, serde.Int64)
	be, _ := counts.Get("be")
	require.EqualValues(t, 2, be)
}
