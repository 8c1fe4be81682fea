package kafka_test

import "syscall"

// cpu is the processor time of the process in nanoseconds: what a benchmark costs on a machine that does other things too.
func cpu() int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
