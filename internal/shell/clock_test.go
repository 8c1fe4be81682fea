package shell

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockGoesOnWhileTheHostSleeps(t *testing.T) {
	slept := 5 * time.Hour // before we came
	c := newClock(func() time.Duration { return slept })
	require.InDelta(t, 0, c.now().Sub(time.Now()).Seconds(), 1)
	slept += jitter / 2
	require.Less(t, c.now().Sub(time.Now()), jitter/4, "two readings of one moment")
	slept += time.Hour
	require.InDelta(t, time.Hour.Seconds(), c.now().Sub(time.Now()).Seconds(), 1)
}

func TestHostSleepIsRead(t *testing.T) {
	a, b := hostSlept(), hostSlept()
	require.GreaterOrEqual(t, a, time.Duration(0))
	require.InDelta(t, a.Seconds(), b.Seconds(), 1)
}
