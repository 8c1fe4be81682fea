package task

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTurnIsHeldByOne(t *testing.T) {
	var held Turn
	now := time.Unix(1, 0)
	a, b := ID{Partition: 1}, ID{Partition: 2}
	require.True(t, held.Ask(now, a, true))
	require.True(t, held.Ask(now, a, true))
	require.False(t, held.Ask(now, b, true))
	held.Ask(now, b, false)
	require.False(t, held.Ask(now, b, true), "only its holder gives it back")
	held.Ask(now, a, false)
	require.True(t, held.Ask(now, b, true))
	require.True(t, held.Ask(now.Add(longestTurn), a, true), "who never comes back holds nobody up for ever")
}
