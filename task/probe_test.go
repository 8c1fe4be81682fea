package task

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/understudy-streams/understudy/retry"
)

// A probe that was due when there was nothing to take, or whose first try of several has failed, must not be waited for ever after.
func TestProbeThatSaysNothingIsMadeAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		inline int
	}{
		{"the input was empty when the probe was due", 1},
		{"its first inline try fails", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, retry.Parallel(steady, retry.Backoff(time.Hour, time.Hour), retry.Breaker(5, time.Second), retry.Inline(c.inline)))
			for i := range 5 {
				v := fmt.Sprint("v", i)
				b.fails[v] = -1
				b.bring(fmt.Sprintf("k%d:%s", i, v))
			}
			require.Equal(t, "open", b.stats().Breaker)
			b.now = b.now.Add(10 * time.Second)
			b.step(Tick{})
			b.work()
			b.fails["w"] = c.inline - 1
			b.bring("l:w")
			for range 20 { // turns by hand: a task that says it is runnable, and takes nothing, would keep the bed busy
				b.owner.t.Process(b.now, 10)
			}
			require.Equal(t, "closed", b.stats().Breaker)
			require.Equal(t, c.inline, b.ran["w"])
		})
	}
}
