package task

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// An entry whose record is gone from its source, and whose key is being run, goes ahead of the next record of that key.
func TestWorkersEntryOfAGoneRecordKeepsItsPlace(t *testing.T) {
	y := newYard(t, retry.KeyOrdered(steady, retry.Workers(2)))
	y.fails["1"] = 1
	y.bring("z:slow", "a:1") // the commit stands at slow, so the entry of 1 is not shown as done but by the map
	y.runValue("1")
	y.commitNow()
	c := y.committed["in"]
	m := retry.NewMetadata(0) // a commit that does not show it, as if it had not come through
	c.Metadata, _ = m.Encode(0)
	c.Offset = 0
	y.committed["in"] = c
	y.crash()
	require.Equal(t, 1, y.stats().Inert)
	y.fails["1"] = 0
	// offset 0 has the same key now and runs; 1 is gone; 2 follows.
	y.runs = nil
	y.feed(0, batch(3, rec(0, "a", "0", 1000), rec(2, "a", "2", 1002)))
	y.drain(true)
	y.pass(5)
	require.Equal(t, []string{"0", "1", "2"}, y.runs)
}
