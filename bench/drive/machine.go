package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticksPerSecond is USER_HZ, the unit of /proc/PID/stat and /proc/stat, which Linux fixes at 100.
const ticksPerSecond = 100

// others is the CPU time that the machine has spent on anything but our processes and the kernel's own threads (which write the broker's
// log to disk), in seconds; stolen time counts, time in interrupts does not, for those are the packets of loopback.
type others struct {
	busy    float64 // user, nice, system and stolen time of the machine
	known   float64 // of the processes that belong to the benchmark
	threads map[int]float64
	at      time.Time
}

// lookAround reads the counters. A process that has gone counts with 0: read them while all run.
func lookAround(pids ...int) (others, error) {
	o := others{threads: map[int]float64{}, at: time.Now()}
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return o, err
	}
	if o.busy, err = busySeconds(stat); err != nil {
		return o, err
	}
	for _, pid := range pids {
		if used, err := cpuOf(pid); err == nil {
			o.known += used
		}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return o, err
	}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if used, ok := kernelThread(pid); ok {
			o.threads[pid] = used
		}
	}
	return o, nil
}

// cores is how many cores the others have kept busy on average since then.
func (o others) cores(then others) float64 {
	used := o.busy - then.busy - (o.known - then.known)
	for pid, now := range o.threads {
		used -= now - then.threads[pid] // one that is new has begun at 0
	}
	return max(0, used) / max(.1, o.at.Sub(then.at).Seconds())
}

// busySeconds is the user, nice, system and stolen time in /proc/stat.
func busySeconds(stat []byte) (float64, error) {
	line, _, _ := bytes.Cut(stat, []byte("\n"))
	fields := strings.Fields(string(line))
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, fmt.Errorf("/proc/stat begins with %q", line)
	}
	var ticks float64
	for _, i := range []int{1, 2, 3, 8} { // cpu user nice system idle iowait irq softirq steal
		n, err := strconv.ParseFloat(fields[i], 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return ticks / ticksPerSecond, nil
}

// cpuOf is the user and system time that a process has used, in seconds, without that of its children.
func cpuOf(pid int) (float64, error) {
	fields, err := statOf(pid)
	if err != nil {
		return 0, err
	}
	const utime, stime = 11, 12
	user, err := strconv.ParseFloat(fields[utime], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[stime], 64)
	return (user + system) / ticksPerSecond, err
}

// kernelThread is the CPU time of a process that is a thread of the kernel.
func kernelThread(pid int) (float64, bool) {
	fields, err := statOf(pid)
	const parent, kthreadd = 1, "2"
	if err != nil || fields[parent] != kthreadd {
		return 0, false
	}
	used, err := cpuOf(pid)
	return used, err == nil
}

// statOf is /proc/PID/stat from the state on, for the name before it may hold spaces.
func statOf(pid int) ([]string, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return nil, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return nil, fmt.Errorf("/proc/%d/stat is %q", pid, stat)
	}
	return fields, nil
}
