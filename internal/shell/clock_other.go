//go:build !linux

package shell

import "time"

// hostSlept is not known here: the monotonic clocks of other systems go on during sleep, or Go has no other to hold theirs against.
func hostSlept() time.Duration { return 0 }
