package shell

import "time"

// clock is time that goes on while the host sleeps. A process on a machine that was suspended must find its lease over, and the clock that
// Go measures with stands still meanwhile.
type clock struct {
	slept  func() time.Duration // since the host has started
	before time.Duration        // what it had slept when the clock was made
}

// jitter is by how much two readings of one moment may differ; a sleep is longer.
const jitter = 100 * time.Millisecond

func newClock(slept func() time.Duration) *clock {
	if slept == nil {
		slept = hostSlept
	}
	return &clock{slept: slept, before: slept()}
}

// now is for measuring: after a sleep it is ahead of the time of day.
func (c *clock) now() time.Time {
	now := time.Now()
	if asleep := c.slept() - c.before; asleep > jitter {
		return now.Add(asleep)
	}
	return now
}
