package shell

import (
	"time"

	"golang.org/x/sys/unix"
)

// hostSlept is the difference of the two clocks of which one stands still while the host sleeps.
func hostSlept() time.Duration {
	var mono, boot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot) != nil {
		return 0
	}
	return time.Duration(boot.Nano() - mono.Nano())
}
