package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is a running program under test, its output in a file.
type process struct {
	cmd     *exec.Cmd
	logFile string
	started time.Time
	exited  chan struct{}
}

func start(command []string, logFile string) (*process, error) {
	out, err := os.Create(logFile)
	if err != nil {
		return nil, err
	}
	defer out.Close() // the child has its own
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdout, cmd.Stderr = out, out
	p := &process{cmd: cmd, logFile: logFile, started: time.Now(), exited: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the state is in cmd.ProcessState
		close(p.exited)
	}()
	return p, nil
}

// stop ends the program with SIGTERM, after 40 s with SIGKILL. It says how long that took and whether the program ended as it should.
func (p *process) stop() (time.Duration, error) {
	asked := time.Now()
	_ = p.cmd.Process.Signal(syscall.SIGTERM) // fails only when the process is gone, which the wait below sees
	select {
	case <-p.exited:
	case <-time.After(40 * time.Second):
		_ = p.cmd.Process.Kill()
		<-p.exited
		return time.Since(asked), fmt.Errorf("did not end within 40 s of SIGTERM")
	}
	return time.Since(asked), nil
}

// lastWords is the end of the program's output.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.logFile)
	if err != nil {
		return err.Error()
	}
	text = bytes.TrimSpace(text)
	return string(text[max(0, len(text)-300):])
}

// ticksPerSecond is USER_HZ, the unit of /proc/PID/stat, which Linux fixes at 100.
const ticksPerSecond = 100

// cpu is the user and system time the process has used, in seconds.
func (p *process) cpu() (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:])) // the name before it may hold spaces
	const utime, stime = 11, 12                                               // counted from the state, which comes first here
	user, err := strconv.ParseFloat(fields[utime], 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseFloat(fields[stime], 64)
	return (user + system) / ticksPerSecond, err
}

// peakRSS is the largest resident memory so far, in MiB.
func (p *process) peakRSS() (float64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(status)) {
		if kib, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			n, err := strconv.ParseFloat(strings.Fields(kib)[0], 64)
			return n / 1024, err
		}
	}
	return 0, fmt.Errorf("no VmHWM of process %d", p.cmd.Process.Pid)
}
