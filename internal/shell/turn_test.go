package shell

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/task"
)

func TestTurnIsHeldByOne(t *testing.T) {
	var held turn
	a, b := task.ID{Partition: 1}, task.ID{Partition: 2}
	require.True(t, held.ask(a, true))
	require.True(t, held.ask(a, true))
	require.False(t, held.ask(b, true))
	held.ask(b, false)
	require.False(t, held.ask(b, true), "only its holder gives it back")
	held.ask(a, false)
	require.True(t, held.ask(b, true))
	held.since = held.since.Add(-longestTurn - time.Second)
	require.True(t, held.ask(a, true), "who never comes back holds nobody up for ever")
}
